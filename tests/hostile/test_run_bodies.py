"""Hostile golden files and models against the bodies of ``vectors`` and ``run``, outside the cell.

What may crash or never end runs in a child process with resource limits; the walls and the outer
limits themselves are tested in the cell.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import random
import resource
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from sandbox import run
from sandbox.load import AT_ONCE, Load, digest
from sandbox.messages import RefusedError, encode
from tests.run_world import (
    Recorder,
    blob,
    classifier,
    decode,
    execute,
    model_bytes,
    spec_of,
    tensor_info,
    write_set,
)

pytestmark = pytest.mark.hostile

ONES = np.ones((1, 4), np.float32)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def constant(name: str, array: Any) -> Any:
    return numpy_helper.from_array(np.asarray(array), name)


def in_child(action: Callable[[], Any], *, cpu_seconds: int = 2, data_bytes: int = 2 << 30) -> tuple[int, str]:
    """Run ``action`` in a forked child under RLIMIT_CPU and RLIMIT_DATA; return (wait status, JSON of its result).

    RefusedError becomes its code. The child has one thread, as the warm parent has.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child reports through the pipe
        try:
            faulthandler.disable()  # pytest's would print a traceback for the expected death
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
            resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                result = action()
            except RefusedError as error:
                result = error.code
            os.write(writer, json.dumps(result).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        text = file.read().decode()
    _, status = os.waitpid(pid, 0)
    return status, text


class Transcript:
    """Keeps frames in shared memory, so that what was said before a death is known."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("frames")

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        os.write(
            self._descriptor, json.dumps([frame_type, json.loads(encode(frame_type, body)[5:])]).encode() + b"\n"
        )

    def data(self, payload: bytes | memoryview) -> None:
        raise AssertionError("no raw data")

    def frames(self) -> list[tuple[str, dict[str, Any]]]:
        text = os.pread(self._descriptor, 1 << 24, 0).decode()
        return [(kind, body) for kind, body in map(json.loads, text.splitlines())]


def run_in_child(
    spec: dict[str, Any], inputs: int | None = None
) -> tuple[int, str, list[tuple[str, dict[str, Any]]]]:
    transcript = Transcript()
    blobs = {"inputs": blob() if inputs is None else inputs, "outputs": blob()}
    status, text = in_child(lambda: run.body({"kind": "run", "spec": spec}, transcript, blobs))
    return status, text, transcript.frames()


def with_golden(root: Path, raw: bytes, *inputs: Any, **changes: Any) -> tuple[dict[str, Any], int]:
    frame, descriptor, _ = decode(root, write_set(root, "set", list(inputs), [ONES]))
    return spec_of(root, raw, sets=frame["sets"], **changes), descriptor


def test_a_division_trap_in_a_constant_kills_only_the_job_and_says_how_far_it_came(tmp_path: Path) -> None:
    node = helper.make_node("Div", ["a", "b"], ["y"])
    weights = [constant("a", np.array([-(2**63)])), constant("b", np.array([-1]))]
    raw = model_bytes([node], [], [tensor_info("y", INT64, [1])], weights)
    status, _, frames = run_in_child(spec_of(tmp_path, raw))
    assert os.WTERMSIG(status) == signal.SIGFPE
    assert [body["name"] for kind, body in frames if kind == "step"][-1] == "options"


def test_a_division_trap_that_is_fed_comes_after_the_placement(tmp_path: Path) -> None:
    node = helper.make_node("Div", ["a", "b"], ["y"])
    raw = model_bytes([node], [tensor_info(n, INT64, [1]) for n in "ab"], [tensor_info("y", INT64, [1])])
    spec, inputs = with_golden(tmp_path, raw, np.array([-(2**63)]), np.array([-1]))
    status, _, frames = run_in_child(spec, inputs)
    assert os.WTERMSIG(status) == signal.SIGFPE
    assert [kind for kind, _ in frames][-1] == "placement"


def test_an_endless_loop_ends_at_the_cpu_limit(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["cond"], ["again"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [tensor_info("i", INT64, []), tensor_info("cond", TensorProto.BOOL, []), tensor_info("v", FLOAT, [1])],
        [tensor_info("again", TensorProto.BOOL, []), tensor_info("w", FLOAT, [1])],
    )
    node = helper.make_node("Loop", ["trips", "yes", "x"], ["y"], body=body)
    weights = [constant("trips", np.array(2**62)), constant("yes", np.array(True))]
    raw = model_bytes([node], [tensor_info("x", FLOAT, [1])], [tensor_info("y", FLOAT, [1])], weights)
    spec, inputs = with_golden(tmp_path, raw, np.ones(1, np.float32))
    status, _, frames = run_in_child(spec, inputs)
    assert os.WTERMSIG(status) == signal.SIGXCPU
    assert frames[-1][0] == "placement"


@pytest.mark.parametrize("terabytes", [4, 4000])
def test_an_allocation_without_end_is_refused_as_memory(tmp_path: Path, terabytes: int) -> None:
    node = helper.make_node("ConstantOfShape", ["n"], ["y"], value=helper.make_tensor("v", FLOAT, [1], [1.0]))
    raw = model_bytes([node], [tensor_info("n", INT64, [1])], [tensor_info("y", FLOAT, ["m"])])
    spec, inputs = with_golden(tmp_path, raw, np.array([terabytes << 38]))
    status, text, _ = run_in_child(spec, inputs)
    assert status == 0
    assert json.loads(text) == "resources/memory-limit"


def test_an_allocation_that_only_a_probe_asks_for_does_not_end_the_job(tmp_path: Path) -> None:
    shape = helper.make_node("Mul", ["n", "factor"], ["s"])
    node = helper.make_node("ConstantOfShape", ["s"], ["y"])
    weights = [constant("factor", np.array([1 << 40]))]
    raw = model_bytes([shape, node], [tensor_info("n", INT64, [1])], [tensor_info("y", FLOAT, ["m"])], weights)
    spec, inputs = with_golden(tmp_path, raw, np.array([0]), probes=True)
    status, text, frames = run_in_child(spec, inputs)
    assert status == 0
    assert "goldens" in json.loads(text)
    errors = {body["set"]: body.get("error", "") for kind, body in frames if kind == "case"}
    assert errors["set"] == ""
    assert errors["probe:ones"]


def test_bytes_of_another_format_reach_only_the_onnx_parser(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        execute(spec_of(tmp_path, b"\x18\0\0\0ORTM" + b"\0" * 64))
    assert caught.value.stage == "session"
    assert caught.value.code == "load/invalid-model"


def test_an_onnx_model_with_the_other_formats_mark_loads_as_onnx(tmp_path: Path) -> None:
    # producer_name is field 2: tag, length, then "ORTM" lies at offset 4 when an ir_version comes first
    head = b"\x08\x08\x12\x04ORTM"
    assert head[4:8] == b"ORTM"
    raw = head + classifier()
    channel, _ = execute(spec_of(tmp_path, raw))
    assert channel.all("schema")[0]["outputs"][0]["name"] == "probabilities"


def test_session_options_inside_the_model_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    model = onnx.load_from_string(classifier())
    config = {"session_options": {"enable_profiling": True, "intra_op_num_threads": 64}}
    model.metadata_props.add(key="ort_config", value=json.dumps(config))
    monkeypatch.chdir(tmp_path)
    execute(spec_of(tmp_path, model.SerializeToString()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


def test_external_data_is_looked_for_beside_the_model_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = TensorProto(name="weight", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    node = helper.make_node("Add", ["x", "weight"], ["y"])
    raw = model_bytes([node], [tensor_info("x", FLOAT, [4])], [tensor_info("y", FLOAT, [4])], [weight])
    elsewhere, model = tmp_path / "cwd", tmp_path / "model"
    elsewhere.mkdir()
    model.mkdir()
    (elsewhere / "weights.bin").write_bytes(b"\0" * 16)
    monkeypatch.chdir(elsewhere)
    with pytest.raises(RefusedError) as caught:
        execute(spec_of(model, raw))
    assert caught.value.stage == "session"


def test_names_of_a_model_cannot_break_the_frames(tmp_path: Path) -> None:
    name = 'a"\\\n\x00\u202e{"t":"done"}' + "x" * 6000
    node = helper.make_node("Identity", [name], ["y"])
    raw = model_bytes([node], [tensor_info(name, FLOAT, [1])], [tensor_info("y", FLOAT, [1])])
    channel, _ = execute(spec_of(tmp_path, raw))
    (schema,) = channel.all("schema")
    assert len(schema["inputs"][0]["name"]) <= 4096
    assert channel.frames[-1][0] == "placement"


def test_an_error_text_of_any_length_is_cut(tmp_path: Path) -> None:
    node = helper.make_node("F" * 100_000, ["x"], ["y"])
    raw = model_bytes([node], [tensor_info("x", FLOAT, [1])], [tensor_info("y", FLOAT, [1])])
    with pytest.raises(RefusedError) as caught:
        execute(spec_of(tmp_path, raw))
    assert len(caught.value.message) <= 4096


def test_a_pickle_in_an_npz_is_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "owned"),)

    np.savez(tmp_path / "inputs.npz", x=np.array([Bomb()], object))
    np.savez(tmp_path / "outputs.npz", y=ONES)
    order = {"model": "main", "name": "p", "format": "npz", "inputs": "inputs.npz", "outputs": "outputs.npz"}
    frame, _, _ = decode(tmp_path, order)
    assert [problem["code"] for problem in frame["problems"]] == ["payload/pickle", "vectors/undecodable"]
    assert not (tmp_path / "owned").exists()


def test_an_npz_whose_header_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000,), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(tmp_path / "inputs.npz", "w") as archive:
        archive.writestr("x.npy", header)
    np.savez(tmp_path / "outputs.npz", y=ONES)
    order = {"model": "main", "name": "p", "format": "npz", "inputs": "inputs.npz", "outputs": "outputs.npz"}

    def read() -> list[str]:
        frame, _, _ = decode(tmp_path, order)
        return [problem["code"] for problem in frame["problems"]]

    status, text = in_child(read)
    assert status == 0
    assert json.loads(text) in (["vectors/undecodable"], "resources/memory-limit")


def test_a_golden_that_is_nested_10_000_deep_is_refused(tmp_path: Path) -> None:
    raw = b""
    for _ in range(10_000):
        length = len(raw)
        varint = b""
        while length > 127:
            varint += bytes([length & 127 | 128])
            length >>= 7
        raw = b"\x10\x03\x2a" + varint + bytes([length]) + raw
    types = {"main": {"inputs": [{"name": "x", "kind": "sequence", "dtype": "float32"}], "outputs": []}}
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [raw], [ONES]), types=types)
    assert [problem["code"] for problem in frame["problems"]] == ["vectors/undecodable"]


def test_a_golden_may_not_point_at_another_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    message = TensorProto(data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    message.external_data.add(key="location", value="../secret")
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [message], [ONES]))
    assert frame["sets"] == []


def test_a_link_in_the_place_of_the_model_is_no_way_around_the_digest(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, classifier())
    (tmp_path / "other").write_bytes(b"x" * spec["size"])
    (tmp_path / "model.onnx").unlink()
    (tmp_path / "model.onnx").symlink_to("other")
    with pytest.raises(RefusedError) as caught:
        execute(spec)
    assert caught.value.code == "load/digest-mismatch"


@pytest.mark.parametrize("count", [1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
@pytest.mark.parametrize("what", ["as sealed", "grown", "shrunk", "another"])
def test_the_digest_is_of_the_whole_file_however_large_it_is(tmp_path: Path, count: int, what: str) -> None:
    raw = random.Random(count).randbytes(count)
    changed = {"as sealed": raw, "grown": raw + b"\0", "shrunk": raw[:-1], "another": raw[:-1] + b"%"}[what]
    (tmp_path / "model.onnx").write_bytes(changed)  # after its size was looked at
    load = Load({"model": "model.onnx", "size": count, "sha256": hashlib.sha256(raw).hexdigest()})
    load.path = str(tmp_path / "model.onnx")
    if what == "as sealed":
        assert digest(load) == hashlib.sha256(raw).hexdigest()
    else:
        with pytest.raises(RefusedError) as caught:
            digest(load)
        assert caught.value.code == "load/digest-mismatch"


def test_sets_that_lie_about_their_values_do_not_end_the_run(tmp_path: Path) -> None:
    lies: list[Any] = [
        {"kind": "tensor"},
        {"kind": "tensor", "dtype": "float32", "shape": [2**62, 2**62], "offset": 0, "nbytes": 0},
        {"kind": "string"},
        {"kind": "tensor", "dtype": "string", "shape": [3], "offset": 0, "nbytes": 0},
    ]
    sets = [{"name": f"s{n}", "inputs": [{"name": "", "value": lie}]} for n, lie in enumerate(lies)]
    channel: Recorder
    channel, _ = execute(spec_of(tmp_path, classifier(), sets=sets))
    found = channel.all("case")
    assert [case["set"] for case in found] == ["s0", "s1", "s2", "s3"]
    assert all(case["error"] for case in found)
