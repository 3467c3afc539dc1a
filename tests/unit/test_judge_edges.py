"""What the judge says of files, shapes and outputs that are not as usual, one rule at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acceptd.evidence import (
    Assets,
    Case,
    Named,
    OpsetImport,
    OptionalRef,
    Problem,
    Sealed,
    SequenceRef,
    TensorRef,
    Vectors,
    VectorSet,
    Wire,
)
from acceptd.judge import assets
from acceptd.judge.apart import joined
from acceptd.judge.golden_sets import MAX_WILDCARDS, find, labelled_output, named_sets
from acceptd.judge.infer import infer, unique
from acceptd.judge.interface import Port, bounds_rule, differences, file_rule, shape_fault
from acceptd.judge.words import registered
from acceptd.policy.manifest import DimBounds, Manifest
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit
SEQUENCE: dict[str, Any] = {"type": "sequence", "shape": None}
Change = Callable[[dict[str, Any]], None]


def told(*severities: str, manifest: Manifest | str | None = "usual", **submission: Any) -> dict[str, str]:
    found = world.verdict(world.submission(**submission), manifest=manifest).findings
    return {one.code: one.message for one in found if not severities or one.severity in severities}


def output(**fields: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        one = document["models"][0]["outputs"][0]
        one.pop("labels")
        one.pop("tolerance")
        one.update(kind="values")
        one.update(fields)
        for key in [key for key, value in one.items() if value is None]:
            one.pop(key)

    return change


# -- files


def test_a_file_that_nothing_accounts_for_is_named_and_one_that_looks_like_a_model_is_called_one() -> None:
    found = told(sealed=world.sealed("notes.txt", "spare.ONNX", "model.sig"))
    assert found["manifest/undeclared-file"] == "309 bytes that no model reads and no lock names"
    assert found["manifest/undeclared-model"] == "309 bytes named as a model, and no [[models]] table names it"


def test_a_model_signature_is_no_undeclared_file_though_its_bytes_are_looked_at() -> None:
    sealed = world.sealed("model.sig")
    assert "manifest/undeclared-file" not in told(sealed=sealed)


def test_what_the_assets_job_found_is_told_and_a_job_that_looked_at_less_is_a_missing_stage() -> None:
    sealed = world.sealed("notes.txt")

    def judged(*jobs: Any) -> Any:
        return world.verdict(world.submission(list(jobs), sealed=sealed))

    assert judged().reason == "a required stage is missing: assets: no job"
    assert "assets: ended by lost" in judged(world.record("assets", ending="lost", done=None)).reason
    short = world.record("assets", assets=Assets(files=0, gaps_read=0))
    assert judged(short).reason.endswith("assets: 0 of 1 files and 0 of 0 gaps were looked at")
    problem = Problem(code="payload/archive", where="notes.txt", message="a zip archive")
    whole = world.record("assets", assets=Assets(files=1, gaps_read=0, problems=[problem]))
    assert "payload/archive" in world.codes(judged(whole))
    assert list(assets.found(None)) == []


def test_a_model_whose_file_is_not_in_the_bundle_is_rejected() -> None:
    sealed = world.sealed()
    gone = Sealed(
        digest=sealed.digest,
        files=[one for one in sealed.files if one.path != "model.onnx"],
        total_bytes=sealed.total_bytes - 309,
    )
    assert told("reject", sealed=gone)["manifest/file-missing"] == "no file 'model.onnx' in the bundle"


def test_a_bundle_without_manifest_from_which_none_could_be_inferred_says_so() -> None:
    given = world.submission(sealed=world.sealed(manifest=False))
    policy = Policy.model_validate({"manifest": {"inferred": "hold"}})
    found = {one.code: one.message for one in world.verdict(given, manifest=None, policy=policy).findings}
    assert found["manifest/missing"].endswith("and none could be inferred from its model")


def test_without_golden_sets_an_inferred_manifest_names_none() -> None:
    sealed = world.sealed(manifest=False)
    bare = sealed.model_copy(update={"files": [one for one in sealed.files if one.path == "model.onnx"]})
    found = infer("mosaic", "drop", {"model.onnx": world.facts()}, bare)
    assert found is not None
    assert found.manifest.models[0].vectors == []
    assert "golden sets from the backend-test layout" not in found.inferred


def test_a_name_that_is_taken_is_told_apart_by_a_number_within_the_length_of_names() -> None:
    assert unique("main", set()) == "main"
    assert unique("main", {"main", "main-2"}) == "main-3"
    assert unique("m" * 64, {"m" * 64}) == "m" * 62 + "-2"
    assert unique("m" * 61 + "-xy", {"m" * 61 + "-xy"}) == "m" * 61 + "-2"


# -- golden sets


def test_labels_of_a_set_are_about_the_named_output_or_the_only_one_with_classes() -> None:
    paths = [file.path for file in world.sealed().files]
    model = world.a_manifest().models[0]
    one = named_sets("main", ["test_data_set_*"], paths)[0]
    assert labelled_output(one, model) is None
    assert [each.name for each in named_sets("main", ["test_data_set_*"] * 2, paths)] == list(world.SETS)


def test_a_smoke_set_names_no_expected_value() -> None:
    assert named_sets("main", ["smoke"], ["smoke/input_0.pb"]) == []


def test_wildcards_beyond_the_limit_match_nothing_and_files_further_down_are_no_set() -> None:
    patterns = [f"other_{number}_*" for number in range(MAX_WILDCARDS)]

    def change(document: dict[str, Any]) -> None:
        document["models"][0]["vectors"] = [{"sets": patterns}, {"sets": ["late_*"]}, {"sets": ["plain"]}]

    paths = ["late_1/input_0.pb", "late_1/output_0.pb", "plain/deep/er/input_0.pb"]
    found = find(paths, world.a_manifest(change), ["model.onnx"])
    assert found.sets == ()
    assert ("main", "late_*") in found.empty
    assert "plain/deep/er/input_0.pb" in found.covered


def test_a_pattern_without_a_set_and_a_set_of_the_wrong_size_are_told() -> None:
    def more(document: dict[str, Any]) -> None:
        document["models"][0]["vectors"].append({"sets": ["nothing_*"]})

    assert told(manifest=world.a_manifest(more))["vectors/pattern-empty"] == "no golden set matches 'nothing_*'"
    assert "vectors/pattern-empty" not in told()


def golden(**changes: Any) -> dict[str, str]:
    sets = world.vector_sets()
    sets[0] = sets[0].model_copy(update=changes)
    return told(jobs=[world.vectors(vectors=Vectors(sets=sets))])


def test_a_job_that_gives_another_number_of_values_than_it_was_given_files_breaks_its_protocol() -> None:
    named = Named(name="", value=world.ref())
    assert golden(expected=[named, named])["sandbox/protocol-violation"].startswith("2 expected values, but")
    assert golden(inputs=[])["sandbox/protocol-violation"].startswith("0 inputs, but")


def test_expected_values_that_fit_no_output_are_told_with_the_names_of_both_sides() -> None:
    sets = world.vector_sets()
    pair = [Named(name=name, value=world.ref()) for name in ("probabilities", "scores")]
    sets[0] = sets[0].model_copy(update={"expected": pair})
    sealed = world.sealed("test_data_set_0/output_1.pb")
    found = told(jobs=[world.vectors(vectors=Vectors(sets=sets))], sealed=sealed)
    assert found["vectors/unpaired"] == "expected values cannot be assigned to outputs by name or by position"


def test_a_golden_input_that_is_no_tensor_binds_no_dimension() -> None:
    sequence = Named(name="features", value=SequenceRef(items=[world.ref(0, 4)]))
    assert "behaviour/output-shape" not in golden(inputs=[sequence])


def test_one_file_of_both_sides_without_expected_values_is_a_smoke_set() -> None:
    sealed = world.sealed("test_data_0.npz")

    def change(document: dict[str, Any]) -> None:
        document["models"][0]["vectors"] = [{"sets": ["test_data_*.npz"]}]

    def judged(expected: list[Named]) -> dict[str, str]:
        one = VectorSet(
            name="test_data_0.npz", model="main", inputs=[Named(name="", value=world.ref(0, 4))], expected=expected
        )
        return told(
            jobs=[world.vectors(vectors=Vectors(sets=[one]))], sealed=sealed, manifest=world.a_manifest(change)
        )

    assert judged([])["vectors/missing"] == "model 'main' has no golden set, only smoke inputs"
    assert "vectors/missing" not in judged([Named(name="", value=world.ref())])


def test_one_file_without_expected_values_beside_one_that_has_them_is_no_missing_golden_set() -> None:
    def change(document: dict[str, Any]) -> None:
        document["models"][0]["vectors"] = [{"sets": ["test_data_*.npz"]}]

    fed = [Named(name="", value=world.ref(0, 4))]
    sets = [
        VectorSet(name=f"test_data_{number}.npz", model="main", inputs=fed, expected=expected)
        for number, expected in enumerate(([], [Named(name="", value=world.ref())]))
    ]
    job = world.vectors(vectors=Vectors(sets=sets))
    sealed = world.sealed("test_data_0.npz", "test_data_1.npz")
    assert "vectors/missing" not in told(jobs=[job], sealed=sealed, manifest=world.a_manifest(change))


def halves(**second: Any) -> list[Any]:
    return [world.vectors(), world.vectors(**second)]


def test_one_account_needs_both_halves() -> None:
    alone = [world.vectors(), world.run()]
    assert joined(alone) == alone
    assert joined(halves(vectors=None))[1].vectors is None


# -- shapes and interfaces


def test_an_open_dimension_agrees_with_anything_and_a_named_one_within_its_bounds() -> None:
    bounds = {"batch": DimBounds(min=1, max=4)}
    assert shape_fault(["?", "batch"], [9, 4], bounds, {}) == ""
    assert shape_fault(["?", "batch"], [9, 5], bounds, {}) == "axis 1 (batch) is 5, outside 1 to 4"
    assert shape_fault(["other", "other"], [2, 3], bounds, {}).endswith("elsewhere in the same run other is 2")


def test_rules_of_dimensions_say_which_side_is_freer() -> None:
    agreed = bounds_rule({"batch": DimBounds(min=1, max=4)}, {"n": DimBounds(min=1, max=4)})
    assert [agreed(*pair) for pair in (("?", 3), (4, 4), (4, 5), (4, "n"), ("batch", 4), ("batch", "n"))] == [
        "", "", "schema/width-changed", "schema/dimension-freed", "schema/dimension-fixed", "",
    ]  # fmt: skip
    assert agreed("batch", "?") == agreed("batch", "m") == "schema/dimension-bounds"
    held = file_rule({"batch": DimBounds(min=1, max=4), "one": DimBounds(min=2, max=2)}, "freed", "unbounded")
    pairs: list[tuple[int | str, int | str]] = [
        ("?", 3), (4, 4), (4, 5), (4, "n"), (4, -1),
        ("batch", "n"), ("batch", -1), ("none", 3), ("one", 2), ("batch", 4),
    ]  # fmt: skip
    assert [held(*pair) for pair in pairs] == [
        "", "", "schema/width-changed", "freed", "freed", "", "", "unbounded", "", "schema/dimension-fixed",
    ]  # fmt: skip


def test_an_optional_input_may_be_absent_and_any_other_may_not() -> None:
    rule = bounds_rule({}, {})
    wanted = [Port("mask", "tensor", "float32", (1,), optional=True), Port("x", "tensor", "float32", (1,))]
    assert [one.code for one in differences("input", wanted, [], rule)] == ["schema/input-missing"]


@pytest.mark.parametrize(
    ("value", "fields", "code"),
    [
        (SequenceRef(items=[world.ref()]), {}, "behaviour/output-dtype"),
        (SequenceRef(items=[world.ref(dtype="int64")]), SEQUENCE, "behaviour/output-dtype"),
        (SequenceRef(items=[world.ref()]), SEQUENCE, ""),
        (world.ref(dtype="int64"), {"shape": None}, "behaviour/output-dtype"),
        (world.ref(width=5), {"shape": None}, ""),
        (world.ref(width=5), {}, "behaviour/output-shape"),
        (world.ref(), {"type": "optional", "shape": None}, ""),
        (OptionalRef(value=None), {"type": "optional", "shape": None}, ""),
    ],
)  # fmt: skip
def test_an_output_is_of_the_declared_type_and_shape(value: Any, fields: dict[str, Any], code: str) -> None:
    cases = [
        one.model_copy(update={"outputs": [Named(name="probabilities", value=value)]})
        for one in world.golden_cases()
    ]
    runs = [world.run(cases=cases), world.unoptimised(cases=cases[:2])]
    found = told(jobs=runs, manifest=world.a_manifest(output(**fields)))
    assert [one for one in found if one.startswith("behaviour/output")] == ([code] if code else [])


def probed(*, inside: bool, **changes: Any) -> dict[str, str]:
    fields: dict[str, Any] = {"set": "probe:draws-0", "repeat": 0, "in_domain": inside, "finite": False}
    outputs = [Named(name="probabilities", value=TensorRef(dtype="float32", shape=[1, 3], offset=48, nbytes=12))]
    case = Case.model_validate(fields | {"outputs": outputs} | changes)
    return told(jobs=[world.run(cases=[*world.golden_cases(), case])])


def test_an_input_that_nobody_promised_owes_no_finite_output() -> None:
    assert "behaviour/probe-non-finite" in probed(inside=True)
    assert not [one for one in probed(inside=False) if one.startswith("behaviour/probe")]


def test_golden_sets_of_another_model_bind_nothing_in_this_one() -> None:
    other = VectorSet(name="test_data_set_0", model="second", inputs=[], expected=[])
    job = world.vectors(vectors=Vectors(sets=[*world.vector_sets(), other]))
    assert "sandbox/protocol-violation" in told(jobs=[job])  # it was never ordered


# -- words


def test_what_the_comparer_could_not_do_is_told_under_the_code_that_it_gave() -> None:
    problem = Problem(code="parity/malformed", where="main: test_data_set_0", message="cut off")
    statistics = world.statistics().model_copy(update={"problems": [problem]})
    assert told(statistics=statistics)["parity/malformed"] == "cut off"


def test_fields_that_onnx_does_not_define_warn_by_their_number_and_reject_by_their_size() -> None:
    def wired(**changes: Any) -> dict[str, str]:
        wire = world.wire_of(None).model_copy(update=changes)
        return told(jobs=[world.inspect(wire=wire)])

    assert wired(unknown_fields=2, unknown_bytes=9)["wire/unknown-field"] == "2 fields that ONNX does not define"
    assert "wire/hidden-payload" in wired(unknown_fields=1, unknown_bytes=1 << 20)


def test_imports_that_a_frame_has_no_room_for_are_no_disagreement() -> None:
    """The frame keeps some of them and counts all: what it left out is what protobuf tells."""
    facts = world.facts(opsets={"ai.onnx": 13, "com.example": 1}, counts={"model.opset_import": 2})
    first = OpsetImport(domain="ai.onnx", version=13, where="opset_import[0]")
    whole: Wire = world.wire_of(facts).model_copy(update={"counts": {"model.opset_import": 2}})
    cut = whole.model_copy(update={"opsets": [first]})
    for wire in (whole, cut):
        assert "wire/disagrees" not in told(jobs=[world.inspect(wire=wire, facts=facts)])
    lying = cut.model_copy(update={"counts": {"model.opset_import": 1}})
    assert "wire/disagrees" in told(jobs=[world.inspect(wire=lying, facts=facts)])


def test_a_code_that_nobody_registered_holds_and_names_itself() -> None:
    found = registered("made/up", "compare", "main", "words")
    assert (found.code, found.severity) == ("sandbox/unknown-code", "hold")
    assert found.message == "unknown code made/up: words"
    assert registered("run/failed", "run", "main", "words").code == "run/failed"
