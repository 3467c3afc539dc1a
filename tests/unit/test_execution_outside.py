"""A run that broke off: only an input outside the declared domain is excused, and never by the job's word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from acceptd.evidence import Case, JobRecord, Probed
from acceptd.execution import Execution

pytestmark = pytest.mark.unit

SPEC = {"sets": [{"name": "golden"}], "repeats": 2, "probes": "all"}
GOLDENS = [("golden", 0), ("golden", 1)]
BOUNDS = [("probe:zeros", 0), ("probe:dim-max:batch", 0)]
DRAWS = [(f"probe:draws-{number}", 0) for number in range(4)]


def record(ending: str, cases: Sequence[tuple[str, int]], *scopes: str) -> JobRecord:
    return JobRecord.model_validate(
        {
            "kind": "run",
            "model": "main",
            "ending": ending,
            "cases": [Case(set=name, repeat=repeat) for name, repeat in cases],
            "probed": [Probed.model_validate({"scope": scope}) for scope in scopes],
        }
    )


def probed(*records: JobRecord) -> tuple[list[JobRecord], list[Any]]:
    """Let the given records come one after the other; return what counts, and the ``probes`` of each order."""
    asked: list[Any] = []

    class Stub:
        def _once(self, _order: object, spec: dict[str, Any]) -> JobRecord:
            asked.append(spec["probes"])
            return records[len(asked) - 1]

    return Execution._probed(cast("Execution", Stub()), cast("Any", None), dict(SPEC)), asked


def test_a_crash_outside_the_domain_is_excused_by_a_second_run_inside_it() -> None:
    first = record("crash", [*GOLDENS, *BOUNDS, *DRAWS[:2], ("probe:nan", 0)], "inside")
    second = record("done", [*GOLDENS, *BOUNDS, *DRAWS], "inside")
    counted, asked = probed(first, second)
    assert [one.variant for one in counted] == ["outside", ""]
    assert asked == ["all", "inside"]


@pytest.mark.parametrize("ending", ["crash", "limit"])
def test_a_run_that_broke_at_a_draw_is_not_excused_whatever_a_second_one_would_do(ending: str) -> None:
    first = record(ending, [*GOLDENS, *BOUNDS, *DRAWS[:2]])
    counted, asked = probed(first)
    assert counted == [first]
    assert asked == ["all"], "a crash that comes now and then inside the domain gets no second try"


def test_a_second_run_that_breaks_too_or_meets_a_bound_that_the_first_did_not_excuses_nothing() -> None:
    first = record("crash", [*GOLDENS, BOUNDS[0]], "inside")
    assert probed(first, record("crash", GOLDENS))[0] == [first]
    assert probed(first, record("done", [*GOLDENS, *BOUNDS], "inside"))[0] == [first]


def test_a_run_that_broke_at_a_golden_gets_no_second_try() -> None:
    first = record("crash", GOLDENS[:1], "inside")
    assert probed(first) == ([first], ["all"])
