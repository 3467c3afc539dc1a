"""What differs between contracts: looser is never called anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acceptd.contracts.difference import Change, _versions, changes, tightens
from tests.contract_world import a_contract

pytestmark = pytest.mark.unit

Document = dict[str, Any]
FLOOR = {"output": "probabilities", "min_rows": 10, "min_accuracy": 0.9, "max_brier": 0.2}
TOLERANCE = {"rtol": 0.0, "atol": 1e-6, "top1": 1.0, "limits": {"max_divergence": 0.01, "max_sum_error": 1e-4}}


def base(document: Document) -> None:
    model = document["models"][0]
    model["quality"] = [dict(FLOOR)]
    model["outputs"][0]["tolerance"] = {**TOLERANCE, "limits": dict(TOLERANCE["limits"])}  # type: ignore[call-overload]
    model["opsets"] = {"ai.onnx": {"min": 13, "max": 15}, "com.microsoft": 1}
    model["heldout"] = [{"sets": ["a"], "sha256": "7" * 64}]
    document["valid_until"] = "2027-06-30T00:00:00Z"


def put(*path: str | int, to: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        if to is None:
            del place[path[-1]]
        else:
            place[path[-1]] = to

    return change


def found(change: Callable[[Document], None]) -> list[Change]:
    def both(document: Document) -> None:
        base(document)
        change(document)

    return changes(a_contract(1, base), a_contract(2, both))


OUTPUT = ("models", 0, "outputs", 0)
LOOSER = [
    put("ceilings", "load_ms", to=2000.0), put("ceilings", "load_ms", to=None), put("max_atol", to=1.0),
    put("max_rtol", to=None), put(*OUTPUT, "tolerance", "atol", to=0.1), put(*OUTPUT, "tolerance", "top1", to=0.5),
    put(*OUTPUT, "tolerance", "limits", "max_divergence", to=0.5), put("models", 0, "quality", to=[]),
    put("models", 0, "quality", 0, "min_accuracy", to=0.5), put("models", 0, "quality", 0, "min_rows", to=1),
    put("models", 0, "quality", 0, "max_brier", to=1.9), put("models", 0, "quality", 0, "max_brier", to=None),
    put("models", 0, "heldout", to=[]), put("models", 0, "opsets", "ai.onnx", to={"min": 1, "max": 15}),
    put("models", 0, "opsets", "ai.onnx", to={"min": 13, "max": 99}), put("models", 0, "opsets", to=None),
    put("models", 0, "ir_version", to=None), put("models", 0, "ir_version", to={"min": 8, "max": 9}),
    put("models", 0, "inputs", 0, "range", to=None), put(*OUTPUT, "labels", to=None),
    put("preprocessing_sha256", to=None), put("label_schema_version", to=None), put("valid_until", to=None),
    put("valid_until", to="2030-01-01T00:00:00Z"),
]  # fmt: skip
OTHER = [
    put("dims", "batch", "max", to=64), put("preprocessing_sha256", to="b" * 64),
    put("models", 0, "inputs", 0, "name", to="p"),
    put(*OUTPUT, "labels", to=["review", "accept", "reject"]), put(*OUTPUT, "tolerance", to=None),
    put(*OUTPUT, "tolerance", "limits", "max_divergence", to=None), put(*OUTPUT, "dtype", to="float64"),
    put("models", 0, "inputs", 0, "range", to=[0.0, 2.0]), put("models", 0, "heldout", 0, "sha256", to="8" * 64),
    put("models", 0, "opsets", "com.microsoft", to=None), put("models", 0, "opsets", "ai.onnx", to=16),
    put("models", 0, "inputs", 0, "optional", to=True), put(*OUTPUT, "tolerance", "top1", to=None),
]  # fmt: skip
TIGHTER = [
    put("ceilings", "load_ms", to=1.0), put("ceilings", "p99_ms", to=1.0), put("max_atol", to=0.0),
    put(*OUTPUT, "tolerance", "atol", to=0.0), put("models", 0, "quality", 0, "min_accuracy", to=0.99),
    put("models", 0, "opsets", "ai.onnx", to=14), put("valid_until", to="2027-01-01T00:00:00Z"),
    put("models", 0, "quality", 0, "max_calibration_error", to=0.1),
    put("models", 0, "heldout", to=[{"sets": ["a"], "sha256": "7" * 64}, {"sets": ["b"], "sha256": "7" * 64}]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LOOSER)))
def test_what_lets_more_pass_is_looser(number: int) -> None:
    assert [one.tendency for one in found(LOOSER[number])] == ["looser"]
    assert not tightens(found(LOOSER[number]))


@pytest.mark.parametrize("number", range(len(OTHER)))
def test_what_cannot_be_weighed_is_other_and_never_counts_as_tightening(number: int) -> None:
    assert {one.tendency for one in found(OTHER[number])} <= {"other", "looser"}
    assert not tightens(found(OTHER[number]))


@pytest.mark.parametrize("number", range(len(TIGHTER)))
def test_what_lets_less_pass_is_tighter(number: int) -> None:
    assert [one.tendency for one in found(TIGHTER[number])] == ["tighter"]
    assert tightens(found(TIGHTER[number]))


def test_nothing_changed_is_no_change_and_a_version_number_alone_is_none() -> None:
    assert found(lambda _document: None) == []


@pytest.mark.parametrize(
    "name", ["a.quality[x", "x].tolerance.atol", "models[main].quality[", "max_atol", "b.opsets.c", "valid_until"]
)
def test_no_name_of_an_output_is_taken_for_a_key(name: str) -> None:
    """The model's own team chooses the names: a new output must not look like a tighter bound."""

    def more(document: Document) -> None:
        document["models"][0]["outputs"].append({"name": name, "dtype": "float32", "shape": [1]})

    assert [one.tendency for one in changes(a_contract(), a_contract(2, more))] == ["other"]
    assert [one.tendency for one in changes(a_contract(1, more), a_contract(2))] == ["other"]


def test_two_floors_whose_names_read_alike_are_two_floors() -> None:
    """Output ``p/easy``, and slice ``easy`` of the output ``p``: the team chooses what outputs are called."""

    def on(output: str, **more: str) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            model = document["models"][0]
            model["outputs"] += [{"name": name, "dtype": "float32", "shape": [1, 3]} for name in ("p", "p/easy")]
            model["quality"] = [{"output": output, "min_accuracy": 0.9, **more}]

        return change

    found = changes(a_contract(1, on("p/easy")), a_contract(2, on("p", slice="easy")))
    assert [one.tendency for one in found] == ["looser", "tighter"]
    assert not tightens(found)


def test_domains_that_are_called_min_and_max_are_no_range() -> None:
    def of(most: int) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            document["models"][0]["opsets"] = {"min": 1, "max": most}

        return change

    (change,) = changes(a_contract(1, of(5)), a_contract(2, of(4)))
    assert (change.key, change.tendency) == ("models[main].opsets.max", "other")


def test_what_is_looser_stands_first_and_says_by_how_much() -> None:
    def both(document: Document) -> None:
        document["ceilings"]["run_ms"] = 10.0
        document["max_atol"] = 1e-3

    first, second = changes(a_contract(), a_contract(2, both))
    assert first.text() == "max_atol: 1e-05 → 0.001 (100 times as much)"
    assert second.text() == "ceilings.run_ms: 100.0 → 10.0 (10 times less)"


def test_floors_of_one_name_are_told_as_a_whole() -> None:
    """By name alone the second floor would hide the first, and with it what became looser."""

    def floors(*least: float) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            document["models"][0]["quality"] = [
                {"output": "probabilities", "min_accuracy": one, "max_brier": 0.2} for one in least
            ]

        return change

    (change,) = changes(a_contract(1, floors(0.9, 0.8)), a_contract(2, floors(0.5, 0.8)))
    assert not tightens([change])
    assert change.key == "models[main].quality"
    assert "min_accuracy 0.5" in change.text()
    assert "min_accuracy 0.9" in change.text()


def test_what_is_asked_no_more_or_anew_and_long_lists_are_told_in_words() -> None:
    def ceilings(**given: float) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            document["ceilings"] = given

        return change

    told = [one.text() for one in changes(a_contract(1, ceilings(run_ms=5)), a_contract(2, ceilings(load_ms=5)))]
    assert told == [
        "ceilings.run_ms: 5.0 → none (not asked any more)",
        "ceilings.load_ms: none → 5.0 (was not asked)",
    ]

    def labels(count: int) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            document["models"][0]["outputs"][0]["labels"] = [f"l{number}" for number in range(count)]

        return change

    (change,) = changes(a_contract(1, labels(12)), a_contract(2, labels(14)))
    assert change.text().endswith("l10, l11, and 2 more]")
    assert "l11] →" in change.text()


def test_another_order_of_outputs_is_told_and_is_no_tightening() -> None:
    """A caller that takes them by place gets the other one."""

    def two(first: str, second: str) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            model = document["models"][0]
            output = {key: one for key, one in model["outputs"][0].items() if key not in {"labels", "kind"}}
            model["outputs"] = [{**output, "name": first}, {**output, "name": second}]

        return change

    (change,) = changes(a_contract(1, two("a", "b")), a_contract(2, two("b", "a")))
    assert change.text() == "models[main].outputs (order): [a, b] → [b, a]"
    assert not tightens([change])


def test_versions_in_a_form_that_cannot_be_weighed_are_other() -> None:
    assert _versions({"min": 13}, {"min": 13, "max": 14}, of_domain=False) == "other"
    assert _versions("13", 13, of_domain=False) == "other"
