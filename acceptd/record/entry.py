"""An entry of the log: its leaf bytes, what makes it unique, and the filters of an export. No I/O.

Entry types and what their bodies must hold (more keys are welcome; unknown types are stored as they are):

==============  ===========================================================================
``log``         first entry, written at creation: ``origin``, the log's own name
``verdict``     with a submission: ``verdict``, ``judged_at``, ``reason``, ``findings``; usually ``team``,
                ``model``, ``bundle_digest``, ``policy_digest``, ``statement`` (DSSE envelope)
``intent``      ``model``, ``channel``, ``number``, ``digest``; usually ``kind``, ``reason``, ``verdict_seq``,
                ``by``; ``rule`` and ``glass`` where the channel asks for something
``activated``   ``model``, ``channel``, ``number``
``abandoned``   ``model``, ``channel``, ``number``
``revoked``     ``digest``, ``reason``
``frozen``, ``unfrozen``  ``channel``, ``reason``; ``model`` where it is about one; usually ``by``: nothing is
                promoted there meanwhile
``pinned``, ``unpinned``  ``model``, ``channel``, ``digest``, ``reason``; usually ``by``: that bundle stays
``heldout``     with a submission: ``model``, ``contract_version``, ``number``, ``contract_digest``: one evaluation
                of held-out vectors was spent. Nothing of what came of it
``key-rotated`` ``role``, ``old``, ``new``, ``public``, ``number``, ``reason``, ``compromised_from``, ``envelope``
                (DSSE by both keys): :mod:`acceptd.record.succession`
``decision``    with a submission: ``verdict_seq``, ``nonce``, ``reviewer``, ``decision``, ``envelope`` (DSSE):
                what a person signed about a verdict
``removed``     ``what``, ``reason``, ``items`` (``name`` and ``size`` each): bytes that go, entered before they do
``canary``      ``model``, ``canary``, ``against`` (releases), ``decision``, ``reasons``, ``files``, ``counts``,
                ``compared``, ``limits``: what receipts came to, before anything is done about it
``canary-refused``  ``model``, ``entry`` (of the evaluation), ``reason``: the channel did not take what it decided
``policy``, ``profile``, ``contract``  ``name``, ``digest``: these rules are used from here on
``contract-version``  ``model``, ``version``, ``digest``, ``supersedes``, ``signers``, ``envelope`` (DSSE): a
                version of a contract that reviewers signed; in force from here on
``advisories``  ``number``, ``digest``, ``expires_at``, ``signer``, ``envelope`` (DSSE): a list of advisories
                about runtimes that a reviewer signed; the highest number is in force
==============  ===========================================================================
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from acceptd.errors import LedgerError, UsageError
from acceptd.policy.names import valid_model_id, valid_name, valid_sha256
from acceptd.record.canonical import MAX_INT, canonical, parse

LEAF_VERSION: Final = 1
ADVISORIES: Final = "advisories"
VERDICTS: Final = frozenset({"accepted", "rejected", "held", "inconclusive"})
_TYPE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_SUBMISSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_AT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_MEMBERS: Final = frozenset({"v", "seq", "type", "at", "body"})
_FINDING_TEXTS: Final = ("code", "severity", "audience", "stage", "where", "message")


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What a caller wants recorded."""

    type: str
    body: Mapping[str, Any]
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an entry came to stand. ``seq`` counts from 0 and is the leaf's index in the tree."""

    seq: int
    leaf_hash: bytes
    at: str
    """UTC, RFC 3339, to the second."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it is stored, with the body that its leaf holds."""

    seq: int
    type: str
    at: str
    submission: str | None
    body: dict[str, Any]
    leaf: bytes
    leaf_hash: bytes

    def as_json(self) -> dict[str, Any]:
        """Return the leaf's own value with ``leaf_hash`` in hex: one line of ``ledger export``."""
        value: dict[str, Any] = {"v": LEAF_VERSION, "seq": self.seq, "type": self.type, "at": self.at}
        if self.submission is not None:
            value["submission"] = self.submission
        return {**value, "body": self.body, "leaf_hash": self.leaf_hash.hex()}


@dataclass(frozen=True, slots=True)
class Filter:
    """What an export keeps; None keeps everything. Times are RFC 3339 UTC: from ``since``, before ``until``.

    Raises UsageError where ``since`` or ``until`` is no such time.
    """

    team: str | None = None
    model: str | None = None
    verdict: str | None = None
    code: str | None = None
    type: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("since", self.since), ("until", self.until)):
            try:
                valid_time(text or "1970-01-01T00:00:00Z")
            except LedgerError as error:
                raise UsageError(f"{name}: {error}") from error

    @property
    def kind(self) -> str | None:
        """The one entry type that can pass, where there is one: only verdicts have a verdict, or findings."""
        return "verdict" if self.type is None and (self.verdict or self.code) else self.type

    def keeps(self, entry: Entry) -> bool:
        """Say whether ``entry`` passes all filters."""
        body = entry.body
        model = model_of(body)
        team = body.get("team")
        if team is None and model is not None:
            team = model.partition("/")[0]
        return (
            (self.type is None or entry.type == self.type)
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at < self.until)
            and (self.model is None or model == self.model)
            and (self.team is None or team == self.team)
            and (self.verdict is None or (entry.type == "verdict" and body.get("verdict") == self.verdict))
            and (self.code is None or self.code in _codes(body))
        )


def utc_now() -> str:
    """Return the time as records hold it: UTC, RFC 3339, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(at: str) -> float:
    """Return the seconds since the epoch of a time in our form."""
    return datetime.fromisoformat(at).timestamp()


def valid_time(at: str) -> str:
    """Return ``at`` if it is a real moment in our form; raise LedgerError otherwise."""
    try:
        if not _AT.fullmatch(at):
            raise ValueError(at)
        datetime.fromisoformat(at)
    except ValueError as error:
        raise LedgerError(f"{at!r:.80} is no time of the form 2026-11-29T15:17:00Z (UTC)") from error
    return at


def valid_submission(submission: str) -> str:
    """Return ``submission`` if it can be an id; raise LedgerError otherwise."""
    if not _SUBMISSION.fullmatch(submission):
        raise LedgerError(f"{submission!r:.80} is no submission id")
    return submission


def model_of(body: Mapping[str, Any]) -> str | None:
    """Return the model id that a body is about (``model``, or ``bundle_id`` in a verdict)."""
    model = body.get("model", body.get("bundle_id"))
    return model if isinstance(model, str) else None


def encode(seq: int, new: NewEntry, at: str) -> bytes:
    """Return the leaf: RFC 8785 bytes of {"v", "seq", "type", "at", "submission"?, "body"}.

    Raises LedgerError where the type, the submission or the body of a known type is malformed.
    """
    if not _TYPE.fullmatch(new.type) or len(new.type) > 48:
        raise LedgerError(f"{new.type!r:.80} is no entry type")
    value: dict[str, Any] = {"v": LEAF_VERSION, "seq": seq, "type": new.type, "at": valid_time(at)}
    if new.submission is not None:
        value["submission"] = valid_submission(new.submission)
    value["body"] = dict(new.body)
    check_body(new.type, new.submission, new.body)
    return canonical(value)


def decode(leaf: bytes, leaf_hash: bytes, read: Callable[[bytes], Any] = parse) -> Entry:
    """Return the entry that a leaf holds; raise LedgerError unless it is canonical and of our form.

    ``read`` is :func:`acceptd.record.canonical.parse`, or a quicker one that takes and refuses the same.
    """
    if not isinstance(leaf, bytes) or not isinstance(leaf_hash, bytes):  # SQLite's columns hold any type
        raise LedgerError("a leaf or a leaf hash that is not bytes")
    value = read(leaf)
    try:
        keys = value.keys() - {"submission"}
        well_formed = (
            keys == _MEMBERS
            and value["v"] == LEAF_VERSION
            and type(value["seq"]) is int
            and isinstance(value["type"], str)
            and isinstance(value["at"], str)
            and isinstance(value.get("submission", ""), str)
            and isinstance(value["body"], dict)
        )
    except (TypeError, AttributeError):
        well_formed = False
    if not well_formed:
        raise LedgerError("a leaf that is no entry of version 1")
    return Entry(value["seq"], value["type"], value["at"], value.get("submission"), value["body"], leaf, leaf_hash)


def unique_key(kind: str, submission: str | None, body: Mapping[str, Any]) -> str | None:
    """Return what the log may hold only once: a submission's verdict, a release number of a channel."""
    if kind == "verdict":
        return f"verdict/{submission}"
    if kind == "intent":
        return f"intent/{body['model']}/{body['channel']}/{body['number']}"
    if kind == "decision":
        return f"decision/{body['nonce']}"
    if kind == "key-rotated":
        return f"key/{body['role']}/{body['old']}"
    if kind == "contract-version":
        return f"{contract_key(body['model'])}{body['version']:010d}"
    if kind == ADVISORIES:
        return f"{advisories_key()}{body['number']:016d}"
    if kind == "heldout":
        return f"{heldout_key(body['model'], body['contract_version'])}{body['number']:09d}"
    return None


def advisories_key() -> str:
    """Return what the unique keys of the lists of advisories begin with."""
    return f"{ADVISORIES}/"


def heldout_key(model: str, version: int) -> str:
    """Return what the unique keys of a model's evaluations under one version of its contract begin with."""
    return f"heldout/{model}/{version}/"


def contract_key(model: str) -> str:
    """Return what the unique keys of the signed versions of a model's contract begin with."""
    return f"contract/{model}/"


def check_body(kind: str, submission: str | None, body: Mapping[str, Any]) -> None:
    """Raise LedgerError where a body lacks what its type promises to the projections."""
    try:
        if kind == "verdict":
            _check_verdict(submission, body)
        elif kind in {"intent", "activated", "abandoned"}:
            _known_model_id(_text(body, "model"))
            _known_name(_text(body, "channel"))
            if type(body.get("number")) is not int or not 1 <= body["number"] <= MAX_INT:
                raise ValueError("`number` is a whole number from 1")
            if kind == "intent":
                valid_sha256(_text(body, "digest"))
                if type(body.get("verdict_seq", 0)) is not int:
                    raise ValueError("`verdict_seq` is an entry's number")
        elif kind == "heldout":
            if submission is None:
                raise ValueError("an evaluation belongs to a submission")
            valid_model_id(_text(body, "model"))
            valid_sha256(_text(body, "contract_digest"))
            for key, most in (("contract_version", MAX_INT), ("number", 999_999_999)):
                if type(body.get(key)) is not int or not 1 <= body[key] <= most:
                    raise ValueError(f"`{key}` is a whole number from 1 to {most}")
        elif kind == "contract-version":
            valid_model_id(_text(body, "model"))
            valid_sha256(_text(body, "digest"))
            if body.get("supersedes") is not None:
                valid_sha256(_text(body, "supersedes"))
            if type(body.get("version")) is not int or not 1 <= body["version"] <= 2**31:
                raise ValueError("`version` is a whole number from 1")
        elif kind == "decision":
            if submission is None or type(body.get("verdict_seq")) is not int:
                raise ValueError("a decision belongs to a submission and names its verdict's entry")
            for key in ("nonce", "reviewer", "decision"):
                _text(body, key)
        elif kind == "canary":
            _check_canary(body)
        elif kind == "canary-refused":
            valid_model_id(_text(body, "model"))
            _text(body, "reason")
            if type(body.get("entry")) is not int:
                raise ValueError("`entry` is an entry's number")
        elif kind == ADVISORIES:
            valid_sha256(_text(body, "digest"))
            if type(body.get("number")) is not int or not 1 <= body["number"] <= MAX_INT:
                raise ValueError("`number` is a whole number from 1")
        elif kind == "removed":
            _check_removed(body)
        elif kind in {"frozen", "unfrozen", "pinned", "unpinned"}:
            _check_hold(kind, body)
        elif kind == "revoked":
            valid_sha256(_text(body, "digest"))
            _text(body, "reason")
        elif kind == "key-rotated":
            _text(body, "role")
            _text(body, "reason")
            for key in ("old", "new"):
                valid_sha256(_text(body, key))
            if not isinstance(body.get("envelope"), dict):
                raise ValueError("`envelope` is a DSSE envelope")
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # a list where a word is due, among others
        raise LedgerError(f"an entry of type {kind!r} is malformed: {error}") from error


_known_model_id: Final = functools.lru_cache(4096)(valid_model_id)
_known_name: Final = functools.lru_cache(256)(valid_name)
"""An audit meets the same few over and over."""


def _check_verdict(submission: str | None, body: Mapping[str, Any]) -> None:
    if submission is None:
        raise ValueError("a verdict belongs to a submission")
    if body.get("verdict") not in VERDICTS:
        raise ValueError(f"`verdict` is one of {', '.join(sorted(VERDICTS))}")
    valid_time(_text(body, "judged_at"))
    _text(body, "reason")
    found = body.get("findings")
    if not isinstance(found, list | tuple):
        raise ValueError("`findings` is a list")  # noqa: TRY004 - one kind of error, turned into LedgerError above
    for finding in found:
        if not isinstance(finding, dict):
            raise ValueError("a finding is an object")  # noqa: TRY004 - as above
        for key in _FINDING_TEXTS:
            _text(finding, key)


def _check_canary(body: Mapping[str, Any]) -> None:
    valid_model_id(_text(body, "model"))
    if body.get("decision") not in {"promote", "hold", "rollback"}:
        raise ValueError("`decision` is promote, hold or rollback")
    for key in ("canary", "against"):
        side = body.get(key)
        if not isinstance(side, dict):
            raise ValueError(f"`{key}` is a release")  # noqa: TRY004 - as above
        valid_name(_text(side, "channel"))
        valid_sha256(_text(side, "digest"))
        valid_sha256(_text(side, "release_digest"))


def _check_hold(kind: str, body: Mapping[str, Any]) -> None:
    valid_name(_text(body, "channel"))
    if not 1 <= len(_text(body, "reason").strip()) <= len(body["reason"]) <= 2000:
        raise ValueError("`reason` is text of at most 2000 characters")
    pin = kind.endswith("pinned")
    if pin or body.get("model") is not None:
        valid_model_id(_text(body, "model"))
    if pin:
        valid_sha256(_text(body, "digest"))


def _check_removed(body: Mapping[str, Any]) -> None:
    for key in ("what", "reason"):
        _text(body, key)
    items = body.get("items")
    if not isinstance(items, list | tuple) or not 1 <= len(items) <= 1000:
        raise ValueError("`items` is a list of 1 to 1,000")
    for item in items:
        if not isinstance(item, dict) or type(item.get("size")) is not int or item["size"] < 0:
            raise ValueError("an item has a `name` and a `size` in bytes")
        _text(item, "name")


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is text")  # noqa: TRY004 - as above
    return value


def _codes(body: Mapping[str, Any]) -> set[object]:
    found = body.get("findings")
    return {item.get("code") for item in found if isinstance(item, dict)} if isinstance(found, list) else set()
