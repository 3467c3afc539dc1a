"""A shell completes commands, groups, options and finding codes, and imports only what it asks about."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acceptd.cli.outline import HELP, PARTS
from tools import gen_outline

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]


def completed(line: str, shell: str = "bash", *options: str) -> list[str]:
    """Return the lines that ``acceptd`` answers to a shell whose line is ``line``, the cursor at its end."""
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    asked = {
        "_ACCEPTD_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    if shell != "bash":
        asked = {
            "_ACCEPTD_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
    done = subprocess.run(
        [sys.executable, *options, "-m", "acceptd"],
        cwd=ROOT, env=os.environ | asked, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (done.stdout + (done.stderr if options else "")).splitlines()


def test_the_outline_says_of_each_command_what_it_says_itself() -> None:
    """A command that is new or says something else of itself: ``make docs``."""
    assert gen_outline.own_words() == HELP
    assert gen_outline.own_parts() == PARTS
    assert gen_outline.TARGET.read_text("utf-8") == gen_outline.render()


def test_the_first_word_is_completed_without_importing_a_command() -> None:
    lines = completed("acceptd re", "bash", "-X", "importtime")
    assert {"release", "review", "report", "reaccept"} <= set(lines)
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert "acceptd.cli.main" in modules
    assert not {one for one in modules if one.startswith(("sqlalchemy", "acceptd.judge", "acceptd.record"))}


def test_a_groups_commands_are_completed_without_importing_it() -> None:
    lines = completed("acceptd release ro", "bash", "-X", "importtime")
    assert "rollback" in lines
    assert not any(line.rpartition("|")[2].strip().startswith(("sqlalchemy", "acceptd.release")) for line in lines)
    assert {"show", "explain", "schema"} <= set(completed("acceptd policy "))


def test_options_are_completed_from_the_command_alone() -> None:
    assert "--state" in completed("acceptd status --st")
    assert "--json" in completed("acceptd schema list --js")


def test_a_schema_is_completed_where_one_is_named() -> None:
    assert completed("acceptd schema show re") == ["release-statement", "release", "revocations", "receipt"]


def test_a_finding_code_is_completed() -> None:
    assert completed("acceptd policy explain manifest/te") == ["manifest/team-mismatch", "manifest/text-too-long"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_the_words_too(shell: str) -> None:
    assert any("ledger" in line and "record" in line for line in completed("acceptd le", shell))


def test_hostile_words_on_the_line_are_no_command_and_no_error(tmp_path: Path) -> None:
    assert "ledger" in completed(f"acceptd $(touch {tmp_path}/made) ")
    assert completed("acceptd \u202e\x1b[2J") == [""]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """``acceptd`` as an executable of this checkout."""
    script = tmp_path / "acceptd"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m acceptd "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bash_itself_completes_what_the_script_shows(command: Path) -> None:
    """Where acceptd has no answer (a path), bash completes names of files: ``-o default``."""
    line = (
        'source <("$0" --show-completion bash) && COMP_WORDS=(acceptd gc --dry) COMP_CWORD=2 '
        '&& _acceptd_completion "$0" && echo "${COMPREPLY[@]}" && complete -p acceptd'
    )
    done = subprocess.run(["bash", "--norc", "-c", line, str(command)], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["--dry-run", "complete -o default -F _acceptd_completion acceptd"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_takes_the_script(command: Path) -> None:
    line = (
        'autoload -Uz compinit && compinit -u -D && source <("$0" --show-completion zsh) && echo $_comps[acceptd]'
    )
    done = subprocess.run(
        ["zsh", "-fc", line, str(command)],
        capture_output=True,
        text=True,
        env=os.environ | {"HOME": "/nonexistent"},
    )
    assert (done.stdout, done.stderr) == ("_acceptd_completion\n", "")


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish")
def test_fish_itself_completes_a_command_with_what_it_does(command: Path) -> None:
    home = {"HOME": str(command.parent), "PATH": f"{command.parent}:{os.environ['PATH']}"}
    line = "acceptd --show-completion fish | source; complete -C 'acceptd led'"
    done = subprocess.run(["fish", "-Nc", line], capture_output=True, text=True, env=os.environ | home)
    word, _, text = done.stdout.strip().partition("\t")
    assert word == "ledger"
    assert HELP["ledger"].startswith(text.removesuffix("..."))
