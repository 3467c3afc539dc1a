"""Promotion and rollback, in the order that survives a crash at any step.

store → ledger ``intent`` (takes the number for ever) → ``release.json`` (immutable, with the inclusion
proof of that entry) → the link ``current`` → ``channel.json`` → ledger ``activated``. A rollback is a new,
higher number that points at an older approved digest, so that nobody can replay an old release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from acceptd.errors import ReleaseError
from acceptd.policy.channels import Rule
from acceptd.record.canonical import plain
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import gate, store
from acceptd.release.accepted import accepted_by
from acceptd.release.advance import Release as Release
from acceptd.release.advance import advance, released
from acceptd.release.book import Book, Row, read_book
from acceptd.release.closed import refusal
from acceptd.release.gone import refuse_removed
from acceptd.release.layout import checked, model_lock, revocation_lock
from acceptd.release.model import Decided, SessionOptions
from acceptd.release.order import Order, again, released_profiles, session_options
from acceptd.release.settle import Terms, settle, trusted
from acceptd.release.signers import ReleaseKeys
from acceptd.release.who import DAEMON

_DEFAULT: Final = Terms()


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
    rule: Rule | None = None,
    by: str = "",
    terms: Terms = _DEFAULT,
) -> Release:
    """Make a stored, accepted bundle the current release of a channel; return it when loaders can see it.

    ``manifest_json`` is the validated manifest by alias, ``verdict_seq`` the ledger entry that accepted
    exactly this digest, ``options`` the accepted session options (:class:`SessionOptions`), ``profiles`` every
    profile that it was accepted under (:class:`ReleasedProfile`). ``decide`` weighs people's decisions about
    that entry; without it only an accepted bundle is promoted. ``rule`` is what the policy asks for this channel;
    frozen channels and pinned releases hold with or without one. ``by`` says who has it done
    (:mod:`acceptd.release.who`). Promoting the digest that is current makes no new number. Raises ReleaseError
    where it is unknown, revoked, not accepted or another model's, ChannelClosedError where the channel takes it
    not now; StateError or LedgerError where the storage fails (the number is burnt then).
    """
    model_id, channel = checked(model_id, channel)
    order = Order(
        model_id, channel, "promote", digest, plain(manifest_json), verdict_seq, session_options(options),
        released_profiles(profiles), reason, by=by, rule=rule or Rule(channel),
    )  # fmt: skip
    with revocation_lock(state, shared=True), model_lock(state, model_id):
        settle(state, ledger, keys, model_id, channel, terms)
        book = read_book(ledger)
        _not_revoked(state, keys, book, digest)
        current = book.current(model_id, channel)
        if current is not None and current.digest == digest and trusted(keys, current):
            return released(state, current, new=False)
        decided = accepted_by(ledger, keys, order, decide)
        order = replace(order, decisions=decided.by, glass=decided.glass)
        refuse_removed(state, ledger, digest)
        given = gate.facts(book, model_id, channel, digest, order.rule)  # nothing changes them under these locks

        def allowed(now: str) -> None:
            if found := gate.reasons(given, order.rule, now, glass=order.glass):
                raise refusal(model_id, order.rule, digest, found, by_itself=by == DAEMON)

        return advance(state, ledger, keys, order, store.present(state, digest), terms, allowed)


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
    by: str = "",
    terms: Terms = _DEFAULT,
) -> Release:
    """Make an older release's bundle current again, under a new, higher number.

    Without ``digest``: the prior release's bundle, or the newest before it that is not revoked. The
    older bundle is hashed again before it is named. ``rejected`` says whose rejection stands against the verdict
    that it rests on. A frozen channel and a pin do not hold it up: it is the way out. Raises ReleaseError where
    there is none to go back to, or it is rejected.
    """
    model_id, channel = checked(model_id, channel)
    with revocation_lock(state, shared=True), model_lock(state, model_id):
        return rollback_locked(
            state, ledger, keys, model_id, channel, reason, digest=digest, rejected=rejected, by=by, terms=terms
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
    by: str = "",
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
        return released(state, current, new=False)
    if rejected is not None and (why := rejected(ledger.entry(target.verdict_seq))):
        remedy = "name another release with --to"
        raise ReleaseError(f"{target.digest} (number {target.number}) is {why} since", remedy=remedy)
    refuse_removed(state, ledger, target.digest)
    before = channels.verified_release(state, keys, target, target.release_digest)
    order = again(target, "rollback", before, reason, by)
    return advance(state, ledger, keys, order, store.verify(state, target.digest), terms)


def rekey_locked(
    state: Path, ledger: Ledger, keys: ReleaseKeys, row: Row, reason: str, terms: Terms = _DEFAULT, by: str = ""
) -> Release:
    """Give the bundle of the current ``row`` a new number, signed by ``keys``; under the model's lock.

    ``release.json`` is immutable: a new key signs a new one. Raises ReleaseError where the old one is damaged.
    """
    before = channels.verified_release(state, keys, row, row.release_digest)
    order = again(row, "rekey", before, reason, by)
    return advance(state, ledger, keys, order, store.present(state, row.digest), terms)


def _not_revoked(state: Path, keys: ReleaseKeys, book: Book, digest: str) -> None:
    if digest in book.revoked or digest in channels.read_revocations(state, keys).revoked:
        raise ReleaseError(f"{digest} is revoked and can never be promoted")
