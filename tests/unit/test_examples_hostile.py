"""Every bundle of the catalogue is written whole and carries the fault that its name says."""

from __future__ import annotations

import stat
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from acceptd.errors import ConfigError
from acceptd.policy.manifest import validate
from examples import hostile_bundles, hostile_models
from examples.evidence_classifier import Variant, build_model, golden_inputs, oracle
from examples.hostile_bundles import BY_NAME, CATALOGUE, DEMO

pytestmark = pytest.mark.unit
BROKEN_MANIFEST = {"toml-none", "toml-dotted-key", "toml-brackets", "toml-datetime"}  # not read as TOML here
REFUSED_MANIFEST = {"toml-unknown-key", "manifest-id-parent", "manifest-id-current", "manifest-id-look-alike"}
BROKEN_MODEL = {"wire-flood", "wire-truncated", "wire-empty", "wire-trailing-zeros", "symlink-outside"}


def test_names_are_unique_and_the_demo_is_of_the_catalogue() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
    assert set(DEMO) <= set(BY_NAME)
    for entry in CATALOGUE:
        assert entry.codes
        assert entry.verdicts
        assert "accepted" not in entry.verdicts


@pytest.mark.parametrize("name", BY_NAME)
def test_a_bundle_is_whole_but_for_its_fault(name: str, tmp_path: Path) -> None:
    entry = BY_NAME[name]
    made = entry.write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    if made.is_file():
        assert made.suffix in {".zip", ".gz"}
        return
    if name not in BROKEN_MANIFEST:
        document = tomllib.loads((made / "bundle.toml").read_text("utf-8"))
        if name in REFUSED_MANIFEST:
            with pytest.raises(ConfigError):
                validate(document)
        else:
            assert validate(document).models[0].file == "model.onnx"
    if name not in BROKEN_MODEL:
        model = onnx.load(str(made / "model.onnx"), load_external_data=False)
        assert model.graph.output[0].type.tensor_type.elem_type
    assert list(made.glob("test_data_set_*/output_0.pb"))


@pytest.mark.parametrize(
    "name", ["external-parent", "external-absolute", "external-manifest", "external-underscore"]
)
def test_external_data_bundles_name_the_forbidden_place(name: str, tmp_path: Path) -> None:
    made = BY_NAME[name].write(tmp_path / name)
    model = onnx.load(str(made / "model.onnx"), load_external_data=False)
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.external_data]
    entries = {item.key: item.value for item in tensor.external_data}
    wanted = {
        "external-parent": ("../../../../../../etc/passwd", "0"),
        "external-absolute": ("/etc/passwd", "0"),
        "external-manifest": ("bundle.toml", "0"),
        "external-underscore": ("weights.bin", "1_6"),
    }
    assert (entries["location"], entries["offset"]) == wanted[name]


def test_the_golden_thief_points_at_its_own_expected_answer(tmp_path: Path) -> None:
    made = BY_NAME["external-golden"].write(tmp_path / "b")
    model = onnx.load(str(made / "model.onnx"), load_external_data=False)
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.external_data]
    entries = {item.key: item.value for item in tensor.external_data}
    stolen = (made / entries["location"]).read_bytes()[int(entries["offset"]) :][: int(entries["length"])]
    golden = numpy_helper.to_array(onnx.load_tensor(str(made / "test_data_set_0" / "output_0.pb")))
    assert np.array_equal(np.frombuffer(stolen, np.float32), golden[0])


def test_wrong_goldens_differ_from_the_oracle_and_only_they(tmp_path: Path) -> None:
    made = BY_NAME["goldens-wrong"].write(tmp_path / "b")
    assert (made / "model.onnx").read_bytes() == build_model()
    for index, features in enumerate(golden_inputs(Variant(), 3)):
        golden = numpy_helper.to_array(onnx.load_tensor(str(made / f"test_data_set_{index}" / "output_0.pb")))
        assert np.abs(golden - oracle(features)["probabilities"]).max() > 1e-3


def test_the_marked_file_is_valid_onnx_with_ortm_at_offset_4() -> None:
    data = hostile_models.with_ort_mark(build_model())
    assert data[4:8] == b"ORTM"
    onnx.checker.check_model(onnx.ModelProto.FromString(data), full_check=True)


@pytest.mark.parametrize(
    "trap",
    [
        hostile_models.allocates_at_run,
        hostile_models.allocates_in_loop,
        hostile_models.loops,
        hostile_models.loops_in_branch,
        hostile_models.scans_nothing,
        hostile_models.divides_at_load,
        hostile_models.divides_at_run,
        hostile_models.two_ellipses,
        hostile_models.deep_tree,
    ],
)
def test_traps_pass_the_checker(trap: object) -> None:
    assert callable(trap)
    onnx.checker.check_model(hostile_models.build(trap()))


def test_blocks_of_the_load_bomb_differ_or_the_optimiser_would_merge_them() -> None:
    sizes = [int(value[0]) for value in hostile_models.allocates_at_load().weights.values()]
    assert len(set(sizes)) == 40
    assert min(sizes) * 4 >= 400_000_000


def test_the_flood_is_valid_metadata_of_the_stated_size() -> None:
    data = hostile_models.flood(build_model(), 2_000)
    assert len(data) == 309 + 2_000
    assert len(onnx.ModelProto.FromString(data).metadata_props) == 1_000


def test_files_of_the_kinds_that_sealing_refuses(tmp_path: Path) -> None:
    assert stat.S_ISFIFO((BY_NAME["fifo"].write(tmp_path / "a") / "stream.bin").lstat().st_mode)
    assert (BY_NAME["symlink-inside"].write(tmp_path / "b") / "names.txt").is_symlink()
    assert (BY_NAME["hard-link"].write(tmp_path / "c") / "model.onnx").stat().st_nlink == 2


def test_archives_carry_the_member_that_must_not_unpack(tmp_path: Path) -> None:
    with zipfile.ZipFile(BY_NAME["zip-traversal"].write(tmp_path / "a")) as archive:
        assert "../../evil.txt" in archive.namelist()
        assert "bundle.toml" in archive.namelist()
    made = BY_NAME["zip-bomb"].write(tmp_path / "b")
    with zipfile.ZipFile(made) as archive:
        assert sum(info.file_size for info in archive.infolist()) > 200 * made.stat().st_size
    with tarfile.open(BY_NAME["tar-device"].write(tmp_path / "c")) as archive:
        assert archive.getmember("null").ischr()


def test_the_command_line_names_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        hostile_bundles.main([str(tmp_path), "no-such-bundle"])
    assert caught.value.code == 2
    assert "no-such-bundle" in capsys.readouterr().err
    assert hostile_bundles.main([str(tmp_path), "loops"]) == 0
    assert (tmp_path / "loops" / "bundle.toml").is_file()
