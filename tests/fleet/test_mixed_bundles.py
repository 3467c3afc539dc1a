"""The bundles that a fleet is proved with, and the comparison that proves it: both must be able to say no."""

from __future__ import annotations

import collections
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from acceptd.record.canonical import plain_bytes
from acceptd.release.book import Row
from tests.fleet import promises
from tests.fleet.mixed import ACCEPTED, SHARES, WAVES, Piece, mixed, waves
from tests.fleet.recorded import Book, Recorded, differences, unmeasured


def digest_of(path: Path) -> str:
    found = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        found.update(file.name.encode() + b"\0")
        if file.is_symlink():
            found.update(b"link")
        elif file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()


def test_one_seed_gives_the_same_drops_to_the_byte(tmp_path: Path) -> None:
    first, second = mixed(80, seed=7, heavy=False), mixed(80, seed=7, heavy=False)
    assert [piece.name for piece in first] == [piece.name for piece in second]
    assert [piece.name for piece in first] != [piece.name for piece in mixed(80, seed=8, heavy=False)]
    for one, other in zip(first, second, strict=True):
        # What comes from the catalogue has stamps of its own in some archives, and is the catalogue's matter.
        if one.family != "hostile":
            assert digest_of(one.write(tmp_path / "a" / one.name)) == digest_of(
                other.write(tmp_path / "b" / other.name)
            )


@pytest.mark.parametrize("count", [24, 500])
def test_in_no_wave_do_two_drops_promote_one_model(count: int) -> None:
    pieces = mixed(count)
    assert len(pieces) == len({piece.name for piece in pieces}) == count
    for wave in waves(pieces):
        promoted = collections.Counter(piece.model for piece in wave if piece.verdicts == ACCEPTED)
        assert max(promoted.values(), default=0) <= 1, promoted.most_common(3)
    if count == 500:
        assert {piece.family for piece in pieces} == SHARES.keys()
        assert {piece.wave for piece in pieces} == set(range(WAVES + 1))
        assert len({piece.team for piece in pieces}) == 3
        # Several versions of one model, each after the one before.
        assert (
            max(collections.Counter(piece.model for piece in pieces if piece.verdicts == ACCEPTED).values())
            == WAVES
        )


FINDING = {
    "code": "parity/mismatch",
    "where": "main",
    "evidence": {"largest": 0.5, "run_ms": 1.25, "peak_rss_bytes": 9},
}


def recorded(drop: str = "0001-valid", verdict: str = "accepted", **body: object) -> Recorded:
    told = plain_bytes({"drop": drop, "verdict": verdict, **body})
    findings = plain_bytes(unmeasured([FINDING]))
    return Recorded(drop, f"s-{drop}", 7, verdict, "words", "mosaic/model", "ab" * 32, told, findings)


def release(**other: object) -> Row:
    row = Row("mosaic/model", "production", 1, "ab" * 32, "promote", "", 7, 8, "2026-01-01T00:00:00Z", "active")
    return replace(row, **other)  # type: ignore[arg-type]


def book(*verdicts: Recorded, releases: tuple[Row, ...] = (release(),)) -> Book:
    return Book(list(verdicts), list(releases), {one.submission: "done" for one in verdicts})


@pytest.mark.parametrize(
    "other",
    [
        book(recorded(verdict="rejected")),
        book(recorded(bundle_digest="0")),
        book(replace(recorded(), findings=plain_bytes([FINDING | {"code": "parity/drift"}]))),
        book(replace(recorded(), findings=plain_bytes([FINDING | {"evidence": {"largest": 0.5000001}}]))),
        book(recorded("0002-valid")),
        book(recorded(), releases=()),
        book(recorded(), releases=(release(digest="cd" * 32),)),
        book(recorded(), releases=(release(state="superseded"), release(number=2))),
    ],
)  # fmt: skip
def test_two_runs_that_are_apart_in_anything_are_told_apart(other: Book) -> None:
    assert differences(book(recorded()), book(recorded())) == []
    assert differences(book(recorded()), other)


def test_measured_time_and_memory_alone_make_no_difference() -> None:
    slower = FINDING | {"evidence": {"largest": 0.5, "run_ms": 99.0, "peak_rss_bytes": 8}}
    assert unmeasured([FINDING]) == unmeasured([slower])
    assert unmeasured([FINDING]) != unmeasured([slower | {"where": "other"}])
    assert unmeasured({"names": 1, "total_bytes": 2, "s": 3}) == {"names": 1, "total_bytes": 2}


PIECE = Piece("0001-valid", "mosaic", 1, "valid", lambda path: path, ACCEPTED, "mosaic/model")
TOLD = {"s-0001-valid": {"verdict": "accepted"}}


def test_promises_that_hold_are_not_called_broken() -> None:
    assert promises.broken(book(recorded()), [PIECE], TOLD) == []
    burnt = release(number=2, state="abandoned")
    assert promises.broken(book(recorded(), releases=(release(), burnt)), [PIECE], TOLD) == []


@pytest.mark.parametrize(
    ("of", "told", "word"),
    [
        (Book([], [], {"s-0001-valid": "sealed"}), {}, "no verdict"),
        (Book([], [], {}), {}, "1 drops, 0 submissions"),
        (book(recorded(), recorded()), TOLD, "2 verdicts"),
        (replace(book(recorded()), states={"s-0001-valid": "judged"}), TOLD, "still judged"),
        (book(recorded()), {}, "told nothing"),
        (book(recorded()), {"s-0001-valid": {"verdict": "held"}}, "was told held"),
        (book(recorded(verdict="held"), releases=()), {"s-0001-valid": {"verdict": "held"}}, "not accepted"),
        (book(recorded(), releases=(release(), release(number=2))), TOLD, "2 releases of verdict 7"),
        (book(recorded(), releases=(release(verdict_seq=3),)), TOLD, "without an accepted verdict"),
        (book(recorded(), releases=(release(digest="cd" * 32),)), TOLD, "other bytes"),
        (book(recorded(), releases=(release(state="intent"),)), TOLD, "not ended"),
        (book(recorded(), releases=()), TOLD, "has no release"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_named(of: Book, told: dict[str, dict[str, str]], word: str) -> None:
    assert any(word in line for line in promises.broken(of, [PIECE], told)), promises.broken(of, [PIECE], told)
