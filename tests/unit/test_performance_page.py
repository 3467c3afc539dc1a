"""The performance page: it is what was measured, every miss is accounted for, a broken or loaded row says so."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import figures, machine, run
from tools import gen_performance as generator

pytestmark = pytest.mark.unit

DESIGN = ("submission", "scanners/tiny/warm", "scanners/tiny/cold", "suite", "large", "memory", "ledger/append")
"""The lines of the design's table, with those of the loader."""


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(generator.REPORT.read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    return tomllib.loads(generator.ACCOUNTS.read_text("utf-8"))


def test_the_page_and_its_pictures_are_what_was_measured(report: dict[str, Any], written: dict[str, Any]) -> None:
    assert generator.PAGE.read_text("utf-8") == generator.page(report, written)
    drawn = generator.pictures(report)
    assert {file.name for file in generator.IMAGES.glob("performance-*")} == set(drawn)
    for name, text in drawn.items():
        assert (generator.IMAGES / name).read_text("utf-8") == text


def test_every_row_of_the_design_has_its_line_and_its_bound(report: dict[str, Any]) -> None:
    bounds = {line["id"]: line["bound"] for line in generator.lines_of(report) if line["source"] == "design"}
    assert {name: bounds.get(name) for name in DESIGN} == dict(
        zip(DESIGN, (0.5, 20.0, 3.0, 0.35, 2.0, 1.1, 1.2), strict=True)
    )
    loader = {name: bound for name, bound in bounds.items() if name.startswith("loader/") and bound is not None}
    assert loader
    assert set(loader.values()) == {1.1}


def test_a_line_says_met_as_its_own_figures_do(report: dict[str, Any]) -> None:
    for line in generator.lines_of(report):
        spreads = {key: figures.Spread(**line[key]) for key in ("ours", "base", "ratio") if line[key]}
        rest = {key: value for key, value in line.items() if key not in {*spreads, "met"}}
        assert figures.Line(**spreads, **rest).met() is line["met"], line["id"]


def test_what_a_quiet_machine_missed_has_an_account(report: dict[str, Any], written: dict[str, Any]) -> None:
    quiet = [row for row in report["rows"] if row["result"] and not row["loaded"] and row["form"] != "trial"]
    missed = [line for row in quiet for line in row["result"]["lines"] if line["met"] is False]
    assert [line["id"] for line in missed if not generator.account(line, written["account"])] == []


def test_no_place_of_a_machine_is_in_what_is_published(report: dict[str, Any]) -> None:
    for text in (json.dumps(report), generator.PAGE.read_text("utf-8")):
        assert str(generator.ROOT) not in text
        assert "acceptd-bench-" not in text


def _row(name: str = "x", **more: Any) -> dict[str, Any]:
    found = {
        "row": name, "form": "quick", "words": "", "code": "c", "measured": "2026-11-30T16:00Z", "seconds": 1.0,
        "busy": [0.0, 0.0], "load": [[0.1, 0.1, 0.1]] * 2, "loaded": False, "failed": "", "result": None,
    }  # fmt: skip
    return found | more


def _report(*rows: dict[str, Any]) -> dict[str, Any]:
    one = {
        "processor": "p",
        "cores": 2,
        "memory_gib": 8,
        "kernel": "6",
        "python": "3",
        "file_system": "f",
        "user": "u",
    }
    there = one | {"versions": {"acceptd": "0"}, "peers": {}}
    return {"measured": "2026-11-30", "form": "quick", "commit": "c", "machine": there, "rows": list(rows)}


def _result(*lines: figures.Line) -> dict[str, Any]:
    return {"lines": [asdict(line) | {"met": line.met()} for line in lines], "parts": []}


def test_a_missed_line_without_an_account_is_not_passed_over() -> None:
    line = figures.alone("odd", "an odd | thing", [3.0], bound=2.0, source="issue 0")
    shown = generator.page(_report(_row(result=_result(line))), {"account": {}, "tried": {"list": []}})
    assert generator.NOT_YET in shown
    assert "**missed**" in shown
    assert "an odd &#124; thing" in shown  # a bar in a name opens no column


def test_a_loaded_a_tried_and_a_failed_row_say_so_on_the_page() -> None:
    rows = (_row("busy", loaded=True), _row("tiny", form="trial"), _row("dead", failed="it died"))
    shown = generator.page(_report(*rows), {"account": {}, "tried": {"list": []}})
    assert "**Loaded**: other work ran on the machine beside busy." in shown
    assert "**A trial**: tiny ran with tiny repetitions" in shown
    assert "**Failed**: dead." in shown
    assert generator.QUIET not in shown


def test_the_longest_key_accounts_for_a_line_and_names_figures_of_the_same_run() -> None:
    line = asdict(figures.alone("loader/300B/mapped", "w", [3.0]))
    assert generator.account(line, {"loader": "short", "loader/300B": "long", "pins": "other"}) == "long"
    lines = [line, asdict(figures.alone("cell/empty", "w", [4.25]))]
    assert generator.filled("a job takes {cell/empty}, {nothing/there}", lines) == "a job takes 4.25 ms, –"


def test_a_ratio_is_the_median_of_pairs_and_not_of_medians() -> None:
    line = figures.against("x", "w", [10.0, 1.0, 4.0], "b", [10.0, 4.0, 1.0])
    assert line.ratio is not None
    assert (line.ratio.median, line.ratio.least, line.ratio.most) == (1.0, 0.25, 4.0)
    turned = figures.against("x", "w", [10.0, 2.0], "b", [40.0, 8.0], sense="least", bound=4.0)
    assert turned.ratio is not None
    assert turned.ratio.median == 4.0
    assert turned.met()
    with pytest.raises(ValueError, match="longer"):
        figures.against("x", "w", [1.0], "b", [1.0, 2.0])


def test_a_bound_of_the_worst_is_missed_by_the_worst() -> None:
    values = [1.0] * 9 + [300.0]
    assert figures.alone("x", "w", values, bound=250.0).met()
    assert not figures.alone("x", "w", values, bound=250.0, by="most").met()
    assert figures.alone("x", "w", values).met() is None


def test_each_way_is_called_in_turn_and_the_first_rounds_do_not_count() -> None:
    calls: list[str] = []

    def way(name: str) -> float:
        calls.append(name)
        return len(calls) / 1000

    taken = figures.in_turn({"a": lambda: way("a"), "b": lambda: way("b")}, 2, warm=1)
    assert calls == ["a", "b"] * 3
    assert taken == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


@pytest.mark.parametrize(
    ("found", "there"),
    [
        (_row(), True),
        (_row(form="full"), True),
        (_row(form="trial"), False),
        (_row(loaded=True), False),
        (_row(failed="died"), False),
        (_row(code="another"), False),
        (None, False),
    ],
    ids=["as wanted", "fuller", "a trial", "loaded", "failed", "other code", "not there"],
)
def test_only_a_whole_quiet_row_of_this_code_is_not_measured_again(found: Any, there: bool) -> None:
    assert run.stands(found, "quick", "c") is there


@pytest.mark.parametrize(
    ("seconds", "told"),
    [((0.0,), 0.0), ((0.9, 0.05), 0.05), ((0.9, 0.4, 0.6), 0.4)],
    ids=["quiet at once", "our own last writes", "another's work stays"],
)
def test_only_work_that_stays_is_anothers(
    seconds: tuple[float, ...], told: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter(seconds)  # a fourth question would end the test
    monkeypatch.setattr(machine, "busy", lambda: next(shares))
    assert machine.quietest() == told
    assert list(shares) == []


def test_a_row_that_was_torn_while_it_was_written_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"row": "x", "fo')
    assert run.kept("x", tmp_path) is None
    assert run.report("quick", tmp_path)["rows"] == []


def test_what_a_trial_left_is_not_published_with_real_figures(tmp_path: Path) -> None:
    for name, form in (("submission", "quick"), ("loader", "trial"), ("inspection-large", "full")):
        (tmp_path / f"{name}.json").write_text(json.dumps(_row(name, form=form)))
    assert [one["row"] for one in run.report("quick", tmp_path)["rows"]] == ["submission", "inspection-large"]
    assert [one["row"] for one in run.report("trial", tmp_path)["rows"]] == [
        "submission",
        "loader",
        "inspection-large",
    ]


def test_a_bench_that_dies_leaves_a_row_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "busy", lambda seconds=1.0: 0.5)
    monkeypatch.setattr(run.os, "sync", lambda: None)
    found = run.measure(run.row("nowhere", 0.1, "", ""), "quick", "c")
    assert "No module named bench.nowhere" in found["failed"]
    assert found["result"] is None
    assert found["loaded"] is True


def test_a_row_that_is_not_there_is_refused_and_every_form_has_its_rows() -> None:
    with pytest.raises(ValueError, match="no row submision; there are submission, "):
        run.chosen("quick", ["submision"])
    quick, full = ({one.name for one in run.chosen(form, [])} for form in ("quick", "full"))
    assert quick < full
    assert {one.name for one in run.chosen("full", ["fleet"])} == {"fleet"}
