"""What must hold when everything that was dropped has its verdict: one line for each thing that does not."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from acceptd.record.log import Ledger
from acceptd.release.book import read_book
from tests.fleet import promises
from tests.fleet.mixed import Piece
from tests.fleet.recorded import Book, Recorded

TOLD: Final = ("verdict.json", "report.html")
MOST_LOG: Final = 64 << 20
"""Bytes of the database's write-ahead log: it is carried over as it fills, whatever readers there are."""


def read(state: Path) -> tuple[Book, dict[str, int]]:
    """Return what is on record, without the findings, which nobody compares here; and each drop's uid by name."""
    book, uids = Book(), {}
    with Ledger.open(state, create=False) as ledger:
        for entry in ledger.entries(kind="verdict"):
            body = entry.body
            book.verdicts.append(
                Recorded(
                    body["drop"],
                    str(entry.submission),
                    entry.seq,
                    body["verdict"],
                    body["reason"],
                    body.get("model") or "",
                    body.get("bundle_digest") or "",
                    b"",
                    b"",
                )
            )
            uids[body["drop"]] = body["uid"]
        book.releases = [
            row for numbers in read_book(ledger).channels.values() for _, row in sorted(numbers.items())
        ]
    with contextlib.closing(sqlite3.connect(state / "ledger.sqlite3")) as database:
        book.states = dict(database.execute("select id, state from submissions"))
    return book, uids


def told(state: Path) -> dict[str, dict[str, Any]]:
    """Return the verdicts that teams were told, by submission: only what is compared of each."""
    found = {}
    for place in (state / "outbox").glob("*/*/verdict.json"):
        report = json.loads(place.read_bytes())
        found[place.parent.name] = {"verdict": report["verdict"]}
    return found


def broken(state: Path, pieces: Sequence[Piece], *, sure: bool = True, whole: bool = True) -> list[str]:
    """Return a line for each promise about the verdicts that does not hold.

    ``sure``: an honest drop that nobody killed may not be ``inconclusive`` either. ``whole``: all was to be
    judged; else only of what was, since the run was stopped.
    """
    book, _ = read(state)
    if not whole:
        judged = {one.submission for one in book.verdicts}
        book.states = {name: state for name, state in book.states.items() if name in judged}
        named = {name for one in book.verdicts for name in (one.drop, bare(one.drop))}
        pieces = [piece for piece in pieces if piece.name in named]
    found = promises.broken(book, pieces, told(state))
    by_name = {piece.name: piece for piece in pieces}
    named = set()
    for one in book.verdicts:
        piece = promises.piece_of(one, by_name)
        if piece is None:
            found.append(f"{one.drop}: a verdict, and no such drop")
            continue
        if piece.name in named:
            found.append(f"{one.drop}: a second verdict")
        named.add(piece.name)
        if piece.family == "hostile" and one.verdict == "accepted":
            found.append(f"{one.drop}: hostile, and accepted")
        honest = "accepted" in piece.verdicts and "inconclusive" not in piece.verdicts
        if sure and honest and one.verdict == "inconclusive":
            found.append(f"{one.drop}: inconclusive: {one.reason}")
    return found + [f"{name}: no verdict" for name in by_name if name not in named]


def other_bytes(state: Path, whole: Mapping[str, str]) -> list[str]:
    """Return a line for each unwhole drop that was accepted with other bytes than it was meant to have."""
    book, _ = read(state)
    return [
        f"{one.drop}: accepted with the digest {one.digest[:16]}, and {whole[one.drop][:16]} was meant"
        for one in book.verdicts
        if one.drop in whole and one.verdict == "accepted" and one.digest != whole[one.drop]
    ]


def strangers(state: Path, pieces: Sequence[Piece], uids: Mapping[str, int]) -> list[str]:
    """Return a line for each drop that is on record with another user than its team's."""
    _, found = read(state)
    by_name = {piece.name: piece.team for piece in pieces}
    if not uids:
        return []
    return [
        f"{name}: on record as uid {uid}, and {by_name[bare(name)]}'s is {uids[by_name[bare(name)]]}"
        for name, uid in found.items()
        if bare(name) in by_name and uid != uids[by_name[bare(name)]]
    ]


def bare(name: str) -> str:
    """Return a drop's name without an archive's ending: its piece's."""
    return next((name.removesuffix(one) for one in (".zip", ".tar.gz", ".tar") if name.endswith(one)), name)


def left(state: Path, parts: Sequence[Path]) -> list[str]:
    """Return a line for each thing that lies where nothing may, and for each unfinished drop that is gone."""
    book, _ = read(state)
    held = {one.submission for one in book.verdicts if one.verdict == "held"}
    found = [str(place.relative_to(state)) for place in (state / "inbox").glob("*/*") if place not in parts]
    found += [f"gone: {place.relative_to(state)}" for place in parts if not (place / "bundle.toml").is_file()]
    for name in ("sealed", "tmp"):
        found += [f"{name}/{one}" for one in sorted(os.listdir(state / name))]
    aside = set(os.listdir(state / "quarantine"))
    found += [f"quarantine/{one}: nothing is held there" for one in sorted(aside - held)]
    found += [f"quarantine/{one}: it is held, and not there" for one in sorted(held - aside)]
    for place in (state / "outbox").glob("*/*"):
        if place.is_dir():
            found += [
                f"{place.relative_to(state)}/{name}: missing" for name in TOLD if not (place / name).is_file()
            ]
        elif place.name != ".progress.json":
            found.append(str(place.relative_to(state)))
    return [f"left: {line}" for line in found]
