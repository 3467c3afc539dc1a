"""What the judge says of relations and of the second process's probes, from statistics alone: no runtime."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import Case
from acceptd.judge import relations
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit


def row(kind: str, **changes: Any) -> Any:
    fields = {"exceeding": 1, "max_abs": 0.5, "worst_expected": "0.25", "worst_got": "0.75"}
    return world.stats(changes.pop("set", "meta:x"), against=kind, **(fields | changes))


def found(*rows: Any) -> list[Any]:
    return list(relations.comparisons(world.a_manifest(), rows, {}, None, Policy()))


def left_alone(**changes: Any) -> Any:
    """Statistics of one output after other values of the input ``features`` alone."""
    same = {"set": "probe:only-0:features", "exceeding": 0, "max_abs": 0.0, "bit_exact": True}
    return row("input", **(same | changes))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("row", "between a row in one batch and the same row in a batch of another size"),
        ("order", "after the rows of the batch were moved on by one place"),
        ("batch", "between a session that had met other batch sizes and one that had not"),
        ("threads", "with another number of threads"),
        ("fresh", "between two processes that ran the same session"),
        ("concurrent", "between calls at once and the same calls one after the other"),
    ],
)
def test_answers_that_cannot_be_compared_break_a_relation_and_say_why(kind: str, words: str) -> None:
    """Another shape is no rounding: a dependence does not hide behind an output that changes form."""
    (told,) = found(row(kind, comparable=False, note="shape", exceeding=0))
    assert told.message == f"not comparable (shape) {words}"
    assert told.severity == ("warn" if kind == "threads" else "hold")


def test_a_row_alone_is_named_apart_from_a_batch_of_another_size() -> None:
    (told,) = found(row("row", set="meta:single", comparable=False, note="shape", exceeding=0))
    assert told.message == "not comparable (shape) between a row in its batch and the same row alone"


def test_an_input_that_changes_no_output_is_told_by_its_name() -> None:
    (told,) = found(left_alone())
    assert (told.code, told.where) == ("behaviour/input-ignored", "main: features")
    assert told.message == "other values of this input alone changed no output"


@pytest.mark.parametrize(
    "rows",
    [
        [left_alone(bit_exact=False)],
        [left_alone(comparable=False)],
        [left_alone(), left_alone(bit_exact=False)],
        [left_alone(), left_alone()],
        [left_alone(model="other")],
    ],
    ids=["a bit differs", "not comparable", "one of two differs", "more rows than outputs", "another model"],
)
def test_an_input_is_called_ignored_only_where_every_output_was_seen_and_none_moved(rows: list[Any]) -> None:
    assert found(*rows) == []


def test_a_case_of_a_relation_that_ran_says_nothing_and_one_that_failed_is_held() -> None:
    record = world.unoptimised()
    assert list(relations.cases(record, Case(set="meta:odd", repeat=0))) == []
    (told,) = relations.cases(record, Case(set="meta:odd", repeat=0, error="Reshape: 21 into rows of 12"))
    assert (told.code, told.severity) == ("behaviour/relation-failed", "hold")
    assert told.where.endswith(": meta:odd")
    assert told.message == "Reshape: 21 into rows of 12"


def test_a_probe_that_fails_without_optimisation_alone_is_no_error_of_the_profile_that_serves() -> None:
    probe = Case(set="probe:zeros", repeat=0, in_domain=True, error="Gather: index out of range")
    second = world.unoptimised(cases=[*world.golden_cases(1), probe])
    told = {one.code: one for one in world.verdict(world.submission([second])).findings}
    assert told["behaviour/unoptimised-failed"].message == "Gather: index out of range"
    assert told["behaviour/unoptimised-failed"].where.endswith(": probe:zeros")
    assert "behaviour/probe-error" not in told
    main = world.run(cases=[*world.golden_cases(), probe])
    served = world.verdict(world.submission([main])).findings
    assert "behaviour/probe-error" in {one.code for one in served}
