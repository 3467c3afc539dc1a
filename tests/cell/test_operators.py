"""Custom-operator libraries of a profile: listed, checked, loaded for that profile alone, found in the job."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd import local
from acceptd.cell.client import Cell
from acceptd.policy import load
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from tests.cell.conftest import whole_interpreter
from tests.runtime_world import lay_out, run_tiny

pytestmark = pytest.mark.cell
EXTENSIONS = Path(__file__).parents[2] / ".venvs" / "ort-extensions"
SOURCE = """
/* The least library: OrtStatus* RegisterCustomOps(OrtSessionOptions*, const OrtApiBase*). */
void *RegisterCustomOps(void *options, const void *api) { return (options && api) ? 0 : (void *)1; }
"""


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sealed")
    place.chmod(0o755)
    lay_out(place)
    return place


@pytest.fixture(scope="module")
def cell(sealed: Path) -> Iterator[Cell]:
    with Cell(sealed, testing=True) as started:
        yield started


def listed(library: Path, **changes: str) -> dict[str, Any]:
    """Return a profile's entry for a library."""
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return {"path": str(library), "sha256": digest, "abi": 17, "source": "a test", "domain": "test.ops"} | changes


def profile_with(*entries: dict[str, Any], **more: Any) -> Profile:
    return Profile.model_validate({"name": "operators", "custom_operators": list(entries)} | more)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    place = tmp_path_factory.mktemp("operators")
    (place / "operators.c").write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-o", str(place / "liboperators.so"), str(place / "operators.c")]
    subprocess.run(command, check=True)
    return place / "liboperators.so"


def test_a_listed_library_is_registered_in_the_job_and_loaded_for_no_other_profile(
    cell: Cell, library: Path
) -> None:
    record = run_tiny(cell, profile_with(listed(library)))
    assert record.ending == "done", record.message
    assert record.walls is not None
    assert {record.walls.states[name] for name in ("root", "landlock", "seccomp")} == {"enforced"}
    (step,) = [one for one in record.steps if one.name == "options"]
    assert step.note == "optimised, 1 custom-operator libraries"
    facts = cell.runtime(record.parent)
    assert [one.path for one in facts.custom_operators] == [str(library)]
    own = cell.runtime(run_tiny(cell, Profile()).parent)
    assert str(library) not in [one.path for one in own.libraries]
    seen = "note(there=os.access(spec['path'], os.R_OK))"
    for name, profile in (("operators", profile_with(listed(library))), ("cpu", None)):
        assert look(cell, seen, library, profile) == {"there": False}, (
            name
        )  # in no job's root, not even that profile's


def look(cell: Cell, source: str, library: Path, profile: Profile | None) -> dict[str, Any]:
    from acceptd.cell.limits import job_limits
    from acceptd.policy.policy import LimitsTable

    record = cell.run(
        "attack",
        files={"model.onnx": "tiny/model.onnx"},
        spec={"source": source, "path": str(library)},
        limits=job_limits("attack", LimitsTable()),
        required_walls=Policy().required_walls,
        profile=profile,
    )
    return record.notes[0].facts


def test_a_library_with_other_bytes_than_listed_is_never_loaded(cell: Cell, library: Path) -> None:
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    record = run_tiny(cell, profile_with(listed(library, sha256="0" * 64)))
    assert (record.ending, record.cause) == ("unavailable", "runtime/custom-operator-mismatch")
    assert record.steps == []
    assert all(word in record.message for word in (str(library), digest, "0" * 64))


def test_a_library_that_others_can_write_or_that_is_none_is_refused(
    cell: Cell, library: Path, tmp_path: Path
) -> None:
    writable = tmp_path / "liboperators.so"
    shutil.copy(library, writable)
    writable.chmod(0o666)
    record = run_tiny(cell, profile_with(listed(writable)))
    assert (record.ending, record.cause) == ("unavailable", "runtime/custom-operator-mismatch")
    assert "can be written by" in record.message
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    record = run_tiny(cell, profile_with(listed(text)))
    assert record.ending == "unavailable"
    assert "did not start" in record.message
    assert run_tiny(cell, Profile()).ending == "done"


def contrib_case(place: Path) -> Path:
    """Write a bundle in the backend-test layout whose model uses ``ai.onnx.contrib``."""
    case = place / "case"
    (case / "test_data_set_0").mkdir(parents=True)
    value, text = helper.make_tensor_value_info, TensorProto.STRING
    node = helper.make_node("StringUpper", ["x"], ["y"], domain="ai.onnx.contrib")
    graph = helper.make_graph([node], "upper", [value("x", text, ["n"])], [value("y", text, ["n"])])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.contrib", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    (case / "model.onnx").write_bytes(model.SerializeToString())
    for side, name, word in (("input", "x", "abc"), ("output", "y", "ABC")):
        message = numpy_helper.from_array(np.array([word], object), name)
        (case / "test_data_set_0" / f"{side}_0.pb").write_bytes(message.SerializeToString())
    return case


def rules(profile: Profile) -> Rules:
    policy = load.with_overrides(Policy(), ["operators.mode=any", "manifest.inferred=accept"])
    return Rules(policy, load.digest(policy), profile, load.digest(profile), Path("/nonexistent"))


@whole_interpreter
@pytest.mark.skipif(not EXTENSIONS.exists(), reason="make profiles makes it")
def test_a_model_of_a_custom_domain_passes_under_its_profile_and_not_under_another(tmp_path: Path) -> None:
    library = next(EXTENSIONS.glob("lib/python3.*/site-packages/onnxruntime_extensions/_extensions_pydll*.so"))
    entry = listed(library, domain="ai.onnx.contrib")
    with_it = profile_with(entry, interpreter=str(EXTENSIONS / "bin" / "python"))
    case = contrib_case(tmp_path)
    verdicts = {}
    for name, profile in (("with", with_it), ("without", Profile())):
        with local.bench(rules(profile), cores=1, suite=False) as bench:
            report = local.check_one(bench, case)
        verdicts[name] = (report["verdict"], {one["code"] for one in report["findings"]})
    assert verdicts["with"][0] == "accepted", verdicts
    assert verdicts["without"][0] == "rejected"
    assert "load/unsupported-operator" in verdicts["without"][1]
