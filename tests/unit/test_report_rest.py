"""Parts of a report that have little to tell say so: no timing, no cost, no entry, no remedy, nothing compared."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from acceptd.report import golden, graph, parity, speed, verification
from acceptd.report.html import render
from acceptd.report.junit import render as junit
from acceptd.report.logs import escape_event
from acceptd.report.profiles import profile_lines
from acceptd.report.runtime import runtime_section
from acceptd.report.targets import Targets
from acceptd.report.ticket import ticket_rows
from tests.report_world import finding, report, runtime
from tests.unit.test_report_render import terminal

pytestmark = pytest.mark.unit

HOSTILE = "<b>\x1b]0;x"


def timed(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model": "main", "profile": "", "set": "s", "batch": None, "shapes": {}, "samples": 0, "warmups": 2,
        "kernel": None, "alone": False, "quantiles_ms": {}, "wall_ms": [], "job_wall_ms": 9.0, "job_cpu_ms": 7.0,
        "note": "", "machine": None, "input_files": {}, "cold": [],
    }  # fmt: skip
    return fields | changes


def test_a_run_of_which_nothing_was_timed_says_why() -> None:
    html = speed.performance_section({"performance": [timed(note=f"the time was over {HOSTILE}")]})
    assert "the time was over &lt;b&gt;" in html
    assert "<svg" not in html
    assert "No warm inference was timed." in speed.performance_section({"performance": [timed()]})
    again = timed(alone=True, kernel={"name": "k/1", "p50_ms": 0.5}, shapes={"x": [1, 4]}, profile=HOSTILE)
    html = speed.performance_section({"performance": [again]})
    for wanted in ("timed once more, alone", "kernel k/1 0.5 ms", "x [1, 4]", " under &lt;b&gt;"):
        assert wanted in html
    assert "\x1b" not in html


def inspected(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "scopes": 1, "subgraph_depth": 0, "initializers": 2, "initializer_bytes": 60, "weights": [],
        "cost": None, "quantisation": None, "functions": [], "function_count": 0,
    }  # fmt: skip
    return {"name": "main", "graph": found | changes}


def test_a_cost_that_is_bounded_by_nothing_is_said_with_the_loop_that_turns_it() -> None:
    assert "cost unknown: functions do not end" in graph.graph_section(inspected())
    cost = {
        "peak_bytes": 2048, "known": 3, "unknown": 1,
        "largest": {"bytes": 1024, "op_type": HOSTILE, "where": "graph/node[0]"},
        "trips": [
            {"op_type": "Loop", "where": "graph/node[1]", "trips": None, "certain": True},
            {"op_type": "Scan", "where": "graph/node[2]", "trips": 7, "certain": False},
        ],
    }  # fmt: skip
    html = graph.graph_section(inspected(cost=cost))
    assert "at least 2.0 KiB of values alive at once, by 3 known sizes (1 are not known" in html
    assert "turns an unknown number of times;" in html
    assert "turns 7 times, unless its condition ends it" in html
    assert "\x1b" not in html
    assert "<b>" not in html
    bare = graph.graph_section(inspected(cost=cost | {"largest": None, "trips": []}))
    assert "the largest" not in bare
    assert "turns" not in bare


def test_functions_beyond_those_shown_are_counted_and_a_model_that_is_not_quantised_says_so() -> None:
    functions = [{"name": "f", "nodes": 1, "expanded": 2, "calls": 3}]
    html = graph.graph_section(
        inspected(functions=functions, function_count=22, quantisation={"method": "none", "per_channel": None})
    )
    assert "and 21 more" in html
    assert "not quantised" in html
    assert "more" not in graph.graph_section(inspected(functions=functions, function_count=1, cost=None))
    assert graph.graph_section({"name": "main"}) == ""


def test_labelled_rows_are_a_line_each_or_the_reason_why_not() -> None:
    row = {
        "output": "y", "slice": "north\x1b", "note": "", "accuracy": 0.5, "calibration_error": None, "brier": 0.25,
        "rows": 4, "classes": [{"false_negatives": 2}],
    }  # fmt: skip
    counts = dict.fromkeys(golden.COUNTED, 0)
    told = {
        "models": [counts | {"parity": 1, "smoke": 2}],
        "quality": [row, row | {"slice": None, "note": "s: 2 labels for 3 rows\n"}],
        "fixtures": [{"raw": "a.png", "set": "set_0"}],
    }
    brief = golden.terminal_rows({"goldens": told}, every=False)
    assert brief == [("labelled", "y: s: 2 labels for 3 rows\\x0a")]
    assert golden.terminal_rows({"goldens": told}, every=True) == [
        ("goldens", "1 for parity, 2 smoke"),
        ("labelled", "y (north\\x1b): 4 rows, accuracy 0.5000, Brier 0.2500, 2 false negatives"),
        *brief,
        ("fixture", "a.png is set_0"),
    ]


def test_more_rows_of_parity_than_a_terminal_shows_are_counted() -> None:
    row = report()["parity"][0] | {"comparable": True, "note": "", "n": 6, "exceeding": 2, "bit_exact": False}
    many = [row | {"set": f"set_{index}", "worst_expected": "nan?", "worst_got": "1"} for index in range(300)]
    rows = parity.terminal_rows({"parity": many}, every=True)
    shown = len(rows) - 2
    assert rows[0][1].startswith("300 outputs of 300 golden sets compared, 300 beyond")
    assert "expected nan?, got 1" in rows[1][1]
    assert rows[-1] == ("", f"and {300 - shown} more: see --json or the HTML report")
    assert parity.terminal_rows({"parity": []}, every=True) == []


def test_who_holds_a_report_that_names_no_entry_is_told_how_to_get_one() -> None:
    assert "nothing of it was signed" in verification.section(report(submission="check-70ed95bbb871"))
    assert "does not name its ledger entry" in verification.section(report())
    for entry in (
        {"number": True, "log": "acceptd/" + "a" * 32, "leaf_hash": "ab" * 32},
        {"number": 3, "log": "acceptd/x; rm", "leaf_hash": "ab" * 32},
        {"number": 3, "log": "acceptd/" + "a" * 32, "leaf_hash": "ab"},
        {"number": 1 << 53, "log": "acceptd/" + "a" * 32, "leaf_hash": "ab" * 32},
        "3",
    ):
        assert "does not name its ledger entry" in verification.section(report(entry=entry)), entry
    whole = {"number": 3, "log": "acceptd/" + "a" * 32, "leaf_hash": "ab" * 32}
    assert "does not name" not in verification.section(report(entry=whole))
    assert "does not name" in verification.section(report(entry=whole, verdict="accepted; rm"))


def test_a_runtime_that_is_not_known_and_one_without_an_identity_are_told_as_they_are() -> None:
    assert runtime_section({}) == ""
    html = runtime_section({"runtime": runtime() | {"libraries": []}})
    assert "Identity" not in html
    assert "native libraries" not in html
    said = runtime_section({"runtime_said": {"version": HOSTILE}})
    assert "(not measured)" in said
    assert "\x1b" not in said


def test_several_profiles_are_a_line_each_and_one_is_none() -> None:
    row = {"profile": "cpu", "verdict": "accepted", "required": True, "runtime": None}
    assert profile_lines({"profiles": [row]}) == []
    told = runtime() | {"onnxruntime": "1.32.0", "providers": ["CPUExecutionProvider"], "optimisation": "all"}
    lines = profile_lines({"profiles": [row, row | {"required": False, "runtime": told}]})
    assert lines == [
        ("profiles", "cpu accepted"),
        ("", "cpu accepted, optional (onnxruntime 1.32.0, CPU, all)"),
    ]


def test_a_finding_without_place_reason_or_remedy_leaves_no_empty_line() -> None:
    bare = finding(where="", remedy="", reason="", meaning="", references=[], count=1)
    made = report(findings=[bare])
    assert [name for name, text in ticket_rows(made) if "→" in text] == []
    assert ("because", "parity/mismatch") in ticket_rows(made)
    page, text, tests = render(made), terminal(made), junit([("", made)]).decode()
    assert "Why it matters" not in page
    assert "How to mend it" not in page
    assert "why " not in text.split("parity/mismatch")[1].split("\n\n")[0]
    assert "remedy:" not in tests
    noted = junit([("", report(findings=[bare | {"severity": "info"}]))]).decode()
    assert "info parity/mismatch\n  2 of 6 elements exceed" in noted


def test_a_traceback_keeps_its_lines_and_each_is_marked() -> None:
    made = escape_event(None, "error", {"event": "x", "exception": "Traceback\n  File a\x1b\nready"})
    assert made["exception"] == "  | Traceback\n  |   File a\\x1b\n  | ready"


def test_a_full_disk_and_a_directory_that_is_gone_at_the_end_leave_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_bytes(b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def written() -> None:
        with Targets({"--jsonl": tmp_path / "out"}) as targets:
            targets.write("--jsonl", b"new")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            written()
    assert (os.listdir(tmp_path), (tmp_path / "out").read_bytes()) == (["out"], b"old")
    with Targets({"--jsonl": tmp_path / "out", "--sarif": None}) as targets:
        assert ("--jsonl" in targets, "--sarif" in targets) == (True, False)
        targets.write("--jsonl", b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
