"""Which file is what, who may see it, and what can be inferred from it."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import (
    BundleFile,
    External,
    Sealed,
)
from acceptd.judge.infer import infer, sanitise
from acceptd.judge.inventory import check_lock, run_files, take, vectors_spec
from tests import judge_world as world

pytestmark = pytest.mark.unit


# -- inventory


def files(*paths: str) -> Sealed:
    listed = [BundleFile(path=path, sha256="0" * 64, size=1) for path in paths]
    return Sealed(digest="d" * 64, files=listed, total_bytes=len(listed))


def patterned(*patterns: str) -> Any:
    def change(document: dict[str, Any]) -> None:
        document["models"][0]["vectors"] = [{"sets": list(patterns)}]

    return world.a_manifest(change)


def test_no_vector_file_is_ever_visible_to_a_job_that_sees_the_model() -> None:
    sealed = files(
        "bundle.toml", "model.onnx", "w.bin", "deep/test_data_set_7/x.txt", "Test_Data_Set_0/output_0.pb",
        "test_data_3.npz", "a/inputs.npz", "a/OUTPUTS.NPZ", "goldens/1/output_0.pb", "goldens/1/readme",
        "labels.txt",
    )  # fmt: skip
    taken = take(sealed, patterned("goldens/*"))
    assert taken.visible("model.onnx") == ("labels.txt", "model.onnx", "w.bin")
    assert taken.visible("other.onnx") == ("labels.txt", "w.bin")
    groups = (taken.manifest, taken.models, taken.vectors, taken.others)
    assert sorted(path for one in groups for path in one) == sorted(one.path for one in sealed.files)


def test_sets_are_found_in_every_convention_and_in_numeric_order() -> None:
    sealed = files(
        "bundle.toml", "model.onnx", "test_data_set_10/output_0.pb", "test_data_set_2/input_1.pb",
        "test_data_set_2/input_0.pb", "test_data_set_2/output_0.pb", "old/test_data_0.npz", "np/inputs.npz",
        "np/outputs.npz", "pairs/a_inputs.npz", "pairs/a_outputs.npz", "smoke/input_0.pb",
    )  # fmt: skip
    taken = take(sealed, patterned("test_data_set_*", "old/*.npz", "np", "pairs/*", "smoke"))
    assert [(one.name, one.format) for one in taken.sets] == [
        ("test_data_set_2", "onnx"),
        ("test_data_set_10", "onnx"),
        ("old/test_data_0.npz", "npz"),
        ("np", "npz"),
        ("pairs/a_inputs.npz", "npz"),
        ("smoke", "onnx"),
    ]
    assert [one.smoke for one in taken.sets] == [False] * 5 + [True]
    assert taken.sets[0].files == tuple(
        f"test_data_set_2/{name}" for name in ("input_0.pb", "input_1.pb", "output_0.pb")
    )
    assert (taken.sets[2].inputs, taken.sets[2].outputs) == ("old/test_data_0.npz", "old/test_data_0.npz")
    assert taken.sets[3].outputs == "np/outputs.npz"
    assert taken.smoke == ("smoke",)
    assert taken.empty_patterns == ()
    spec = vectors_spec(taken, world.a_manifest())
    assert spec["types"]["main"]["inputs"] == [{"name": "features", "kind": "tensor", "dtype": "float32"}]
    assert set(taken.vector_files()) == {
        path for one in taken.sets for path in (*one.files, one.inputs, one.outputs) if path
    }


def test_a_pattern_over_everything_does_not_hide_the_model() -> None:
    taken = take(files("bundle.toml", "model.onnx", "w.bin"), patterned("*"))
    assert taken.overlaps == ("bundle.toml", "model.onnx")
    assert taken.models == ("model.onnx",)
    assert taken.others == ()
    everything = world.verdict(manifest=patterned("*"))
    assert "manifest/vectors-overlap" in world.codes(everything, "reject")


def test_a_star_does_not_cross_a_directory() -> None:
    taken = take(files("model.onnx", "a/b/output_0.pb"), patterned("*/output_0.pb"))
    assert taken.sets == ()


def test_facts_can_only_shrink_the_list_of_a_run() -> None:
    sealed = files("bundle.toml", "model.onnx", "w.bin", "unused.bin", "test_data_set_0/output_0.pb")
    taken = take(sealed, world.a_manifest())
    records = [
        External(tensor="w", location=name, offset=None, length=None, where="", inside=True)
        for name in ("./w.bin", "test_data_set_0/output_0.pb", "bundle.toml", "../../etc/passwd", "/etc/passwd")
    ]
    assert run_files(taken, world.a_manifest().models[0], world.facts(external=records)) == (
        ["model.onnx", "w.bin"],
        ["w.bin"],
    )


def test_the_lock_names_every_file_and_nothing_else() -> None:
    def change(document: dict[str, Any]) -> None:
        document["files"] = {
            "model.onnx": {"size": 1, "sha256": "0" * 64},
            "w.bin": {"size": 2, "sha256": "0" * 64},
            "gone.bin": {"size": 1, "sha256": "0" * 64},
        }

    found = check_lock(files("bundle.toml", "model.onnx", "w.bin", "stray.txt"), world.a_manifest(change))
    assert sorted((one.code, one.where) for one in found) == [
        ("manifest/lock-mismatch", "w.bin"),
        ("manifest/lock-missing-file", "gone.bin"),
        ("manifest/not-in-lock", "stray.txt"),
    ]


# -- inferred manifests


def test_hostile_facts_never_break_the_inference() -> None:
    odd = world.facts(
        ir_version=2**70,
        opsets={"ai.onnx": -5},
        inputs=[
            world.value("", 4),
            world.value("x" * 2000, 4),
            world.value("ok", 4, shape=[-1, "?", "", 2**40, "n" * 300]),
            world.value("ok", 4),
            world.value("odd", 4, kind="sparse_tensor"),
        ],
        outputs=[world.value("maps", 3, kind="sequence", dtype="", detail="sequence(map(int64, float32))")],
    )
    found = infer(
        "mosaic", "Ünï/../current", {"model.onnx": odd}, files("model.onnx", "test_data_set_0/output_0.pb")
    )
    assert found is not None
    one = found.manifest.models[0]
    assert (one.ir_version, one.opsets) == (None, None)
    assert [value.name for value in one.inputs] == ["ok"]
    assert one.inputs[0].shape == ["?", "?", "?", "?", "?"]
    assert (one.outputs[0].dtype, one.outputs[0].key_dtype) == ("float32", "int64")
    assert len([line for line in found.inferred if "left out" in line]) == 4
    assert not found.manifest.declared


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_add_1", "test_add_1"),
        ("Ä!", "bundle"),
        ("current", "current-bundle"),
        ("--x--", "x"),
        ("a" * 99, "a" * 64),
    ],
)
def test_names_of_inferred_bundles(name: str, expected: str) -> None:
    assert sanitise(name) == expected


def test_no_model_infers_nothing() -> None:
    assert infer("mosaic", "x", {}, files("readme.txt")) is None
