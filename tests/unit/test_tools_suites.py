"""The suites' tools: what is written can be read, deaths are contained, disagreements are counted."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from examples import hostile_models
from examples.evidence_classifier import write_bundle
from tools import backend_suite, compare_suite, corpus, corpus_goldens, plain_runtime
from tools.corpus_recipes import PACKAGES
from tools.workers import Worker, run_all

pytestmark = pytest.mark.unit


def lines(path: Path, *values: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def test_golden_values_of_each_kind_survive_writing_and_reading() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    sequence, optional = helper.make_sequence_type_proto(tensor), helper.make_optional_type_proto(tensor)
    array = np.array([[1.5, -2.0]], np.float32)
    assert np.array_equal(plain_runtime.decode(backend_suite.encode(array, tensor, "x"), tensor), array)
    (item,) = plain_runtime.decode(backend_suite.encode([array], sequence, "x"), sequence)
    assert np.array_equal(item, array)
    assert plain_runtime.decode(backend_suite.encode(None, optional, "x"), optional) is None
    proto = helper.make_tensor("x", TensorProto.FLOAT8E4M3FN, [2], [1.0, 2.0])
    assert backend_suite.encode(proto, tensor, "x") == proto.SerializeToString()


def test_the_dummy_input_of_light_networks_is_the_runners_own() -> None:
    from onnx.backend.test.runner import Runner

    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4])
    assert np.array_equal(backend_suite.ramp((1, 3, 4)), Runner.generate_dummy_data(info))


def test_a_direct_run_tells_pass_differ_load_and_death_apart(tmp_path: Path) -> None:
    write_bundle(tmp_path / "good")
    write_bundle(tmp_path / "differ")
    write_bundle(tmp_path / "load")
    write_bundle(tmp_path / "death")
    (tmp_path / "differ" / "test_data_set_0" / "output_0.pb").write_bytes(
        (tmp_path / "differ" / "test_data_set_1" / "output_0.pb").read_bytes()
    )
    (tmp_path / "load" / "model.onnx").write_bytes(hostile_models.build(hostile_models.unknown_operator()))
    (tmp_path / "death" / "model.onnx").write_bytes(hostile_models.build(hostile_models.divides_at_load()))
    tasks = [{"case": str(tmp_path / name)} for name in ("death", "differ", "load", "good")]
    answers = {Path(task["case"]).name: answer for task, answer in run_all("direct", tasks, workers=1, seconds=60)}
    assert answers["death"] == {"died": "SIGFPE", "stage": "load"}
    assert answers["differ"]["outcome"] == "differ"
    assert answers["load"]["outcome"] == "load"
    assert answers["good"]["outcome"] == "pass"


def test_a_worker_that_never_answers_is_killed_and_replaced(tmp_path: Path) -> None:
    write_bundle(tmp_path / "endless")
    write_bundle(tmp_path / "good")
    (tmp_path / "endless" / "model.onnx").write_bytes(hostile_models.build(hostile_models.loops()))
    worker = Worker("direct")
    try:
        assert worker.ask({"case": str(tmp_path / "good")}, 60)["outcome"] == "pass"
        answer = worker.ask({"case": str(tmp_path / "endless")}, 1)
        assert (answer["died"], answer["stage"]) == ("no answer within 1 s", "run")
        assert worker.ask({"case": str(tmp_path / "good")}, 60)["outcome"] == "pass"
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), ""),
        (np.array([1], np.float32), np.array([1.0005], np.float32), ""),
        (np.array([1], np.float32), np.array([1.01], np.float32), "1 of 1 elements differ"),
        (np.array([1], np.float32), np.array([1], np.float64), "dtype"),
        (np.array([[1]], np.float32), np.array([1], np.float32), "shape"),
        (np.array(["a"], object), np.array(["b"], object), "other text"),
        ([np.array([1], np.float32)], [], "another kind or number"),
        (
            [np.array([1], np.float32), np.array([9], np.float32)],
            [np.array([1], np.float32), np.array([1], np.float32)],
            "output[1]",
        ),
        (None, np.array([1], np.float32), "absent"),
    ],
)
def test_difference_follows_onnx_runner(got: object, expected: object, words: str) -> None:
    found = plain_runtime.difference(got, expected, 1e-3, 1e-7)
    assert (words in found) if words else not found


def test_a_pass_that_is_refused_and_a_failure_that_is_accepted_disagree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    direct = lines(
        tmp_path / "direct.jsonl",
        {"path": "node/a", "outcome": "pass", "detail": ""},
        {"path": "node/b", "outcome": "pass", "detail": ""},
        {"path": "node/c", "outcome": "load", "detail": "no kernel"},
        {"path": "node/d", "outcome": "differ", "detail": "by 1"},
        {"path": "node/e", "outcome": "run", "detail": "raised"},
    )
    finding = {"code": "run/failed", "severity": "reject", "where": "set 0", "message": "it broke"}
    note = {"code": "manifest/inferred", "severity": "info", "where": "", "message": ""}
    check = lines(
        tmp_path / "check.jsonl",
        {"path": "/somewhere/suite/node/a", "verdict": "accepted", "findings": [note]},
        {"path": "suite/node/b", "verdict": "rejected", "findings": [note, finding]},
        {"path": "suite/node/c", "verdict": "rejected", "findings": [finding]},
        {"path": "suite/node/d", "verdict": "accepted", "findings": []},
    )
    assert compare_suite.main([str(direct), str(check), "--least", "3"]) == 1
    out = capsys.readouterr().out
    assert "2 of 5 cases agree" in out
    assert "node/b: pass directly, rejected by acceptd" in out
    assert "run/failed at set 0: it broke" in out
    assert "node/d: differ directly, accepted by acceptd" in out
    assert "node/e: run directly, missing by acceptd" in out
    assert compare_suite.main([str(direct), str(check), "--least", "2"]) == 0


def test_a_line_that_is_no_result_is_named_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = lines(tmp_path / "good.jsonl", {"path": "a/b", "outcome": "pass"})
    (tmp_path / "bad.jsonl").write_text("\n{not json}\n")
    assert compare_suite.main([str(good), str(tmp_path / "bad.jsonl")]) == 2
    assert "bad.jsonl:2" in capsys.readouterr().err
    assert compare_suite.main([str(good), str(tmp_path / "none.jsonl")]) == 2


def test_corpus_packages_are_pinned_and_name_a_recipe_for_everything() -> None:
    assert {p.name for p in PACKAGES if p.required} == {
        "faster-whisper", "silero-vad", "magika", "text2tashkeel", "khmersm",
    }  # fmt: skip
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)
    for package in PACKAGES:
        assert package.version
        assert package.recipes
        for recipe in package.recipes:
            for low, high, step in recipe.dims.values():
                assert 1 <= low <= high
                assert (high - low) % step == 0


def test_corpus_names_follow_the_grammar() -> None:
    from acceptd.policy.names import valid_name

    assert corpus.model_name("silero-vad", "silero_vad.v6 (Half)") == "silero-vad-silero_vad-v6-half"
    valid_name(corpus.model_name("a" * 60, "b" * 60))


def wheel(path: Path, metadata: str, *models: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("thing-1.dist-info/METADATA", metadata)
        archive.writestr("thing/__init__.py", "raise SystemExit('never run')")
        for name in models:
            archive.writestr(name, b"x")
    return path


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("License-Expression: Apache-2.0\nLicense: old\n", "Apache-2.0"),
        ("License: MIT\n the long text\n", "MIT"),
        ("Classifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        ("Name: thing\n", "not stated; read the package's licence file"),
    ],
)
def test_the_licence_is_what_the_metadata_states(tmp_path: Path, metadata: str, words: str) -> None:
    assert corpus.licence(wheel(tmp_path / "thing-1-py3-none-any.whl", metadata)) == words


def test_only_model_files_leave_a_wheel(tmp_path: Path) -> None:
    packed = wheel(
        tmp_path / "thing-1-py3-none-any.whl", "Name: x\n", "m/a.onnx", "m/a.onnx.data", "m/a.onnx_data", "m/x.py"
    )
    found = corpus.extract(packed, tmp_path)
    assert sorted(path.name for path in found.rglob("*") if path.is_file()) == [
        "a.onnx",
        "a.onnx.data",
        "a.onnx_data",
    ]
    assert corpus.extract(packed, tmp_path) == found


def test_a_golden_worker_declares_only_what_every_run_kept(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Concat", ["x", "x"], ["y"], axis=1)],
        "doubling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "width"])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "m.onnx"))
    recipe = {"shapes": {}, "dims": {"width": (2, 6, 2)}, "ranges": {}, "fills": {"x": (-1.0, 1.0)}}
    task = {"source": str(tmp_path / "m.onnx"), "target": str(tmp_path / "b"), "recipe": recipe}
    seen = corpus_goldens.body(task, lambda _: None)
    assert seen["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["n", "width"]}]
    assert seen["outputs"][0]["shape"] == ["n", "?"]  # it says width and is twice as wide
    assert seen["dims"] == {"n": {"min": 1, "max": 2}, "width": {"min": 2, "max": 6}}
    assert len(list((tmp_path / "b").glob("test_data_set_*/output_0.pb"))) == 3
    assert "failed" in corpus_goldens.body({**task, "source": str(tmp_path / "none.onnx")}, lambda _: None)


def test_tools_never_install_what_they_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def record(command: list[str], **_: object) -> object:
        calls.append(command)
        wheel(tmp_path / "silero_vad-6.2.3-py3-none-any.whl", "Name: x\n")
        return type("Result", (), {"returncode": 0, "stderr": ""})()

    monkeypatch.setattr("tools.corpus.subprocess.run", record)
    package = next(package for package in PACKAGES if package.name == "silero-vad")
    found = corpus.fetch(package, tmp_path)
    assert corpus.fetch(package, tmp_path) == found
    (command,) = calls
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "silero-vad==6.2.3"
