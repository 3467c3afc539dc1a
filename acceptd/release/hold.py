"""Freezing and unfreezing channels, pinning and unpinning releases: one ledger entry each, and nothing else.

Taken under the exclusive revocation lock: what is being promoted ends first, and nothing is promoted after the
entry. What a crash cut in two is settled before, so that no freeze is followed by the end of an earlier promotion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from acceptd.errors import ReleaseError, SigningError
from acceptd.policy.names import valid_name
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import store
from acceptd.release.book import Book, read_book
from acceptd.release.gone import refuse_removed
from acceptd.release.holds import Hold
from acceptd.release.layout import checked, model_lock, revocation_lock, store_lock
from acceptd.release.settle import Terms, settle
from acceptd.release.signers import ReleaseKeys
from acceptd.release.which import release_of

_MOST_REASON = 2000
_DEFAULT = Terms()


@dataclass(frozen=True, slots=True)
class Held:
    """The hold that stands now, or the entry that ended one. ``new`` is false where it stood already."""

    hold: Hold
    new: bool
    problems: tuple[str, ...] = ()
    """Channels that a crash left half moved and that could not be settled: a line each."""


def freeze(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    model_id: str,
    channel: str,
    reason: str,
    by: str = "",
    terms: Terms = _DEFAULT,
) -> Held:
    """Hold a channel of one model, or of all where ``model_id`` is empty, until it is unfrozen.

    Rollback, revocation and the exchange of keys go on. A damaged release keeps nothing from being frozen: it is
    one of ``problems``. Raises ReleaseError where the names or the reason are none.
    """
    _named(model_id, channel)
    _reasoned(reason)
    with revocation_lock(state, shared=False):
        problems = []
        for model in _models(read_book(ledger), model_id, channel):
            with model_lock(state, model):
                try:
                    settle(state, ledger, keys, model, channel, terms)
                except (ReleaseError, SigningError, OSError) as error:
                    problems.append(f"{model} {channel}: {error}")
        failpoint("release.freeze.settled")
        stands = read_book(ledger).holds.exactly("frozen", model_id, channel, "")
        if stands is not None:
            return Held(stands, False, tuple(problems))
        done = _entered(ledger, "frozen", {"model": model_id, "channel": channel, "reason": reason, "by": by})
        return replace(done, problems=tuple(problems))


def unfreeze(state: Path, ledger: Ledger, *, model_id: str, channel: str, reason: str, by: str = "") -> Held:
    """End exactly that freeze; raise ReleaseError where there is none (one for all models is another one)."""
    _named(model_id, channel)
    _reasoned(reason)
    with revocation_lock(state, shared=False):
        holds = read_book(ledger).holds
        if holds.exactly("frozen", model_id, channel, "") is None:
            others = [one for one in holds.all_frozen() if one.channel == channel]
            whole = any(not one.model_id for one in others)
            where = f"{channel} of {model_id}" if model_id else f"{channel} of all models"
            remedy = "it is frozen for all models: unfreeze it with --all-models" if whole and model_id else ""
            if not model_id and others:
                remedy = f"it is frozen for {', '.join(one.model_id for one in others[:8])}: name the model"
            raise ReleaseError(f"{where} is not frozen", remedy=remedy)
        return _entered(ledger, "unfrozen", {"model": model_id, "channel": channel, "reason": reason, "by": by})


def pin(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    model_id: str,
    channel: str,
    wanted: str,
    reason: str,
    by: str = "",
    terms: Terms = _DEFAULT,
) -> Held:
    """Pin a release of a channel: its bytes stay, and while it is current nothing else is promoted there.

    ``wanted`` is a number, a digest or its beginning, or empty for the current release. Raises ReleaseError where
    there is no such release, its bundle is revoked, or its bytes are gone.
    """
    checked(model_id, channel)
    _reasoned(reason)
    with store_lock(state, shared=True), revocation_lock(state, shared=False), model_lock(state, model_id):
        settle(state, ledger, keys, model_id, channel, terms)
        book = read_book(ledger)
        row = release_of(book, model_id, channel, wanted)
        if row.digest in book.revoked:
            raise ReleaseError(f"{row.digest[:12]} is revoked: no loader opens it", remedy="pin another release")
        stands = book.holds.exactly("pinned", model_id, channel, row.digest)
        if stands is not None:
            return Held(stands, new=False)
        refuse_removed(state, ledger, row.digest)
        store.present(state, row.digest)
        body = {"model": model_id, "channel": channel, "digest": row.digest, "reason": reason, "by": by}
        return _entered(ledger, "pinned", body)


def unpin(
    state: Path, ledger: Ledger, *, model_id: str, channel: str, wanted: str, reason: str, by: str = ""
) -> list[Held]:
    """End the pin of a release, or all of the channel where ``wanted`` is empty; ReleaseError where none is."""
    checked(model_id, channel)
    _reasoned(reason)
    with revocation_lock(state, shared=False):
        book = read_book(ledger)
        pins = book.holds.pinned(model_id, channel)
        if wanted:
            digest = release_of(book, model_id, channel, wanted).digest
            pins = [one for one in pins if one.digest == digest]
        if not pins:
            raise ReleaseError(f"no release of {model_id} {channel} {f'({wanted}) ' if wanted else ''}is pinned")
        body = {"model": model_id, "channel": channel, "reason": reason, "by": by}
        return [_entered(ledger, "unpinned", body | {"digest": one.digest}) for one in pins]


def _entered(ledger: Ledger, kind: str, body: dict[str, str]) -> Held:
    point = {"frozen": "freeze", "unfrozen": "unfreeze", "pinned": "pin", "unpinned": "unpin"}[kind]
    ledger.append(kind, {key: value for key, value in body.items() if value})
    failpoint(f"release.{point}.recorded")
    return Held(read_book(ledger).holds.entries[-1], new=True)


def _models(book: Book, model_id: str, channel: str) -> list[str]:
    return [model for model, name in sorted(book.channels) if name == channel and model_id in {"", model}]


def _named(model_id: str, channel: str) -> None:
    if model_id:
        checked(model_id, channel)
        return
    try:
        valid_name(channel)
    except ValueError as error:
        raise ReleaseError(str(error)) from error


def _reasoned(reason: str) -> None:
    if not reason.strip() or len(reason) > _MOST_REASON:
        raise ReleaseError(f"it needs a reason of at most {_MOST_REASON} characters")
