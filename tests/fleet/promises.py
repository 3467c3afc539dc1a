"""What must hold of a fleet when all is said, whatever was killed, cut or lost on the way."""

from __future__ import annotations

import collections
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acceptd.record.tables import FINAL_STATES
from tests.fleet.mixed import Piece
from tests.fleet.processes import ROOT
from tests.fleet.recorded import Book, Recorded


def broken(book: Book, pieces: Sequence[Piece], reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each promise that does not hold of ``pieces``, all of which were dropped.

    ``reports`` are the verdicts that teams were told, by submission.
    """
    return [
        *_once(book, len(pieces)),
        *_told(book, reports),
        *_right(book, pieces),
        *_released_once(book),
    ]


def _once(book: Book, dropped: int) -> list[str]:
    """Nothing that was dropped is lost, nothing is judged twice, and nothing is still on its way."""
    found = []
    if len(book.states) != dropped:
        found.append(f"{dropped} drops, {len(book.states)} submissions")
    counted = collections.Counter(one.submission for one in book.verdicts)
    found += [f"{name}: {count} verdicts" for name, count in counted.items() if count != 1]
    found += [f"{name}: no verdict" for name in book.states if name not in counted]
    found += [f"{name}: a verdict, and no submission" for name in counted if name not in book.states]
    found += [f"{name}: still {state}" for name, state in book.states.items() if state not in FINAL_STATES]
    return found


def _told(book: Book, reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Each team was told what is on record."""
    found = []
    for one in book.verdicts:
        told = reports.get(one.submission)
        if told is None:
            found.append(f"{one.drop}: its team was told nothing")
        elif told["verdict"] != one.verdict:
            found.append(f"{one.drop}: its team was told {told['verdict']}, on record is {one.verdict}")
    return found


def _right(book: Book, pieces: Sequence[Piece]) -> list[str]:
    """No verdict is another than its bundle deserves; one that was lost with a machine may be ``inconclusive``."""
    by_name = {piece.name: piece for piece in pieces}
    found = []
    for one in book.verdicts:
        piece = piece_of(one, by_name)
        # A kill between the rename that claims a drop and the commit loses its name, and nothing else of it.
        if piece is not None and one.verdict not in piece.verdicts | {"inconclusive"}:
            found.append(
                f"{one.drop}: {one.verdict} ({one.reason}), and not {' or '.join(sorted(piece.verdicts))}"
            )
    return found


def piece_of(one: Recorded, by_name: Mapping[str, Piece]) -> Piece | None:
    """Return the piece that a verdict is about, None where its drop's name was lost."""
    return next((by_name[name] for name in _names(one.drop) if name in by_name), None)


def _names(drop: str) -> list[str]:
    return [drop, *(drop.removesuffix(suffix) for suffix in (".zip", ".tar.gz", ".tar") if drop.endswith(suffix))]


def _released_once(book: Book) -> list[str]:
    """No verdict was promoted twice, nothing was promoted without one, and no promotion stands half done."""
    accepted = {one.seq: one for one in book.verdicts if one.verdict == "accepted"}
    by_verdict = collections.Counter(
        (row.model_id, row.channel, row.verdict_seq)
        for row in book.releases
        if row.state != "abandoned" and row.kind == "promote"
    )
    found = [f"{model} {channel}: {count} releases of verdict {seq}"
             for (model, channel, seq), count in by_verdict.items() if count != 1]  # fmt: skip
    for row in book.releases:
        place = f"{row.model_id} {row.channel} {row.number}"
        if row.state == "intent":
            found.append(f"{place}: its promotion has begun and not ended")
        if row.verdict_seq not in accepted:
            found.append(f"{place}: a release without an accepted verdict")
        elif accepted[row.verdict_seq].digest != row.digest:
            found.append(f"{place}: other bytes than its verdict is about")
    active = {(row.model_id, row.channel): row for row in book.releases if row.state == "active"}
    for one in accepted.values():
        if not any(model == one.model for model, _ in active):
            found.append(f"{one.drop}: accepted, and {one.model} has no release")
    return found


def verified(state: Path) -> list[str]:
    """Return what ``acceptd ledger verify`` has against the record; nothing where it is whole."""
    done = subprocess.run(
        [sys.executable, "-m", "acceptd", "ledger", "verify", "--state", str(state)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [] if done.returncode == 0 else [f"ledger verify: {done.returncode}: {done.stdout}{done.stderr}"]
