"""External data and files beside the model, through the real rooms: coverage, sharing, what is read how often."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from acceptd.intake.seal import seal_directory
from acceptd.policy.policy import LimitsTable
from examples import evidence_classifier as classifier
from examples import hostile_models as models
from examples import hostile_writers as writers
from sandbox import inspect
from tests import static_world as world
from tests.bench_world import Desk, desk, rewrite
from tests.payloads import PAYLOADS, elf
from tests.world import codes

pytestmark = pytest.mark.hostile

WEIGHT = np.array(classifier.WEIGHT, np.float32).tobytes()
PAGE = 4096


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("external")) as made:
        yield made


def bundle(path: Path, data: bytes = WEIGHT, *, location: str = "weights.bin", **entries: str) -> Path:
    """Write the good bundle with its weight, 48 bytes, in a file of ``data``."""
    entries = {"offset": "0", "length": "48", **entries}
    writers.plain(path, models.externalise(classifier.build_model(), location, **entries))
    target = path / location
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return path


def finding(report: dict[str, Any], code: str) -> dict[str, Any]:
    """Return the only finding of a code."""
    (one,) = [one for one in report["findings"] if one["code"] == code]
    return dict(one)


@pytest.mark.parametrize("location", ["weights.bin", "data/weights.bin", "a/b/model.onnx.data"])
def test_positive_control_with_alignment_and_a_checksum(location: str, place: Desk, tmp_path: Path) -> None:
    data = bytes(PAGE) + WEIGHT + bytes(PAGE - 48)
    checksum = hashlib.sha1(data).hexdigest()
    made = bundle(tmp_path / "b", data, location=location, offset=str(PAGE), checksum=checksum)
    report = place.check(made)
    assert report["verdict"] == "accepted", report["findings"]
    assert not codes(report, "reject", "hold", "warn")


@pytest.mark.parametrize("at", [0, 100, PAGE - 1])
def test_one_byte_before_the_tensor_that_is_not_zero(at: int, place: Desk, tmp_path: Path) -> None:
    data = bytearray(bytes(PAGE) + WEIGHT)
    data[at] = 1
    report = place.check(bundle(tmp_path / "b", bytes(data), offset=str(PAGE)))
    assert report["verdict"] == "held"
    one = finding(report, "external-data/uncovered-bytes")
    assert one["where"] == f"weights.bin: bytes 0 to {PAGE}"
    assert f"byte {at} " in one["message"]


def test_a_program_behind_the_last_tensor(place: Desk, tmp_path: Path) -> None:
    report = place.check(bundle(tmp_path / "b", WEIGHT + elf()))
    assert report["verdict"] == "rejected"
    assert "7f 45 4c 46" in finding(report, "external-data/uncovered-bytes")["message"]
    assert "weights.bin, byte 48" in finding(report, "payload/executable")["message"]


@pytest.mark.parametrize("second", [0, PAGE], ids=["the same bytes", "bytes of its own"])
def test_two_models_of_one_bundle_may_share_a_data_file(second: int, place: Desk, tmp_path: Path) -> None:
    data = WEIGHT.ljust(PAGE, b"\0") + (WEIGHT if second else b"")
    made = bundle(tmp_path / "b", data)
    raw = models.externalise(classifier.build_model(), "weights.bin", offset=str(second), length="48")
    (made / "second.onnx").write_bytes(raw)

    def more(document: dict[str, Any]) -> None:
        document["models"].append({**document["models"][0], "name": "second", "file": "second.onnx"})

    report = place.check(rewrite(made, more))
    assert report["verdict"] == "accepted", report["findings"]
    assert not codes(report, "warn")
    hidden = bytearray(data)
    hidden[60] = 7
    (made / "weights.bin").write_bytes(bytes(hidden))
    report = place.check(made)
    assert report["verdict"] == "held"
    assert "byte 60 " in finding(report, "external-data/uncovered-bytes")["message"]


def test_zeros_that_no_alignment_explains(place: Desk, tmp_path: Path) -> None:
    report = place.check(bundle(tmp_path / "b", WEIGHT + bytes(1 << 17)))
    assert report["verdict"] == "held"
    assert codes(report, "hold") == {"external-data/uncovered-bytes"}


@pytest.mark.parametrize("checksum", ["0" * 40, hashlib.sha1(b"").hexdigest()])
def test_a_checksum_of_another_file(checksum: str, place: Desk, tmp_path: Path) -> None:
    report = place.check(bundle(tmp_path / "b", checksum=checksum))
    assert codes(report, "reject") == {"external-data/checksum-mismatch"}
    assert "weight" in finding(report, "external-data/checksum-mismatch")["where"]


@pytest.mark.parametrize("checksum", ["", "12", "g" * 40, "0" * 64, "sha1:" + "0" * 40])
def test_a_checksum_that_is_no_sha1(checksum: str, tmp_path: Path) -> None:
    tensor = world.external(world.weight(), location="w.bin", checksum=checksum)
    found = world.inspected(tmp_path, world.with_weight(tensor), files={"w.bin": bytes(4)})
    assert found.codes() == {"external-data/bad-checksum"}


def many(count: int, *ranges: tuple[int, int]) -> onnx.ModelProto:
    """Return a model with ``count`` external float tensors over the given ranges of ``w.bin``, in turn."""
    tensors = []
    for index in range(count):
        offset, length = ranges[index % len(ranges)]
        tensor = world.weight(f"w{index}", (length // 4,))
        tensors.append(world.external(tensor, location="w.bin", offset=str(offset), length=str(length)))
    return world.model(initializer=tensors)


def beside(path: Path, model: onnx.ModelProto, data: bytes) -> Path:
    """Write a bundle with a model whose goldens are of no interest."""
    writers.plain(path, model.SerializeToString())
    (path / "w.bin").write_bytes(data)
    return path


def test_ten_thousand_tensors_on_one_range(place: Desk, tmp_path: Path) -> None:
    report = place.check(beside(tmp_path / "b", many(10_000, (0, 4096)), bytes(4096)))
    assert report["verdict"] != "accepted"
    assert finding(report, "external-data/aliased")["evidence"]["tensors"] == 10_000


def test_tensors_that_overlap_also_when_one_stands_in_a_function(place: Desk, tmp_path: Path) -> None:
    report = place.check(beside(tmp_path / "b", many(2, (0, 64), (60, 64)), bytes(124)))
    assert "external-data/overlap" in codes(report, "reject")
    inner = world.external(world.weight("v", (16,)), location="w.bin", offset="60", length="64")
    body = [helper.make_node("Constant", [], ["q"], value=inner)]
    function = helper.make_function("local", "F", ["p"], ["q"], body, [helper.make_opsetid("", 18)])
    outer = world.external(world.weight("w", (16,)), location="w.bin", offset="0", length="64")
    model = world.model(
        [helper.make_node("F", ["x"], ["y"], domain="local")], functions=[function], initializer=[outer]
    )
    report = place.check(beside(tmp_path / "c", model, bytes(124)))
    assert "functions[0] F" in finding(report, "external-data/overlap")["where"]


def test_caps_on_external_files_and_bytes(place: Desk, tmp_path: Path) -> None:
    made = bundle(tmp_path / "b")
    report = place.check(made, "limits.external_files=0", "limits.external_bytes=47")
    assert codes(report, "reject") == {"external-data/too-many-files", "external-data/too-many-bytes"}


def test_indices_of_a_sparse_tensor_that_lie_outside(tmp_path: Path) -> None:
    indices = TensorProto(name="i", data_type=TensorProto.INT64, dims=[1])
    world.external(indices, location="../secret", length="8")
    values = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[4])
    found = world.inspected(tmp_path, world.model(sparse_initializer=[sparse]))
    where = found.problem("external-data/path-escape")["where"]
    assert where.startswith("graph/sparse_initializer[0]/indices")


SPELLINGS = {
    "MODEL.ONNX": "names-forbidden-file",
    "Bundle.TOML": "names-forbidden-file",
    "TEST_DATA_SET_0/output_0.pb": "names-forbidden-file",
    "bundle.toml\0.bin": "path-escape",
    "x/../bundle.toml": "path-escape",
    "\uff42undle.toml": "names-forbidden-file",
    "spare.onnx": "names-forbidden-file",
    "spare.ORT": "names-forbidden-file",
    "HTTP://h/w": "remote-location",
    "http:w": "remote-location",
    "file:w": "remote-location",
    "s3://bucket/w": "remote-location",
    " https://h/w": "remote-location",
    "x/https://h/w": "remote-location",
    "\\\\?\\C:\\w": "remote-location",
    "/\\host/w": "remote-location",
    "D:w": "remote-location",
}


@pytest.mark.parametrize("location", SPELLINGS)
def test_another_spelling_of_what_no_tensor_may_name(tmp_path: Path, location: str) -> None:
    files = {
        "test_data_set_0/output_0.pb": bytes(64),
        "bundle.toml": b"x",
        "spare.onnx": bytes(64),
        "spare.ORT": bytes(64),
    }
    built = world.with_weight(world.external(world.weight(), location=location, length="4"))
    found = world.inspected(tmp_path, built, files=files, forbidden=("test_data_set_0/output_0.pb",))
    assert f"external-data/{SPELLINGS[location]}" in found.codes()
    assert found.frames["facts"]["external"][0]["inside"] is False


# -- files that ride along


def _lock(made: Path, document: dict[str, Any]) -> None:
    document["files"] = {
        path.relative_to(made).as_posix(): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in made.rglob("*")
        if path.is_file() and path.name != "bundle.toml"
    }


def test_every_undeclared_file_is_named_and_a_lock_accounts_for_it(place: Desk, tmp_path: Path) -> None:
    made = writers.plain(tmp_path / "b")
    (made / "README.md").write_text("# A model\n")
    (made / "test_data_set_0" / "notes.txt").write_text("in an unexpected place\n")
    report = place.check(made)
    assert report["verdict"] == "accepted"
    named = {one["where"] for one in report["findings"] if one["code"] == "manifest/undeclared-file"}
    assert named == {"README.md", "test_data_set_0/notes.txt"}
    assert place.check(made, policy="strict")["verdict"] != "accepted"

    locked = place.check(rewrite(made, partial(_lock, made)))
    assert "manifest/undeclared-file" not in codes(locked, "warn")
    assert locked["verdict"] == "accepted", locked["findings"]


@pytest.mark.parametrize("where", ["other.onnx", "test_data_set_0/m.ORT"])
def test_a_second_model_rides_along_under_no_lock(where: str, place: Desk, tmp_path: Path) -> None:
    made = writers.plain(tmp_path / "b")
    (made / where).write_bytes((made / "model.onnx").read_bytes())

    report = place.check(rewrite(made, partial(_lock, made)))
    assert report["verdict"] == "held", report["findings"]
    named = {one["where"] for one in report["findings"] if one["code"] == "manifest/undeclared-model"}
    assert named == {where}


@pytest.mark.parametrize("where", ["labels.txt", "test_data_set_0/tokenizer.json"])
@pytest.mark.parametrize("name", ["macos", "zip", "torch", "pickle-2", "numpy-objects", "script"])
def test_a_payload_in_a_file_that_no_model_reads(name: str, where: str, place: Desk, tmp_path: Path) -> None:
    made = writers.plain(tmp_path / "b")
    (made / where).write_bytes(PAYLOADS[name][0]())
    report = place.check(made)
    assert report["verdict"] != "accepted"
    assert finding(report, f"payload/{PAYLOADS[name][1]}")["where"] == where


# -- what is read


def rchar() -> int:
    """Return the bytes that this process has read by system calls."""
    text = Path("/proc/self/io").read_text("ascii")
    return int(re.search(r"^rchar: (\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]


SLACK = 256 << 10
"""Bytes of everything else: /proc itself, small looks back at a candidate."""


def large(root: Path) -> tuple[Path, int]:
    """Write a bundle of 9 MiB inside the model and 12 MiB beside it; return it and its size."""
    rng = np.random.default_rng(3)
    inner = world.weight("inner", (9 << 18,), rng.standard_normal(9 << 18, np.float32).tobytes())
    outer = world.external(world.weight("outer", (12 << 18,)), location="w.bin", offset="0", length=str(12 << 20))
    root.mkdir()
    (root / "model.onnx").write_bytes(world.model(initializer=[inner, outer]).SerializeToString())
    (root / "w.bin").write_bytes(rng.standard_normal(12 << 18, np.float32).tobytes())
    return root, sum(path.stat().st_size for path in root.iterdir())


def test_sealing_reads_every_byte_of_a_drop_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, size = large(tmp_path / "drop")
    taken: list[int] = []
    real_sendfile, real_readv = os.sendfile, os.readv

    def note(descriptor: int, got: int) -> int:
        taken.append(got if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(source)) else 0)
        return got

    def sendfile(out: int, descriptor: int, offset: None, count: int) -> int:
        return note(descriptor, real_sendfile(out, descriptor, offset, count))

    def readv(descriptor: int, buffers: list[memoryview]) -> int:
        return note(descriptor, real_readv(descriptor, buffers))

    monkeypatch.setattr(os, "sendfile", sendfile)
    monkeypatch.setattr(os, "readv", readv)
    before = rchar()
    seal_directory(source, tmp_path / "sealed", LimitsTable())
    assert sum(taken) == size
    # What the kernel copied was hashed as it lies in the sealed copy: read there once, and nothing else twice.
    assert size <= rchar() - before <= 2 * size + SLACK


def test_inspection_reads_every_byte_of_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, size = large(tmp_path / "drop")
    mapped: list[int] = []
    own: list[int] = []

    def resident() -> int:
        """Return the bytes of the model's mapping that were ever touched."""
        before = rchar()
        text = Path("/proc/self/smaps").read_text("ascii")
        own.append(rchar() - before)
        part = text[text.index(f"{source / 'model.onnx'}\n") :]
        return int(re.search(r"^Rss: +(\d+) kB$", part, re.MULTILINE)[1]) << 10  # type: ignore[index]

    send = world.Recorder.send

    def sent(self: world.Recorder, frame_type: str, body: dict[str, Any]) -> None:
        if frame_type == "shapes":
            mapped.append(resident())
        send(self, frame_type, body)

    monkeypatch.setattr(world.Recorder, "send", sent)
    spec = {
        "root": str(source),
        "model": "model.onnx",
        "files": {path.name: path.stat().st_size for path in source.iterdir()},
        "present": ["model.onnx", "w.bin"],
        "forbidden": ["model.onnx"],
    }
    before = rchar()
    found = world.recorded(inspect.body, spec)
    read = rchar() - before - sum(own)
    assert found.codes() == set(), found.codes()
    assert {"checker", "shapes"} <= found.frames.keys()
    assert found.frames["facts"]["read_bytes"] == size
    assert size <= read <= size + SLACK, "every byte once, by whoever reads"
    assert mapped[0] <= 4 << 20, "the walk maps the file; of the weights it touches what the kernel maps around"
