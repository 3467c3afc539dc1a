"""What was probed, as the report tells it: counts, what was left out, and hostile words kept harmless."""

from __future__ import annotations

import pytest

from acceptd.evidence import Probed
from acceptd.report.probed import probed, probed_rows, probed_section
from tests import judge_world as world

pytestmark = pytest.mark.unit

INSIDE = Probed.model_validate(
    {
        "scope": "inside",
        "counts": {"bounds": 7, "draws": 14, "near ties": 0},
        "left_out": [{"what": "draws", "count": 50, "reason": "time <script>"}],
        "classes": 3,
        "least_margin": 0.0125,
    }
)
RELATIONS = Probed.model_validate(
    {
        "scope": "relations",
        "counts": {"sessions": 4},
        "left_out": [{"what": "threads", "count": 1, "reason": "limits.threads"}],
        "sizes": [1, 32, 7, 1],
        "retained_bytes": -2048,
        "concurrent": 4,
    }
)


def report() -> dict[str, object]:
    return {"probed": probed([world.run(probed=[INSIDE]), world.unoptimised(probed=[RELATIONS]), world.inspect()])}


def test_both_processes_are_told_with_counts_and_what_was_left_out() -> None:
    text = probed_section(report())
    assert "7 bounds, 14 draws" in text
    assert "near ties" not in text, "nothing was found: nothing is counted"
    assert "50 draws (time &lt;script&gt;)" in text
    assert "threads (limits.threads)" in text
    assert "3 top classes among the draws; least margin between two classes 0.013" in text
    assert "batches of 1, 32, 7, 1, which keep -2.0 KiB; up to 4 calls at once" in text


def test_a_terminal_gets_one_line_for_a_model_and_all_on_demand() -> None:
    ((name, text),) = probed_rows(report(), every=False)
    assert name == "probed"
    assert text.startswith("main inside: 7 bounds, 14 draws; 3 top classes")
    assert "left out: 50 draws" in text
    assert len(probed_rows(report(), every=True)) == 2


def test_a_job_that_says_it_a_thousand_times_is_heard_three_times() -> None:
    assert len(probed([world.run(probed=[INSIDE] * 1000)])) == 3
    judged = world.verdict(world.submission([world.run(probed=[INSIDE] * 1000)]))
    (finding,) = [one for one in judged.findings if one.code == "behaviour/probes-left-out"]
    assert finding.count <= 3


def test_where_nothing_was_probed_there_is_no_section() -> None:
    assert probed([world.run()]) == []
    assert probed_section({"probed": []}) == ""
    assert probed_section({}) == "", "a report of an older version has no such key"


def test_what_the_release_was_probed_with_is_not_told_as_the_bundles_own() -> None:
    told = {"probed": probed([world.run(probed=[INSIDE]), world.run(variant="prior", probed=[INSIDE])])}
    assert len(probed_rows(told, every=False)) == 1
    assert [": " in text and "the release" in text for _, text in probed_rows(told, every=True)] == [False, True]
    assert "the release beside it" in probed_section(told)
