"""The one directory that a profiled run may write to: what it is for, how large it is, what it opens to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.policy.policy import LimitsTable
from sandbox.messages import SCRATCH_BYTES

pytestmark = pytest.mark.cell
LIMITS = job_limits("attack", LimitsTable(run_cpu_seconds=5, memory_bytes=256 << 20, output_bytes=1 << 30))


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    sealed = tmp_path_factory.mktemp("sealed")
    sealed.chmod(0o755)
    with Cell(sealed, testing=True) as made:
        yield made


def attack(cell: Cell, source: str, *, scratch: bool = True) -> dict[str, Any]:
    record = cell.run(
        "attack", files={}, spec={"source": source}, limits=LIMITS, required_walls=["seccomp", "landlock", "root"],
        scratch=scratch,
    )  # fmt: skip
    assert record.ending == "done", (record.ending, record.cause, record.message)
    return {key: value for note in record.notes for key, value in note.facts.items()}


TRY = """
def attempt(name, call):
    try:
        call()
        note(**{name: "done"})
    except OSError as error:
        note(**{name: errno.errorcode[error.errno]})

def make(path, flags):
    os.close(os.open(path, flags, 0o600))
"""
OPENINGS = (
    TRY
    + """
MAKE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
attempt("profile", lambda: make("/p/profile.json", MAKE))
attempt("both_ways", lambda: make("/p/profile.json", os.O_RDWR | os.O_CREAT | os.O_TRUNC))
attempt("append", lambda: make("/p/profile.json", os.O_WRONLY | os.O_APPEND))
attempt("in_the_root", lambda: make("/other.json", MAKE))
attempt("beside_the_model", lambda: make("/m/other.json", MAKE))
attempt("above", lambda: make("/p/../other.json", MAKE))
attempt("directory", lambda: os.mkdir("/p/d"))
attempt("link", lambda: os.symlink("/m", "/p/l"))
attempt("unlink", lambda: os.unlink("/p/profile.json"))
attempt("read", lambda: make("/p/profile.json", os.O_RDONLY))
"""
)


def test_the_directory_takes_new_files_for_writing_and_nothing_else(cell: Cell) -> None:
    got = attack(cell, OPENINGS)
    assert (got.pop("profile"), got.pop("read")) == ("done", "done")
    assert "done" not in got.values(), got


def test_without_it_nothing_can_be_written(cell: Cell) -> None:
    got = attack(cell, OPENINGS, scratch=False)
    assert "done" not in got.values(), got


def test_what_it_holds_is_bounded_and_cannot_become_shared_memory(cell: Cell) -> None:
    source = (
        TRY
        + """
descriptor = os.open("/p/a", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
written = 0
try:
    while written < 1 << 30:
        written += os.write(descriptor, bytes(1 << 20))
except OSError as error:
    note(full=errno.errorcode[error.errno], written=written)
attempt("shared_from_writing", lambda: mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE))
reading = os.open("/p/a", os.O_RDONLY)
attempt("shared_for_writing", lambda: mmap.mmap(reading, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE))
attempt("reopened", lambda: make("/proc/self/fd/%d" % reading, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
"""
    )
    got = attack(cell, source)
    assert got["full"] == "ENOSPC"
    assert got["written"] <= SCRATCH_BYTES
    assert "done" not in {got[key] for key in ("shared_from_writing", "shared_for_writing", "reopened")}


def test_each_job_has_its_own_and_it_is_gone_with_it(cell: Cell, tmp_path: Path) -> None:
    made = (
        "os.close(os.open('/p/left', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)); note(files=os.listdir('/p'))"
    )
    assert attack(cell, made)["files"] == ["left"]
    assert attack(cell, "note(files=os.listdir('/p'))")["files"] == []
    assert not list(tmp_path.iterdir())
