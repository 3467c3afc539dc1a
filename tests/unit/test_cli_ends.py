"""How commands end: what was not heard is no verdict, a signed file is whole, a node says what it lacks."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import structlog

from acceptd.cli import common, daemon
from acceptd.errors import UsageError
from tests import commands
from tests.command_world import Commands, alone, ready

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "words",
    [("policy", "explain", "--all", "--json"), ("policy", "explain", "--all"), ("config", "show"), ("--help",)],
)
def test_what_nobody_could_hear_ends_with_seventy_and_with_no_verdicts_code(words: tuple[str, ...]) -> None:
    """One would say: rejected."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed, tempfile.TemporaryFile() as err:
        command = commands.Process(*words, stdout=closed, stderr=err)
        assert command.wait(60) == 70
        err.seek(0)
        assert err.read() == b"", "and no traceback"


@pytest.mark.parametrize("words", [(), ("key",)])
def test_a_list_of_commands_that_nobody_reads_is_no_traceback(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed, tempfile.TemporaryFile() as err:
        assert commands.Process(*words, stdout=closed, stderr=err).wait(60) == 2
        err.seek(0)
        assert err.read() == b""


INTERRUPTED = """
import acceptd.cli.config as config
def interrupted(*_what):
    raise KeyboardInterrupt
config.settings_of = interrupted
from acceptd.cli.main import main
main()
"""


def test_ctrl_c_in_the_middle_of_a_command_is_one_line_and_one_json_object() -> None:
    done = commands.run("config", "show", code=INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "acceptd: interrupted\n")
    done = commands.run("config", "show", "--json", code=INTERRUPTED)
    assert done.returncode == 130
    assert json.loads(done.stdout) == {"error": "interrupted", "remedy": "", "exit_code": 130}


class Full:
    """A file on a disk that has room for four bytes."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - Path.open leads here
        self._left = 4

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_what: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        if not self._left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._left -= 2
        return self._file.write(data[:2])


def test_of_a_signed_file_that_does_not_fit_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "signed"
    monkeypatch.setattr(Path, "open", lambda self, *_a, **_k: Full(self))
    with pytest.raises(UsageError) as told:
        common.write_new(place, b"signature")
    assert (told.value.message, told.value.remedy) == (
        f"{place}: No space left on device", "name a file that can be written",
    )  # fmt: skip
    assert not place.exists()


def test_a_signed_file_is_whole_also_where_each_write_takes_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Full):
        def write(self, data: bytes) -> int:
            return self._file.write(data[:2])

    monkeypatch.setattr(Path, "open", lambda self, *_a, **_k: Slow(self))
    common.write_new(tmp_path / "signed", b"signature")
    monkeypatch.undo()
    assert (tmp_path / "signed").read_bytes() == b"signature"


def test_a_suite_ends_with_the_worst_that_happened() -> None:
    assert [common.worst(one) for one in ([0, 3, 4], [3, 1], [0], [], [2, 9])] == [4, 1, 0, 0, 9]


@pytest.fixture
def unlogged() -> Any:
    yield
    structlog.reset_defaults()


def test_a_node_whose_libraries_are_not_installed_says_which_and_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlogged: None
) -> None:
    class Never:
        def __init__(self, *_what: object) -> None:
            pytest.fail("no daemon runs without what it needs")

    state = ready(tmp_path / "state", settings='[record]\nurl = "postgresql:///x"\n[fleet]\nrole = "promoter"\n')
    monkeypatch.setattr("acceptd.daemon.Daemon", Never)
    monkeypatch.setitem(sys.modules, "acceptd.fleet.sites.site", None)
    said = Commands(alone(daemon.daemon), state).run()
    assert said.code == 2
    assert said.error.startswith("a node of a fleet needs what is not installed: ")
    assert said.remedy == "install acceptd with its extra: acceptd[fleet]"


@pytest.mark.parametrize(
    ("words", "fleet", "policy"),
    [
        ((), None, "p"),
        (("--role", "all"), None, "p"),
        (("--policy", "strict"), None, "strict"),
        (("--role", "promoter"), "promoter", "p"),
    ],
)
def test_a_daemon_is_a_node_only_where_a_role_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unlogged: None,
    words: tuple[str, ...],
    fleet: str | None,
    policy: str,
) -> None:
    begun: list[tuple[str | None, str]] = []

    class Begun:
        def __init__(self, _paths: object, settings: Any, *_site: object) -> None:
            begun.append((settings.fleet.role if settings.fleet else None, settings.policy))

        def install_signals(self) -> None:
            pass

        def run(self) -> None:
            pass

    monkeypatch.setattr("acceptd.daemon.Daemon", Begun)
    monkeypatch.setattr(daemon, "_node", lambda _role: object())
    Commands(alone(daemon.daemon), ready(tmp_path / "state"))(*words)
    assert begun == [(fleet, policy)]


def test_the_log_goes_on_where_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_what: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    daemon._StandardError().write(json.dumps({"event": "x"}))


def test_a_file_that_is_larger_than_such_a_file_can_be_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert common.read_limited(tmp_path / "file", 11, "a key") == b"x" * 11
    with pytest.raises(UsageError, match="larger than 10 bytes") as told:
        common.read_limited(tmp_path / "file", 10, "a key")
    assert told.value.remedy == "name a key"
