"""At start: whatever was half done is finished or burnt, and files that disagree with the ledger are mended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import ReleaseError, SigningError
from acceptd.record import checkpoint
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import store
from acceptd.release.book import Book, read_book
from acceptd.release.layout import model_lock, revocation_lock, store_lock
from acceptd.release.rests import Rests
from acceptd.release.revoke import carry_out
from acceptd.release.settle import Terms, settle
from acceptd.release.signers import ReleaseKeys

_DEFAULT = Terms()


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A line for each thing that was put right, and for each that a person must look at."""

    done: tuple[str, ...]
    problems: tuple[str, ...]


def reconcile(state: Path, ledger: Ledger, keys: ReleaseKeys, *, terms: Terms = _DEFAULT) -> Reconciled:
    """Finish or burn interrupted promotions, rollbacks and revocations of every channel. Repeatable.

    One damaged model does not keep the others from being reconciled: it is a line in ``problems``, and its
    channel is left to expire. Raises LedgerError or StateError where ledger or storage fail altogether.
    """
    done: list[str] = []
    problems: list[str] = []
    with store_lock(state, shared=False):  # beside a command that brings a bundle there
        problems += store.sweep(state)
    with revocation_lock(state, shared=False):
        channels.sweep_revocations(state)
        checkpoint.sweep(state)
        try:
            if _revocations_unfinished(state, keys, read_book(ledger)):
                carried = carry_out(state, ledger, keys, "", terms)
                done.append(f"the revocation list {carried.number} was carried out")
                problems += carried.problems
        except (ReleaseError, SigningError, OSError) as error:
            problems.append(f"revocations: {error}")
        for model_id, channel in sorted(read_book(ledger).channels):
            with model_lock(state, model_id):
                try:
                    done += settle(state, ledger, keys, model_id, channel, terms)
                    row = read_book(ledger).current(model_id, channel)
                    facts = channels.read(state, keys, model_id, channel)
                    if row is not None and (line := channels.ahead(facts, row)):
                        problems.append(line)
                except (ReleaseError, SigningError, OSError) as error:
                    problems.append(f"{model_id} {channel}: {error}")
    return Reconciled(tuple(done), tuple(problems))


def catch_up(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    terms: Terms = _DEFAULT,
    between: Callable[[], None] = lambda: None,
    rests: Rests | None = None,
) -> Reconciled:
    """Finish what a command that was killed beside a running daemon left: no restart comes to do it.

    Looks without a lock, and finishes under the locks; one who is still at work is waited for, and then nothing is
    left to do. ``between`` is called before each channel. ``rests`` keeps what failed, over the calls: it is tried
    again ever later, and its problem told then. A revocation that comes meanwhile waits for none of it. Raises as
    :func:`reconcile`.
    """
    done: list[str] = []
    problems: list[str] = []
    rests = rests or Rests()
    try:
        if (owed := _owed(state, keys, read_book(ledger))) and rests.due(owed):
            with _resting(rests, owed), revocation_lock(state, shared=False):
                if _owed(state, keys, read_book(ledger)):
                    carried = carry_out(state, ledger, keys, "", terms)
                    done.append(f"the revocation list {carried.number} was carried out")
                    problems += carried.problems
            if problems:
                rests.failed(_owed(state, keys, read_book(ledger)))  # some of it was done
    except (ReleaseError, SigningError) as error:
        problems.append(f"revocations: {error}")
    book = read_book(ledger)  # once: to ask the log for each of thousands of channels costs a second
    for model_id, channel in sorted(book.channels):
        between()
        pending = tuple((model_id, channel, row.number) for row in book.pending(model_id, channel))
        if not pending or not rests.due(pending):
            continue
        try:
            with (
                _resting(rests, pending),
                revocation_lock(state, shared=True),
                model_lock(state, model_id),
            ):
                done += settle(state, ledger, keys, model_id, channel, terms)
        except (ReleaseError, SigningError, OSError) as error:
            problems.append(f"{model_id} {channel}: {error}")
    return Reconciled(tuple(done), tuple(problems))


@contextlib.contextmanager
def _resting(rests: Rests, what: Hashable) -> Iterator[None]:
    """Let ``what`` rest where this fails."""
    try:
        yield
    except Exception:
        rests.failed(what)
        raise


def _owed(state: Path, keys: ReleaseKeys, book: Book) -> frozenset[tuple[str, ...]]:
    """Return what a revocation of the ledger still owes: digests that are not on the list, rollbacks not made."""
    owed: set[tuple[str, ...]] = {
        (digest,) for digest in set(book.revoked) - set(channels.read_revocations(state, keys).revoked)
    }
    for place in list(book.channels):
        row = book.current(*place)
        entry = book.revoked.get(row.digest) if row is not None else None
        if entry is not None and entry.rollback and book.fallback(*place) is not None:
            owed.add((*place, entry.digest))
    return frozenset(owed)


def _revocations_unfinished(state: Path, keys: ReleaseKeys, book: Book) -> bool:
    """Say whether list, a channel or a rollback lags behind what the ledger has revoked."""
    try:
        listed = channels.read_revocations(state, keys)
        if _owed(state, keys, book):
            return True
    except ReleaseError:
        return True
    for place in list(book.channels):
        facts = channels.read(state, keys, *place)
        if book.current(*place) is None:
            continue
        if facts is None or facts.least_revocations != listed.number:
            return True
    return False
