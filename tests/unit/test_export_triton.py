"""A Triton model repository, read by the published schema of ``config.pbtxt``: names inject nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd.errors import ExportError
from acceptd.export import plan
from acceptd.export.pbtxt import Config, Tensor, quoted, written
from acceptd.export.triton import TYPES, batch_size
from acceptd.policy.manifest import DTYPES, Manifest, validate
from acceptd.release.trust import File, ReleaseFacts
from tests.export_world import SERVABLE, Exported, closed
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

HOME = "repository/mosaic.evidence-disposition.main"


def _schema() -> Any:
    pool = descriptor_pool.DescriptorPool()
    data = (Path(__file__).parents[1] / "vendor/triton/model_config.desc").read_bytes()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelConfig"))


MODEL_CONFIG = _schema()


def parsed(text: bytes) -> Any:
    """Return a config as Triton's own schema reads it; what the schema does not know is an error."""
    return text_format.Parse(text.decode("ascii"), MODEL_CONFIG())


def manifest(**model: Any) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(SERVABLE)
    made["models"][0] |= model
    return made


def tensor(name: str, *shape: Any, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape), **more}


def release(document: dict[str, Any], paths: tuple[str, ...] = ("model.onnx",), **options: Any) -> ReleaseFacts:
    files = tuple(File(path, "0" * 64, 1) for path in paths)
    known = {"providers": ["CPUExecutionProvider"], "intra_op_threads": 1, "inter_op_threads": 1} | options
    return ReleaseFacts(MODEL, "production", 42, "0" * 64, files, document, known, (), {})


def config(document: dict[str, Any], **options: Any) -> Any:
    unit = plan.units("triton", release(document, **options))[0]
    assert unit.config is not None
    return parsed(unit.config)


def refused(document: dict[str, Any], **options: Any) -> str:
    with pytest.raises(ExportError) as found:
        plan.units("triton", release(document, **options))
    return found.value.message


@pytest.fixture
def exported(tmp_path: Path) -> Iterator[Exported]:
    world = World(tmp_path)
    yield Exported(world, tmp_path / "out", "triton")
    world.close()


def test_the_layout_is_that_of_a_model_repository(exported: Exported) -> None:
    files = {
        "model.onnx": b"m" * 9,
        "weights/w.bin": b"w",
        "bundle.toml": b"t",
        "test_data_set_0/input_0.pb": b"v",
    }
    exported.world.released(files=files, manifest=SERVABLE)
    assert exported.served() == [f"{HOME}/1"]
    version = exported.root / HOME / "1"
    assert (version / "model.onnx").read_bytes() == b"m" * 9
    assert (version / "weights/w.bin").read_bytes() == b"w"
    assert sorted(path.name for path in version.iterdir()) == [".acceptd", "model.onnx", "weights"]
    found = parsed((exported.root / HOME / "config.pbtxt").read_bytes())
    assert (found.name, found.platform) == (HOME.partition("/")[2], "onnxruntime_onnx")
    assert (found.max_batch_size, found.default_model_filename) == (32, "model.onnx")
    assert list(found.version_policy.specific.versions) == [1]
    assert [(one.name, one.data_type, list(one.dims)) for one in found.input] == [("features", 11, [4])]
    assert [(one.name, one.data_type, list(one.dims)) for one in found.output] == [("probabilities", 11, [3])]
    assert found.instance_group[0].kind == 2  # KIND_CPU
    assert found.parameters["intra_op_thread_count"].string_value == "1"


def test_a_rollback_leads_to_a_higher_number_and_a_revocation_leaves_nothing(exported: Exported) -> None:
    world = exported.world
    one = world.released("1", manifest=SERVABLE)
    two = world.released("2", manifest=SERVABLE)
    exported.served()
    world.rollback()
    assert exported.served() == [f"{HOME}/3"]
    world.revoke(one.bundle_digest)
    assert exported.follow().done == [f"{HOME}: withdrawn: its release is revoked"]
    assert list((exported.root / "repository").iterdir()) == []  # Triton would serve any older number
    assert two.number == 2


def test_a_config_that_was_changed_does_not_verify_and_is_put_right(exported: Exported) -> None:
    exported.world.released(manifest=SERVABLE)
    exported.served()
    path = exported.root / HOME / "config.pbtxt"
    text = path.read_bytes()
    path.unlink()
    path.write_bytes(text.replace(b"max_batch_size: 32", b"max_batch_size: 99"))
    assert "config.pbtxt is not the one" in exported.verify().problems[0]
    assert exported.served() == [f"{HOME}/1"]
    assert path.read_bytes() == text


def test_a_model_that_triton_cannot_serve_is_refused_and_the_older_stays(exported: Exported) -> None:
    exported.world.released("1", manifest=SERVABLE)
    exported.served()
    other = manifest(outputs=[tensor("probabilities", "batch", 3, dtype="bfloat16")])
    exported.world.released("2", manifest=other)
    assert "bfloat16" in exported.follow().problems[0]
    assert [one.place for one in exported.verify().verified] == [f"{HOME}/1"]


def test_every_model_of_a_bundle_is_a_triton_model_with_its_own_files() -> None:
    document = manifest()
    document["models"] = [
        document["models"][0] | {"name": name, "file": f"{name}/{name}.onnx"} for name in ("first", "second")
    ]
    paths = ("first/first.onnx", "first/a.bin", "second/second.onnx", "second/d/b.bin", "labels.txt", "model.sig")
    units = plan.units("triton", release(document, paths))
    assert [unit.home.rpartition(".")[2] for unit in units] == ["first", "second"]
    assert [[path for path, _ in unit.files] for unit in units] == [
        ["first.onnx", "a.bin"], ["second.onnx", "d/b.bin"]
    ]  # fmt: skip
    beside = document | {"models": [one | {"file": f"{one['name']}.onnx"} for one in document["models"]]}
    units = plan.units("triton", release(beside, ("first.onnx", "second.onnx", "shared.bin")))
    assert [[path for path, _ in unit.files] for unit in units] == [
        ["first.onnx", "shared.bin"], ["second.onnx", "shared.bin"]
    ]  # fmt: skip


HOSTILE = (
    'x" data_type: TYPE_INVALID } parameters { key: "a" value { string_value: "b" } } input { name: "y',
    "line\nbreak\r\t\x01", "\\", "\\\"", "'", "é𝕏\u202e", "# a comment", "}", "name: [1]", "\x7f\x80", " ", "?",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_a_name(name: str) -> None:
    file = f"{name.replace(chr(92), '')}.onnx"  # no path of a bundle holds a backslash
    document = manifest(inputs=[tensor(name, "batch", 4)], file=file)
    unit = plan.units("triton", release(document, (file,)))[0]
    assert unit.config is not None
    found = parsed(unit.config)
    assert [one.name for one in found.input] == [name]
    assert found.default_model_filename == document["models"][0]["file"]
    assert len(found.parameters) == 2
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in unit.config)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=40), st.text(max_size=8).map(ascii))
def test_any_text_is_read_back_as_it_was(name: str, other: str) -> None:
    made = Config("m", 0, other, 7, "KIND_CPU", (Tensor(name, "TYPE_FP32", (1,)),), (), ((name, other),))
    found = parsed(written(made))
    assert (found.input[0].name, found.default_model_filename) == (name, other)
    assert found.parameters[name].string_value == other
    assert quoted(name).isascii()


def test_names_that_triton_cannot_hold_are_refused() -> None:
    assert "NUL" in refused(manifest(inputs=[tensor("a\0b", "batch", 4)]))
    assert "NUL" in refused(manifest(outputs=[tensor("a\0", "batch", 4)]))


BATCHES: dict[str, tuple[dict[str, Any], int]] = {
    "one batch first everywhere": ({}, 32),
    "another dimension first in one output": ({"outputs": [tensor("o", "seq", 3)]}, 0),
    "the batch again behind": ({"outputs": [tensor("o", "batch", "batch")]}, 0),
    "a fixed first dimension": ({"inputs": [tensor("i", 1, 4)], "outputs": [tensor("o", 1, 4)]}, 0),
    "an unknown one": ({"inputs": [tensor("i", "?", 4)], "outputs": [tensor("o", "?", 4)]}, 0),
    "a scalar beside": ({"inputs": [tensor("i", "batch"), tensor("s")]}, 0),
    "rows that interact": ({"rows_interact": True}, 0),
    "no input": ({"inputs": []}, 0),
    "rows alone": ({"inputs": [tensor("i", "batch")], "outputs": [tensor("o", "batch")]}, 32),
}


@pytest.mark.parametrize("case", BATCHES)
def test_the_batch_size_is_what_the_declared_dimensions_allow(case: str) -> None:
    model, size = BATCHES[case]
    found = config(manifest(**model))
    assert found.max_batch_size == size
    for declared, got in zip(manifest(**model)["models"][0]["outputs"], found.output, strict=True):
        dims = [dim if isinstance(dim, int) else -1 for dim in declared["shape"][1 if size else 0 :]]
        assert list(got.dims) == (dims or [1])
        assert got.HasField("reshape") == (not dims)
        assert list(got.reshape.shape) == []


@pytest.mark.parametrize(("least", "most", "size"), [(1, 2**31, 2**31 - 1), (0, 8, 8), (2, 8, 0), (0, 0, 0)])
def test_bounds_of_the_batch(least: int, most: int, size: int) -> None:
    document = manifest() | {"dims": {"batch": {"min": least, "max": most}}}
    model = validate(document)
    assert isinstance(model, Manifest)
    assert batch_size(model.models[0], model) == size
    assert config(document).max_batch_size == size


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_type_is_mapped_or_refused(dtype: str) -> None:
    document = manifest(inputs=[tensor("i", "batch", dtype=dtype)])
    if dtype in TYPES:
        number = config(document).input[0].data_type
        enum = MODEL_CONFIG.DESCRIPTOR.fields_by_name["input"].message_type.fields_by_name["data_type"].enum_type
        assert enum.values_by_number[number].name == TYPES[dtype]
    else:
        assert dtype in refused(document)


def test_what_triton_cannot_express_is_refused_with_the_reason() -> None:
    one = tensor("v", "batch")
    assert "a sequence" in refused(manifest(outputs=[one | {"type": "sequence"}]))
    assert "a map" in refused(manifest(outputs=[one | {"type": "map", "key_dtype": "int64"}]))
    assert "optional" in refused(manifest(inputs=[one | {"type": "optional"}]))
    assert "dimension of 0" in refused(manifest(inputs=[tensor("v", "batch", 0)]))
    assert "no output" in refused(manifest(outputs=[]))
    assert "custom operators" in refused(manifest(), custom_operators=[{"name": "x"}])
    assert "no mapping" in refused(manifest(), providers=["OpenVINOExecutionProvider"])
    assert "cannot express" in refused(manifest(), session_entries={"a": "b"})
    assert config(manifest(inputs=[one | {"optional": True}])).input[0].optional


@pytest.mark.parametrize(("level", "number"), [("all", 0), ("basic", -1), ("extended", 1), ("disable", 2)])
def test_the_accepted_options_are_carried(level: str, number: int) -> None:
    found = config(manifest(), optimisation=level, intra_op_threads=3, providers=["CUDAExecutionProvider"])
    assert found.optimization.graph.level == number
    assert found.parameters["intra_op_thread_count"].string_value == "3"
    assert found.instance_group[0].kind == 1  # KIND_GPU


def test_a_fresh_volume_with_lost_and_found_is_no_reason_to_export_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    exported = Exported(world, tmp_path / "repo", "triton")
    closed(exported.root / "lost+found", monkeypatch)
    world.released(manifest=copy.deepcopy(SERVABLE))
    assert exported.follow().problems == []
    assert (exported.root / HOME / "config.pbtxt").is_file()
    world.close()


def test_a_home_behind_a_link_is_not_withdrawn_in_silence(tmp_path: Path) -> None:
    world = World(tmp_path)
    exported = Exported(world, tmp_path / "repo", "triton")
    release = world.released(manifest=copy.deepcopy(SERVABLE))
    exported.follow()
    (exported.root / HOME).rename(tmp_path / "disk")
    (exported.root / HOME).symlink_to(tmp_path / "disk")
    world.revoke(release.bundle_digest)
    [problem] = exported.follow().problems
    assert f"{exported.root / HOME} is a link" in problem
    world.close()


def test_a_model_that_the_operator_serves_from_the_same_repository_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    exported = Exported(world, tmp_path / "repo", "triton")
    own = exported.root / "repository" / "resnet.v1.onnx"
    (own / "1").mkdir(parents=True)
    (own / "1" / "model.onnx").write_bytes(b"mine")
    (own / "config.pbtxt").write_text("version_policy { specific { versions: 1 } }")
    world.released(manifest=copy.deepcopy(SERVABLE))
    assert exported.follow().problems == []
    assert (own / "1" / "model.onnx").read_bytes() == b"mine"
    world.close()
