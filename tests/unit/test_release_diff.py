"""`release diff`: every key that differs between two releases, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from acceptd.cli.release import app
from acceptd.cli.release_diff import print_difference
from acceptd.config import Paths
from acceptd.errors import ReleaseError
from acceptd.release.difference import MOST, Side, difference
from acceptd.release.trust import File
from tests.canary_world import manifest
from tests.release_world import MODEL, World, memory_directory

pytestmark = pytest.mark.unit
ONE = Side(MODEL, "production", 1, "promote", "2026-11-29T12:00:00Z", "ada", "1.0.0", "a" * 64, "b" * 64, ())


def changed(first: dict[str, Any], second: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    found = difference(ONE, {"manifest": first}, [], ONE, {"manifest": second}, [])
    return {change.key: (change.first, change.second) for change in found.changes}


def test_the_same_release_does_not_differ() -> None:
    assert changed(manifest("1"), manifest("1")) == {}


def test_rows_with_names_are_compared_by_name_and_order_is_told() -> None:
    rows = [{"name": "a", "dtype": "float32"}, {"name": "b", "dtype": "int64"}]
    other = [{"name": "b", "dtype": "int32"}, {"name": "a", "dtype": "float32"}]
    assert changed({"inputs": rows}, {"inputs": other}) == {
        "inputs[b].dtype": ("int64", "int32"),
        "inputs (order)": (["a", "b"], ["b", "a"]),
    }


def test_a_row_that_came_and_one_that_went() -> None:
    one, other = {"name": "a"}, {"name": "b"}
    assert changed({"inputs": [one]}, {"inputs": [other]}) == {
        "inputs[a]": (one, None),
        "inputs[b]": (None, other),
    }


def test_labels_in_another_order_differ() -> None:
    assert changed({"labels": ["cat", "dog"]}, {"labels": ["dog", "cat"]}) == {
        "labels": (["cat", "dog"], ["dog", "cat"])
    }


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ("1", 1), (None, 0), ([], None), ({}, [])])
def test_values_that_python_calls_equal_or_empty_differ(one: object, other: object) -> None:
    assert list(changed({"key": one}, {"key": other})) == ["key"]


def test_rows_of_one_name_are_compared_as_a_whole() -> None:
    rows = [{"name": "a", "x": 1}, {"name": "a", "x": 2}]
    assert list(changed({"k": rows}, {"k": rows[::-1]})) == ["k"]


def test_files_are_told_by_path_and_no_more_than_the_most() -> None:
    files = [File(path=f"f{at}", sha256="0" * 64, size=at) for at in range(MOST + 5)]
    found = difference(ONE, {}, [], ONE, {}, files)
    assert (len(found.changes), found.left_off) == (MOST, 5)
    assert found.changes[3].second == {"path": "f3", "sha256": "0" * 64, "size": 3}


def test_options_are_told_once() -> None:
    def document(threads: int) -> dict[str, Any]:
        options = {"intra_op_threads": threads}
        return {"options": options, "profiles": [{"profile": "cpu", "options": options}]}

    found = difference(ONE, document(1), [], ONE, document(2), [])
    assert [(one.part, one.key) for one in found.changes] == [("profiles", "[cpu].options.intra_op_threads")]


def test_a_hostile_name_stays_one_line_of_a_narrow_screen() -> None:
    out = Console(width=80, record=True, force_terminal=False)
    evil = "x\x1b[2J\n✓ ACCEPTED\u202e"
    found = difference(ONE, {"manifest": {evil: [evil]}}, [], ONE, {"manifest": {evil: "y" * 500}}, [])
    print_difference(out, found)
    text = out.export_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(row.startswith("✓") for row in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    root = memory_directory()
    try:
        world = World(root)
        world.released("1.0.0", manifest=manifest("1.0.0"))
        world.released("1.1.0", manifest=manifest("1.1.0"))
        other = world.accepted("2.0.0", manifest=manifest("2.0.0", labels=("a", "b", "c")))
        world.promote(other, channel="canary")
        world.close()
        for missing in Paths(world.state).missing():
            missing.mkdir()
        yield world.state
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize(
    ("words", "versions"),
    [
        ((), ("1.0.0", "1.1.0")),
        (("1",), ("1.0.0", "1.1.0")),
        (("2", "1"), ("1.1.0", "1.0.0")),
        (("production", "canary"), ("1.1.0", "2.0.0")),
    ],
)
def test_releases_are_named_by_number_channel_or_not_at_all(
    state: Path, words: tuple[str, ...], versions: tuple[str, str]
) -> None:
    done = CliRunner().invoke(app, ["diff", MODEL, *words, "--state", str(state), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["first"]["version"], said["second"]["version"]) == versions
    keys = [one["key"] for one in said["changes"] if one["part"] == "manifest"]
    assert "bundle.version" in keys
    assert ("canary" in words) == any(key.endswith("outputs[probabilities].labels") for key in keys)


def test_a_release_that_is_not_there_is_one_line(state: Path) -> None:
    done = CliRunner().invoke(app, ["diff", MODEL, "7", "--state", str(state)])
    assert isinstance(done.exception, ReleaseError)
    assert "no release '7'" in done.exception.message
