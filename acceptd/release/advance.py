"""Takes one number and walks all steps: intent, ``release.json``, link, ``channel.json``, activated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import ReleaseError, StateError
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger, Transaction
from acceptd.release import store, trust
from acceptd.release.book import Row, read_book
from acceptd.release.document import write_release
from acceptd.release.layout import numbers_on_disk, release_path
from acceptd.release.order import Order
from acceptd.release.settle import Terms, finish
from acceptd.release.signers import ReleaseKeys


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


def advance(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    order: Order,
    files: tuple[trust.File, ...],
    terms: Terms,
    allowed: Callable[[str], None] = lambda _now: None,
) -> Release:
    """Take a number and walk all steps. Under both locks, and the channel settled.

    ``allowed`` is asked with the ledger's time when nobody else can append; it raises where the order has to wait.
    """
    point = f"release.{order.kind}"
    keys.answering()
    prior = read_book(ledger).current(order.model_id, order.channel)
    failpoint(f"{point}.stored")

    def intend(change: Transaction) -> None:
        allowed(change.now())
        free = change.next_release_number(order.model_id, order.channel)
        # A ledger restored from a backup has forgotten numbers that directories still bear.
        number = max(free, max(numbers_on_disk(state, order.model_id, order.channel), default=0) + 1)
        if number > trust.MAX_NUMBER:
            problem = f"{order.model_id} {order.channel} has used up its {trust.MAX_NUMBER} numbers"
            if free <= trust.MAX_NUMBER:
                stray = release_path(order.model_id, order.channel, number - 1)
                raise ReleaseError(
                    f"{problem} by {stray}, which the ledger does not know",
                    remedy="restore a newer ledger; or remove it, where nothing was ever released as that",
                )
            raise ReleaseError(problem)
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
        said = {"by": order.by, "rule": order.rule.body(), "glass": order.glass}
        body |= {key: value for key, value in said.items() if value}
        change.append("intent", body)

    ledger.change(intend)
    failpoint(f"{point}.intended")
    row = read_book(ledger).pending(order.model_id, order.channel)[-1]
    try:
        release_digest, document = write_release(state, ledger, keys, order, row, files, prior, terms)
        failpoint(f"{point}.written")
        finish(state, ledger, keys, row, release_digest, document, terms)
    except OSError as error:
        raise StateError(
            f"release {row.number} of {order.model_id}: {error.strerror}: {error.filename}"
        ) from error
    return released(state, read_book(ledger).rows(order.model_id, order.channel)[-1], new=True)


def released(state: Path, row: Row, *, new: bool) -> Release:
    """Return a ledger row as the release that it is."""
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
