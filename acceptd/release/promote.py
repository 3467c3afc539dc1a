"""Promotion and rollback, in the order that survives a crash at any step.

store → ledger ``intent`` (takes the number for ever) → ``release.json`` (immutable, with the inclusion
proof of that entry) → the link ``current`` → ``channel.json`` → ledger ``activated``. A rollback is a new,
higher number that points at an older approved digest, so that nobody can replay an old release.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from acceptd.errors import LedgerError, LoaderError, ReleaseError, StateError
from acceptd.intake.files import write_exclusive
from acceptd.policy.troubles import Trouble, first
from acceptd.record.attest import statement_differences, verify_statement
from acceptd.record.canonical import document_digest, plain
from acceptd.record.entry import Entry
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import store, trust
from acceptd.release.book import Book, Row, read_book
from acceptd.release.gone import refuse_removed
from acceptd.release.layout import (
    BUNDLE_LINK,
    RELEASE_FILE,
    bundle_link_target,
    channel_path,
    checked,
    make_directories,
    model_lock,
    numbers_on_disk,
    release_path,
    revocation_lock,
)
from acceptd.release.model import (
    Decided,
    FileRow,
    Inclusion,
    Kind,
    Prior,
    ReleaseDocument,
    ReleasedProfile,
    SessionOptions,
)
from acceptd.release.settle import Terms, finish, settle, trusted
from acceptd.release.signers import ReleaseKeys, seal_document

_AUDIT: Final = "the queue was changed since; run `acceptd ledger verify`, and submit the bundle again"
_DEFAULT: Final = Terms()


@dataclass(frozen=True, slots=True)
class Release:
    """A release that is current. ``new`` is false where the digest already was."""

    model_id: str
    channel: str
    number: int
    bundle_digest: str
    release_digest: str
    kind: str
    path: Path
    """The directory with ``release.json``."""
    bundle: Path
    """The bundle in the store."""
    new: bool


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to become current."""

    model_id: str
    channel: str
    kind: Kind
    digest: str
    manifest: dict[str, Any]
    verdict_seq: int
    options: SessionOptions
    profiles: list[ReleasedProfile]
    reason: str
    decisions: tuple[int, ...] = ()


def promote(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    model_id: str,
    channel: str,
    digest: str,
    manifest_json: dict[str, Any],
    verdict_seq: int,
    options: Mapping[str, Any] | SessionOptions,
    profiles: Sequence[Mapping[str, Any]] = (),
    reason: str,
    decide: Callable[[Entry], Decided] | None = None,
    terms: Terms = _DEFAULT,
) -> Release:
    """Make a stored, accepted bundle the current release of a channel; return it when loaders can see it.

    ``manifest_json`` is the validated manifest by alias, ``verdict_seq`` the ledger entry that accepted
    exactly this digest, ``options`` the accepted session options (:class:`SessionOptions`), ``profiles`` every
    profile that it was accepted under (:class:`ReleasedProfile`). ``decide`` weighs people's decisions about
    that entry; without it only an accepted bundle is promoted. Promoting the digest that is current makes no
    new number. Raises ReleaseError where it is unknown, revoked, not accepted or another model's; StateError or
    LedgerError where the storage fails (the number is burnt then).
    """
    model_id, channel = checked(model_id, channel)
    order = _Order(
        model_id, channel, "promote", digest, plain(manifest_json), verdict_seq, _options(options),
        _profiles(profiles), reason,
    )  # fmt: skip
    with revocation_lock(state, shared=True), model_lock(state, model_id):
        settle(state, ledger, keys, model_id, channel, terms)
        book = read_book(ledger)
        _not_revoked(state, keys, book, digest)
        current = book.current(model_id, channel)
        if current is not None and current.digest == digest and trusted(keys, current):
            return _released(state, current, new=False)
        order = replace(order, decisions=_accepted(ledger, keys, order, decide))
        refuse_removed(state, ledger, digest)
        return _advance(state, ledger, keys, order, store.present(state, digest), terms)


def rollback(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    model_id: str,
    channel: str,
    reason: str,
    digest: str | None = None,
    rejected: Callable[[Entry], str] | None = None,
    terms: Terms = _DEFAULT,
) -> Release:
    """Make an older release's bundle current again, under a new, higher number.

    Without ``digest``: the prior release's bundle, or the newest before it that is not revoked. The
    older bundle is hashed again before it is named. ``rejected`` says whose rejection stands against the verdict
    that it rests on. Raises ReleaseError where there is none to go back to, or it is rejected.
    """
    model_id, channel = checked(model_id, channel)
    with revocation_lock(state, shared=True), model_lock(state, model_id):
        return rollback_locked(
            state, ledger, keys, model_id, channel, reason, digest=digest, rejected=rejected, terms=terms
        )


def rollback_locked(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    model_id: str,
    channel: str,
    reason: str,
    *,
    digest: str | None = None,
    rejected: Callable[[Entry], str] | None = None,
    terms: Terms = _DEFAULT,
) -> Release:
    """Do what :func:`rollback` does, for a caller that holds both locks (a revocation)."""
    settle(state, ledger, keys, model_id, channel, terms)
    book = read_book(ledger)
    current = book.current(model_id, channel)
    if current is None:
        raise ReleaseError(f"{model_id} has no release on {channel}")
    if digest is None:
        target = book.fallback(model_id, channel)
        if target is None:
            raise ReleaseError(f"{model_id} {channel} has no older release that is not revoked")
    else:
        found = [row for row in book.rows(model_id, channel) if row.digest == digest and row.release_digest]
        if not found:
            raise ReleaseError(f"{digest} was never a release of {model_id} on {channel}")
        target = found[-1]
    _not_revoked(state, keys, book, target.digest)
    if target.digest == current.digest:
        return _released(state, current, new=False)
    if rejected is not None and (why := rejected(ledger.entry(target.verdict_seq))):
        remedy = "name another release with --to"
        raise ReleaseError(f"{target.digest} (number {target.number}) is {why} since", remedy=remedy)
    refuse_removed(state, ledger, target.digest)
    before = channels.verified_release(state, keys, target, target.release_digest)
    order = _Order(
        model_id, channel, "rollback", target.digest, dict(before.manifest), target.verdict_seq,
        _options(before.options), _profiles(before.profiles), reason, tuple(before.document.get("decisions", ())),
    )  # fmt: skip
    return _advance(state, ledger, keys, order, store.verify(state, target.digest), terms)


def rekey_locked(
    state: Path, ledger: Ledger, keys: ReleaseKeys, row: Row, reason: str, terms: Terms = _DEFAULT
) -> Release:
    """Give the bundle of the current ``row`` a new number, signed by ``keys``; under the model's lock.

    ``release.json`` is immutable: a new key signs a new one. Raises ReleaseError where the old one is damaged.
    """
    before = channels.verified_release(state, keys, row, row.release_digest)
    order = _Order(
        row.model_id, row.channel, "rekey", row.digest, dict(before.manifest), row.verdict_seq,
        _options(before.options), _profiles(before.profiles), reason, tuple(before.document.get("decisions", ())),
    )  # fmt: skip
    return _advance(state, ledger, keys, order, store.present(state, row.digest), terms)


def _advance(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    order: _Order,
    files: tuple[trust.File, ...],
    terms: Terms,
) -> Release:
    """Take a number and walk all steps. Under both locks, the channel settled and the order allowed."""
    point = f"release.{order.kind}"
    keys.answering()
    prior = read_book(ledger).current(order.model_id, order.channel)
    failpoint(f"{point}.stored")
    with ledger.transaction() as change:
        number = max(
            change.next_release_number(order.model_id, order.channel),
            # A ledger restored from a backup has forgotten numbers that directories still bear.
            max(numbers_on_disk(state, order.model_id, order.channel), default=0) + 1,
        )
        if number > trust.MAX_NUMBER:
            raise ReleaseError(f"{order.model_id} {order.channel} has used up its {trust.MAX_NUMBER} numbers")
        body = {
            "model": order.model_id,
            "channel": order.channel,
            "number": number,
            "digest": order.digest,
            "kind": order.kind,
            "verdict_seq": order.verdict_seq,
            "prior": prior.number if prior else None,
            "reason": order.reason,
        }
        change.append("intent", body)
    failpoint(f"{point}.intended")
    row = read_book(ledger).pending(order.model_id, order.channel)[-1]
    try:
        release_digest, document = _write_release(state, ledger, keys, order, row, files, prior, terms)
        failpoint(f"{point}.written")
        finish(state, ledger, keys, row, release_digest, document, terms)
    except OSError as error:
        raise StateError(f"release {number} of {order.model_id}: {error.strerror}: {error.filename}") from error
    return _released(state, read_book(ledger).rows(order.model_id, order.channel)[-1], new=True)


def _write_release(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    order: _Order,
    row: Row,
    files: tuple[trust.File, ...],
    prior: Row | None,
    terms: Terms,
) -> tuple[str, dict[str, Any]]:
    """Write ``NNNNNN/`` with its link and ``release.json``, durably; return that file's digest and payload."""
    document = ReleaseDocument(
        model_id=order.model_id,
        channel=order.channel,
        number=row.number,
        kind=order.kind,
        reason=order.reason,
        released_at=channels.stamp(terms.clock()),
        bundle_digest=order.digest,
        files=[FileRow(path=file.path, sha256=file.sha256, size=file.size) for file in files],
        manifest=order.manifest,
        options=order.options,
        profiles=order.profiles,
        verdict_seq=order.verdict_seq,
        decisions=list(order.decisions),
        prior=None if prior is None else Prior(
            number=prior.number, bundle_digest=prior.digest, release_digest=prior.release_digest
        ),
        inclusion=Inclusion.model_validate(ledger.proof(row.intent_seq).as_json()),
    )  # fmt: skip
    data = seal_document(document, trust.RELEASE_TYPE, keys.release, *keys.beside)
    if len(data) > trust.MAX_RELEASE_BYTES:
        raise ReleaseError(f"release.json would have {len(data)} bytes; {trust.MAX_RELEASE_BYTES} are allowed")
    make_directories(state, channel_path(order.model_id, order.channel))
    folder = state / release_path(order.model_id, order.channel, row.number)
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    os.symlink(bundle_link_target(order.digest), folder / BUNDLE_LINK)
    failpoint(f"release.{order.kind}.linked")
    # Created, not replaced: a torn one is burnt with its number. Synchronises the folder and its link too;
    # the folder's own name becomes durable with the link `current` beside it, which comes next.
    write_exclusive(folder, RELEASE_FILE, data, 0o444)
    return trust.sha256(data), document.model_dump(mode="json", by_alias=True)


def _accepted(
    ledger: Ledger, keys: ReleaseKeys, order: _Order, decide: Callable[[Entry], Decided] | None
) -> tuple[int, ...]:
    """Return the decisions that the promotion rests on.

    Raises ReleaseError unless the ledger entry accepted exactly this digest, manifest and model, signed, or
    people decided so about it.
    """
    try:
        entry = ledger.entry(order.verdict_seq)
    except LedgerError as error:
        raise ReleaseError(f"there is no ledger entry {order.verdict_seq} that accepted {order.digest}") from error
    body = _signed(entry, keys, ledger.origin)
    accepted = body.get("verdict") == "accepted"
    if (entry.type, body.get("bundle_digest")) != ("verdict", order.digest) or not (accepted or decide):
        raise ReleaseError(f"ledger entry {order.verdict_seq} did not accept {order.digest}")
    # Weighed is what was signed, and not what stands beside it in the database.
    decided = decide(replace(entry, body=body)) if decide is not None else Decided("")
    if decided.refusal:
        remedy = "acceptd review show says what is missing"
        raise ReleaseError(f"{order.digest} may not be promoted: {decided.refusal}", remedy=remedy)
    bundle = order.manifest.get("bundle")
    named = bundle.get("id") if isinstance(bundle, dict) else None
    for model in (named, body.get("model", body.get("bundle_id", order.model_id))):
        if model != order.model_id:
            raise ReleaseError(f"the bundle {order.digest} is one of {model!r:.140}, not of {order.model_id}")
    if body.get("inferred") and not decided.by:
        raise ReleaseError(f"{order.digest} was accepted by an inferred manifest, which nobody declared")
    options = order.options
    # An earlier version knew fewer options: what it did not write stays at its default.
    forms = [options.model_dump(mode="json"), options.model_dump(mode="json", exclude_unset=True)]
    runtimes = [
        [one.model_dump(mode="json", exclude_unset=unset) for one in order.profiles] for unset in (False, True)
    ]
    body.setdefault("profiles_digest", document_digest([]))  # a verdict that speaks of no profiles accepted none
    judged: dict[str, list[Any]] = {"manifest": [order.manifest], "options": list(forms), "profiles": runtimes}
    for what, given in judged.items():
        digests = [document_digest(form) for form in given]
        if body.get(f"{what}_digest", digests[0]) not in digests:
            raise ReleaseError(f"{order.digest} was judged with other {what}", remedy=_AUDIT)
    return decided.by


def _signed(entry: Entry, keys: ReleaseKeys, log: str) -> dict[str, Any]:
    """Return what a verdict says, as a ledger key signed it: who can write to the database has no key."""
    said = dict(entry.body)
    if entry.type == "verdict":
        try:
            statement = verify_statement(entry.body.get("statement"), keys.at(entry.seq))
        except LoaderError as error:
            problem = f"ledger entry {entry.seq} has no signed verdict: {error}"
            raise ReleaseError(problem, remedy=_AUDIT) from error
        for difference in statement_differences(statement, entry.submission, entry.body, log, entry.seq):
            raise ReleaseError(f"ledger entry {entry.seq}: its statement {difference}", remedy=_AUDIT)
        said |= statement["predicate"]
    return said


def _not_revoked(state: Path, keys: ReleaseKeys, book: Book, digest: str) -> None:
    if digest in book.revoked or digest in channels.read_revocations(state, keys).revoked:
        raise ReleaseError(f"{digest} is revoked and can never be promoted")


def _options(options: Mapping[str, Any] | SessionOptions) -> SessionOptions:
    if isinstance(options, SessionOptions):
        return options
    found = first(dict(options), SessionOptions)
    if isinstance(found, Trouble):
        raise ReleaseError(f"session options: {f'{found.key}: ' if found.key else ''}{found.message}")
    return found


def _profiles(profiles: Sequence[Mapping[str, Any]]) -> list[ReleasedProfile]:
    found = [first(dict(one), ReleasedProfile) for one in profiles]
    for one in found:
        if isinstance(one, Trouble):
            raise ReleaseError(f"profiles: {f'{one.key}: ' if one.key else ''}{one.message}")
    return [one for one in found if isinstance(one, ReleasedProfile)]


def _released(state: Path, row: Row, *, new: bool) -> Release:
    return Release(
        model_id=row.model_id,
        channel=row.channel,
        number=row.number,
        bundle_digest=row.digest,
        release_digest=row.release_digest,
        kind=row.kind,
        path=state / release_path(row.model_id, row.channel, row.number),
        bundle=store.path(state, row.digest),
        new=new,
    )
