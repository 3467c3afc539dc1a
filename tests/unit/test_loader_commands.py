"""``acceptd loader verify|path|run``: what is proved, where it lies, one run; exit codes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from examples.evidence_classifier import build_model, manifest
from tests import commands
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

ROWS = [[0.9, 0.8, 0.75, 0.1], [0.0, 0.0, 0.0, 0.0]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("commands"))
    made.now = time.time()
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    yield made
    made.close()


def loader(world: World, *words: object) -> subprocess.CompletedProcess[str]:
    command, *rest = map(str, words)
    return commands.run("loader", command, MODEL, "--state", str(world.state), *rest)


def test_verify_says_line_by_line_what_was_proved(world: World) -> None:
    release = world.open()
    done = loader(world, "verify", "--mode", "memory", "--demand-checkpoint")
    lines = dict(one.strip().split("  ", 1) for one in done.stdout.splitlines() if "  " in one.strip())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"verified  {MODEL} production number 1"
    assert lines["ledger"].strip() == "entry proved below a checkpoint that a ledger key signed"
    assert lines["bundle"].strip() == release.bundle_digest
    assert lines["labels"].strip() == (release.labels or {})["sha256"]
    found = json.loads(loader(world, "verify", "--json").stdout)
    assert (found["verified"], found["proof"], found["number"]) == (True, "signed", 1)
    assert found["preprocessing"] == release.preprocessing


def test_path_prints_the_verified_directory_and_nothing_where_it_is_refused(world: World) -> None:
    assert loader(world, "path").stdout == f"{world.open().path}\n"
    refused = loader(world, "path", "--digest", "a" * 64)
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "is demanded" in refused.stderr


@pytest.mark.parametrize(("form", "mode"), [("json", "memory"), ("npz", "mapped")])
def test_run_prints_outputs_and_labels(world: World, tmp_path: Path, form: str, mode: str) -> None:
    given = tmp_path / f"inputs.{form}"
    if form == "json":
        given.write_text(json.dumps({"features": ROWS}))
    else:
        np.savez(given, features=np.array(ROWS, np.float32))
    found = json.loads(loader(world, "run", "--inputs", given, "--mode", mode, "--json").stdout)
    assert found["labels"] == {"probabilities": ["accept", "review"]}
    assert np.array(found["outputs"]["probabilities"]).shape == (2, 3)
    shown = loader(world, "run", "--inputs", given, "--mode", mode).stdout
    assert "probabilities  float32 [2, 3]" in shown
    assert "labels: accept, review" in shown


@pytest.mark.parametrize("text", ["{", "[]", '{"features": [[2, 0, 0, 0]]}'])
def test_inputs_that_are_none_are_usage(world: World, tmp_path: Path, text: str) -> None:
    given = tmp_path / "inputs.json"
    given.write_text(text)
    done = loader(world, "run", "--inputs", given)
    assert (done.returncode, done.stdout) == (2, "")


def test_an_archive_that_is_pickled_or_torn_or_away_or_none_is_usage(world: World, tmp_path: Path) -> None:
    pickled, torn, away = tmp_path / "pickled.npz", tmp_path / "torn.npz", tmp_path / "away.npz"
    np.savez(pickled, features=np.array([{}], dtype=object))
    torn.write_bytes(pickled.read_bytes()[:40])
    with (single := tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.zeros((1, 4), np.float32))  # an array without a name
    for given in (pickled, torn, away, single):
        assert loader(world, "run", "--inputs", given).returncode == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--mode", "paranoid"), 2),
        (("--keys", "/nowhere"), 2),
        (("--channel", "canary"), 5),
        (("--profile", "x"), 5),
    ],
)
def test_exit_codes_of_a_release_that_is_not_opened(world: World, words: tuple[str, ...], code: int) -> None:
    assert loader(world, "verify", *words).returncode == code


def test_a_runtime_of_which_nothing_is_known_is_refused_where_told(world: World, tmp_path: Path) -> None:
    given = tmp_path / "inputs.json"
    given.write_text(json.dumps({"features": ROWS}))
    refused = loader(world, "run", "--inputs", given, "--runtime", "refuse")
    assert (refused.returncode, refused.stdout) == (5, "")
    warned = loader(world, "run", "--inputs", given, "--runtime", "warn")
    assert warned.returncode == 0
    assert "warning: the release does not say" in warned.stderr


def test_a_state_file_that_is_a_directory_refuses_the_release_in_one_line(world: World, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place, what in (("/", "/ is a directory"), (tmp_path / "folder", f"{tmp_path}/folder is no regular file")):
        done = loader(world, "verify", "--state-file", place)
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr == f"acceptd: the state file {what}\n"
