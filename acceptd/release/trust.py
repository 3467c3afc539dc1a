"""What a loader believes: pure decisions over bytes, keys, memory and a time. No I/O.

The order of checks follows the TUF client workflow (theupdateframework specification, section 5) with
one role less: ``channel.json`` is timestamp and snapshot in one, ``release.json`` is the target. Bytes
are measured before they are hashed, hashed or verified before they are parsed. Production imports this,
so it stands on the standard library, cryptography and rfc8785 alone.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

from acceptd.errors import (
    DigestMismatchError,
    ExpiredError,
    MalformedError,
    ReleaseNotFoundError,
    RevokedError,
    RollbackError,
)
from acceptd.record.canonical import MAX_INT, digest
from acceptd.record.keyring import Keyring
from acceptd.release.envelope import open_envelope as open_envelope
from acceptd.release.envelope import parse_json as parse_json
from acceptd.release.envelope import read_envelope
from acceptd.release.envelope import sha256 as sha256

RELEASE_TYPE: Final = "application/vnd.acceptd.release+json"
CHANNEL_TYPE: Final = "application/vnd.acceptd.channel+json"
REVOCATIONS_TYPE: Final = "application/vnd.acceptd.revocations+json"

MAX_CHANNEL_BYTES: Final = 64 << 10
MAX_REVOCATIONS_BYTES: Final = 16 << 20
MAX_RELEASE_BYTES: Final = 32 << 20
MAX_NUMBER: Final = 999_999
"""Directory names have six digits; a channel that reaches this is full."""

_HEX: Final = "0123456789abcdef"
_IN_NAMES: Final = "abcdefghijklmnopqrstuvwxyz0123456789_-"
_FORM: Final = "0000-00-00T00:00:00Z"
"""A time, with each digit as 0."""
_ZEROS: Final = str.maketrans("0123456789", "0000000000")


class File(NamedTuple):
    """One file of a bundle: path inside it, SHA-256 in hex, size in bytes."""

    path: str
    sha256: str
    size: int


class ChannelFacts(NamedTuple):
    """A verified ``channel.json``. Times are seconds since the epoch, UTC."""

    model_id: str
    channel: str
    number: int
    release_digest: str
    least_revocations: int
    sequence: int
    expires: float
    expires_at: str


class RevocationFacts(NamedTuple):
    """A verified ``revocations.json``; number 0 and no digests where none was ever made."""

    number: int = 0
    revoked: Mapping[str, str] = MappingProxyType({})
    """Bundle digest to reason."""


class ReleaseFacts(NamedTuple):
    """A verified ``release.json``."""

    model_id: str
    channel: str
    number: int
    bundle_digest: str
    files: tuple[File, ...]
    manifest: Mapping[str, Any]
    options: Mapping[str, Any]
    profiles: tuple[Mapping[str, Any], ...]
    """What each accepted profile means; empty in a release made before there were several."""
    document: Mapping[str, Any]


class Remembered(NamedTuple):
    """The highest that a loader has seen of one channel, and of the revocation list."""

    number: int = 0
    release_digest: str = ""
    sequence: int = 0
    revocations: int = 0

    def joined(self, other: Remembered) -> Remembered:
        """Return the higher of both, field by field."""
        top = self if self.number >= other.number else other
        return Remembered(
            top.number,
            top.release_digest,
            max(self.sequence, other.sequence),
            max(self.revocations, other.revocations),
        )


def number_name(number: int) -> str:
    """Return the directory name of a release number: six digits."""
    return f"{number:06d}"


def bundle_digest(files: Iterable[File]) -> str:
    """Return the bundle digest (design, section 1): SHA-256 of the RFC 8785 array of path, sha256 and size.

    The rows stand in the order of their paths' UTF-8 bytes. The same function over the sealing side's
    type is :func:`acceptd.intake.target.bundle_digest`, which needs
    pydantic; a test holds both together.
    """
    ordered = sorted(files, key=lambda file: file.path.encode())
    return digest([{"path": file.path, "sha256": file.sha256, "size": file.size} for file in ordered])


class Reader:
    """Takes typed members of one JSON object; anything else is MalformedError."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise MalformedError(f"{what} is no JSON object")
        self._value, self._what = value, what
        if self.integer("schema", 1) != 1:
            raise MalformedError(f"{what} has a schema that this version does not know")

    def _bad(self, key: str) -> NoReturn:
        raise MalformedError(f"{self._what}: member {key!r} is missing or of another form")

    def integer(self, key: str, least: int) -> int:
        value = self._value.get(key)
        if type(value) is not int or not least <= value < 2**53:
            self._bad(key)
        return value

    def text(self, key: str, allowed: Callable[[str], bool] | None = None) -> str:
        value = self._value.get(key)
        if not isinstance(value, str) or (allowed and not allowed(value)):
            self._bad(key)
        return value

    def table(self, key: str) -> dict[str, Any]:
        value = self._value.get(key)
        if not isinstance(value, dict):
            self._bad(key)
        return value

    def rows(self, key: str) -> list[Any]:
        value = self._value.get(key)
        if not isinstance(value, list):
            self._bad(key)
        return value

    def time(self, key: str) -> float:
        try:
            return epoch(self.text(key))
        except ValueError:
            self._bad(key)


def epoch(stamp: str) -> float:
    """Return seconds since the epoch of ``2026-11-29T15:17:00Z``; raise ValueError for another form."""
    if stamp.translate(_ZEROS) != _FORM:
        raise ValueError("not a UTC time in RFC 3339 to the second")
    year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
    return datetime(
        year, month, day, int(stamp[11:13]), int(stamp[14:16]), int(stamp[17:19]), tzinfo=UTC
    ).timestamp()


def channel(
    data: bytes, keyring: Keyring, *, model_id: str, name: str, now: float, remembered: Remembered
) -> ChannelFacts:
    """Decide about ``channel.json``: signature, identity, expiry, then that nothing falls."""
    small(data, MAX_CHANNEL_BYTES, "channel.json")
    facts = read_envelope(data, CHANNEL_TYPE, keyring, "release", "channel.json", read_channel)
    if (facts.model_id, facts.channel) != (model_id, name):
        raise MalformedError(f"channel.json speaks of {facts.model_id} {facts.channel}, not {model_id} {name}")
    if not now < facts.expires:  # a clock that gives no number is none
        raise ExpiredError(
            f"channel.json of {model_id} {name} expired at {facts.expires_at}: it may be withheld from refresh"
        )
    if facts.sequence < remembered.sequence:
        raise RollbackError(f"channel.json has sequence {facts.sequence}; {remembered.sequence} was seen before")
    if facts.number < remembered.number:
        raise RollbackError(
            f"release number {facts.number} is lower than {remembered.number}, which was seen before"
        )
    if facts.number == remembered.number and facts.release_digest != remembered.release_digest:
        raise RollbackError(f"release number {facts.number} now names another release than before")
    return facts


def read_channel(payload: bytes) -> ChannelFacts:
    """Return the members of a ``channel.json`` payload whose signature held."""
    reader = Reader(parse_json(payload, "channel.json"), "channel.json")
    return ChannelFacts(
        model_id=reader.text("model_id"),
        channel=reader.text("channel", is_name),
        number=_numbered(reader.integer("number", 1)),
        release_digest=reader.text("release_digest", is_sha256),
        least_revocations=reader.integer("least_revocations", 0),
        sequence=reader.integer("sequence", 1),
        expires=reader.time("expires_at"),
        expires_at=reader.text("expires_at"),
    )


def _numbered(number: int) -> int:
    if number > MAX_NUMBER:
        raise MalformedError(f"release number {number} is beyond {MAX_NUMBER}")
    return number


def revocations(data: bytes | None, keyring: Keyring, *, least: int, remembered: int) -> RevocationFacts:
    """Decide about ``revocations.json`` (None: no such file): signature, then that it is new enough."""
    facts = RevocationFacts()
    if data is not None:
        small(data, MAX_REVOCATIONS_BYTES, "revocations.json")
        facts = read_envelope(data, REVOCATIONS_TYPE, keyring, "revocation", "revocations.json", read_revocations)
    if facts.number < max(least, remembered):
        raise RollbackError(
            f"revocation list {facts.number} is older than {max(least, remembered)}: a newer one is being hidden"
        )
    return facts


def read_revocations(payload: bytes) -> RevocationFacts:
    """Return the members of a ``revocations.json`` payload whose signature held."""
    reader = Reader(parse_json(payload, "revocations.json"), "revocations.json")
    revoked: dict[str, str] = {}
    for row in reader.rows("revoked"):
        if not isinstance(row, dict) or not is_sha256(row.get("digest")):
            raise MalformedError("revocations.json: a row has no digest")
        revoked[row["digest"]] = str(row.get("reason", ""))
    return RevocationFacts(reader.integer("number", 1), MappingProxyType(revoked))


def release(data: bytes, keyring: Keyring, facts: ChannelFacts) -> ReleaseFacts:
    """Decide about ``release.json``: its digest against the channel's, signature, identity, its own files."""
    small(data, MAX_RELEASE_BYTES, "release.json")
    if sha256(data) != facts.release_digest:
        raise DigestMismatchError(f"release.json of number {facts.number} is not the one that channel.json names")
    read = read_envelope(data, RELEASE_TYPE, keyring, "release", "release.json", _Read).facts()
    found, wanted = (read.model_id, read.channel, read.number), (facts.model_id, facts.channel, facts.number)
    if found != wanted:
        raise MalformedError(f"release.json speaks of {found}, channel.json of {wanted}")
    return read


class _Read:
    """A ``release.json`` that was read: checked once for its bytes, with tables of their own for each caller."""

    def __init__(self, payload: bytes) -> None:
        facts = read_release(payload)
        self._payload, self._first = payload, [facts]
        self._checked = facts._replace(manifest={}, options={}, profiles=(), document={})

    def facts(self) -> ReleaseFacts:
        """Return the facts; the tables are read anew, so that nobody changes what another is given later."""
        with contextlib.suppress(IndexError):
            return self._first.pop()
        document = json.loads(self._payload)
        return self._checked._replace(
            manifest=document["manifest"],
            options=document["options"],
            profiles=tuple(document.get("profiles", ())),
            document=document,
        )


def read_release(payload: bytes) -> ReleaseFacts:
    """Return the members of a ``release.json`` payload whose signature held; the files must give the digest."""
    document = parse_json(payload, "release.json")
    reader = Reader(document, "release.json")
    files = tuple(_file(row) for row in reader.rows("files"))
    facts = ReleaseFacts(
        model_id=reader.text("model_id"),
        channel=reader.text("channel", is_name),
        number=_numbered(reader.integer("number", 1)),
        bundle_digest=reader.text("bundle_digest", is_sha256),
        files=files,
        manifest=reader.table("manifest"),
        options=reader.table("options"),
        profiles=tuple(_profile(row) for row in (reader.rows("profiles") if "profiles" in document else ())),
        document=document,
    )
    if len({file.path for file in files}) != len(files):
        raise MalformedError("release.json names a file twice")
    if not files or bundle_digest(files) != facts.bundle_digest:
        raise DigestMismatchError("release.json: its files do not give its bundle digest")
    return facts


def _profile(row: object) -> Mapping[str, Any]:
    name = row.get("profile") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str) or not is_name(name):
        raise MalformedError("release.json: a profile has no name")
    if not is_sha256(row.get("digest")) or not isinstance(row.get("options"), dict):
        raise MalformedError(f"release.json: profile {row['profile']} has no digest or no session options")
    return row


def _file(row: object) -> File:
    if not isinstance(row, dict) or set(row) != {"path", "sha256", "size"}:
        raise MalformedError("release.json: a file is not path, sha256 and size")
    path, sha256, size = row["path"], row["sha256"], row["size"]
    if not isinstance(path, str) or not plain_path(path):
        raise MalformedError(f"release.json: {str(path)[:120]!r} is no path inside a bundle")
    if not is_sha256(sha256) or type(size) is not int or not 0 <= size <= MAX_INT:
        raise MalformedError(f"release.json: {path[:120]!r} has no digest or size")
    return File(path, sha256, size)


def is_sha256(value: object) -> bool:
    """Return whether ``value`` is a digest as text: a number of 64 digits is none, and equals none."""
    return isinstance(value, str) and len(value) == 64 and not value.strip(_HEX)


def is_name(value: str) -> bool:
    """Return whether ``value`` is a name of a team, model or channel (:data:`acceptd.release.grammar.NAME`)."""
    return 0 < len(value) <= 64 and not value.strip(_IN_NAMES) and not {value[0], value[-1]} & {"_", "-"}


def plain_path(path: str) -> bool:
    """Return whether ``path`` is relative, without empty, ``.`` or ``..`` parts, NUL and backslash."""
    parts = path.split("/")
    return bool(path) and not ("\\" in path or "\0" in path or any(part in {"", ".", ".."} for part in parts))


def not_revoked(facts: ReleaseFacts, listed: RevocationFacts) -> None:
    """Raise RevokedError where the release's bundle is on the list."""
    if facts.bundle_digest in listed.revoked:
        reason = listed.revoked[facts.bundle_digest]
        raise RevokedError(
            f"{facts.model_id} number {facts.number}: bundle {facts.bundle_digest} is revoked: {reason}"
        )


def demanded(facts: ReleaseFacts, wanted: str | None) -> None:
    """Raise DigestMismatchError where the caller demanded another bundle digest than the channel offers."""
    if wanted is not None and wanted != facts.bundle_digest:
        raise DigestMismatchError(
            f"{wanted} is demanded, but {facts.model_id} {facts.channel} offers {facts.bundle_digest}"
        )


def names(model_id: str, channel_name: str, wanted: str | None) -> tuple[str, str]:
    """Return (team, model); raise ReleaseNotFoundError or MalformedError before any path is built."""
    team, _, model = model_id.partition("/")
    for part in (team, model, channel_name):
        if not is_name(part) or part == "current":
            raise ReleaseNotFoundError(f"{part[:80]!r} is no name of a team, model or channel")
    if wanted is not None and not is_sha256(wanted):
        raise MalformedError("a demanded digest is 64 lowercase hexadecimal digits")
    return team, model


def small(data: bytes, limit: int, what: str) -> None:
    if len(data) > limit:
        raise MalformedError(f"{what} is larger than {limit} bytes")
