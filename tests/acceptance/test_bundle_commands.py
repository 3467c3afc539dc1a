"""From one's own model to a verdict in four commands, and what each of them refuses on the way."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model

from acceptd.bundling import lock as locks
from acceptd.bundling import start, vectors
from acceptd.bundling.propose import Wishes
from acceptd.bundling.readback import read_manifest
from acceptd.errors import UsageError
from acceptd.local import Bench
from acceptd.policy.manifest import Manifest
from examples import evidence_classifier as classifier
from examples.bundle_text import write_set
from tests import commands
from tests.bench_world import Desk, desk
from tests.unit.test_contract_propose import HOSTILE

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("desk")) as made:
        yield made


def bench(place: Desk) -> Bench:
    return replace(place.bench, rules=place.rules())


def begun(place: Desk, *models: Path, wishes: Wishes | None = None, into: Path | None = None) -> start.Made:
    todo = start.plan(models, into, most=100, force=False)
    return start.start(bench(place), todo, wishes or Wishes("mosaic/own", "1.0"), force=False)


def manifest(place: Desk, root: Path) -> Manifest:
    return read_manifest(bench(place), (root / "bundle.toml").read_bytes())


def test_from_ones_own_model_to_a_verdict_with_four_commands(tmp_path: Path) -> None:
    own, state = tmp_path / "my model", tmp_path / "state"
    own.mkdir()
    (own / "model.onnx").write_bytes(classifier.build_model())

    def said(*words: str) -> str:
        done = commands.run(*words, ACCEPTD_STATE=str(state), COLUMNS="80")
        assert done.returncode == 0, done.stderr
        return done.stdout

    begin = said("bundle", "init", str(own), "--id", "mosaic/own", "--version", "1.0")
    assert f"acceptd bundle vectors '{own}' --random 4 --oracle reference" in begin
    assert "parity" in said("bundle", "vectors", str(own), "--random", "4", "--oracle", "reference")
    assert json.loads(said("bundle", "lock", str(own), "--json"))["files"] == 9
    report = json.loads(said("check", str(own), "--json"))
    assert (report["verdict"], report["bundle_id"]) == ("accepted", "mosaic/own")
    assert [one["code"] for one in report["findings"] if one["severity"] != "info"] == []
    assert report["goldens"]["models"][0]["parity"] == 4


def test_external_data_comes_along_and_a_model_between_other_things_is_taken_alone(
    place: Desk, tmp_path: Path
) -> None:
    (tmp_path / "many" / "junk").mkdir(parents=True)
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["logits"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])],
        [weight],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "many" / "net.onnx"
    save_model(model, str(path), save_as_external_data=True, location="net.bin", size_threshold=0)
    made = begun(place, path, into=tmp_path / "own")
    assert sorted(os.listdir(tmp_path / "own")) == ["bundle.toml", "net.bin", "net.onnx"]
    assert made.proposal.manifest.models[0].outputs[0].kind == "logits"
    vectors.make(bench(place), tmp_path / "own", vectors.Wanted(random=2, seed="s"))
    vectors.make(bench(place), tmp_path / "own", vectors.Wanted(random=1, oracle="onnxruntime"))
    files, changed = locks.lock(bench(place), tmp_path / "own")
    assert changed
    assert len(files) == 2 + 6
    report = place.check(tmp_path / "own")
    assert report["verdict"] == "accepted", report["findings"]
    assert [(one.origin, len(one.sets)) for one in manifest(place, tmp_path / "own").models[0].vectors] == [
        ("onnx reference evaluator 1.23.2", 2),
        ("onnxruntime 1.32.0, its own output", 1),
    ]
    (tmp_path / "many" / "net.bin").unlink()
    with pytest.raises(UsageError, match="external data is not there"):
        begun(place, path, into=tmp_path / "other")
    assert not (tmp_path / "other").exists()
    (tmp_path / "own" / "net.bin").unlink()
    for oracle in ("reference", "onnxruntime"):
        with pytest.raises(UsageError, match=r"net\.onnx: external data is not there: net\.bin"):
            vectors.make(bench(place), tmp_path / "own", vectors.Wanted(random=1, oracle=oracle))


@pytest.fixture
def own(place: Desk, tmp_path: Path) -> Path:
    root = tmp_path / "own"
    root.mkdir()
    (root / "model.onnx").write_bytes(classifier.build_model())
    begun(place, root)
    return root


def npz(path: Path, **arrays: np.ndarray) -> Path:  # type: ignore[type-arg]
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    path.write_bytes(stream.getvalue())
    return path


def test_inputs_that_do_not_fit_are_refused_and_nothing_is_changed(place: Desk, own: Path, tmp_path: Path) -> None:
    before = (own / "bundle.toml").read_bytes(), sorted(os.listdir(own))
    good = npz(tmp_path / "good.npz", features=np.full((2, 4), 0.5, np.float32))
    wide = npz(tmp_path / "wide.npz", features=np.zeros((2, 4)))
    short = npz(tmp_path / "short.npz", probabilities=np.full((1, 3), 1 / 3, np.float32))
    junk = tmp_path / "junk.npz"
    junk.write_bytes(b"PK\x03\x04")
    for wanted, why in (
        (
            vectors.Wanted((wide,)),
            r"wide.npz: input 'features' is float64 \[2, 4\], expected float32 \[batch, 4\]",
        ),
        (vectors.Wanted((good, wide)), "wide.npz"),
        (vectors.Wanted((junk,)), "junk.npz cannot be read"),
        (vectors.Wanted((good,), expected=(short,), origin="hand"), "elsewhere in the same run batch is 2"),
        (vectors.Wanted((good,), expected=(good,), origin="hand"), "there is no output 'features'"),
    ):
        with pytest.raises(UsageError, match=why):
            vectors.make(bench(place), own, wanted)
        assert ((own / "bundle.toml").read_bytes(), sorted(os.listdir(own))) == before
    rows = classifier.oracle([(0.5,) * 4] * 2)["probabilities"]
    right = npz(tmp_path / "right.npz", probabilities=rows.astype(np.float32))
    made = vectors.make(bench(place), own, vectors.Wanted((good,), expected=(right,), origin=HOSTILE[0]))
    assert made.sets == ("goldens_given_0",)
    assert manifest(place, own).models[0].vectors[0].origin == HOSTILE[0]
    assert place.check(own)["verdict"] == "accepted"


def test_a_manifest_that_text_cannot_mend_stays_as_it_is(place: Desk, own: Path) -> None:
    text = (own / "bundle.toml").read_text()
    inline = text.replace(
        "schema = 1\n", 'schema = 1\nfiles = { "x" = { size = 1, sha256 = "' + "0" * 64 + '" } }\n'
    )
    for wrong in (inline, text + '[bundle.x]\na = """\n[files]\n"""\n', "= nonsense"):
        (own / "bundle.toml").write_text(wrong)
        with pytest.raises(UsageError, match=r"bundle\.toml"):
            locks.lock(bench(place), own)
        assert (own / "bundle.toml").read_text() == wrong


def test_a_changed_file_is_told_by_the_lock_and_an_evaluator_that_cannot_is_no_oracle(
    place: Desk, own: Path, tmp_path: Path
) -> None:
    locks.lock(bench(place), own)
    assert locks.differences(bench(place), own)[0] == []
    (own / "new.txt").write_text("x")
    [found] = locks.differences(bench(place), own)[0]
    assert (found.code, found.where) == ("manifest/not-in-lock", "new.txt")
    root = tmp_path / "other"
    root.mkdir()
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "g", ports[:1], ports[1:]), ir_version=8, opset_imports=imports
    )
    (root / "gelu.onnx").write_bytes(model.SerializeToString())
    begun(place, root)
    with pytest.raises(UsageError, match="reference evaluator cannot compute"):
        vectors.make(bench(place), root, vectors.Wanted(random=1))
    made = vectors.make(bench(place), root, vectors.Wanted(random=1, oracle="onnxruntime"))
    assert "regression only" in made.origin.proves


def test_a_rank_that_the_file_leaves_open_is_asked_of_the_runtime(place: Desk, tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([node], "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "open.onnx").write_bytes(model.SerializeToString())
    [output] = begun(place, tmp_path / "open.onnx").proposal.manifest.models[0].outputs
    assert (output.shape, output.kind) == (["n", 4], "probabilities")


def test_two_models_are_told_apart(place: Desk, tmp_path: Path) -> None:
    for name in ("first.onnx", "second.onnx"):
        (tmp_path / name).write_bytes(classifier.build_model())
    begun(place, tmp_path / "first.onnx", tmp_path / "second.onnx")
    with pytest.raises(UsageError, match="several models"):
        vectors.make(bench(place), tmp_path, vectors.Wanted(random=1))
    made = vectors.make(bench(place), tmp_path, vectors.Wanted(random=1, model="first"))
    assert made.sets == ("goldens_first_reference_0",)
    read = manifest(place, tmp_path)
    assert [[one.sets for one in model.vectors] for model in read.models] == [[["goldens_first_reference_0"]], []]


def test_golden_sets_beside_a_model_come_along_and_what_is_wrong_with_them_is_said(
    place: Desk, tmp_path: Path
) -> None:
    root, features = tmp_path / "own", np.full((17, 4), 0.5, np.float32)
    root.mkdir()
    (root / "model.onnx").write_bytes(classifier.build_model())
    rows = classifier.oracle([(0.5,) * 4] * 17)["probabilities"].astype(np.float32)
    given, expected = [("features", features)], [("probabilities", rows)]
    write_set(root / "test_data_set_0", given, expected)
    write_set(root / "test_data_set_1", given, [])
    (root / "test_data_set_2").mkdir()
    (root / "test_data_set_2" / "input_0.pb").write_bytes(b"\xff" * 9)
    (root / "own.npz").write_bytes(npz(tmp_path / "x.npz", inputs=features).read_bytes())
    made = begun(place, root / "model.onnx", into=tmp_path / "new")
    [vectors_of] = made.proposal.manifest.models[0].vectors
    assert vectors_of.sets == ["test_data_set_*"]
    assert made.proposal.manifest.dims["batch"].max == 17  # as the sets that could be read have it
    said = (tmp_path / "new" / "bundle.toml").read_text()
    assert "# 3 golden sets lie beside the model.\n" in said
    assert "# 2 of them have no expected output: they are run and compared with nothing.\n" in said
    assert "# 1 of them could not be read; `acceptd check` says why.\n" in said
    assert sorted(os.listdir(tmp_path / "new")) == [
        "bundle.toml",
        "model.onnx",
        "test_data_set_0",
        "test_data_set_1",
        "test_data_set_2",
    ]
    report = place.check(tmp_path / "new")
    assert report["verdict"] == "rejected"
    assert any("test_data_set_2" in one["where"] for one in report["findings"])
