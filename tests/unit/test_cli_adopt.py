"""`acceptd adopt`: what cannot be meant is refused before anything is made; what is left to do is counted."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from acceptd import local
from acceptd.cli import adopt as module
from tests.command_world import Commands, alone, ready
from tests.unit.test_adopt import row

pytestmark = pytest.mark.unit


@pytest.fixture
def adopt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "end_in_order", lambda: None)
    monkeypatch.setattr(local, "bench", lambda *_a, **_k: pytest.fail("no cell is needed"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.onnx").write_bytes(b"m")
    (tmp_path / "empty").mkdir()
    return Commands(alone(module.adopt), ready(tmp_path / "state"))


REFUSED = [
    (("models", "--team", "Not A Team"), "", "give --team"),
    (("nowhere",), "the directory nowhere does not exist", "check the path"),
    (("models/m.onnx",), "models/m.onnx is no directory", "name the directory that holds the models"),
    (
        ("models", "--into", "models"),
        "models is, or holds, what is to be adopted",
        "name another directory with --into",
    ),
    (("models", "--into", "."), ". is, or holds, what is to be adopted", "name another directory with --into"),
    (("empty",), "no .onnx file and no bundle below empty", "check the directory"),
    (("models", "--submit"), "no daemon is running on this state", "start it: acceptd daemon"),
]


@pytest.mark.parametrize(("words", "error", "remedy"), REFUSED)
def test_nothing_is_made_of_what_cannot_be_meant(
    adopt: Commands, tmp_path: Path, words: tuple[str, ...], error: str, remedy: str
) -> None:
    before = sorted(path for path in tmp_path.rglob("*") if "state" not in path.parts)
    said = adopt.run(*words)
    assert (said.code, said.out, said.remedy) == (2, "", remedy)
    assert said.error == error or (not error and "Not A Team" in said.error)
    assert sorted(path for path in tmp_path.rglob("*") if "state" not in path.parts) == before


def shown(*rows: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, markup=False, highlight=False, emoji=False)
    module.print_rows(console, rows, "p", observe=False)  # type: ignore[arg-type] # rows
    return out.getvalue()


def test_where_nothing_could_be_adopted_there_is_no_table_and_each_reason_is_told() -> None:
    text = shown(
        row(state="failed", reason="it is no model"),
        row(path="l.onnx", state="skipped", kind="skipped", reason="a link"),
    )
    lines = text.splitlines()
    assert lines[:2] == ["failed   m.onnx: it is no model", "skipped  l.onnx: a link"]
    assert "bundle  " not in text
    assert "what needs a person" not in text


def test_what_needs_a_person_is_counted_by_its_kind_the_most_frequent_first() -> None:
    ranges, licence = "no range, so nothing but golden sets is tried: x", "no licence: bundle.license"
    text = shown(
        *(row(path=f"{n}.onnx", name=f"m{n}", needs=[ranges, *([licence] if n else [])]) for n in range(2))
    )
    assert text.splitlines()[-3:] == [
        "what needs a person (the page has it by model):",
        "      2  no range, so nothing but golden sets is tried",
        "      1  no licence",
    ]
