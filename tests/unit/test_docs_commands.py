"""Every command and option that a document shows exists in the command line."""

from __future__ import annotations

import re
import shlex
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from acceptd.cli import main

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
# docs/findings.md is generated: test_remedies.py reads its commands; a finding's sentence may begin with the name.
DOCUMENTS = sorted(
    path
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"))
    if path.name != "findings.md"
)
UNIT = ROOT / "systemd" / "acceptd.service"
_INLINE = re.compile(r"`(acceptd [^`\n]+)`")
_SHELL = re.compile(r"^(?:[$#] |ExecStart=)?(?:\S*/)?(acceptd [a-z].*)$", re.MULTILINE)
_FENCED = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree() -> Any:
    """The whole command tree, as typer builds it."""
    main._assemble("")
    return typer.main.get_command(main.app)


def shown(text: str) -> list[str]:
    """Return the commands that a document shows: inline, and in blocks of a console."""
    blocks = "".join(found[1] for found in _FENCED.finditer(text))
    return [*_INLINE.findall(text), *_SHELL.findall(blocks)]


def problems(line: str) -> list[str]:
    """Return what the command line does not know of one command; placeholders in capitals are arguments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    words = list(takewhile(lambda word: word.strip("();<>|&"), lexer))[1:]
    command, known = tree(), set()
    while words and hasattr(command, "commands"):
        known |= {option for one in command.params for option in one.opts}
        if words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return [f"no command {words[0]!r} in {line!r}"]
        command = command.commands[words.pop(0)]
    for one in command.params:
        known |= {*one.opts, *one.secondary_opts}
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    return [f"no option {option} in {line!r}" for option in sorted(options - known - {"--help"})]


def test_the_check_sees_what_is_wrong() -> None:
    assert problems("acceptd check PATH --json --set a=b") == []
    assert problems("acceptd release rollback TEAM/MODEL --to DIGEST # back") == []
    assert problems("acceptd daemon --log-text 2> daemon.log &") == []
    assert problems("acceptd submit my-model --wait; echo --no | grep --such") == []
    assert problems("acceptd approve x") == ["no command 'approve' in 'acceptd approve x'"]
    assert problems("acceptd check x --wait") == ["no option --wait in 'acceptd check x --wait'"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_command_shown_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert [problem for line in shown(text) for problem in problems(line)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_option_named_alone_exists(document: Path) -> None:
    known, pending = {"--help", "--disable-userns", "--require-hashes"}, [tree()]  # bubblewrap's and pip's
    while pending:
        command = pending.pop()
        pending += getattr(command, "commands", {}).values()
        known |= {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    said = re.findall(r"`(--[a-z-]+)[^`]*`", document.read_text(encoding="utf-8"))
    assert set(said) - known == set()


def test_every_command_is_documented() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    for name in tree().commands:
        assert f"acceptd {name}" in text, name


def test_the_unit_starts_a_command_that_exists() -> None:
    lines = _SHELL.findall(UNIT.read_text(encoding="utf-8"))
    assert len(lines) == 1
    assert problems(lines[0]) == []
