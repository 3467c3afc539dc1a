"""docs/chaos.md says what the kept runs of ``make chaos`` say, no more and no better."""

from __future__ import annotations

import copy

import pytest

from tests.crash.chaos.invariants import PROMISES
from tools import gen_chaos as generator

pytestmark = pytest.mark.unit


def test_the_page_is_what_the_kept_runs_say() -> None:
    kept = generator.runs()
    assert kept
    assert generator.PAGE.read_text("utf-8") == generator.page(kept, PROMISES)


def test_a_promise_that_broke_stands_on_the_page_however_many_held() -> None:
    kept = copy.deepcopy(generator.runs())
    name, kind = next(iter(kept[0]["kinds"].items()))
    kind["broken"] += 1
    kind["what_broke"].append("a <b>bundle</b> was lost | twice\nTraceback")
    made = generator.page(kept, PROMISES)
    assert "Each time all of it held" not in made
    assert "did not hold; what it was stands below" in made
    (line,) = [
        line
        for line in made.splitlines()
        if line.startswith(f"- {generator.text(name)} (seed ") and "lost" in line
    ]
    assert "<b>" not in line


def test_what_held_since_something_broke_counts_no_run_before_it_and_none_that_broke() -> None:
    one = {"seed": 1, "kills": generator.KILLS, "faults": generator.FAULTS, "broken": 0}
    bad = one | {"seed": 2, "broken": 1}
    assert generator._since([one]) == generator._since([one, bad]) == generator._since([bad, one, bad]) == ""
    said = generator._since([one, bad, one | {"seed": 3}, one | {"seed": 4}])
    assert f"(seeds 3, 4): {2 * generator.KILLS:,} kills and {2 * generator.FAULTS} faults" in said
    assert "That is the measure" in said
    assert "That is the measure" not in generator._since([bad, one | {"kills": generator.KILLS - 1}])


def test_runs_that_fall_short_of_the_measure_are_said_to() -> None:
    kept = copy.deepcopy(generator.runs()[:1])
    kept[0] |= {"kills": generator.KILLS - 1, "faults": generator.FAULTS}
    assert "fall short" in generator.page(kept, PROMISES)
    kept[0]["kills"] += 1
    assert "fall short" not in generator.page(kept, PROMISES)
