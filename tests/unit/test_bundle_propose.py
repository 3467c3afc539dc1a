"""A proposed manifest says what was found and what is guessed, and no name of a model becomes TOML of its own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from acceptd.bundling.guess import bounds_of, kind_of
from acceptd.bundling.look import Goldens, Looked, Seen
from acceptd.bundling.propose import Proposal, Wishes, propose
from acceptd.bundling.render import manifest_text
from acceptd.errors import UsageError
from acceptd.evidence import Facts, Quantisation, Schema, Structure, ValueInfo
from acceptd.policy.manifest import Manifest
from acceptd.structure_facts import Ending, LastStep
from tests import static_world
from tests.unit.test_contract_propose import HOSTILE
from tests.unit.test_judge_meaning import FLAT

pytestmark = pytest.mark.unit


def value(name: str, shape: list[Any] | None, dtype: str = "float32", **more: Any) -> ValueInfo:
    return ValueInfo.model_validate({"name": name, "kind": "tensor", "dtype": dtype, "shape": shape} | more)


def facts(inputs: list[ValueInfo], outputs: list[ValueInfo], **more: Any) -> Facts:
    plain = {"ir_version": 8, "opsets": {"ai.onnx": 17}, "nodes": 1, "scopes": 1, "operators": []}
    given = plain | {"initializers": 0, "initializer_bytes": 0, "inputs": inputs, "outputs": outputs} | more
    return Facts.model_validate(given)


def ends_in(output: str, *operators: str, axis: int | None = None, producer: tuple[str, ...] = ()) -> Structure:
    steps = [LastStep(op_type=one, axis=axis) for one in operators]
    return FLAT.model_copy(update={"endings": [Ending(output=output, steps=steps)], "producer": list(producer)})


def proposed(
    output: ValueInfo | None = None,
    structure: Structure | None = None,
    goldens: Goldens | None = None,
    **more: Any,
) -> Proposal:
    given = facts([value("x", ["batch", 4])], [output or value("y", ["batch", 3])], **more)
    return propose(Looked((Seen("model.onnx", given, structure),), goldens or Goldens()), name="My Model")


def read(proposal: Proposal) -> Manifest:
    return Manifest.model_validate(tomllib.loads(manifest_text(proposal)))


def kind(output: ValueInfo, *operators: str, axis: int | None = None) -> str:
    return proposed(output, ends_in(output.name, *operators, axis=axis)).manifest.models[0].outputs[0].kind


def test_what_was_found_is_written_and_what_is_guessed_says_so() -> None:
    made = proposed(structure=ends_in("y", "Softmax", axis=-1, producer=("pytorch", "2.13.0")))
    text = manifest_text(made)
    assert read(made) == made.manifest
    assert (made.manifest.bundle.id, made.manifest.bundle.version) == ("my-team/my-model", "0.1.0")
    assert 'id = "my-team/my-model"\n' in text.split("# FILL IN: a guess from the name of the file.\n", 1)[1]
    assert '# Guessed: it ends in Softmax over the last axis.\nkind = "probabilities"\n' in text
    assert "# A guess: the first axis, so probably the batch.\n[dims.batch]\nmin = 1\nmax = 8\n" in text
    assert '# labels = ["first", "second"]\n' in text
    assert 'exporter = { name = "pytorch", version = "2.13.0" }\n' in text
    assert 'opsets = { "ai.onnx" = 17 }\n' in text


def test_what_the_asker_knows_is_no_guess_and_what_is_wrong_is_refused() -> None:
    looked = Looked((Seen("model.onnx", facts([value("x", [4])], [value("y", [3])])),))
    made = propose(looked, Wishes("mosaic/scores", "2.0"))
    assert (made.manifest.bundle.id, made.manifest.bundle.version) == ("mosaic/scores", "2.0")
    assert not any("bundle.id" in one for one in made.fill_in)
    for wrong in (Wishes("no-slash"), Wishes("a/b", "1 0"), Wishes("current/x")):
        with pytest.raises(UsageError, match="bundle"):
            propose(looked, wrong)
    with pytest.raises(UsageError, match="there is no"):
        propose(Looked(()))


def test_kinds_are_guessed_from_the_last_operators_and_only_where_they_say_enough() -> None:
    row = value("y", ["batch", 3])
    assert kind(row, "Softmax", axis=-1) == kind(row, "Cast", "Identity", "Softmax", axis=1) == "probabilities"
    assert kind(value("y", ["batch", 3, 8]), "Softmax", axis=1) == "values"
    assert kind(row, "Reshape", "Softmax", axis=-1) == "values"
    assert kind(row, "LogSoftmax", axis=-1) == "logits"
    assert kind(row, "Sigmoid") == "values"
    assert kind(value("y", ["batch", 1]), "Sigmoid") == "probabilities"
    assert kind(row, "LpNormalization") == kind(value("sentence_embedding", ["batch", 3]), "Div") == "embedding"
    assert kind(value("probabilities", ["batch", 3]), "ai.onnx.ml::TreeEnsembleClassifier") == "probabilities"
    assert kind(value("probabilities", ["batch", 3], "int64"), "Softmax", axis=-1) == "values"
    assert kind(row, "Gemm") == "values"
    assert kind(row, "evil::Softmax") == "values"
    assert kind(value("probabilities", ["batch", 3]), "ai.onnx.ml::Normalizer") == "probabilities"
    assert kind(row, "ai.onnx.ml::Normalizer") == "values"
    assert kind(value("waveform", ["batch", 1, 800]), "Conv") == kind(value("audio_out", [800]), "Tanh") == "audio"
    assert kind(value("probs", ["batch", 3]), "Mul") == kind(value("probability", [3]), "Mul") == "probabilities"
    assert kind(value("tokens", ["batch", "len"], "int64"), "Loop") == "sequence"
    assert kind(value("tokens", ["batch"], "int64"), "Loop") == "values"
    assert kind(row) == "values"
    inside = ValueInfo(name="probs", kind="sequence", dtype="float32", shape=None)
    assert kind_of(inside, None, 17).reason == "not a tensor: compared element by element"


def test_softmax_before_opset_13_takes_its_axis_for_all_that_follow() -> None:
    three = value("y", ["batch", 2, 3])
    old = proposed(three, ends_in("y", "Softmax"), opsets={"ai.onnx": 11})
    new = proposed(three, ends_in("y", "Softmax"), opsets={"ai.onnx": 13})
    assert [one.manifest.models[0].outputs[0].kind for one in (old, new)] == ["values", "probabilities"]


def test_bounds_take_in_what_the_golden_sets_have() -> None:
    sets = Goldens(("test_data_set_*",), ("test_data_set_0",), shapes={"#0": ((64, 4),), "y": ((64, 3),)})
    made = proposed(goldens=sets)
    assert (made.manifest.dims["batch"].min, made.manifest.dims["batch"].max) == (1, 64)
    assert made.manifest.models[0].vectors[0].origin == "undeclared"
    assert "origin of the golden sets" in made.fill_in
    height, nameless = bounds_of("height", 2, [], fed=True), bounds_of("d7", 3, [], fed=True)
    assert (height.low, height.high, nameless.low, nameless.high) == (32, 256, 1, 16)
    assert "an image" in height.reason
    batch, free = bounds_of("bs", 1, [], fed=True), bounds_of("found", 0, [1, 2, 3, 4, 5], fed=False)
    assert (batch.low, batch.high, free.low, free.high) == (1, 8, 0, 65_536)
    assert free.reason.endswith("golden sets have 1, 2, 3, 4 and more")
    length = bounds_of("seq_len", 1, [7, 9], fed=True)
    assert (length.low, length.high) == (7, 9)


def test_a_dimension_that_the_model_decides_is_left_open_and_one_that_two_outputs_share_is_bounded() -> None:
    given = facts(
        [value("x", ["batch", 4])],
        [value("boxes", ["found", 4]), value("scores", ["found"]), value("z", ["free"])],
    )
    made = propose(Looked((Seen("model.onnx", given),)))
    shapes = [one.shape for one in made.manifest.models[0].outputs]
    assert shapes == [["found", 4], ["found"], ["?"]]
    assert set(made.manifest.dims) == {"batch", "found"}


def test_what_the_file_leaves_open_is_as_the_runtime_loads_it() -> None:
    given = facts([value("x", ["n", 4])], [value("y", None), value("z", None, "undefined"), value("w", None)])
    told = [value("y", ["n", 3]), value("z", [1]), value("w", None)]
    schema = Schema(inputs=[value("x", ["n", 5])], outputs=told, providers=[], load_ms=1.0)
    made = propose(Looked((Seen("model.onnx", given, loaded=schema),)))
    model = made.manifest.models[0]
    assert [one.shape for one in model.outputs] == [["n", 3], [1], None]
    assert model.inputs[0].shape == ["n", 4]
    text = manifest_text(made)
    assert text.count("# As onnxruntime loads it; the file itself leaves it open.\nshape =") == 2
    assert "does not say its rank" in text


def shapes_of(inputs: list[list[Any]], outputs: list[list[Any]], *first: int) -> list[Any]:
    """Shapes of a proposal; ``first`` are the sizes of the inputs' first axes in golden sets."""
    given = facts(
        [value(f"x{n}", shape) for n, shape in enumerate(inputs)],
        [value(f"y{n}", shape) for n, shape in enumerate(outputs)],
    )
    seen = {f"x{n}": ((size, *(1 for _ in inputs[n][1:])),) for n, size in enumerate(first)}
    made = propose(Looked((Seen("model.onnx", given),), Goldens(("t",), ("t",), shapes=seen)))
    assert read(made) == made.manifest
    return [one.shape for one in (*made.manifest.models[0].inputs, *made.manifest.models[0].outputs)]


def test_first_axes_that_an_exporter_numbered_are_one_batch() -> None:
    assert shapes_of([["unk__7", 21], ["unk__8", 21]], [["unk__9", 1], ["unk__7", 1]]) == [
        ["batch", 21], ["batch", 21], ["?", 1], ["batch", 1]
    ]  # fmt: skip
    assert shapes_of([["?", 3, "?"], ["?"]], [["p2o.DynamicDimension.0"]]) == [["batch", 3, "?"], ["?"], ["?"]]
    assert shapes_of([["batch", 3], ["unk__1", 3]], []) == [["batch", 3], ["batch", 3]]


def test_a_numbered_name_that_stands_elsewhere_too_is_no_batch() -> None:
    assert shapes_of([["unk__7", "unk__7"]], []) == [["unk__7", "unk__7"]]
    assert shapes_of([["unk__7", "batch"]], []) == [["unk__7", "batch"]]
    assert shapes_of([["seq", 4]], []) == [["seq", 4]]
    assert shapes_of([["unk__7", 2], ["unk__8", 2]], [], 3, 3) == [["batch", 2], ["batch", 2]]
    assert shapes_of([["unk__7", 2], ["unk__8", 2]], [], 3, 4) == [["unk__7", 2], ["unk__8", 2]]


def test_several_models_get_names_of_their_own_and_a_quantised_one_its_table() -> None:
    quantised = Quantisation(method="static", format="qdq", per_channel=True, weight_types=["int8", "evil\n"])
    one = facts([value("x", ["n", 4])], [value("y", ["n", 3])], quantisation=quantised)
    looked = Looked((Seen("Enc oder.onnx", one), Seen("enc-oder.onnx", one), Seen("decoder.onnx", one)))
    made = propose(looked, name="pair")
    assert [model.name for model in made.manifest.models] == ["enc-oder", "enc-oder-2", "decoder"]
    assert read(made) == made.manifest
    table = made.manifest.models[0].quantization
    assert table is not None
    assert (table.method, table.weight_types, table.per_channel) == ("static", ["int8"], True)


def test_what_the_grammar_cannot_express_is_left_out_and_said() -> None:
    given = facts(
        [value("x", [7, -1, 2**40, ""]), value("x", [1]), value("", [1]), value("w", [1], overridable=True)],
        [value("y", None), value("o", [1], "undefined")],
        ir_version=10**7,
        opsets={"ai.onnx": -3},
    )
    made = propose(Looked((Seen("model.onnx", given),)))
    model = made.manifest.models[0]
    assert [one.name for one in model.inputs] == ["x"]
    assert model.inputs[0].shape == [7, "?", "?", "?"]
    assert (model.ir_version, model.opsets, model.outputs[0].shape) == (None, None, None)
    assert len(made.left_out) == 3
    assert read(made) == made.manifest


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(name: str) -> None:
    given = facts([value(name, [name, 4])], [value(name, [name, 3])], opsets={name or "x": 3})
    structure = ends_in(name, name, producer=(name, name))
    made = propose(Looked((Seen("model.onnx", given, structure),)), name=name)
    text = manifest_text(made)
    assert read(made) == made.manifest
    assert made.manifest.models[0].inputs[0].name == name
    assert all(char.isprintable() or char == "\n" for char in text)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    harmless = propose(Looked((Seen("model.onnx", facts([value("x", ["n", 4])], [value("x", ["n", 3])])),)))
    assert not set(comments) & {f"# {name}"}
    assert all("evil" not in line and "owned" not in line for line in comments), harmless


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(HOSTILE)
dims = st.lists(st.integers(-2, 2**33) | words | st.just("?"), max_size=4) | st.none()
ports = st.builds(value, words, dims, st.sampled_from(["float32", "int64", "string", "undefined", "bool"]))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(ports, max_size=4), st.lists(ports, max_size=4), st.dictionaries(words, st.integers(-2, 20)), words
)
def test_any_proposal_reads_back_as_it_was_meant(
    inputs: list[ValueInfo], outputs: list[ValueInfo], opsets: dict[str, int], name: str
) -> None:
    structure = ends_in(outputs[0].name if outputs else "y", name, producer=(name, name))
    seen = Seen("model.onnx", facts(inputs, outputs, opsets=opsets), structure)
    goldens = Goldens(("test_data_set_*",), ("test_data_set_0",), shapes={"#0": ((1, 2),), name: ((3, 1),)})
    made = propose(Looked((seen,), goldens), name=name)
    assert read(made) == made.manifest


def test_an_interface_beyond_the_size_of_a_manifest_is_refused_in_one_line() -> None:
    many = [value(f"input_{number}" * 20, [1]) for number in range(600)]
    with pytest.raises(UsageError, match="65536 are possible"):
        manifest_text(propose(Looked((Seen("model.onnx", facts(many, [value("y", [1])])),))))


def test_the_inspection_tells_the_last_operators_only_when_it_is_asked(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=-1),
        helper.make_node("Thing", ["s"], ["y"], domain="d"),
    ]
    model = static_world.model(
        nodes, inputs=[static_world.value("x", ["n", 4])], outputs=[static_world.value("y", ["n", 4])]
    )
    from sandbox.inspect import endings

    [told] = endings.frames(model)
    assert Ending.model_validate(told).steps == [
        LastStep(op_type="d::Thing"), LastStep(op_type="Softmax", axis=-1), LastStep(op_type="Relu")
    ]  # fmt: skip
    assert "endings" not in static_world.inspected(tmp_path, model).frames["structure"]
    asked = static_world.inspected(tmp_path, model, endings=True)
    assert asked.frames["structure"]["endings"] == [told]


def test_outputs_that_chase_each_other_end_the_walk() -> None:
    from sandbox.inspect import endings

    nodes = [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    model = static_world.model(nodes, outputs=[static_world.value("a", [1])])
    [told] = endings.frames(model)
    assert len(told["steps"]) == endings.MAX_STEPS
