"""The loader's optimised artifacts: only the very same identity, only the very same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd import loader_optimised, loader_runtime
from acceptd.errors import ArtifactRefusedError
from acceptd.judge.artifacts import COMPILED, LAYOUTS
from acceptd.loader_optimised import OptimisedCache, uncached
from acceptd.loader_options import Options
from acceptd.loader_session import Session
from acceptd.policy.profile import Profile
from acceptd.release.model import SessionOptions
from tests import judge_world
from tests.release_world import World

pytestmark = pytest.mark.unit

KEY = b"k" * 32
X = np.random.default_rng(7).normal(size=(2, 16, 8, 8)).astype(np.float32)


def conv_model(seed: int = 3) -> bytes:
    """A convolution: onnxruntime's optimiser gives it a layout of the processor where it has one."""
    weight = np.random.default_rng(seed).normal(size=(32, 16, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32, 8, 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def manifest(version: str) -> dict[str, Any]:
    value = {"dtype": "float32"}
    return {
        "schema": 1,
        "bundle": {"id": "mosaic/evidence-disposition", "version": version},
        "dims": {"batch": {"min": 1, "max": 4}},
        "models": [
            {
                "name": "main",
                "file": "model.onnx",
                "inputs": [{"name": "x", "shape": ["batch", 16, 8, 8], **value}],
                "outputs": [{"name": "y", "shape": ["batch", 32, 8, 8], **value}],
            }
        ],
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("optimised"))
    made.released(files={"model.onnx": conv_model()}, manifest=manifest("1.0.0"))
    yield made
    made.close()


def opened(world: World, place: Path, key: bytes | None = None) -> Session:
    return world.open().session(optimised_cache=OptimisedCache(place, key))


def status(session: Session) -> tuple[str, str]:
    assert session.artifact is not None
    return session.artifact.status, session.artifact.refused


def parts(place: Path) -> tuple[Path, Path]:
    (record,), (data,) = place.glob("*.json"), place.glob("*.onnx")
    return record, data


def test_the_second_session_loads_what_the_first_kept_and_computes_the_same(world: World, tmp_path: Path) -> None:
    plain = world.open().session()
    first, second = opened(world, tmp_path / "c"), opened(world, tmp_path / "c")
    assert (status(first), status(second)) == (("built", ""), ("cached", ""))
    want = plain.run({"x": X})["y"]
    for session in (first, second):
        np.testing.assert_array_equal(session.run({"x": X})["y"], want)
    assert plain.artifact is None
    assert first.runtime_identity == plain.runtime_identity  # the source ran
    assert second.runtime_identity != plain.runtime_identity  # something else ran, and says so
    assert second.artifact is not None
    assert second.runtime["artifact"] == second.artifact.digest
    record, data = parts(tmp_path / "c")
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (record, data)} == {0o600}
    told = json.loads(record.read_bytes())
    assert told["result"]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest() == second.artifact.sha256
    assert told["identity"]["source"]["sha256"] == hashlib.sha256(conv_model()).hexdigest()
    assert set(told["identity"]) == {
        "schema", "source", "optimiser", "configuration", "hardware_class", "runtime_identity",
    }  # fmt: skip
    assert not list((tmp_path / "c").glob(".tmp-*"))


def flip(data: Path) -> None:
    raw = bytearray(data.read_bytes())
    raw[len(raw) // 2] ^= 1
    data.write_bytes(bytes(raw))


def other_model(record: Path, data: Path) -> None:
    model = onnx.load_from_string(conv_model())
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((32, 16, 3, 3), np.float32), "w"))
    data.write_bytes(model.SerializeToString())


def other_model_with_its_digest(record: Path, data: Path) -> None:
    """Whoever writes both files, but has no key."""
    other_model(record, data)
    told = json.loads(record.read_bytes())
    told["result"]["sha256"] = hashlib.sha256(data.read_bytes()).hexdigest()
    record.write_text(json.dumps(told))


def rewritten(key: str, value: Any) -> Callable[[Path, Path], None]:
    def change(record: Path, _data: Path) -> None:
        told = json.loads(record.read_bytes())
        told["identity"][key] = value
        record.write_text(json.dumps(told))

    return change


def linked(_record: Path, data: Path) -> None:
    data.rename(data.with_name("elsewhere"))
    data.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("change", "words", "key"),
    [
        (lambda _record, data: flip(data), "bytes are not those", None),
        (other_model, "bytes are not those", None),
        (other_model_with_its_digest, "not made with this key", KEY),
        (lambda record, _data: record.unlink(), "without its record", None),
        (lambda _record, data: data.unlink(), "without its artifact", None),
        (lambda record, _data: record.write_text("{"), "another form", None),
        (lambda record, _data: record.write_text("[1]"), "another form", None),
        (lambda record, _data: record.write_text('{"identity": [], "result": {"sha256": ""}}'), "identity", None),
        (
            lambda record, _data: record.write_text('{"identity": {}, "result": {"sha256": "\u00e9"}}'),
            "another form",
            None,
        ),
        (
            lambda record, _data: record.write_text('{"identity": 1, "mac": "\u00e9", "result": {"sha256": ""}}'),
            "form",
            KEY,
        ),
        (rewritten("runtime_identity", "0" * 64), "another identity: runtime_identity", None),
        (rewritten("hardware_class", "x86-64-v1"), "another identity: hardware_class", None),
        (rewritten("configuration", "0" * 64), "another identity: configuration", None),
        (rewritten("runtime_identity", "0" * 64), "not made with this key", KEY),
        (linked, "symbolic", None),
        (lambda _record, data: os.link(data, data.with_name("second")), "alone", None),
    ],
)
def test_what_is_not_the_very_same_artifact_is_refused_and_made_anew(
    change: Callable[[Path, Path], object], words: str, key: bytes | None, world: World, tmp_path: Path
) -> None:
    place = tmp_path / "c"
    opened(world, place, key)
    change(*parts(place))
    session = opened(world, place, key)
    made, refused = status(session)
    assert made == "built"
    assert words in refused
    np.testing.assert_array_equal(session.run({"x": X})["y"], world.open().session().run({"x": X})["y"])
    for extra in ("second", "elsewhere"):
        (place / extra).unlink(missing_ok=True)
    assert status(opened(world, place, key)) == ("cached", "")


@pytest.mark.parametrize("part", [0, 1])
def test_a_directory_in_the_place_of_an_artifact_costs_no_session(part: int, world: World, tmp_path: Path) -> None:
    opened(world, tmp_path / "c")
    victim = parts(tmp_path / "c")[part]
    victim.unlink()
    victim.mkdir()
    session = opened(world, tmp_path / "c")
    assert "is no file of this process's user alone" in status(session)[1]
    np.testing.assert_array_equal(session.run({"x": X})["y"], world.open().session().run({"x": X})["y"])


def test_an_artifact_of_another_runtime_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(world, tmp_path / "here")
    with monkeypatch.context() as patched:
        patched.setattr(loader_runtime.cpu, "host", lambda: "x86-64-v9")
        assert status(opened(world, tmp_path / "here")) == ("built", "")  # another name: nothing of it lies there
    # Somebody copies one machine's artifact to where another machine's would lie.
    names = sorted(path.stem for path in (tmp_path / "here").glob("*.json"))
    mine = next(
        name
        for name in names
        if json.loads((tmp_path / "here" / f"{name}.json").read_bytes())["identity"]["hardware_class"]
        != "x86-64-v9"
    )
    (foreign,) = set(names) - {mine}
    for suffix in ("json", "onnx"):
        shutil.copyfile(tmp_path / "here" / f"{foreign}.{suffix}", tmp_path / "here" / f"{mine}.{suffix}")
    made, refused = status(opened(world, tmp_path / "here"))
    assert made == "built"
    assert "hardware_class, runtime_identity" in refused


def test_a_key_is_needed_again_and_another_one_does_not_do(world: World, tmp_path: Path) -> None:
    assert status(opened(world, tmp_path / "c", KEY)) == ("built", "")
    assert status(opened(world, tmp_path / "c", KEY)) == ("cached", "")
    assert status(opened(world, tmp_path / "c", b"z" * 32))[0] == "built"
    opened(world, tmp_path / "d")
    assert status(opened(world, tmp_path / "d", KEY))[0] == "built"  # records without a key do not count with one
    with pytest.raises(ArtifactRefusedError, match="16 bytes"):
        opened(world, tmp_path / "c", b"short")


@pytest.mark.parametrize("kind", ["group", "world", "file", "link", "nowhere"])
def test_a_directory_that_others_may_enter_is_no_cache(kind: str, world: World, tmp_path: Path) -> None:
    place = tmp_path / "c"
    if kind in {"group", "world"}:
        place.mkdir()
        place.chmod(0o770 if kind == "group" else 0o701)
    elif kind == "file":
        place.write_bytes(b"")
    elif kind == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        place.symlink_to("real")
    else:
        place = tmp_path / "no" / "such"
    with pytest.raises(ArtifactRefusedError):
        opened(world, place)


def test_another_source_model_has_another_artifact(world: World, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    fresh = World(tmp_path / "other")
    try:
        fresh.released(files={"model.onnx": conv_model(seed=4)}, manifest=manifest("2.0.0"))
        opened(world, tmp_path / "c")
        assert status(opened(fresh, tmp_path / "c")) == ("built", "")
        assert len(list((tmp_path / "c").glob("*.json"))) == 2
    finally:
        fresh.close()


def test_an_artifact_that_may_have_external_data_is_not_kept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_optimised, "_EXTERNAL", b"Reorder" if _reorders(tmp_path / "a", world) else b"Conv")
    session = opened(world, tmp_path / "c")
    assert status(session) == ("none", "")
    assert session.artifact is not None
    assert "external data" in session.artifact.reason
    assert not list((tmp_path / "c").iterdir())


def _reorders(place: Path, world: World) -> bool:
    opened(world, place)
    return b"Reorder" in parts(place)[1].read_bytes()


def test_a_full_disk_costs_time_and_no_session(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loader_optimised.Shelf, "_put", full)
    session = opened(world, tmp_path / "c")
    assert session.artifact is not None
    assert "No space left" in session.artifact.reason
    session.run({"x": X})


def test_what_onnxruntime_cannot_load_again_is_made_anew_and_said(world: World, tmp_path: Path) -> None:
    shelf = loader_optimised.Shelf(OptimisedCache(tmp_path / "c"))
    identity = {"model": "a"}

    def built(target: str) -> str:
        Path(target).write_bytes(b"optimised")
        return "made"

    def broken(_data: bytes) -> str:
        raise RuntimeError("x" * 1000)

    assert shelf.session(identity, broken, built)[1].status == "built"
    found, artifact = shelf.session(identity, broken, built)
    assert (found, artifact.status) == ("made", "built")
    assert artifact.refused.startswith("onnxruntime cannot load it: xxx")
    assert len(artifact.refused) < 300
    assert shelf.session(identity, lambda data: data, built)[0] == b"optimised"


@pytest.mark.parametrize(("size", "said"), [(-1, "onnxruntime wrote no artifact"), (11, "has more than 10 bytes")])
def test_an_artifact_that_is_none_or_too_large_is_not_kept(
    size: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_optimised, "MAX_RESULT_BYTES", 10)

    def built(target: str) -> str:
        if size >= 0:
            Path(target).write_bytes(b"x" * size)
        return "made"

    found, artifact = loader_optimised.Shelf(OptimisedCache(tmp_path / "c")).session({}, lambda data: data, built)
    assert (found, artifact.status, said in artifact.reason) == ("made", "none", True)
    assert not list((tmp_path / "c").iterdir())


def test_a_kept_artifact_that_grew_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(target: str) -> str:
        Path(target).write_bytes(b"0123456789")
        return "made"

    shelf = loader_optimised.Shelf(OptimisedCache(tmp_path / "c"))
    shelf.session({}, lambda data: data, built)
    monkeypatch.setattr(loader_optimised, "MAX_RESULT_BYTES", 9)
    found, artifact = shelf.session({}, lambda data: data, built)
    assert (found, artifact.status, "has 10 bytes; 9 are allowed" in artifact.refused) == ("made", "none", True)


def test_a_disk_that_fails_within_a_file_leaves_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(target: str) -> str:
        Path(target).write_bytes(b"optimised")
        return "made"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shelf = loader_optimised.Shelf(OptimisedCache(tmp_path / "c"))
    with monkeypatch.context() as patched:
        patched.setattr("acceptd.loader_optimised.os.rename", full)
        _, artifact = shelf.session({}, lambda data: data, built)
    assert artifact.reason == "the artifact could not be kept: No space left on device"
    assert not list((tmp_path / "c").iterdir())


def test_where_nothing_is_optimised_or_a_device_counts_nothing_is_kept() -> None:
    options = Options(SessionOptions.of(Profile(optimisation="disable")).model_dump(mode="json"))
    assert "nothing" in uncached(options, "CPUExecutionProvider")
    usual = Options(SessionOptions().model_dump(mode="json"))
    assert "device" in uncached(usual, "CUDAExecutionProvider")
    assert uncached(usual, "CPUExecutionProvider") == ""


# -- a bundle whose source is somebody's optimised artifact


@pytest.mark.parametrize(
    ("domain", "op_type", "code", "verdict"),
    [
        ("com.microsoft.nchwc", "ReorderInput", "target/optimised-artifact", "held"),
        ("com.ms.internal.nhwc", "Conv", "target/optimised-artifact", "held"),
        ("com.microsoft", "EPContext", "target/compiled-artifact", "rejected"),
        ("com.microsoft", "FusedConv", "", "accepted"),
    ],
)
def test_an_optimisers_result_as_source_is_named(domain: str, op_type: str, code: str, verdict: str) -> None:
    facts = judge_world.facts()
    use = facts.operators[0].model_copy(update={"domain": domain, "op_type": op_type, "where": "graph/node[7]"})
    facts = facts.model_copy(update={"operators": [*facts.operators, use]})
    policy = judge_world.Policy.model_validate({"operators": {"mode": "any"}})
    found = judge_world.verdict(judge_world.submission([judge_world.inspect(facts=facts)]), policy=policy)
    assert found.verdict == verdict, found.findings
    told = [one for one in found.findings if one.code.startswith("target/")]
    assert [one.code for one in told] == ([code] if code else [])
    if told:
        assert "node[7]" in told[0].where


def test_what_the_optimiser_of_this_machine_makes_is_recognised(world: World, tmp_path: Path) -> None:
    if not _reorders(tmp_path / "c", world):
        pytest.skip("onnxruntime has no layout of its own for this processor")
    model = onnx.load_from_string(parts(tmp_path / "c")[1].read_bytes())
    assert {node.domain for node in model.graph.node} & LAYOUTS
    assert not {(node.domain, node.op_type) for node in model.graph.node} & COMPILED
