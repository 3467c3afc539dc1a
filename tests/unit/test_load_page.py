"""The page about load: it is what was measured, by a run in which everything held."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fleet.mixed import SHARES
from tests.load import samples
from tests.load.drops import UNWHOLE
from tools import gen_load as generator

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(generator.FIGURES.read_text("utf-8"))
    return kept


def test_the_page_and_its_pictures_are_what_was_measured(found: dict[str, Any]) -> None:
    assert generator.PAGE.read_text("utf-8") == generator.page(found)
    for name, drawn in generator.pictures(found).items():
        assert (generator.IMAGES / name).read_text("utf-8") == drawn


def test_figures_of_a_run_in_which_something_broke_are_not_kept(found: dict[str, Any]) -> None:
    assert found["broken"] == []
    assert sum(found["verdicts"].values()) == sum(found["families"].values()) == found["drops"]


def test_every_kind_of_drop_is_named_and_the_stated_bound_is_the_one_that_ends_a_run() -> None:
    assert {*SHARES, *UNWHOLE, "lone"} == set(generator.FAMILIES)
    assert generator.MOST_GROWTH == samples.MOST_GROWTH


def test_a_run_that_its_time_cut_short_says_so(found: dict[str, Any]) -> None:
    short = generator.page(found | {"wanted": found["drops"] + 1})
    whole = generator.page(found | {"wanted": found["drops"]})
    assert "time that it was given was over" in short
    assert "time that it was given was over" not in whole


def test_a_cost_that_nobody_counted_whole_is_told_as_the_least_that_it_was(found: dict[str, Any]) -> None:
    assert "counted by the kernel" in generator.page(found | {"processor_by": "group"})
    assert "at least" in generator.page(found | {"processor_by": "tree"})
