"""`make coverage` ends with 1 where the judge is not wholly reached, and says where."""

from __future__ import annotations

import importlib
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.coverage_report import faults, least, packages, readable, table

pytestmark = pytest.mark.unit


def told(
    lines: int, missed: list[int], branches: int = 0, unreached: list[list[int]] | None = None
) -> dict[str, Any]:
    left = unreached or []
    summary = {"num_statements": lines, "missing_lines": len(missed)}
    return {
        "summary": {**summary, "num_branches": branches, "missing_branches": len(left)},
        "missing_lines": missed,
        "missing_branches": left,
    }


def test_a_line_or_a_branch_of_the_judge_that_no_test_reaches_is_named_and_fails() -> None:
    whole = {"acceptd/judge/verdict.py": told(10, [], 4)}
    assert faults(whole, whole=False) == []
    line = whole | {"acceptd/judge/words.py": told(90, [7])}
    assert faults(line, whole=False) == ["acceptd/judge/: 99.04 %, not 100: test acceptd/judge/words.py:7"]
    branch = {"acceptd/judge/words.py": told(9000, [], 9000, [[7, -1]])}
    assert faults(branch, whole=False) == ["acceptd/judge/: 99.99 %, not 100: test acceptd/judge/words.py:7->-1"]


def test_a_judge_that_was_not_measured_at_all_fails() -> None:
    assert faults({"acceptd/errors.py": told(9, [])}, whole=False)[0].startswith(
        "acceptd/judge/: nothing was measured"
    )


def test_the_floor_of_the_whole_holds_where_every_layer_ran_and_nowhere_else() -> None:
    files = {"acceptd/judge/verdict.py": told(10, []), "acceptd/errors.py": told(90, [*range(6)])}
    assert faults(files, whole=False) == []
    assert faults(files, whole=True) == ["acceptd/: 94.00 %, not 95: see .cache/coverage/html"]


def test_the_files_that_are_least_covered_are_named_worst_first_and_an_empty_one_is_none_of_them() -> None:
    files = {
        "acceptd/errors.py": told(100, [*range(5)]),
        "acceptd/cli/check.py": told(10, [1, 2]),
        "acceptd/__init__.py": told(0, []),
        "acceptd/judge/verdict.py": told(10, [], 10, [[n, n + 1] for n in range(8)]),
    }
    assert list(least(files, 2)) == ["acceptd/judge/verdict.py", "acceptd/cli/check.py"]
    assert list(least(files)) == ["acceptd/judge/verdict.py", "acceptd/cli/check.py", "acceptd/errors.py"]
    assert least(files)["acceptd/judge/verdict.py"].percent == 60.0


def test_packages_are_counted_with_what_is_below_them_and_modules_beside_them_as_one() -> None:
    files = {
        "acceptd/errors.py": told(10, [1]),
        "acceptd/record/log.py": told(10, [], 2, [[3, 4]]),
        "acceptd/record/auditing/tree.py": told(10, []),
    }
    found = packages(files)
    assert {name: (one.lines, one.missed, one.branches, one.unreached) for name, one in found.items()} == {
        "acceptd": (10, 1, 0, 0),
        "acceptd/record": (20, 0, 2, 1),
    }
    assert table(found)[0].split()[0] == "package"
    assert table(found)[-1].split() == ["all", "30", "1", "2", "1", "93.75"]


def results(place: Path, rows: int = 5000) -> bytes:
    with sqlite3.connect(place) as one:
        one.execute("create table coverage_schema (version integer)")
        one.executemany("insert into coverage_schema values (?)", [(number,) for number in range(rows)])
    one.close()
    return place.read_bytes()


def test_what_a_killed_process_left_half_written_ends_no_report(tmp_path: Path) -> None:
    whole = tmp_path / "data.whole"
    (tmp_path / "data.torn").write_bytes(results(whole)[:5000])
    (tmp_path / "data.empty").touch()
    assert readable(tmp_path) == ([str(whole)], 2)


def test_a_worker_that_was_killed_while_it_wrote_counts_with_its_last_whole_copy(tmp_path: Path) -> None:
    """One lost worker once took a thousand lines of the figures with it, and the judge's hundred percent."""
    torn = results(tmp_path / "kept.data.torn")[:5000]
    for name in ("data.torn", "data.both", "kept.data.both"):
        (tmp_path / name).write_bytes(torn)
    results(tmp_path / "data.whole")
    results(tmp_path / "kept.data.whole", 1)
    assert readable(tmp_path) == ([str(tmp_path / "kept.data.torn"), str(tmp_path / "data.whole")], 1)


class Measured:
    """What stands for coverage.py, which is in .venvs/coverage alone; notes what was asked of it."""

    def __init__(self, place: Path) -> None:
        self.place, self.asked = place, list[str]()

    def current(self) -> Measured | None:
        return None if "stop" in self.asked else self

    def get_data(self) -> Measured:
        return self

    def data_filename(self) -> str:
        return str(self.place)

    def switch_context(self, name: str) -> None:
        self.asked.append(f"context {name}".rstrip())

    def stop(self) -> None:
        self.asked.append("stop")

    def save(self) -> None:
        self.asked.append("save")


def test_a_worker_writes_before_its_last_word_and_copies_between_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(tmp_path / "data.host.7")
    measured.place.write_bytes(b"so far")
    monkeypatch.setitem(sys.modules, "coverage", SimpleNamespace(Coverage=measured))
    monkeypatch.delitem(sys.modules, "tools.covered_tests", raising=False)
    plugin = importlib.import_module("tools.covered_tests")
    monkeypatch.delitem(sys.modules, "tools.covered_tests")
    plugin.pytest_runtest_logstart("tests/a.py::one")
    plugin.pytest_runtest_logfinish()
    assert [path.name for path in tmp_path.iterdir()] == ["data.host.7"], "not after every test"
    monkeypatch.setattr(plugin, "SECONDS", 0.0)
    plugin.pytest_runtest_logfinish()
    assert (tmp_path / "kept.data.host.7").read_bytes() == b"so far"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.host.7", "kept.data.host.7"]
    plugin.pytest_sessionfinish()
    assert measured.asked == ["context tests/a.py::one", "context", "context", "stop", "save"]
    plugin.pytest_sessionfinish()
    assert measured.asked[-1] == "save", "what was stopped is left alone"
    assert len(measured.asked) == 5
