"""The second half of a promotion, and what becomes of one that a crash cut in two.

The durable ``release.json`` is the point of no return. Before it, the number is burnt (ledger entry
``abandoned``); after it, the promotion is finished: link, ``channel.json``, ledger entry ``activated``.
Either way no number is used twice, and no reader ever sees half a release.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acceptd.errors import LoaderError
from acceptd.intake.files import remove_temporaries, remove_tree, swap_symlink
from acceptd.policy.policy import Policy
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import stated
from acceptd.release.book import Book, Row, read_book
from acceptd.release.layout import CURRENT, channel_path, numbers_on_disk
from acceptd.release.signers import ReleaseKeys, Verifying
from acceptd.release.trust import number_name


@dataclass(frozen=True, slots=True)
class Terms:
    """How ``channel.json`` is to be signed: its life in seconds, and the clock."""

    valid_seconds: int = channels.VALID_SECONDS
    clock: channels.Clock = time.time
    lives: Mapping[str, int] = field(default_factory=dict)
    """Seconds by channel, where one has a life of its own."""

    @classmethod
    def of(cls, policy: Policy) -> Terms:
        """Return the terms of a policy; a channel that it does not know lives as long as it says for all."""
        lives = {one.name: one.valid_seconds for one in policy.all_channels()}
        return cls(valid_seconds=policy.release.channel_valid_seconds, lives=lives)

    def life(self, channel: str) -> int:
        """Return for how many seconds a ``channel.json`` of this channel is valid."""
        return self.lives.get(channel, self.valid_seconds)


def finish(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    row: Row,
    release_digest: str,
    document: Mapping[str, Any],
    terms: Terms,
) -> None:
    """Make a release with a durable ``release.json`` the current one: link, channel, ledger. Repeatable.

    ``document`` is the payload of that ``release.json``.
    """
    statement = stated.make(ledger, keys, row, release_digest, document)
    point = f"release.{row.kind}"
    folder = state / channel_path(row.model_id, row.channel)
    swap_symlink(folder, CURRENT, number_name(row.number))
    failpoint(f"{point}.swapped")
    least = channels.read_revocations(state, keys).number
    channels.write(
        state, keys, row, release_digest,
        least_revocations=least, valid_seconds=terms.life(row.channel), clock=terms.clock,
    )  # fmt: skip
    failpoint(f"{point}.announced")
    body = {
        "model": row.model_id,
        "channel": row.channel,
        "number": row.number,
        "digest": row.digest,
        "release_digest": release_digest,
        "statement": statement,
    }
    ledger.append("activated", body)
    failpoint(f"{point}.activated")
    stated.put(state, row, statement)


def settle(state: Path, ledger: Ledger, keys: ReleaseKeys, model_id: str, channel: str, terms: Terms) -> list[str]:
    """Finish or burn what is half done in one channel, and mend what disagrees with the ledger.

    Under the model's lock. Returns a line for each thing done. Raises ReleaseError where the current
    release itself does not verify: nothing is signed over damage.
    """
    done: list[str] = []
    for row in read_book(ledger).pending(model_id, channel):
        done.append(_settle_pending(state, ledger, keys, row, terms))
    book = read_book(ledger)
    current = book.current(model_id, channel)
    if current is not None:
        done += _mend(state, keys, book, current, terms)
        if stated.mend(state, ledger, current):
            done.append(f"{model_id} {channel} number {current.number}: statement.json was put right")
    _sweep(state, book, model_id, channel)
    return done


def _settle_pending(state: Path, ledger: Ledger, keys: ReleaseKeys, row: Row, terms: Terms) -> str:
    book = read_book(ledger)
    current = book.current(row.model_id, row.channel)
    words = f"{row.model_id} {row.channel} number {row.number}"
    announced = channels.read(state, keys, row.model_id, row.channel)
    if announced is not None and announced.number == row.number:
        # Loaders may have seen this number, and for them numbers only rise: it stands, revoked or not.
        reason = ""
    elif row.digest in book.revoked or row.digest in channels.read_revocations(state, keys).revoked:
        reason = "its bundle was revoked"
    elif current is not None and current.number > row.number:
        reason = "a later number is current"
    elif row.kind == "promote" and any(
        one.kind == "frozen" and one.seq > row.intent_seq and one.concerns(row.model_id, row.channel)
        for one in book.holds.entries
    ):
        # It could not be settled before the freeze: a key that did not answer, a disk that refused.
        reason = "its channel was frozen"
    else:
        reason = ""
    if not reason:
        try:
            facts, release_digest = channels.read_release(state, keys, row, None)
            channels.rewrite_release(state, row)
        except LoaderError:
            reason = "release.json was not yet durable"
        else:
            finish(state, ledger, keys, row, release_digest, facts.document, terms)
            return f"{words}: finished"
    body = {"model": row.model_id, "channel": row.channel, "number": row.number, "reason": reason}
    ledger.append("abandoned", body)
    failpoint("release.settle.abandoned")
    return f"{words}: burnt ({reason})"


def _point_away(folder: Path, number: int, current: Row | None) -> None:
    """Turn the link from a burnt number to the current one, or take it away where nothing was ever current."""
    with contextlib.suppress(FileNotFoundError):
        if os.readlink(folder / CURRENT) == number_name(number):
            if current is None:
                os.unlink(folder / CURRENT)
                failpoint("release.settle.unlinked")
            else:
                swap_symlink(folder, CURRENT, number_name(current.number))


def _mend(state: Path, keys: ReleaseKeys, book: Book, row: Row, terms: Terms) -> list[str]:
    """Bring link and ``channel.json`` in line with the active row; return what was mended."""
    done: list[str] = []
    folder = state / channel_path(row.model_id, row.channel)
    facts = channels.read(state, keys, row.model_id, row.channel)
    channel_right = facts is not None and (facts.number, facts.release_digest) == (row.number, row.release_digest)
    try:
        link_right = os.readlink(folder / CURRENT) == number_name(row.number)
    except OSError:
        link_right = False
    if (channel_right and link_right) or channels.ahead(facts, row) or not trusted(keys, row):
        return done
    channels.verified_release(state, keys, row, row.release_digest)
    words = f"{row.model_id} {row.channel} number {row.number}"
    if not link_right:
        swap_symlink(folder, CURRENT, number_name(row.number))
        done.append(f"{words}: the link `current` was put right")
    if not channel_right:
        least = max(channels.read_revocations(state, keys).number, 1 if book.revoked else 0)
        channels.write(
            state, keys, row, row.release_digest,
            least_revocations=least, valid_seconds=terms.life(row.channel), clock=terms.clock,
        )  # fmt: skip
        done.append(f"{words}: channel.json was put right")
    return done


def trusted(keys: Verifying, row: Row) -> bool:
    """Say whether a release key counts for the entry that took this number: a compromised one does not."""
    return bool(keys.at(row.intent_seq).for_role("release"))


def _sweep(state: Path, book: Book, model_id: str, channel: str) -> None:
    """Remove burnt numbers and temporary names; only this room writes here, under the lock that is held."""
    folder = state / channel_path(model_id, channel)
    if not folder.is_dir():
        return
    there = set(numbers_on_disk(state, model_id, channel))
    for row in book.rows(model_id, channel):
        if row.state == "abandoned" and row.number in there:
            _point_away(folder, row.number, book.current(model_id, channel))
            remove_tree(folder, number_name(row.number))
    remove_temporaries(folder)
    current = book.current(model_id, channel)
    if current is not None and (inner := folder / number_name(current.number)).is_dir():
        remove_temporaries(inner)  # of release.json written anew, or of its statement
