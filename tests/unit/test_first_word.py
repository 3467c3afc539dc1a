"""On a terminal a command is heard before anything is loaded, and what is said then is gone when there is more."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acceptd import first_word
from acceptd.cli import common

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
WORD = "acceptd check: loading ..."


def on_a_terminal(*words: str, path: Path, term: str = "xterm") -> str:
    """Run acceptd with standard error on a terminal; return what came there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": term, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])}
    done = subprocess.Popen(
        [sys.executable, "-m", "acceptd", *words],
        cwd=path, env=environment, stdout=subprocess.DEVNULL, stderr=theirs,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a run in the background ignores it
    )  # fmt: skip
    os.close(theirs)
    found = b""
    try:
        while piece := os.read(ours, 4096):
            found += piece
    except OSError:  # the other side is closed
        pass
    done.wait()
    os.close(ours)
    return found.decode()


def test_the_word_comes_before_the_first_library_and_goes_away_with_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os\nos.write(2, b'<loading>')\nos.kill(os.getpid(), 2)\n")
    told = on_a_terminal("check", "x", path=tmp_path)
    assert told == f"{WORD}<loading>\r\x1b[Kacceptd: interrupted\r\n"


@pytest.mark.parametrize(
    ("words", "term"),
    [(("status",), "xterm"), (("check", "--help"), "xterm"), (("check", "x"), "dumb"), ((), "xterm")],
)
def test_nothing_is_said_where_nobody_waits_or_the_line_could_not_be_taken_away(
    words: tuple[str, ...], term: str, tmp_path: Path
) -> None:
    (tmp_path / "typer.py").write_text("import os\nos._exit(0)\n")
    assert on_a_terminal(*words, path=tmp_path, term=term) == ""


def test_an_error_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    told = on_a_terminal("check", str(tmp_path / "nothing"), path=tmp_path)
    assert told.startswith(f"{WORD}\r\x1b[Kacceptd: the bundle ")
    assert told.count(WORD) == 1


def test_the_help_of_a_group_without_a_command_begins_on_a_clean_line(tmp_path: Path) -> None:
    assert on_a_terminal("bundle", path=tmp_path) == "acceptd bundle: loading ...\r\x1b[K"


def test_a_command_that_prints_at_once_begins_on_a_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wrote: list[bytes] = []
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(first_word.os, "isatty", lambda _fd: True)
    monkeypatch.setattr(first_word, "_write", wrote.append)
    first_word.say(["policy", "list"])
    first_word.loaded(["policy", "list"])
    assert wrote == [b"acceptd policy: loading ...", first_word.ERASE]
    first_word.say(["check", "x"])
    first_word.loaded(["check", "x"])
    assert wrote[2:] == [b"acceptd check: loading ..."]
    common.progress_console()
    common.console()
    assert wrote[3:] == [first_word.ERASE]


def test_a_terminal_that_went_away_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_descriptor: int, _data: bytes) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(first_word.os, "isatty", lambda _fd: True)
    monkeypatch.setattr(first_word.os, "write", gone)
    first_word.say(["check", "x"])
    first_word.unsay()
    assert not first_word._said


def test_where_standard_error_is_no_terminal_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    first_word.say(["check", "x"])
    first_word.unsay()
    assert capfd.readouterr().err == ""


def test_it_imports_nothing_but_what_the_interpreter_has() -> None:
    code = "import sys; before = set(sys.modules); import acceptd.first_word; print(set(sys.modules) - before)"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(said.stdout.strip("{}\n").replace("'", "").split(", ")) <= {
        "acceptd", "acceptd.first_word", "collections.abc", "__future__", "collections", "_collections_abc"
    } | set(sys.stdlib_module_names)  # fmt: skip
    assert not {"typing", "re", "pathlib", "json"} & set(said.stdout.strip("{}\n").replace("'", "").split(", "))
