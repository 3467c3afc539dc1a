"""The sample CI jobs and the pre-commit hooks run commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.test_docs_commands import problems

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted((ROOT / "examples" / "ci").glob("*.yml")), ROOT / ".pre-commit-hooks.yaml"]
_COMMAND = re.compile(r"^\s*(?:- )?(?:run: |entry: )?(acceptd [a-z].*)$", re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_exists(path: Path) -> None:
    commands = _COMMAND.findall(path.read_text("utf-8"))
    assert commands
    assert [problem for line in commands for problem in problems(line.removesuffix(" --"))] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_plain_yaml_of_spaces_and_printable_characters(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "\t" not in text
    assert all(line.isprintable() and line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("path", FILES[:-1], ids=lambda path: path.name)
def test_a_job_installs_bytes_that_are_named_and_writes_what_it_uploads(path: Path) -> None:
    """No name alone, which an index could answer with somebody else's package."""
    text = path.read_text("utf-8")
    assert re.search(r'ACCEPTD_WHEEL: "https://\S+\.whl#sha256=[0-9a-f]{64}"', text)
    assert 'pip install "$ACCEPTD_WHEEL"' in text
    for option, file in (("--sarif", "acceptd.sarif"), ("--junit", "acceptd.xml")):
        assert f"{option} {file}" in text
        assert text.count(file) > 1
    assert "acceptd doctor" in text
