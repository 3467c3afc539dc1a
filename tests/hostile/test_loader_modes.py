"""Attacks on the bytes between hash and run, in both modes of the loader: memory proves more than mapped."""

from __future__ import annotations

import _thread
import gc
import hashlib
import io
import json
import mmap
import os
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd.errors import DigestMismatchError, LoaderError, RuntimeRefusedError, UsageError
from acceptd.loader import OpenRelease
from acceptd.release import content, objects
from acceptd.release.model import SessionOptions
from acceptd.release.trust import File
from tests.release_world import MODEL, World
from tests.threads import die_at_once, only

pytestmark = pytest.mark.hostile

MODES = ("mapped", "memory")
SIZE = 600
"""Side of the weights: 1.4 MB, so that onnxruntime maps them."""
ONES = [[1.0] * SIZE]


def external(tensor: TensorProto, location: str) -> bytes:
    """Move a tensor's bytes out of the model, to ``location``; return them."""
    data = bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(len(data)))):
        tensor.external_data.add(key=key, value=value)
    return data


def weights(value: float, name: str = "w") -> Any:
    return numpy_helper.from_array(np.full((SIZE, SIZE), value, np.float32), name)


def with_external(location: str = "weights.bin") -> tuple[bytes, bytes]:
    """Return a model whose weights lie beside it, and the weights: each output is the side's length.

    No MatMul: its weights are copied as a session is made, and a later write would change nothing.
    """
    tensor = weights(1.0)
    data = external(tensor, location)
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("ReduceSum", ["m"], ["y"], axes=[0])]
    graph = helper.make_graph(
        nodes, "weighty",
        [value("x", TensorProto.FLOAT, [1, SIZE])], [value("y", TensorProto.FLOAT, [1, SIZE])], [tensor],
    )  # fmt: skip
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 12)])
    return made.SerializeToString(), data


def in_subgraph() -> tuple[bytes, bytes]:
    """Return a model with the weights in both branches of an If."""
    value = helper.make_tensor_value_info

    def branch(name: str) -> tuple[Any, bytes]:
        tensor = weights(1.0, name)
        data = external(tensor, "weights.bin")
        nodes = [helper.make_node("MatMul", ["x", name], [f"{name}-out"])]
        out = value(f"{name}-out", TensorProto.FLOAT, [1, SIZE])
        return helper.make_graph(nodes, name, [], [out], [tensor]), data

    (then, data), (other, _) = branch("a"), branch("b")
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["yes"], to=TensorProto.BOOL),
        helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other),
    ]
    inputs = [value("x", TensorProto.FLOAT, [1, SIZE])]
    graph = helper.make_graph(nodes, "branches", inputs, [value("y", TensorProto.FLOAT, [1, SIZE])])
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    return made.SerializeToString(), data


def manifest(file: str = "model.onnx") -> dict[str, Any]:
    row = {"dtype": "float32", "shape": [1, SIZE]}
    vectors = [{"sets": ["golden/*"]}]
    model = {"name": "main", "file": file, "inputs": [{"name": "x", **row}], "outputs": [{"name": "y", **row}]}
    return {"schema": 1, "bundle": {"id": MODEL, "version": "1.0.0"}, "models": [{**model, "vectors": vectors}]}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The working directory is the attacker's: his own weights lie there under every name."""
    made = World(tmp_path)
    here = tmp_path / "cwd"
    here.mkdir()
    (here / "weights.bin").write_bytes(np.full((SIZE, SIZE), 7.0, np.float32).tobytes())
    monkeypatch.chdir(here)
    yield made
    made.close()


def released(world: World, model: bytes, data: bytes, name: str = "weights.bin", **more: bytes) -> None:
    files = {"model.onnx": model, name: data, "golden/set/output_0.pb": b"expected", **more}
    world.promote(world.accepted(files=files, manifest=manifest()), options=SessionOptions(optimisation="disable"))


def answer(session: Any) -> float:
    return float(session.run({"x": ONES})["y"][0, 0])


def write_in_place(path: Path) -> None:
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(np.full((SIZE, SIZE), 5.0, np.float32).tobytes())


def replace_by_rename(path: Path) -> None:
    aside = path.with_name("aside")
    aside.write_bytes(np.full((SIZE, SIZE), 5.0, np.float32).tobytes())
    os.rename(aside, path)


SWAPS = [write_in_place, replace_by_rename, Path.unlink]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights count as a large file, of which a session computes from the loader's own bytes."""
    monkeypatch.setattr(content, "_SMALL", 1 << 20)


@pytest.mark.usefixtures("large")
def test_write_after_load_reaches_no_large_file_that_a_session_borrows(world: World) -> None:
    """Neither by the file nor by what the release gives out: a mapping of our own, in a view without writing."""
    released(world, *with_external())
    opened = world.open(mode="memory")
    session = opened.session()
    write_in_place(opened.path / "weights.bin")
    kept: Any = opened.contents["weights.bin"]
    assert isinstance(kept.obj, mmap.mmap)
    for write in (lambda: kept.__setitem__(0, 1), lambda: np.frombuffer(kept, np.float32).__setitem__(0, 1)):
        with pytest.raises((TypeError, ValueError), match=r"read-only|assignment destination"):
            write()
    assert answer(session) == SIZE
    assert opened.read("weights.bin") == with_external()[1]


@pytest.mark.usefixtures("large")
def test_borrowed_bytes_live_as_long_as_their_sessions_and_no_longer(world: World) -> None:
    """Freed before, another allocation's bytes would be the weights; kept after, a watcher's memory would grow."""
    released(world, *with_external())
    opened = world.open(mode="memory")
    kept: Any = opened.contents["weights.bin"]
    mapping = weakref.ref(kept.obj)
    session = opened.session()._session  # onnxruntime's own: nothing of the loader holds on to it
    del opened, kept
    gc.collect()
    assert mapping() is not None
    assert session.run(["y"], {"x": np.ones((1, SIZE), np.float32)})[0][0, 0] == SIZE
    del session
    gc.collect()
    assert mapping() is None


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("offset", "length"), [("4", str(SIZE * SIZE * 4)), (str(1 << 62), "64"), ("0", str(1 << 62))]
)
def test_external_data_that_leads_outside_the_borrowed_bytes_is_refused(
    world: World, offset: str, length: str
) -> None:
    """Else a session would compute from the memory beside them. No gate accepts such a model; were it released."""
    model = onnx.load_from_string(with_external()[0])
    for entry in model.graph.initializer[0].external_data:
        entry.value = {"offset": offset, "length": length}.get(entry.key, entry.value)
    released(world, model.SerializeToString(), with_external()[1])
    with pytest.raises(RuntimeRefusedError):
        world.open(mode="memory").session()


@pytest.mark.usefixtures("large")
def test_external_data_at_an_odd_offset_is_the_same_data(world: World) -> None:
    """onnxruntime borrows what is aligned, and copies the rest."""
    model, data = with_external()
    made = onnx.load_from_string(model)
    next(one for one in made.graph.initializer[0].external_data if one.key == "offset").value = "3"
    released(world, made.SerializeToString(), b"odd" + data)
    assert answer(world.open(mode="memory").session()) == SIZE


@pytest.mark.usefixtures("large")
def test_an_optimised_artifact_made_of_borrowed_bytes_holds_them_and_no_address(
    world: World, tmp_path: Path
) -> None:
    """onnxruntime names bytes in memory by their address: in a file that would be read in another process."""
    model, data = with_external()
    world.promote(world.accepted(files={"model.onnx": model, "weights.bin": data}, manifest=manifest()))
    found = []
    for _ in range(2):
        session = world.open(mode="memory").session(optimised_cache=tmp_path / "cache")
        assert answer(session) == SIZE
        found.append(session.artifact.status if session.artifact is not None else "")
    assert found == ["built", "cached"]
    (kept,) = [path.read_bytes() for path in (tmp_path / "cache").glob("*.onnx")]
    assert data in kept
    assert b"ORT_MEM_ADDR" not in kept


class _Racing(io.FileIO):
    """A file that somebody changes once its first part was read."""

    def __init__(self, path: Path, change: Callable[[Path], None]) -> None:
        super().__init__(path)
        self._path, self._change = path, change

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        self._change(self._path)
        return int(count or 0)


def shorten(path: Path) -> None:
    os.truncate(path, content._STEP)


def overwrite(path: Path) -> None:
    path.write_bytes(b"b" * path.stat().st_size)


def refuse(_: Path) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("spoil", [None, partial(only, 0), die_at_once], ids=["beside", "no-thread", "no-memory"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, b"a" * (5 << 20)),
        (shorten, b"a" * (1 << 20)),
        (overwrite, b"a" * (1 << 20) + b"b" * (4 << 20)),
        (refuse, None),
    ],
    ids=["whole", "truncated", "overwritten", "unreadable"],
)
def test_a_large_file_that_changes_while_it_is_read_has_the_digest_of_what_was_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    expected: bytes | None,
    spoil: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"a" * (5 << 20))

    if spoil is not None:
        spoil(monkeypatch)
    before = _thread._count()
    with _Racing(path, change) as stream:
        file = File("weights.bin", "", 5 << 20)
        if expected is None:
            with pytest.raises(OSError, match="Input/output"):
                content.kept_content(stream, file)
        else:
            kept, digest = content.kept_content(stream, file)
            assert digest == hashlib.sha256(expected).hexdigest()
            assert bytes(kept[: len(expected)]) == expected
    assert _thread._count() == before


@pytest.mark.parametrize("mode", MODES)
def test_both_modes_load_external_data_of_the_bundle_and_none_of_the_working_directory(
    world: World, mode: str
) -> None:
    released(world, *with_external())
    assert answer(world.open(mode=mode).session()) == SIZE


def test_write_after_load_in_memory_changes_nothing_and_mapped_it_may(world: World) -> None:
    """What FACTS measured: a mapped session follows the file. So memory mode is not the same promise twice."""
    released(world, *with_external())
    opened = world.open(mode="memory")
    session, mapped = opened.session(), world.open(mode="mapped").session()
    write_in_place(opened.path / "weights.bin")
    assert answer(session) == SIZE
    assert answer(mapped) == 5 * SIZE  # the control: the write did reach what a mapped session computes


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("file", ["weights.bin", "model.onnx"])
def test_swap_between_hash_and_open(world: World, file: str, swap: Callable[[Path], None]) -> None:
    released(world, *with_external())
    in_memory, mapped = world.open(mode="memory"), world.open()
    swap(mapped.path / file)
    assert answer(in_memory.session()) == SIZE
    assert in_memory.read(file)[:4] == {"weights.bin": b"\0\0\x80?"}.get(file, with_external()[0][:4])
    with pytest.raises(LoaderError):
        mapped.session()
    with pytest.raises(LoaderError):
        mapped.read(file)


@pytest.mark.parametrize("mode", MODES)
def test_swap_while_a_file_is_hashed(world: World, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that falls between first and last byte of the hash is in it, or does not reach the session."""
    released(world, *with_external())
    path = world.open().path / "weights.bin"
    real = objects.kept_content

    def racing(stream: Any, file: File) -> Any:
        found = real(stream, file)
        if file.path == "weights.bin":
            write_in_place(path)
        return found

    monkeypatch.setattr(objects, "kept_content", racing)
    if mode == "memory":
        assert answer(world.open(mode=mode).session()) == SIZE
    else:
        write_in_place(path)
        with pytest.raises(DigestMismatchError):
            world.open(mode=mode)


def test_external_data_of_a_subgraph_is_never_taken_from_the_working_directory(world: World) -> None:
    """onnxruntime has no table for it and would look there, silently; mapped mode finds it beside the model."""
    released(world, *in_subgraph())
    assert answer(world.open().session()) == SIZE
    with pytest.raises(RuntimeRefusedError):
        world.open(mode="memory").session()


def test_a_model_without_other_files_takes_nothing_from_the_working_directory(world: World) -> None:
    model, _ = with_external()
    world.promote(world.accepted(files={"model.onnx": model}, manifest=manifest()))
    with pytest.raises(RuntimeRefusedError):
        world.open(mode="memory").session()


def test_external_data_below_the_models_directory_is_found_by_the_models_own_names(world: World) -> None:
    model, data = with_external("deep/weights.bin")
    files = {"part/model.onnx": model, "part/deep/weights.bin": data, "deep/weights.bin": b"another"}
    made = world.accepted(files=files, manifest=manifest("part/model.onnx"))
    world.promote(made)
    for mode in MODES:
        assert answer(world.open(mode=mode).session()) == SIZE


def test_golden_sets_are_hashed_and_not_kept(world: World) -> None:
    released(world, *with_external(), **{"golden.txt": b"a tokenizer", "golden/readme": b"of the sets"})
    opened = world.open(mode="memory")
    assert sorted(opened.contents) == ["golden.txt", "model.onnx", "weights.bin"]
    assert opened.read("golden.txt") == b"a tokenizer"
    assert opened.read("golden/set/output_0.pb") == b"expected"
    (opened.path / "golden/set/output_0.pb").chmod(0o644)
    (opened.path / "golden/set/output_0.pb").write_bytes(b"expectee")
    with pytest.raises(DigestMismatchError):
        world.open(mode="memory")


def test_a_file_is_measured_before_memory_is_taken_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    released(world, *with_external())
    path = world.open().path / "weights.bin"
    path.chmod(0o644)
    os.truncate(path, 1 << 40)

    real = objects.kept_content

    def taken(stream: Any, file: File) -> Any:
        assert file.path != "weights.bin", "memory was taken for a file of another size"
        return real(stream, file)

    monkeypatch.setattr(objects, "kept_content", taken)
    with pytest.raises(DigestMismatchError, match="bytes, not the"):
        world.open(mode="memory")


def test_a_mode_that_there_is_not(world: World) -> None:
    released(world, *with_external())
    with pytest.raises(UsageError, match="mapped, memory"):
        world.open(mode="paranoid")


def test_memory_mode_can_keep_an_optimised_artifact_and_loads_it(world: World, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["i"]), helper.make_node("Relu", ["i"], ["y"])], "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, SIZE])],
    )  # fmt: skip
    small = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    world.promote(world.accepted(files={"model.onnx": small.SerializeToString()}, manifest=manifest()))
    opened: OpenRelease = world.open(mode="memory")
    found = [opened.session(optimised_cache=tmp_path / "cache").artifact for _ in range(2)]
    assert [one.status for one in found if one is not None] == ["built", "cached"]
    assert json.dumps(opened.labels) == "null"
