"""Golden sets as the judge sees them: names and positions, origins, smoke sets, labels, a contract's floors."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import BundleFile, ClassCount, InputStats, JobRecord, Named, QualityStats, Sealed, Vectors
from acceptd.judge.apart import joined
from acceptd.judge.golden_sets import Side, find, shown_by
from acceptd.judge.goldens import placed
from acceptd.judge.inventory import take, vectors_spec
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy, VectorsTable
from tests import judge_world as world

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["", ""], ["a", "b"]),
        (["b", "a"], ["b", "a"]),
        (["a", ""], ["a", "b"]),
        (["", "b"], ["a", "b"]),
        (["b", ""], None),
        (["b", "b"], None),
        (["old", ""], ["a", "b"]),
        (["old", "b"], None),
        (["", "", ""], None),
        (["b", "a", ""], None),
    ],
)
def test_a_name_counts_and_a_value_without_one_goes_by_its_number(
    names: list[str], expected: list[str] | None
) -> None:
    assert placed(names, ["a", "b"]) == expected


@pytest.mark.parametrize(
    ("origin", "shows"),
    [
        ("undeclared", "undeclared"),
        (" Undeclared ", "undeclared"),
        ("onnxruntime 1.32", "regression"),
        ("ONNX Runtime, CPU", "regression"),
        ("made by ORT 1.30", "regression"),
        ("torch 2.13 eager", "parity"),
        ("export with a short sort", "parity"),
    ],
)
def test_what_an_origin_shows(origin: str, shows: str) -> None:
    assert shown_by(origin) == shows


def listed(*paths: str) -> Sealed:
    files = [BundleFile(path=path, sha256="0" * 64, size=1) for path in paths]
    return Sealed(digest="d" * 64, files=files, total_bytes=len(files))


def specs(*tables: dict[str, Any]) -> Manifest:
    return world.a_manifest(lambda document: document["models"][0].update(vectors=list(tables)))


def test_a_set_that_two_patterns_name_has_the_weaker_origin() -> None:
    tables = [{"sets": ["t*"], "origin": "torch"}, {"sets": ["t0"], "origin": "onnxruntime"}]
    for given in (tables, tables[::-1]):
        found = find(["t0/output_0.pb", "t1/output_0.pb"], specs(*given), ["model.onnx"])
        assert {one.name: one.origin for one in found.sets} == {"t0": "onnxruntime", "t1": "torch"}


def test_labels_and_slices_are_vector_files_and_nothing_that_sees_the_model_may_read_them() -> None:
    manifest = specs({"sets": ["rows"], "labels": "labels.npy", "slices": "slices.txt"})
    taken = take(
        listed("model.onnx", "rows/input_0.pb", "rows/labels.npy", "rows/slices.txt", "labels.npy"), manifest
    )
    assert taken.visible("model.onnx") == ("labels.npy", "model.onnx")
    assert set(taken.vector_files()) == {"rows/input_0.pb", "rows/labels.npy", "rows/slices.txt"}
    assert {"rows/labels.npy", "rows/slices.txt"} <= set(taken.forbidden)
    (one,) = vectors_spec(taken, manifest)["sets"]
    assert (one["labels"], one["slices"], one["smoke"]) == ("rows/labels.npy", "rows/slices.txt", True)


def test_every_directory_of_a_case_without_manifest_is_a_data_set() -> None:
    """onnx_test_runner takes any name; what is a golden is hidden from the model."""
    taken = take(listed("model.onnx", "seven/input_0.pb", "seven/output_0.pb", "w.bin", "assets/x.pb"), None)
    assert [one.name for one in taken.sets] == ["seven"]
    assert taken.visible("model.onnx") == ("assets/x.pb", "model.onnx", "w.bin")


def test_a_pattern_that_nobody_wrote_is_never_said_to_be_empty() -> None:
    def inferred(document: dict[str, Any]) -> None:
        document["bundle"]["version"] = "0+inferred"
        document["models"][0].pop("vectors", None)

    guessed, written = world.a_manifest(inferred), world.a_manifest()
    assert not guessed.declared
    for names in (["model.onnx"], ["model.onnx", "seven/input_0.pb", "seven/output_0.pb"]):
        assert take(listed(*names), guessed).empty_patterns == ()
        assert take(listed(*names), written).empty_patterns == (("main", "test_data_set_*"),)


def test_config_txt_is_of_a_case_without_manifest_and_data_json_of_any() -> None:
    """With a manifest, config.txt may be any asset: the job of assets looks at it, and it is named."""
    sealed = listed("model.onnx", "config.txt", "data.json", "test_data_set_0/output_0.pb")
    assert take(sealed, None).tolerance_files == ("data.json", "config.txt")
    declared = take(sealed, world.a_manifest())
    assert declared.tolerance_files == ("data.json",)
    assert "config.txt" not in declared.vector_files()
    assert take(listed("model.onnx", "data.json"), world.a_manifest()).vector_files() == ()


def test_expected_outputs_that_lost_their_inputs_are_a_set_all_the_same() -> None:
    found = find(
        ["p/a_outputs.npz", "d/outputs.npz", "p/b_inputs.npz", "p/b_outputs.npz"],
        specs({"sets": ["p/*", "d"]}),
        [],
    )
    assert [(one.name, one.inputs, one.outputs, one.smoke) for one in found.sets] == [
        ("p/a_outputs.npz", "", "p/a_outputs.npz", False),
        ("p/b_inputs.npz", "p/b_inputs.npz", "p/b_outputs.npz", False),
        ("d", "", "d/outputs.npz", False),
    ]


# -- decoded apart


def halves() -> tuple[JobRecord, JobRecord]:
    sets = world.vector_sets()
    inputs = [one.model_copy(update={"expected": []}) for one in sets]
    others = [one.model_copy(update={"inputs": [], "rtol": 0.5}) for one in sets]
    first, second = (world.vectors(vectors=Vectors(sets=one)) for one in (inputs, others))
    return first, second


def test_two_jobs_give_one_account_of_which_each_speaks_for_its_side() -> None:
    first, second = halves()
    records = joined([world.inspect(), first, second])
    assert [record.kind for record in records] == ["inspect", "vectors", "vectors"]
    assert records[1].vectors is None
    whole = records[2].vectors
    assert whole is not None
    assert [(one.inputs, one.expected) for one in whole.sets] == [
        (one.inputs, one.expected) for one in world.vector_sets()
    ]
    assert {one.rtol for one in whole.sets} == {0.5}
    assert world.verdict(world.submission(list(records[1:]))).verdict == "accepted"


def test_the_job_of_the_inputs_cannot_say_what_is_expected() -> None:
    first, second = halves()
    lying = first.model_copy(update={"vectors": Vectors(sets=world.vector_sets(rtol=1.0))})
    silent = second.model_copy(update={"vectors": Vectors(sets=[])})
    whole = joined([lying, silent])[1].vectors
    assert whole is not None
    assert all(not one.expected and one.rtol is None for one in whole.sets)
    judged = world.verdict(world.submission(joined([lying, silent])))
    assert "vectors/empty-set" in world.codes(judged, "reject")


@pytest.mark.parametrize("ending", ["lost", "crash"])
@pytest.mark.parametrize("which", [0, 1])
def test_half_an_account_is_none(which: int, ending: str) -> None:
    pair = list(halves())
    pair[which] = pair[which].model_copy(update={"ending": ending, "vectors": None})
    records = joined(pair)
    assert all(record.vectors is None for record in records)
    judged = world.verdict(world.submission(records))
    assert judged.verdict == ("inconclusive" if ending == "lost" else "rejected")


def test_each_job_is_given_the_files_of_its_side_alone() -> None:
    manifest = specs({"sets": ["t*", "n", "s"], "labels": "labels.npy"})
    sealed = listed(
        "model.onnx", "data.json", "t0/input_0.pb", "t0/output_0.pb", "t0/labels.npy", "n/inputs.npz",
        "n/outputs.npz", "n/labels.npy", "s/input_0.pb", "test_data_0.npz",
    )  # fmt: skip
    taken = take(sealed, manifest)
    assert taken.vector_files("inputs") == ("n/inputs.npz", "s/input_0.pb", "t0/input_0.pb")
    assert taken.vector_files("outputs") == (
        "data.json", "n/labels.npy", "n/outputs.npz", "t0/labels.npy", "t0/output_0.pb",
    )  # fmt: skip
    sides: tuple[Side, ...] = ("inputs", "outputs")
    for side in sides:
        named = str(vectors_spec(taken, manifest, side)["sets"])
        strange = set(taken.vector_files()) - set(taken.vector_files(side))
        assert not any(path in named for path in strange)


def test_one_file_with_both_sides_cannot_be_decoded_apart() -> None:
    manifest = specs({"sets": ["test_data_0.npz"], "origin": "torch"})
    given = world.submission(sealed=world.sealed("test_data_0.npz"))
    for separate in (True, False):
        judged = world.verdict(given, manifest=manifest, policy=Policy(vectors=VectorsTable(separate=separate)))
        assert ("vectors/not-separable" in world.codes(judged, "reject")) is separate


def policy(required: Any) -> Policy:
    return Policy(vectors=VectorsTable(require_origin=required))


ORIGINS: list[tuple[Any, list[str], str, set[str]]] = [
    (False, ["undeclared", "onnxruntime"], "accepted", set()),
    (True, ["float64 numpy oracle", "torch 2.13"], "accepted", set()),
    (True, ["torch 2.13", "undeclared"], "held", {"vectors/origin-undeclared"}),
    (True, ["onnxruntime 1.32", "torch 2.13"], "accepted", set()),
    (True, ["onnxruntime 1.32", "onnxruntime 1.30"], "rejected", {"vectors/regression-only"}),
    (["Torch *"], ["torch 2.13", "torch 2.12"], "accepted", set()),
    (["torch *"], ["torch 2.13", "jax"], "held", {"vectors/origin-not-accepted"}),
    (["onnxruntime*"], ["onnxruntime 1.32"] * 2, "rejected", {"vectors/regression-only"}),
]


@pytest.mark.parametrize(("required", "origins", "verdict", "codes"), ORIGINS)
def test_an_origin_counts_as_the_policy_says(
    required: Any, origins: list[str], verdict: str, codes: set[str]
) -> None:
    manifest = specs(*({"sets": [name], "origin": one} for name, one in zip(world.SETS, origins, strict=True)))
    judged = world.verdict(manifest=manifest, policy=policy(required))
    assert judged.verdict == verdict, judged.findings
    assert set(world.codes(judged, "reject", "hold")) == codes


def test_an_output_that_only_regression_sets_expect_is_unchecked_where_parity_is_required() -> None:
    def change(document: dict[str, Any]) -> None:
        model = document["models"][0]
        model["outputs"].append({"name": "label", "dtype": "int64", "shape": ["batch"]})
        origins = ("torch", "onnxruntime")
        model["vectors"] = [{"sets": [name], "origin": one} for name, one in zip(world.SETS, origins, strict=True)]

    first, second = world.vector_sets()
    named = Named(name="probabilities", value=world.ref())
    both = [named, Named(name="label", value=world.ref(12, 1, "int32"))]
    sets = [first.model_copy(update={"expected": [named]}), second.model_copy(update={"expected": both})]
    vectors = world.vectors().vectors
    assert vectors is not None
    record = world.vectors(vectors=vectors.model_copy(update={"sets": sets}))
    paths = world.sealed("test_data_set_1/output_1.pb")
    for required, held in ((True, True), (False, False)):
        given = world.submission([record], sealed=paths)
        judged = world.verdict(given, manifest=world.a_manifest(change), policy=policy(required))
        assert ("vectors/output-unchecked" in world.codes(judged)) is held


def test_a_smoke_set_with_expected_values_was_not_ordered() -> None:
    paths = [f.path for f in world.sealed().files if f.path != "test_data_set_1/output_0.pb"]
    files = [BundleFile(path=path, sha256="0" * 64, size=309) for path in paths]
    given = world.submission(sealed=Sealed(digest="d" * 64, files=files, total_bytes=1))
    assert "sandbox/protocol-violation" in world.codes(world.verdict(given), "reject")


@pytest.mark.parametrize("name", ["never_ordered", world.SETS[0]])
def test_a_set_that_nobody_ordered_hides_nothing_of_those_after_it(name: str) -> None:
    first, second = world.vector_sets()
    foreign = first.model_copy(update={"name": name})
    empty = second.model_copy(update={"expected": []})
    told = world.vectors(vectors=Vectors(sets=[first, foreign, empty]))
    found = world.verdict(world.submission([told])).findings
    assert [(one.code, one.where) for one in found if one.stage == "vectors" and one.severity == "reject"] == [
        ("sandbox/protocol-violation", f"main: {name}"),
        ("vectors/empty-set", f"main: {world.SETS[1]}"),
    ]


def test_a_golden_input_outside_its_range_is_rejected_by_the_comparers_word() -> None:
    for row, rejected in (
        (InputStats(set="s", model="main", input="features", n=4), False),
        (
            InputStats(set="s", model="main", input="features", n=4, outside=1, worst_index=[0, 2], worst="1.5"),
            True,
        ),
        (InputStats(set="s", model="main", input="features", comparable=False), True),
    ):
        judged = world.verdict(world.submission(statistics=world.statistics(inputs=[row])))
        assert ("vectors/input-range" in world.codes(judged, "reject")) is rejected
    assert judged.verdict == "rejected"


def floors(*tables: dict[str, Any]) -> Contract:
    return world.a_contract(
        lambda document: document["models"][0].update(
            quality=[{"output": "probabilities", **one} for one in tables]
        )
    )


def answers(**changes: Any) -> QualityStats:
    classes = [
        ClassCount(label=0, support=40, false_negatives=1),
        ClassCount(label=2, support=10, false_negatives=4),
    ]
    fields = {"model": "main", "output": "probabilities", "rows": 50, "accuracy": 0.9, "calibration_error": 0.04}
    return QualityStats.model_validate(fields | {"brier": 0.2, "classes": classes} | changes)


FLOORS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "met exactly": ({"min_accuracy": 0.9, "max_calibration_error": 0.04, "max_brier": 0.2}, []),
    "accuracy": ({"min_accuracy": 0.91}, ["quality/accuracy"]),
    "calibration": ({"max_calibration_error": 0.03}, ["quality/calibration"]),
    "brier": ({"max_brier": 0.1}, ["quality/brier"]),
    "rows": ({"min_accuracy": 0.5, "min_rows": 51}, ["quality/too-few-rows"]),
    "a slice that is worse": ({"min_accuracy": 0.8, "slice": "night"}, ["quality/accuracy"]),
    "a slice that nobody labelled": ({"min_accuracy": 0.8, "slice": "dawn"}, ["quality/not-measured"]),
    "false negatives": ({"label": "reject", "max_false_negatives": 3}, ["quality/false-negatives"]),
    "their share": ({"label": "reject", "max_false_negative_rate": 0.39}, ["quality/false-negatives"]),
    "their share of another class": ({"label": "accept", "max_false_negative_rate": 0.03}, []),
    "a class without a row": ({"label": "review", "max_false_negatives": 3}, ["quality/too-few-rows"]),
}


@pytest.mark.parametrize("name", FLOORS)
def test_a_contracts_floor_is_held_against_the_comparers_figures(name: str) -> None:
    floor, expected = FLOORS[name]
    rows = [answers(), answers(slice="night", rows=10, accuracy=0.7)]
    judged = world.verdict(world.submission(statistics=world.statistics(quality=rows)), contract=floors(floor))
    assert world.codes(judged, "reject") == expected
    if expected:
        assert judged.verdict == "rejected"


def test_no_labels_at_all_do_not_meet_a_floor() -> None:
    judged = world.verdict(contract=floors({"min_accuracy": 0.5}))
    assert world.codes(judged, "reject") == ["quality/not-measured"]
    note = answers(rows=0, accuracy=None, note="s: 2 labels for an output [3, 2]")
    judged = world.verdict(
        world.submission(statistics=world.statistics(quality=[note])), contract=floors({"min_accuracy": 0.5})
    )
    assert world.codes(judged, "reject") == ["quality/not-measured", "vectors/labels-invalid"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "bounds nothing"),
        ({"max_false_negatives": 1}, "give label"),
        ({"label": "reject", "min_accuracy": 0.5}, "with label"),
        ({"label": "maybe", "max_false_negatives": 1}, "no label 'maybe'"),
        ({"output": "gone", "min_accuracy": 0.5}, "no output 'gone'"),
    ],
)
def test_a_floor_that_cannot_be_meant_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        floors(table)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"slices": "slices.txt"}, "no labels are named"),
        ({"labels": "../labels.npy"}, "beside each set"),
        ({"labels": "labels.pickle"}, "beside each set"),
        ({"labels": "labels.npy", "slices": "slices.npy"}, "beside each set"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        specs({"sets": ["rows"], **table})


def test_labels_that_are_not_there_or_are_about_no_output_are_told() -> None:
    table = {"sets": ["test_data_set_*"], "origin": "torch", "labels": "labels.npy"}
    assert "vectors/labels-missing" in world.codes(world.verdict(manifest=specs(table)), "reject")
    unclear = specs(table | {"labelled_output": "logits"})
    judged = world.verdict(world.submission(sealed=world.sealed("test_data_set_0/labels.npy")), manifest=unclear)
    assert {"vectors/labels-invalid", "vectors/labels-missing"} <= set(world.codes(judged, "reject"))


def test_a_fixture_names_a_file_and_a_set_that_are_there() -> None:
    def change(raw: str, name: str) -> Manifest:
        fixture = {"raw": raw, "set": name}
        return world.a_manifest(lambda document: document["preprocessing"].update(fixtures=[fixture]))

    given = world.submission(sealed=world.sealed("raw/one.png"))
    for raw, name, missing in (
        ("raw/one.png", "test_data_set_0", False),
        ("raw/two.png", "test_data_set_0", True),
        ("raw/one.png", "test_data_set_7", True),
    ):
        judged = world.verdict(given, manifest=change(raw, name))
        assert ("vectors/fixture-missing" in world.codes(judged, "reject")) is missing
