"""A profile's own runtime in the cell: its interpreter, its libraries and pins, and what cannot change them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cell.client import Cell
from acceptd.cell.runtime import checks
from acceptd.policy.profile import Profile
from acceptd.runtime.interpreter import examine
from acceptd.runtime.pins import basename
from tests.runtime_world import lay_out, run_tiny, second_environment

pytestmark = pytest.mark.cell
ROOT = Path(__file__).parents[2]
OPENVINO = ROOT / ".venvs" / "ort-openvino" / "bin" / "python"
CPU = "CPUExecutionProvider"
OLDER = ROOT / ".venvs" / "ort-1.24" / "bin" / "python"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sealed")
    place.chmod(0o755)
    lay_out(place)
    return place


@pytest.fixture(scope="module")
def cell(sealed: Path) -> Iterator[Cell]:
    with Cell(sealed) as started:
        yield started


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(second_environment(tmp_path_factory.mktemp("environment") / "env"))


def test_the_facts_of_a_run_are_those_of_the_parent_that_ran_it(cell: Cell) -> None:
    record = run_tiny(cell, Profile())
    assert record.ending == "done", record.message
    facts = cell.runtime(record.parent)
    assert facts.onnxruntime == cell.versions()["onnxruntime"] == record.schema_.runtime["onnxruntime"]  # type: ignore[union-attr]
    assert facts.available_providers == tuple(sorted(facts.available_providers)) or facts.available_providers
    (library,) = [one for one in facts.libraries if "onnxruntime_pybind11_state" in one.path]
    assert library.sha256 == hashlib.sha256(Path(library.path).read_bytes()).hexdigest()
    assert any(basename(one.path).startswith("libc.so") for one in facts.libraries)
    assert facts.custom_operators == ()


def test_another_interpreter_runs_without_onnx_and_protobuf(cell: Cell, second: str) -> None:
    profile = Profile(name="second", interpreter=second)
    record = run_tiny(cell, profile)
    assert (record.ending, record.profile) == ("done", "second"), record.message
    assert record.placement is not None
    assert record.placement.available
    facts = cell.runtime(record.parent)
    site = str(Path(second).parents[1])
    assert any(one.path.startswith(site) and "onnxruntime" in one.path for one in facts.libraries)
    own = cell.runtime(run_tiny(cell, Profile()).parent)
    assert not any(one.path.startswith(site) for one in own.libraries)
    assert not any("onnx_cpp2py" in one.path for one in facts.libraries)
    assert any("onnx_cpp2py" in one.path for one in own.libraries)


@pytest.mark.skipif(not OLDER.exists(), reason="make profiles makes it")
def test_an_older_onnxruntime_runs_side_by_side_with_ones_own(cell: Cell) -> None:
    older = Profile(name="older", interpreter=str(OLDER), onnxruntime="1.24.4")
    first, second = run_tiny(cell, Profile()), run_tiny(cell, older)
    assert (first.ending, second.ending) == ("done", "done"), second.message
    versions = [cell.runtime(one.parent).onnxruntime for one in (first, second)]
    assert versions[1] == "1.24.4" != versions[0]
    assert second.placement is not None
    assert second.placement.available


@pytest.mark.skipif(not OPENVINO.exists(), reason="make profiles-openvino makes it")
@pytest.mark.parametrize("providers", [["OpenVINOExecutionProvider"], ["OpenVINOExecutionProvider", CPU]])
def test_openvino_takes_the_nodes_under_all_walls(cell: Cell, providers: list[str]) -> None:
    options = {"OpenVINOExecutionProvider": {"device_type": "CPU", "num_of_threads": "1"}}
    profile = Profile(name="openvino", interpreter=str(OPENVINO), providers=providers, provider_options=options)
    record = run_tiny(cell, profile)
    assert record.ending == "done", record.message
    assert record.placement is not None
    assert {one.provider for one in record.placement.nodes} == {"OpenVINOExecutionProvider"}
    assert record.walls is not None
    assert {record.walls.states[name] for name in ("root", "landlock", "seccomp", "rlimits")} == {"enforced"}
    assert cell.runtime(record.parent).distribution == "onnxruntime-openvino"


@pytest.mark.skipif(not OPENVINO.exists(), reason="make profiles-openvino makes it")
def test_a_provider_that_cannot_start_is_told_and_not_quietly_replaced(cell: Cell) -> None:
    options = {"OpenVINOExecutionProvider": {"device_type": "GPU"}}  # there is none
    profile = Profile(
        name="openvino",
        interpreter=str(OPENVINO),
        providers=["OpenVINOExecutionProvider", CPU],
        provider_options=options,
    )
    record = run_tiny(cell, profile)
    assert record.refused is not None, record.placement
    assert (record.refused.code, record.refused.stage) == ("load/provider-unavailable", "session")


def test_a_runtime_that_does_not_start_leaves_the_run_unavailable_and_the_cell_whole(
    cell: Cell, tmp_path: Path
) -> None:
    broken = second_environment(tmp_path / "env")
    module = next((tmp_path / "env").glob("lib/python3.*/site-packages/onnxruntime/__init__.py"))
    module.unlink()
    module.write_text("raise ImportError('no such wheel')\n")
    record = run_tiny(cell, Profile(name="broken", interpreter=str(broken)))
    assert (record.ending, record.cause) == ("unavailable", "runtime")
    assert "no such wheel" in record.message
    record = run_tiny(cell, Profile(name="nowhere", interpreter=str(tmp_path / "nowhere" / "python")))
    assert (record.ending, record.cause) == ("unavailable", "runtime")
    assert "nowhere" in record.message
    assert run_tiny(cell, Profile()).ending == "done"


def pins(cell: Cell) -> dict[str, str]:
    facts = cell.runtime(run_tiny(cell, Profile()).parent)
    return {basename(one.path): one.sha256 for one in facts.libraries}


def test_pins_that_hold_let_a_run_start(cell: Cell) -> None:
    version = cell.versions()["onnxruntime"]
    assert run_tiny(cell, Profile(onnxruntime=version, libraries=pins(cell))).ending == "done"


def test_a_library_with_another_digest_starts_no_run_and_both_digests_are_named(cell: Cell) -> None:
    good = pins(cell)
    name = next(name for name in good if name.startswith("libc.so"))
    record = run_tiny(cell, Profile(libraries=good | {name: "0" * 64}))
    assert (record.ending, record.cause, record.steps) == ("unavailable", "runtime/library-mismatch", [])
    assert all(word in record.message for word in (name, "0" * 64, good[name]))


def test_a_library_that_is_not_listed_or_not_mapped_starts_no_run(cell: Cell) -> None:
    good = pins(cell)
    name = next(name for name in good if "onnxruntime_pybind11_state" in name)
    record = run_tiny(cell, Profile(libraries={key: value for key, value in good.items() if key != name}))
    assert (record.ending, record.cause) == ("unavailable", "runtime/library-mismatch")
    assert name in record.message
    record = run_tiny(cell, Profile(libraries=good | {"libextra.so.1": "1" * 64}))
    assert (record.ending, record.cause) == ("unavailable", "runtime/library-mismatch")
    assert "libextra.so.1" in record.message


def test_another_version_than_the_pinned_one_starts_no_run(cell: Cell) -> None:
    record = run_tiny(cell, Profile(onnxruntime="1.0.0"))
    assert (record.ending, record.cause) == ("unavailable", "runtime/version-mismatch")
    assert cell.versions()["onnxruntime"] in record.message


def test_doctor_names_the_runtime_of_a_profile_and_what_is_wrong_with_it(cell: Cell, second: str) -> None:
    version = cell.versions()["onnxruntime"]
    profiles = [
        Profile(),
        Profile(name="second", interpreter=second, onnxruntime=version),
        Profile(name="pinned", onnxruntime="1.0.0"),
        Profile(name="absent", providers=["CUDAExecutionProvider"]),
        Profile(name="nowhere", interpreter="/nowhere/python"),
    ]
    telemetry, threads, *found = checks(cell, profiles)
    assert (telemetry.state, threads.state) == ("enforced", "enforced")
    assert threads.seen.startswith("1 thread; ")
    states = {one.name.partition(" ")[2]: one.state for one in found}
    failed = dict.fromkeys(["pinned", "absent", "nowhere"], "failed")
    assert states == {"cpu": "enforced", "second": "enforced"} | failed
    own, beside, pinned, absent, nowhere = found
    assert all(f"uses {CPU}" in one.seen for one in (own, beside, pinned))
    assert "uses no provider (in the build, not used: " in absent.seen
    assert all(f"onnxruntime {version}" in one.seen for one in (own, beside))
    assert all(word in beside.seen for word in ("its own interpreter", "1 thread", "telemetry off", CPU))
    assert "pinned is 1.0.0" in pinned.seen
    assert "CUDAExecutionProvider is not in this build" in absent.seen
    assert "/nowhere/python" in nowhere.seen
    assert all(one.remedy for one in found if one.state == "failed")


def test_a_file_that_was_replaced_under_the_running_parent_is_no_fact(sealed: Path, tmp_path: Path) -> None:
    python = second_environment(tmp_path / "env")
    library = next((tmp_path / "env").rglob("onnxruntime_pybind11_state*.so"))
    with Cell(sealed) as cell:
        profile = Profile(name="second", interpreter=str(python))
        told = cell.told(profile)
        copy = library.with_suffix(".new")
        shutil.copy2(library, copy)
        copy.replace(library)  # as a package manager upgrades it
        from acceptd.runtime.told import facts_of

        with pytest.raises(OSError, match="is not the file"):
            facts_of(told, examine(str(python)), ())


LIBRARIES = """
import json, sys, tempfile
from pathlib import Path
from acceptd.cell.client import Cell
from acceptd.cell.runtime import checks
with tempfile.TemporaryDirectory(dir="/var/tmp") as name, Cell(Path(name)) as cell:
    from acceptd.cell.supply import Kind
    seat, parent = cell._take(Kind())
    own = Path(f"/proc/{parent.parent.process.pid}/environ").read_bytes().decode()
    facts = parent.facts.result()
    seat.give_back(parent, trouble="", suspect=False)
    print(json.dumps([[one.path, one.sha256] for one in facts.libraries] + [["environ", own]]))
"""
CONTROL = "import onnxruntime; print(onnxruntime.__file__); print(open('/proc/self/maps').read())"


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "cwd"])
def test_the_environment_of_whoever_starts_acceptd_changes_no_library(
    cell: Cell, tmp_path: Path, variable: str
) -> None:
    facts = cell.runtime(run_tiny(cell, Profile()).parent)
    (real,) = [one.path for one in facts.libraries if basename(one.path).startswith("libstdc++.so.6")]
    plant = tmp_path / "plant"
    plant.mkdir()
    shutil.copy(real, plant / "libstdc++.so.6")
    for module in ("numpy", "onnxruntime"):
        (plant / module).mkdir()
        (plant / module / "__init__.py").write_text("planted = True\n")
    search = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    changes = {
        "LD_LIBRARY_PATH": {"LD_LIBRARY_PATH": str(plant)},
        "LD_PRELOAD": {"LD_PRELOAD": str(plant / "libstdc++.so.6")},
        "PYTHONPATH": {"PYTHONPATH": f"{plant}{os.pathsep}{search}"},
        "PYTHONHOME": {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": f"{plant}{os.pathsep}{search}"},
        "cwd": {},
    }[variable]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": search, "ORT_DISABLE_TELEMETRY": "1"} | changes
    if "PYTHONHOME" in changes and sys.prefix == sys.base_prefix:
        pytest.skip("the libraries are only lent by PYTHONPATH here: there are none of the interpreter's own")
    done = subprocess.run(
        [sys.executable, "-c", CONTROL], env=environment, cwd=plant, capture_output=True, text=True, check=False
    )
    assert str(plant) in done.stdout, done.stderr  # without the cell, the plant works
    if variable == "PYTHONPATH" and sys.prefix == sys.base_prefix:
        pytest.skip("the libraries are only lent by PYTHONPATH here: there are none of the interpreter's own")
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES], env=environment, cwd=plant, capture_output=True, text=True, check=True
    )
    *found, (_, environ) = json.loads(done.stdout)
    assert found == [[one.path, one.sha256] for one in facts.libraries]
    assert environ == ""  # bubblewrap itself heeds LD_PRELOAD
