"""The report's part on parity: every golden set, its worst elements, the figures of its kind; hostile text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from acceptd.evidence import Statistics
from acceptd.judge.parity import parity
from acceptd.kind_facts import Boxes, Embedding, Place, Ranking
from acceptd.policy.policy import Policy
from acceptd.report.html import render
from acceptd.report.parity import rows_of, section, terminal_rows
from acceptd.report.terminal import print_verdict
from tests import judge_world as world
from tests.report_world import HOSTILE, report
from tests.unit.test_judge_kinds import output

pytestmark = pytest.mark.unit

CLOSE = world.stats(
    "a", exceeding=1, max_abs=0.25, worst_index=[0, 2], worst_expected="0.5", worst_got="0.75", n=3
)
TURNED = world.stats(
    "b",
    embedding=Embedding(
        rows=2, min_cosine=0.5, cosine_worst=Place(index=[1], expected="the row", got="cosine 0.5")
    ),
)


def rows() -> list[dict[str, Any]]:
    told = Statistics(outputs=[world.stats("c", bit_exact=True), CLOSE, TURNED])
    found = list(parity(world.a_manifest(output("embedding")), told.outputs, Policy()))
    return rows_of([("", told)], found)


def test_each_golden_set_has_a_line_and_what_fails_stands_first() -> None:
    made = rows()
    assert [(row["set"], row["broken"]) for row in made] == [("a", ["elements"]), ("b", ["min_cosine"]), ("c", [])]
    page = section(made)
    for part in ("[0, 2]", "0.75", "beyond", "1 of 3", "least cosine", "cosine 0.5", "exact"):
        assert part in page, part
    told = terminal_rows({"parity": made}, every=True)
    assert told[0] == ("parity", "3 outputs of 3 golden sets compared, 2 beyond its tolerance")
    assert "worst at [0, 2]: expected 0.5, got 0.75" in told[1][1]
    assert terminal_rows({"parity": made[2:]}, every=True)[0][1].startswith("1 output of 1 golden set compared")
    assert "least cosine 0.5 (beyond its limit)" in told[2][1]
    assert told[3][1].endswith("exact")


def test_rows_that_only_break_a_limit_of_their_kind_are_not_called_good() -> None:
    row = world.stats("d", boxes=Boxes(expected=2, got=2, matched=1, share=0.5))
    found = list(parity(world.a_manifest(output("boxes")), [row], Policy()))
    (made,) = rows_of([("", Statistics(outputs=[row]))], found)
    assert made["broken"] == ["min_matched"]
    assert 'class="bad">beyond' in section([made])


def test_a_comparison_with_something_else_stands_apart() -> None:
    made = rows_of([("", Statistics(outputs=[world.stats("a"), world.stats("a", against="unoptimised")]))])
    page = section(made)
    assert page.index("Other comparisons") < page.index("unoptimised")
    assert section([]) == ""
    assert terminal_rows({}, every=True) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_strangers_text_in_figures_stays_text(name: str) -> None:
    text = HOSTILE[name].encode("utf-8", "backslashreplace").decode()  # a model's text is valid UTF-8 by here
    place = Place(index=[0], expected=text[:400], got=text[:400])
    row = world.stats("x", exceeding=1, ranking=Ranking(rows=1, top1_mismatches=1, top1_worst=place))
    hostile = row.model_copy(update={"set": text, "output": text, "worst_expected": text, "worst_got": text})
    made = report("plain", parity=rows_of([("", Statistics(outputs=[hostile]))]))
    page = render(made)
    assert "<script>" not in page
    assert "onerror=alert(1)>" not in page
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    print_verdict(console, made, every_finding=True)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert not set(shown) & {"\x1b", "\x9b", "\r", "\x08", "\u202e", "\u200b"}
