"""A proposal says what was declared and measured, and no name of a submitter becomes TOML of its own."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from acceptd.cli.contract import app
from acceptd.config import Paths
from acceptd.contracts import propose, toml
from acceptd.contracts.propose import Basis, proposal, text_of
from acceptd.errors import MalformedError, UsageError
from acceptd.golden_facts import QualityStats
from acceptd.policy.contract import Contract, VersionRange
from acceptd.policy.policy import Policy
from tests import judge_world as world
from tests.contract_world import a_contract
from tests.release_world import MODEL, World, memory_directory

pytestmark = pytest.mark.unit

HOSTILE = (
    'x"\n[ceilings]\nload_ms = 1e9\n#', "x\\", '"""', "a\r\nb", "\x1b]0;owned\x07", "\u202eevil",
    "]] \n[[models]]", "\x00", "\x7f\x85\u2028", "\U0001f600", "a.b = 1", "' # ",
)  # fmt: skip


def basis(change: Any = None, **more: Any) -> Basis:
    what = "a check of the bundle dddd, which came to: accepted"
    return Basis(world.a_manifest(change), world.submission(), Policy(), what, **more)


def read(text: str) -> Contract:
    return Contract.model_validate(tomllib.loads(text))


def test_a_proposal_agrees_with_its_bundle_and_says_what_it_rests_on() -> None:
    text = proposal(basis())
    made = read(text)
    assert "# A proposal, from a check of the bundle dddd" in text
    assert "what was measured times 1.5" in text
    assert made.models[0].inputs == world.a_manifest().models[0].inputs
    assert (made.version, made.preprocessing_sha256, made.label_schema_version) == (1, "a" * 64, "2")
    held = made.models[0].outputs[0].tolerance
    assert held is not None
    assert (held.rtol, held.atol, held.top1) == (0.0, 1e-6, 1.0)
    assert world.verdict(world.submission(), contract=made).verdict == "accepted"


def test_budgets_are_what_was_measured_with_the_margin_that_is_stated() -> None:
    [record] = [one for one in world.submission().jobs if one.kind == "run" and not one.variant]
    assert record.schema_ is not None
    for margin in (1.0, 10.0):
        made = read(proposal(basis(margin=margin)))
        assert made.ceilings.load_ms is not None
        assert made.ceilings.load_ms >= max(record.schema_.load_ms * margin, record.schema_.load_ms + 1)
        assert made.ceilings.model_bytes is not None
        assert made.ceilings.peak_memory_bytes is not None


def test_floors_are_what_labelled_rows_showed_less_the_margin_of_every_slice_that_was_measured() -> None:
    rows = [
        QualityStats(model="main", output="probabilities", rows=40, accuracy=0.9, calibration_error=0.25),
        QualityStats(model="main", output="probabilities", slice="night", rows=7, accuracy=0.01),
        QualityStats(model="main", output="probabilities", slice="none", rows=0, accuracy=None),
        QualityStats(
            model="main", output="probabilities", slice="odd", rows=3, accuracy=1.0, note="not comparable"
        ),
        QualityStats(model="other", output="probabilities", rows=40, accuracy=0.9),
    ]
    measured = world.submission(statistics=world.statistics(quality=rows))
    text = proposal(replace(basis(), submission=measured))
    assert f"What labelled rows showed, less {propose.FLOOR_MARGIN:g}." in text
    whole, night = read(text).models[0].quality
    assert (whole.slice, whole.min_rows, night.slice, night.min_rows) == (None, 40, "night", 7)
    assert whole.min_accuracy == pytest.approx(0.9 - propose.FLOOR_MARGIN, abs=0.001)
    assert whole.max_calibration_error == pytest.approx(0.25 + propose.FLOOR_MARGIN, abs=0.001)
    assert (night.min_accuracy, night.max_calibration_error) == (0.0, None)


def test_a_model_that_was_not_inspected_is_proposed_with_what_its_manifest_says() -> None:
    def declared(document: dict[str, Any]) -> None:
        document["models"][0] |= {"ir_version": 8, "opsets": {"ai.onnx": 13}}

    jobs = [one for one in world.submission().jobs if one.kind != "inspect"]
    uninspected = world.submission().model_copy(update={"jobs": jobs})
    told = read(proposal(replace(basis(declared), submission=uninspected))).models[0]
    assert (told.ir_version, told.opsets) == (8, {"ai.onnx": 13})
    seen = read(proposal(basis(declared))).models[0]
    assert seen.ir_version == VersionRange(min=8, max=8)


@pytest.mark.parametrize(("figure", "margin", "budget"), [(10.0, 1.5, 15.0), (0.04, 1.5, 1.1), (101, 1.5, 160.0)])
def test_a_budget_is_rounded_up_and_never_below_its_margin(figure: float, margin: float, budget: float) -> None:
    assert propose._rounded_ms(figure, margin) == budget


def test_the_next_version_keeps_floors_and_held_out_sets_of_the_one_in_force() -> None:
    def more(document: dict[str, Any]) -> None:
        document["models"][0]["quality"] = [{"output": "probabilities", "min_accuracy": 0.9}]
        document["models"][0]["heldout"] = [{"sets": ["a"], "sha256": "7" * 64}]

    now = a_contract(4, more)
    made = read(proposal(basis(now=now)))
    assert (made.version, made.max_atol) == (5, now.max_atol)
    assert (made.models[0].quality, made.models[0].heldout) == (now.models[0].quality, now.models[0].heldout)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_name(name: str) -> None:
    def change(document: dict[str, Any]) -> None:
        model = document["models"][0]
        model["inputs"][0]["name"] = model["outputs"][0]["name"] = name
        model["outputs"][0]["labels"] = [name, "b", "c"]
        model["inputs"][0]["shape"] = model["outputs"][0]["shape"] = [name, 3]
        document["dims"] = {name: {"min": 1, "max": 2}}

    text = proposal(basis(change))
    made = read(text)
    assert (made.models[0].inputs[0].name, made.models[0].outputs[0].labels) == (name, [name, "b", "c"])
    assert list(made.dims) == [name]
    assert made.ceilings == read(proposal(basis())).ceilings
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_lone_surrogate_is_refused_with_its_name() -> None:
    with pytest.raises(MalformedError, match="U\\+D800"):
        toml.quoted("a\ud800")


@given(
    st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)
)
def test_every_text_and_number_comes_back_as_it_was(text: str, real: float, whole: int) -> None:
    value = {"a": {text: [text, real, whole, True, {text: real}]}}
    body = f"{toml.key('a')} = {toml.value(value['a'])}\n"
    assert tomllib.loads(body) == value


def test_a_contract_as_text_is_the_same_contract() -> None:
    def full(document: dict[str, Any]) -> None:
        document["valid_until"] = "2027-06-30T00:00:00Z"
        model = document["models"][0]
        model["inputs"][0]["optional"] = True
        model["inputs"].append({"name": "s", "type": "sequence", "dtype": "int64", "shape": ["?"]})
        model["quality"] = [{"output": "probabilities", "label": "reject", "max_false_negatives": 0}]
        model["heldout"] = [{"sets": [f"a/{i}" for i in range(40)], "sha256": "7" * 64}]
        document["models"].append({"name": "second", "inputs": [], "outputs": []})

    made = a_contract(3, full)
    assert read(text_of(made, ["head"])) == made


def test_nobody_proposes_from_a_guess() -> None:
    with pytest.raises(UsageError, match="no manifest"):
        propose.declared(None, [], "bundle.toml is missing")
    with pytest.raises(UsageError, match="inferred"):
        propose.declared(world.a_manifest(), ["id"], "")


def test_nobody_proposes_from_a_revoked_release() -> None:
    here = World(memory_directory())
    made = here.released()
    for path, mode in Paths(here.state).directories():
        path.mkdir(mode, parents=True, exist_ok=True)
    call = ["propose", "--from-release", MODEL, "--state", str(here.state)]
    before = CliRunner().invoke(app, call).exception
    here.revoke(made.bundle_digest)
    after = CliRunner().invoke(app, call).exception
    here.close()
    assert "revoked" not in str(before), "of a test's verdict no evidence is kept"
    assert f"release 1 of {MODEL} is revoked: it bites" in str(after)


def test_what_was_not_measured_gets_no_budget() -> None:
    """A budget of nothing would refuse every later bundle, or stand for a measurement that nobody made."""
    usual = world.run()
    silent = usual.model_copy(update={"schema_": None, "cases": []})
    jobs = [silent if one.kind == "run" and not one.variant else one for one in world.submission().jobs]
    given = world.submission().model_copy(update={"jobs": jobs, "sealed": None})
    made = read(proposal(replace(basis(), submission=given)))
    assert made.ceilings.load_ms is None
    assert made.ceilings.run_ms is None
    assert made.ceilings.model_bytes is None


def test_a_manifest_without_versions_is_proposed_without_any() -> None:
    def change(document: dict[str, Any]) -> None:
        for key in ("ir_version", "opsets"):
            del document["models"][0][key]

    jobs = [one for one in world.submission().jobs if one.kind != "inspect"]
    given = world.submission().model_copy(update={"jobs": jobs})
    made = read(proposal(replace(basis(change), submission=given)))
    assert (made.models[0].ir_version, made.models[0].opsets) == (None, None)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"), ({}, "{}"), ([], "[]"),
        ({"a": None, "b": {}}, "{}"), (True, "true"), (2**60, str(2**60)),
    ],
)  # fmt: skip
def test_values_that_are_odd_have_their_form_in_toml(given: Any, text: str) -> None:
    assert toml.value(given) == text
    parsed = tomllib.loads(f"x = {text}")["x"]
    assert parsed == given or parsed != parsed or given == {"a": None, "b": {}}


def test_what_toml_has_no_form_for_is_no_text_of_ours() -> None:
    with pytest.raises(TypeError, match="no TOML for NoneType"):
        toml.value(None)
    with pytest.raises(TypeError, match="no TOML for object"):
        toml.value([object()])
