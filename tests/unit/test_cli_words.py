"""Small words of the screens and findings: no word twice, none without a subject, no blank that nobody sees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from acceptd.cli import common, selftest, status
from acceptd.cli.stages import Stages
from acceptd.judge.codes import CODES
from acceptd.judge.jobs import ending
from acceptd.policy.policy import LimitsTable
from acceptd.work.progress_file import Now
from tests import judge_world as world

pytestmark = pytest.mark.unit


def test_a_table_in_a_pipe_leaves_no_blanks_at_the_ends_of_lines(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("one", "two", box=None, pad_edge=False)
    table.add_row("a", "b" * 9)
    table.add_row("  indented", "c")
    common.console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert lines[2].startswith("  indented  c")


def test_no_spinner_and_no_bar_reads_markup_in_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a[/b] [red]c"
    with common.progress_console().status(name) as shown:
        shown.update(name, spinner="line")
        common.progress_console().print(shown.renderable.render(0.0))
    monkeypatch.setattr(Console, "is_terminal", True)
    with Stages("mosaic", name, running=False) as stages:  # a submission's own name
        stages.show(Now(stage="sealing"))
    monkeypatch.undo()
    assert name in capsys.readouterr().err
    sources = [path.read_text(encoding="utf-8") for path in Path(common.__file__).parent.glob("*.py")]
    columns = [call for source in sources for call in re.findall(r"TextColumn\((?!\s*\))[^)]*\)", source)]
    assert len(columns) >= 4
    assert [call for call in columns if "markup=False" not in call] == []


def test_nothing_that_failed_prints_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    selftest._print([])
    assert capsys.readouterr().out == ""


def test_a_running_lease_is_not_told_in_the_word_of_a_verdict() -> None:
    lease: dict[str, Any] = {
        "submission": "s-1", "team": "mosaic", "profile": "cpu", "state": "held", "reason": "", "cores": 1,
        "memory_bytes": 1 << 30, "since_s": 1.0, "deadline_in_s": 9.0,
    }  # fmt: skip
    work: dict[str, Any] = {
        "budget": {"cores_held": 1, "cores": 2, "memory_bytes_held": 1, "memory_bytes": 2},
        "queue": {"waiting": 0, "limit": 9, "beyond": 0, "lanes": []},
        "meter": {"held_now": {}, "given_up": {}, "longest_still_running_s": 0.0},
        "leases": [lease],
    }
    out = Console(width=200, record=True, quiet=False)
    with out.capture() as shown:
        status._print_work(out, work)
    row = shown.get().splitlines()[-1].split()
    assert "running" in row
    assert "held" not in row


@pytest.mark.parametrize(
    ("kind", "cause", "words"),
    [
        ("run", "cpu", "cpu limit of 7 s (limits.run_cpu_seconds)"),
        ("assets", "cpu", "cpu limit of 30 s (limits.inspect_cpu_seconds)"),
        ("run", "wall", "wall limit of 28 s (limits.run_cpu_seconds times limits.wall_factor)"),
        ("vectors", "memory", "memory limit of 1073741824 bytes (limits.inspect_memory_bytes)"),
        ("run", "threads", "threads limit of 8 (limits.threads)"),
        ("run", "something new", "something new limit after"),
    ],
)
def test_a_limit_is_named_with_its_value_and_key(kind: str, cause: str, words: str) -> None:
    record = world.record(kind, ending="limit", cause=cause, done=None)
    [one] = ending(record, limits=LimitsTable(run_cpu_seconds=7))
    assert words in one.message


def test_the_remedy_of_a_mismatch_thinks_of_the_golden_too() -> None:
    assert "the golden may be stale" in CODES["parity/mismatch"].remedy
