"""The schema-drift family: each kind under its own code, known before anything runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from acceptd.evidence import Facts, Submission
from acceptd.judge.schema import schema
from acceptd.judge.verdict import pre_run
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit

Change = Callable[[dict[str, Any]], None]


def model(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["models"][0]
    return found


def before(facts: Facts, manifest: Manifest, contract: Contract | None) -> list[str]:
    """The codes that refuse before the run; the submission has no run at all: no inference was done."""
    given: Submission = world.submission([world.inspect(facts=facts)])
    # Nor are there decoded goldens: these have one shape, and would not drift with the interface.
    jobs = [job for job in given.jobs if job.kind not in {"run", "vectors"}]
    given = given.model_copy(update={"jobs": jobs, "statistics": None})
    judged = world.verdict(given, manifest=manifest, contract=contract)
    rejecting = [one.code for one in pre_run(manifest, contract, Policy(), given) if one.severity == "reject"]
    assert (judged.verdict == "rejected") == bool(rejecting)
    return rejecting


def renamed_input(document: dict[str, Any]) -> None:
    model(document)["inputs"][0]["name"] = "input"


def float64(document: dict[str, Any]) -> None:
    model(document)["inputs"][0]["dtype"] = "float64"


def float16(document: dict[str, Any]) -> None:
    model(document)["inputs"][0]["dtype"] = "float16"


def wider(document: dict[str, Any]) -> None:
    model(document)["outputs"][0]["shape"] = ["batch", 4]
    model(document)["outputs"][0]["labels"] = None


def second_input(document: dict[str, Any]) -> None:
    model(document)["inputs"].append({"name": "attention_mask", "dtype": "int64", "shape": ["batch", 4]})


def no_input(document: dict[str, Any]) -> None:
    model(document)["inputs"].clear()


def renamed_output(document: dict[str, Any]) -> None:
    model(document)["outputs"][0]["name"] = "scores"


def second_output(document: dict[str, Any]) -> None:
    model(document)["outputs"].append({"name": "logits", "dtype": "float32", "shape": ["batch", 3]})


def relabelled(document: dict[str, Any]) -> None:
    model(document)["outputs"][0]["labels"] = ["reject", "review", "accept"]


def other_labels(document: dict[str, Any]) -> None:
    model(document)["outputs"][0]["labels"] = ["accept", "review", "deny"]


def preprocessing(document: dict[str, Any]) -> None:
    document["preprocessing"]["sha256"] = "b" * 64


def no_preprocessing(document: dict[str, Any]) -> None:
    del document["preprocessing"]


def label_schema(document: dict[str, Any]) -> None:
    document["labels"]["schema_version"] = "3"


def fixed(document: dict[str, Any]) -> None:
    model(document)["inputs"][0]["shape"] = [1, 4]


def larger_batch(document: dict[str, Any]) -> None:
    document["dims"]["batch"]["max"] = 33


def ranks(document: dict[str, Any]) -> None:
    model(document)["inputs"][0]["shape"] = ["batch", 1, 4]


def other_range(document: dict[str, Any]) -> None:
    model(document)["inputs"][0]["range"] = [0.0, 2.0]


def sequence(document: dict[str, Any]) -> None:
    model(document)["outputs"][0]["type"] = "sequence"


def logits(document: dict[str, Any]) -> None:
    model(document)["outputs"][0]["kind"] = "logits"


# what the model file says after the same change, so that the bundle is consistent in itself
SAME_FILE: dict[str, dict[str, Any]] = {
    "renamed_input": {"inputs": [world.value("input", 4)]},
    "float64": {"inputs": [world.value("features", 4, dtype="float64")]},
    "float16": {"inputs": [world.value("features", 4, dtype="float16")]},
    "wider": {"outputs": [world.value("probabilities", 4)]},
    "second_input": {"inputs": [world.value("features", 4), world.value("attention_mask", 4, dtype="int64")]},
    "no_input": {"inputs": []},
    "renamed_output": {"outputs": [world.value("scores", 3)]},
    "second_output": {"outputs": [world.value("probabilities", 3), world.value("logits", 3)]},
    "fixed": {"inputs": [world.value("features", 4, shape=[1, 4])]},
    "ranks": {"inputs": [world.value("features", 4, shape=["batch", 1, 4])]},
    "sequence": {"outputs": [world.value("probabilities", 3, kind="sequence", detail="sequence(float32)")]},
}

FAMILY: list[tuple[Change, list[str]]] = [
    (renamed_input, ["schema/input-renamed"]),
    (float64, ["schema/dtype-changed"]),
    (float16, ["schema/dtype-changed"]),
    (wider, ["schema/labels-changed", "schema/width-changed"]),
    (second_input, ["schema/input-extra"]),
    (no_input, ["schema/input-missing"]),
    (renamed_output, ["schema/output-renamed"]),
    (second_output, ["schema/output-extra"]),
    (relabelled, ["schema/labels-reordered"]),
    (other_labels, ["schema/labels-changed"]),
    (preprocessing, ["schema/preprocessing-changed"]),
    (no_preprocessing, ["schema/preprocessing-changed"]),
    (label_schema, ["schema/label-schema-changed"]),
    (fixed, ["schema/dimension-fixed"]),
    (larger_batch, ["schema/dimension-bounds"]),
    (ranks, ["schema/rank-changed"]),
    (other_range, ["schema/range-changed"]),
    (sequence, ["schema/kind-changed"]),
    (logits, ["schema/output-kind-changed"]),
]


def changed_facts(change: Change) -> Facts:
    return world.facts(**SAME_FILE.get(change.__name__, {}))


@pytest.mark.parametrize(("change", "codes"), FAMILY, ids=lambda item: getattr(item, "__name__", None))
def test_a_consistent_bundle_that_drifted_from_the_contract(change: Change, codes: list[str]) -> None:
    assert sorted(set(before(changed_facts(change), world.a_manifest(change), world.a_contract()))) == codes


@pytest.mark.parametrize("change", [change for change, _ in FAMILY], ids=lambda change: change.__name__)
def test_without_a_contract_a_consistent_bundle_has_not_drifted(change: Change) -> None:
    assert before(changed_facts(change), world.a_manifest(change), None) == []


def test_the_agreed_bundle_passes_its_contract() -> None:
    assert before(world.facts(), world.a_manifest(), world.a_contract()) == []
    assert world.verdict(contract=world.a_contract()).verdict == "accepted"


def test_static_where_the_contract_is_static_and_the_model_became_dynamic() -> None:
    def static(document: dict[str, Any]) -> None:
        model(document)["inputs"][0]["shape"] = [1, 4]
        model(document)["outputs"][0]["shape"] = [1, 3]

    assert set(before(world.facts(), world.a_manifest(), world.a_contract(static))) == {"schema/dimension-freed"}


def test_a_shape_that_the_contract_states_may_not_be_left_out_of_the_manifest() -> None:
    """Runs and callers are held against the manifest alone, so silence there would void the contract."""
    for side in ("inputs", "outputs"):

        def silent(document: dict[str, Any], side: str = side) -> None:
            del model(document)[side][0]["shape"]

        found = before(world.facts(), world.a_manifest(silent), world.a_contract())
        assert "schema/rank-changed" in found


def test_outputs_in_another_order() -> None:
    def swapped(document: dict[str, Any]) -> None:
        second_output(document)
        model(document)["outputs"].reverse()

    facts = world.facts(outputs=[world.value("logits", 3), world.value("probabilities", 3)])
    contract = world.a_contract(second_output)
    assert set(before(facts, world.a_manifest(swapped), contract)) == {"schema/outputs-reordered"}


def test_the_wrong_file_with_the_right_manifest_is_named_as_such() -> None:
    facts = world.facts(inputs=[world.value("other", 7)])
    codes = before(facts, world.a_manifest(), world.a_contract())
    assert {"schema/wrong-file", "schema/input-renamed", "schema/width-changed"} == set(codes)


def test_the_right_file_with_the_wrong_manifest_is_named_as_such() -> None:
    codes = before(world.facts(), world.a_manifest(renamed_input), world.a_contract())
    assert {"schema/wrong-manifest", "schema/input-renamed"} == set(codes)


def test_a_manifest_that_its_own_file_contradicts() -> None:
    assert before(world.facts(), world.a_manifest(float64), None) == ["schema/dtype-changed"]
    static = world.facts(inputs=[world.value("features", 4, shape=[1, 4])])
    assert before(static, world.a_manifest(), None) == ["schema/dimension-fixed"]


def test_a_manifest_may_narrow_what_the_file_leaves_open() -> None:
    assert before(world.facts(), world.a_manifest(fixed), None) == []
    judged = world.verdict(manifest=world.a_manifest(fixed))
    assert "schema/dimension-narrowed" in world.codes(judged, "info")


def test_one_disagreement_is_told_once() -> None:
    codes = before(changed_facts(renamed_input), world.a_manifest(renamed_input), world.a_contract())
    assert codes == ["schema/input-renamed"]


def test_opset_and_ir_version_are_held_against_both_statements() -> None:
    facts = world.facts(opsets={"ai.onnx": 12}, ir_version=7)
    expected = {"schema/opset-mismatch", "schema/ir-version-mismatch"}
    assert set(before(facts, world.a_manifest(), None)) == expected


def test_a_used_domain_that_manifest_and_contract_do_not_declare() -> None:
    facts = world.facts(opsets={"ai.onnx": 13, "com.microsoft": 1})
    assert before(facts, world.a_manifest(), None) == ["schema/opset-mismatch"]
    assert set(before(facts, world.a_manifest(), world.a_contract())) == {"schema/opset-mismatch"}


def test_a_yes_or_no_is_written_as_in_the_file() -> None:
    def optional(document: dict[str, Any]) -> None:
        model(document)["inputs"][0]["optional"] = True

    judged = world.verdict(manifest=world.a_manifest(optional), contract=world.a_contract())
    [one] = [one for one in judged.findings if one.code == "schema/optional-changed"]
    assert one.message == "the contract says false, bundle.toml says true"


def test_a_domain_that_one_side_alone_names_is_told_as_such() -> None:
    def more(document: dict[str, Any]) -> None:
        model(document)["opsets"]["ai.onnx.ml"] = 3

    def words(facts: Facts, manifest: Manifest) -> str:
        judged = world.verdict(world.submission([world.inspect(facts=facts)]), manifest=manifest)
        return " ".join(one.message for one in judged.findings if one.code == "schema/opset-mismatch")

    assert words(world.facts(), world.a_manifest(more)) == (
        "the model imports no domain ai.onnx.ml, the manifest says opset 3"
    )
    foreign = world.facts(opsets={"ai.onnx": 13, "com.microsoft": 1})
    assert words(foreign, world.a_manifest()) == (
        "the model imports opset 1 of com.microsoft, the manifest names no such domain"
    )


def test_an_imported_but_unused_domain_is_info_only() -> None:
    facts = world.facts(opsets={"ai.onnx": 13, "Paddle": 1}, unused_domains=["Paddle"])
    assert before(facts, world.a_manifest(), world.a_contract()) == []


def test_an_overridable_weight_is_no_input() -> None:
    facts = world.facts(inputs=[world.value("features", 4), world.value("weight", 3, overridable=True)])
    judged = world.verdict(world.submission([world.inspect(facts=facts)]))
    assert judged.verdict == "held"
    assert world.codes(judged, "hold") == ["structure/overridable-initializer"]


def test_the_contract_of_another_model_is_refused() -> None:
    def other(document: dict[str, Any]) -> None:
        document["id"] = "mosaic/other"
        model(document)["name"] = "second"

    codes = before(world.facts(), world.a_manifest(), world.a_contract(other))
    assert set(codes) == {"contract/wrong-id", "contract/model-missing", "contract/model-unexpected"}


@pytest.mark.parametrize("bounds", [[1.0, 0.0], [float("nan"), 1.0], [0.0, float("inf")]])
def test_a_range_that_cannot_be_meant(bounds: list[float]) -> None:
    """A manifest with a bound that is no number is refused before; the judge relies on nobody for it."""
    manifest = world.a_manifest()
    (only,) = manifest.models
    ranged = only.inputs[0].model_copy(update={"range": bounds})
    changed = only.model_copy(update={"inputs": [ranged, *only.inputs[1:]]})
    said = before(world.facts(), manifest.model_copy(update={"models": [changed]}), None)
    assert said == ["manifest/invalid-range"]


def test_the_runtime_has_the_last_word_on_the_interface() -> None:
    schema = world.run().schema_
    assert schema is not None
    wrong = schema.model_copy(update={"outputs": [world.value("probabilities", 3, dtype="float64")]})
    judged = world.verdict(world.submission([world.run(schema_=wrong)]))
    assert world.codes(judged, "reject") == ["schema/runtime-disagrees"]


def test_a_second_model_of_the_bundle_is_held_against_its_own_contract() -> None:
    def two(document: dict[str, Any]) -> None:
        second = copy.deepcopy(model(document))
        second["name"], second["file"] = "second", "second.onnx"
        for one in second.get("outputs", []):
            one["name"] = "scores"
        second["vectors"] = []
        document["models"].append(second)

    def drifted(document: dict[str, Any]) -> None:
        two(document)
        document["models"][1]["inputs"][0]["dtype"] = "float16"

    def agreed(document: dict[str, Any]) -> None:
        two(document)
        document["models"][1].pop("file")
        document["models"][1].pop("vectors")
        document["models"][1]["outputs"][0].pop("tolerance", None)

    contract = world.a_contract(agreed)
    assert [one.code for one in schema(world.a_manifest(two), contract, {}) if one.severity == "reject"] == []
    (found,) = [one for one in schema(world.a_manifest(drifted), contract, {}) if one.severity == "reject"]
    assert (found.code, found.where.startswith("models.second")) == ("schema/dtype-changed", True)
