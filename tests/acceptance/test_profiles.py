"""Profiles through the real rooms: pins, versions, reduced builds; and what is on record of the runtime."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.runtime.identity import RuntimeRecord, identity
from examples import evidence_classifier as classifier
from tests import commands
from tests.bench_world import Desk, desk
from tests.world import codes

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("profiles")) as made:
        yield made


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier.write_bundle(tmp_path_factory.mktemp("good") / "b")


@pytest.fixture(scope="module")
def pins(place: Desk) -> str:
    """What `acceptd profile pin cpu` prints for this desk's policies."""
    done = acceptd(place, "profile", "pin", "cpu")
    assert done.returncode == 0, done.stderr
    return done.stdout


def acceptd(place: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    state = place.policies.parent / "state"
    state.mkdir(exist_ok=True)
    (state / "acceptd.toml").write_text(f"policies = {json.dumps(str(place.policies))}\n", "utf-8")
    return commands.run(*words, "--state", str(state), COLUMNS="140")


def profile(place: Desk, name: str, more: str = "") -> str:
    """Write a profile; return the override that chooses it."""
    text = f'schema = 1\nname = "{name}"\nproviders = ["CPUExecutionProvider"]\n{more}'
    (place.policies / "profiles" / f"{name}.toml").write_text(text, "utf-8")
    return f"profile={name}"


def test_positive_control_the_pins_that_were_printed_hold(place: Desk, good: Path, pins: str) -> None:
    report = place.check(good, profile(place, "pinned", pins))
    assert report["verdict"] == "accepted", report["findings"]
    table = tomllib.loads(pins)["libraries"]
    measured = {one["name"]: one["sha256"] for one in report["runtime"]["libraries"]}
    assert table == measured
    assert any("onnxruntime" in name for name in table)


@pytest.mark.parametrize("kind", ["swapped", "unlisted", "version", "operators"])
def test_a_runtime_that_is_not_the_pinned_one_is_nobodys_verdict(
    kind: str, place: Desk, good: Path, pins: str, tmp_path: Path
) -> None:
    if kind == "version":
        more, code = 'onnxruntime = "1.24.1"\n', "runtime/version-mismatch"
    elif kind == "operators":
        library = tmp_path / "libx.so"
        library.write_bytes(b"another library than the reviewed one")
        library.chmod(0o644)
        table = f'path = "{library}"\nsha256 = "{"0" * 64}"\nabi = 20\nsource = "git at 1"\ndomain = "x.ops"\n'
        more, code = f"[[custom_operators]]\n{table}", "runtime/custom-operator-mismatch"
    else:
        lines = pins.splitlines()
        at = next(index for index, line in enumerate(lines) if "libstdc++" in line)
        name = lines[at].partition(" = ")[0]
        lines[at] = f'{name} = "{"0" * 64}"' if kind == "swapped" else ""
        more, code = "\n".join(lines), "runtime/library-mismatch"
    report = place.check(good, profile(place, kind, more))
    assert report["verdict"] == "inconclusive"
    assert not codes(report, "reject")
    found = [one for one in report["findings"] if one["code"] == code]
    assert found
    assert {one["audience"] for one in found} == {"reviewer"}
    assert all(not job["run_ms"] for job in report["resources"]["jobs"] if job["kind"] == "run")  # nothing ran


def test_a_profile_that_cannot_be_meant_stops_before_anything_is_judged(place: Desk, good: Path) -> None:
    profile(place, "wrong", '[session_entries]\n"session.profiling" = "1"\n')
    done = acceptd(place, "check", str(good), "--set", "profile=wrong")
    assert done.returncode == 2
    assert "wrong.toml:" in done.stderr
    assert "session.profiling" in done.stderr
    assert "may not be set" in done.stderr


def test_a_model_that_a_reduced_build_cannot_run_is_not_run(place: Desk, good: Path, tmp_path: Path) -> None:
    config = tmp_path / "ops.config"

    def build(operators: str) -> str:
        config.write_text(f"# one model\nai.onnx;13;{operators}\n", "utf-8")
        config.chmod(0o644)
        digest = hashlib.sha256(config.read_bytes()).hexdigest()
        table = f'[reduced_build]\nconfig = "{config}"\nsha256 = "{digest}"\n'
        return profile(place, "reduced", table)

    whole = place.check(good, build("Add,MatMul,Gemm,Softmax"))
    assert whole["verdict"] == "accepted", whole["findings"]
    assert whole["runtime"]["reduced_build"]
    operators = {use["op_type"] for use in whole["models"][0]["operators"]}
    left = sorted(operators)[0]
    report = place.check(good, build(",".join(operators - {left}) or "Abs"))
    assert report["verdict"] == "rejected"
    (found,) = [one for one in report["findings"] if one["code"] == "target/operator-unavailable"]
    assert f"ai.onnx::{left}" in found["message"]
    assert "node" in found["where"]
    assert not [job for job in report["resources"]["jobs"] if job["kind"] == "run"]
    assert report["runtime_identity"] is None


def test_the_identity_is_that_of_the_record_and_repeats(place: Desk, good: Path) -> None:
    first, second = place.check(good), place.check(good)
    assert first["runtime_identity"] == second["runtime_identity"]
    assert first["runtime_identity"] == identity(RuntimeRecord.model_validate(first["runtime"]))
    assert first["runtime_said"]["onnxruntime"] == first["runtime"]["onnxruntime"]
    other = place.check(good, profile(place, "basic", 'optimisation = "basic"\n'))
    assert other["runtime_identity"] != first["runtime_identity"]
    assert other["runtime"]["optimisation"] == "basic"


def several(*names: str) -> str:
    return f"profiles={json.dumps(names)}"


def test_each_of_several_profiles_is_run_and_judged(place: Desk, good: Path) -> None:
    profile(place, "basic", 'optimisation = "basic"\nintra_op_threads = 2\n')
    report = place.check(good, several("cpu", "basic"))
    assert report["verdict"] == "accepted", report["findings"]
    rows = {one["profile"]: one for one in report["profiles"]}
    assert {name: (one["verdict"], one["required"]) for name, one in rows.items()} == {
        "cpu": ("accepted", True),
        "basic": ("accepted", True),
    }
    assert rows["cpu"]["runtime_identity"] == report["runtime_identity"]
    assert rows["basic"]["runtime_identity"] not in {None, report["runtime_identity"]}
    assert rows["basic"]["runtime"]["optimisation"] == "basic"
    jobs = report["resources"]["jobs"]
    for name in rows:  # its own runs, and its own comparison
        assert [job for job in jobs if job["kind"] == "run" and job["profile"] == name]
        assert [row for row in report["parity"] if row["profile"] == name and row["against"] == "golden"]
    assert len([job for job in jobs if job["kind"] in {"inspect", "vectors"}]) == 2  # once for all


def test_the_profile_that_fails_is_named_and_an_optional_one_stops_nothing(
    place: Desk, good: Path, pins: str
) -> None:
    lines = [line for line in pins.splitlines() if "libstdc++" not in line]
    profile(place, "strange", "\n".join(lines))
    report = place.check(good, several("cpu", "strange"))
    assert report["verdict"] == "inconclusive"
    assert {one["profile"]: one["verdict"] for one in report["profiles"]} == {
        "cpu": "accepted",
        "strange": "inconclusive",
    }
    assert report["reason"].startswith("under profile strange: ")
    assert {one["profile"] for one in report["findings"] if one["code"] == "runtime/library-mismatch"} == {
        "strange"
    }
    report = place.check(good, several("cpu"), 'optional_profiles=["strange"]')
    assert report["verdict"] == "accepted", report["findings"]
    assert not codes(report, "reject", "hold")
    assert [one["verdict"] for one in report["profiles"]] == ["accepted", "inconclusive"]


# -- the commands


def test_profiles_are_shown_side_by_side(place: Desk, pins: str) -> None:
    profile(place, "pinned", pins)
    absent = profile(place, "absent", 'interpreter = "/nowhere/bin/python"\n').removeprefix("profile=")
    done = acceptd(place, "profile", "show", "cpu", "pinned")
    assert done.returncode == 0, done.stderr
    for word in (
        "cpu",
        "pinned",
        "interpreter",
        "onnxruntime",
        "distribution",
        "available",
        "threads",
        "cpu class",
    ):
        assert word in done.stdout
    assert "all pinned" in done.stdout
    told = acceptd(place, "profile", "show", "cpu", "pinned", absent, "--json")
    assert told.returncode == 2
    found = {one["name"]: one for one in json.loads(told.stdout)["profiles"]}
    assert found["cpu"]["identity"] == found["pinned"]["identity"]  # pins change no runtime
    assert "/nowhere/bin/python" in found["absent"]["problem"]


def test_profile_check_names_file_key_and_remedy(place: Desk) -> None:
    profile(place, "other-version", 'onnxruntime = "1.24.1"\n')
    done = acceptd(place, "profile", "check", "cpu", "other-version")
    assert done.returncode == 2
    assert "cpu.toml: valid, digest" in done.stdout
    assert "other-version.toml: onnxruntime: " in done.stderr
    assert "→ install onnxruntime==1.24.1" in done.stderr
    profile(place, "misspelt", "threads = 3\n")
    told = acceptd(place, "profile", "check", "misspelt")
    assert told.returncode == 2
    assert "misspelt.toml:4: threads: there is no key 'threads'" in told.stderr
    assert acceptd(place, "profile", "pin", "no-such").returncode == 2


def test_a_verdict_without_a_run_has_no_runtime(place: Desk, tmp_path: Path) -> None:
    path = classifier.write_bundle(tmp_path / "b")
    (path / "bundle.toml").write_text("schema = 2\n", "utf-8")
    report: dict[str, Any] = place.check(path)
    assert (report["runtime"], report["runtime_identity"]) == ({}, None)
