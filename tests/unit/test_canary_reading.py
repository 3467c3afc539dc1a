"""Lines from production hosts: what counts, what is told as refused, and how much memory they may take."""

from __future__ import annotations

import hashlib
import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptd.canary import reading
from acceptd.canary.reading import lines, read
from acceptd.canary.tally import Expected, Seen, Tally
from acceptd.errors import StateError, UsageError
from acceptd.release.receipt import MAX_LINE_BYTES, Decision
from tests.canary_world import CanaryWorld
from tests.receipt_world import PLAIN, changed
from tests.release_world import memory_directory

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def world() -> Iterator[CanaryWorld]:
    root = memory_directory()
    made = CanaryWorld(root)
    yield made
    made.close()
    shutil.rmtree(root)


def counts(world: CanaryWorld, *receipts: Any) -> dict[str, int]:
    """Return what became of the lines of one file, without zeros."""
    found = world.evaluated(world.file(*receipts)).counts
    return {name: count for name, count in found.model_dump().items() if count}


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "blanks": (b" \t ", "empty"),
    "no JSON": (b"{", "malformed"),
    "binary": (bytes(range(256)).replace(b"\n", b""), "malformed"),
    "deep": (b"[" * 60_000, "malformed"),
    "huge": (b'{"schema":1,"x":"' + b"a" * 3_000_000 + b'"}', "too_long"),
    "NaN": (PLAIN.line.replace(b"1000", b"NaN"), "malformed"),
    "a key twice": (PLAIN.line.replace(b'"schema":1', b'"schema":1,"schema":1'), "malformed"),
    "a huge integer": (PLAIN.line.replace(b"1000", b"9" * 5000), "malformed"),
    "another digest": (PLAIN.line.replace(b'"r-1"', b'"r-2"'), "digest"),
    "another release": (PLAIN.line, "elsewhere"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_counted_as_what_it_is_and_costs_no_other(world: CanaryWorld, name: str) -> None:
    line, fate = HOSTILE[name]
    assert counts(world, world.of(world.new, 1), line, world.of(world.new, 2)) == {"counted": 2, fate: 1}


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "another number": {"number": 2},
    "another bundle": {"bundle_digest": "a" * 64},
    "another channel": {"channel": "production"},
    "another model id": {"model_id": "mosaic/other"},
    "a model that it has not": {"model": "second"},
    "another preprocessing": {"preprocessing": "a" * 64},
    "a profile that it was not accepted under": {"profile": "gpu"},
    "an output without labels": {"decision": Decision(0, "logits", 0, "accept")},
    "a label that is not declared": {"decision": Decision(0, "probabilities", 0, "approve")},
    "another index of a label": {"decision": Decision(0, "probabilities", 1, "accept")},
    "an index beyond the labels": {"decision": Decision(0, "probabilities", 3, "accept")},
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_receipt_that_contradicts_its_release_counts_nowhere(world: CanaryWorld, name: str) -> None:
    wrong = replace(world.of(world.new, 1), **CONTRADICTIONS[name])
    found = world.evaluated(world.file(wrong))
    assert found.counts.contradictory == found.counts.refused == 1
    assert found.compared[0].canary.requests == 0
    assert found.compared[0].shifts[0].canary == 0


def test_a_request_counts_once_and_each_of_its_rows_once(world: CanaryWorld) -> None:
    first = world.of(world.new, "a")
    row = replace(first, decision=Decision(1, "probabilities", 2, "reject"))
    again = world.of(world.new, "a", error="RuntimeRefusedError", label="reject")
    path = world.file(first, row, again, first, world.of(world.old, "a"))
    found = world.evaluated(path, path)
    assert (found.counts.counted, found.counts.duplicates) == (3, 7)
    compared = found.compared[0]
    assert compared.against is not None
    assert (compared.canary.requests, compared.canary.errors, compared.against.requests) == (1, 0, 1)
    assert (compared.shifts[0].canary, compared.shifts[0].against) == (2, 1)


def test_what_is_counted_of_each_receipt(world: CanaryWorld) -> None:
    found = world.evaluated(world.file(
        world.of(world.new, 1, run=2000),
        world.of(world.new, 2, run=None),
        world.of(world.new, 3, error="InvalidInputError", validation="none", decision=None),
        world.of(world.new, 4, error="InvalidOutputError", validation="failed", decision=None),
        world.of(world.new, 5, timeout="exceeded", run=9000, label=None),
        world.of(world.new, 6, error="RuntimeRefusedError", validation="none", decision=None),
    ))  # fmt: skip
    sample = found.compared[0].canary
    assert (sample.requests, sample.refused, sample.errors, sample.invalid, sample.timeouts) == (5, 1, 2, 1, 1)
    assert (sample.timed, sample.latency["p99"].point) == (2, 9023)
    assert found.compared[0].shifts[0].leading == [("accept", 2, 0), ("", 1, 0)]


def test_no_more_than_the_most_are_counted(world: CanaryWorld) -> None:
    basis = world.basis()
    sides = [
        Expected.of(row.model_id, side, facts.manifest, ("cpu",))
        for row, facts, side in (
            (basis.canary, basis.canary_facts, world.evaluated(world.file()).canary),
            (basis.against, basis.against_facts, world.evaluated(world.file()).against),
        )
    ]
    tally = Tally(sides[0], sides[1], most=3)
    _, found = read([world.file(*world.some(world.new, 5), *world.some(world.old, 2))], tally)
    tally.close()
    assert (found.counted, found.surplus) == (5, 2)


def test_labels_of_hostile_lines_take_no_memory(world: CanaryWorld) -> None:
    lies = [
        replace(world.of(world.new, one), decision=Decision(0, "probabilities", 7, f"label {one}"))
        for one in range(50)
    ]
    found = world.evaluated(world.file(*lies))
    assert found.counts.contradictory == 50
    assert found.compared[0].shifts[0].leading == []


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_lines_are_the_same_however_they_are_cut(size: int) -> None:
    data = b"one\n\ntwo\n" + b"x" * 11 + b"\nthree\r\n" + b"y" * 40 + b"\nlast"
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    assert list(lines(chunks, most=10)) == [b"one", b"", b"two", None, b"three\r", None, b"last"]


def test_a_line_at_the_cap_is_whole() -> None:
    data = b"a" * 10 + b"\n" + b"b" * 11 + b"\n" + b"c" * 10
    assert list(lines(iter([data]), most=10)) == [b"a" * 10, None, b"c" * 10]
    assert list(lines(iter([b"d" * 11]), most=10)) == [None]


def test_a_line_without_end_is_never_kept() -> None:
    chunk = b"a" * 65_536
    tracemalloc.start()
    try:
        assert list(lines(chunk for _ in range(2000))) == [None]  # 131 MB
        assert tracemalloc.get_traced_memory()[1] < 4 * (MAX_LINE_BYTES + len(chunk))
    finally:
        tracemalloc.stop()


def test_files_are_told_with_their_digests(world: CanaryWorld) -> None:
    path = world.file(world.of(world.new, 1), b"")
    found = world.evaluated(path).files
    data = path.read_bytes()
    assert [(one.name, one.sha256, one.bytes, one.lines) for one in found] == [
        (path.name, hashlib.sha256(data).hexdigest(), len(data), 2)
    ]


def test_what_is_appended_meanwhile_belongs_to_the_next_evaluation(world: CanaryWorld) -> None:
    path = world.file(*world.some(world.new, 3))
    tally_add = Tally.add

    def appending(self: Tally, receipt: Any) -> Any:
        with path.open("ab") as file:
            file.write(world.of(world.new, "late").line + b"\n")
        return tally_add(self, receipt)

    size = path.stat().st_size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "add", appending)
        found = world.evaluated(path)
    assert (found.counts.counted, found.files[0].bytes) == (3, size)


def no_file(path: Path) -> None:
    path.with_name("other").touch()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, no_file], ids=["fifo", "directory", "absent"])
def test_only_regular_files_are_read(world: CanaryWorld, tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "receipts")
    with pytest.raises(UsageError, match="receipts"):
        world.evaluated(tmp_path / "receipts")


def test_no_file_and_too_many(world: CanaryWorld) -> None:
    with pytest.raises(UsageError, match="no file"):
        world.evaluated()
    with pytest.raises(UsageError, match="1001 files"):
        world.evaluated(*[Path("/dev/null")] * 1001)


def test_a_changed_line_that_was_sealed_again_is_believed(world: CanaryWorld) -> None:
    """The digest is no signature: who writes the file is trusted to tell what happened (docs/receipts.md)."""
    lied = changed(world.of(world.new, 1), lambda line: line["bound"].update(request_id="other"), seal=True)
    assert counts(world, lied) == {"counted": 1}


def test_a_file_that_is_cut_while_it_is_read_ends_there(
    world: CanaryWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotated away by the host: what was read is told with its own digest, and nobody waits for the rest."""
    path = tmp_path / "receipts.jsonl"
    path.write_bytes(b"{\n" * 4000)
    monkeypatch.setattr(reading, "CHUNK_BYTES", 1000)
    ours = os.read

    def cut(descriptor: int, size: int) -> bytes:
        found = ours(descriptor, size)
        os.truncate(path, 1000)
        return found

    monkeypatch.setattr(reading.os, "read", cut)
    found = world.evaluated(path)
    [told] = found.files
    assert (told.bytes, told.lines, found.counts.malformed) == (1000, 500, 500)
    assert told.sha256 == hashlib.sha256(b"{\n" * 500).hexdigest()


def test_a_disk_that_fails_within_a_file_ends_the_evaluation_with_its_place(
    world: CanaryWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "receipts.jsonl"
    path.write_bytes(b"{}\n")

    def broken(*_: Any) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(reading.os, "read", broken)
    with pytest.raises(UsageError, match=r"receipts\.jsonl: Input/output error") as caught:
        world.evaluated(path)
    assert caught.value.remedy == "check the disk"


def test_counted_requests_that_cannot_be_kept_end_the_evaluation_instead_of_counting_twice() -> None:
    seen = Seen()
    assert seen.new("r-1")
    assert not seen.new("r-1")
    seen.close()
    with pytest.raises(StateError, match="the requests that were counted cannot be kept") as caught:
        seen.new("r-2")
    assert "$TMPDIR" in caught.value.remedy
