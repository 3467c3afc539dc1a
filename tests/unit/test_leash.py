"""acceptd is killed: what it has running for the operator, or compares with, ends too, whatever it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from acceptd import leash
from acceptd.export import hook_run

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
"""Seconds that bound a failure; nothing passes by waiting."""
NO_PARENT = 2**22 + 1
"""No process has this number: the kernel's greatest is 2**22."""
SIGNS = """
from acceptd.record.key_command import KeyCommand
from acceptd.record.keys import Signer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
KeyCommand.of([program], 600.0, Signer.of("ledger", Ed25519PrivateKey.generate()).public_key()).sign(b"data")
"""
ANCHORS = """
from acceptd.record.anchor import Command
Command((program,)).last("origin")
"""


def ended(pidfd: int, seconds: float = PATIENCE) -> bool:
    """Whether the process ends within so long; seconds 0: whether it has."""
    return bool(select.select([pidfd], [], [], seconds)[0])


@pytest.mark.parametrize("does", [SIGNS, ANCHORS], ids=["key command", "anchor command"])
def test_a_command_of_the_operator_that_waits_for_ever_ends_with_acceptd(tmp_path: Path, does: str) -> None:
    """A token that nobody touches; and a child of the command that has left its session."""
    told, program = tmp_path / "told", tmp_path / "waits"
    os.mkfifo(told)
    program.write_text(f"#!/bin/sh\nsetsid sleep infinity &\necho $! $$ > {told}\nwait\n")
    program.chmod(0o755)
    code = f"program = {str(program)!r}\n{does}"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as acceptd:
        pidfds = [os.pidfd_open(int(word)) for word in told.read_text().split()]
        try:
            assert [ended(one, 0) for one in pidfds] == [False, False]
            acceptd.kill()
            assert all(ended(one) for one in pidfds), "it outlives the process that was killed"
        finally:
            for one in pidfds:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(one, signal.SIGKILL)
                os.close(one)


def test_a_command_whose_orderer_died_before_the_kernel_was_asked_never_starts(tmp_path: Path) -> None:
    """prctl(2) tells of no death that was: who asks too late looks whose child it is."""
    words = ["/bin/sh", "-c", f"echo here > {tmp_path}/made"]
    late = [sys.executable, "-I", "-S", leash.__file__, str(NO_PARENT), *words]
    assert subprocess.run(late, check=False).returncode == 128 + signal.SIGTERM
    order = {
        "parent": NO_PARENT,
        "command": words,
        "uid": None,
        "gid": None,
        "seconds": 60,
        "most": 9,
        "event": "",
    }
    late = [sys.executable, "-I", "-S", hook_run.__file__]
    done = subprocess.run(late, input=json.dumps(order).encode(), stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b"")
    assert not (tmp_path / "made").exists()
    # The same from their own parent: they do start.
    assert subprocess.run(leash.command(words), check=False).returncode == 0
    assert (tmp_path / "made").read_text() == "here\n"
    (tmp_path / "made").unlink()
    order["parent"] = os.getpid()
    done = subprocess.run(late, input=json.dumps(order).encode(), stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["code"] == 0
    assert (tmp_path / "made").read_text() == "here\n"


@pytest.mark.parametrize("ends", ["exit 0", "exit 3", "kill -9 $$", "kill -TERM $$", "kill -SEGV $$"])
def test_on_a_leash_a_command_ends_as_it_does_without_one(ends: str) -> None:
    words = ["/bin/sh", "-c", f"cat; echo word; echo said >&2; {ends}"]
    plain, leashed = (
        subprocess.run(one, input=b"given", capture_output=True, check=False)
        for one in (words, leash.command(words))
    )
    assert (leashed.returncode, leashed.stdout, leashed.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_a_program_that_is_none_is_named_with_the_reason(tmp_path: Path) -> None:
    done = subprocess.run(leash.command([str(tmp_path / "none")]), capture_output=True, text=True, check=False)
    assert done.returncode == leash.CANNOT_START
    assert done.stderr == f"{tmp_path}/none: No such file or directory\n"


def test_the_comparer_ends_with_its_socket_in_the_middle_of_its_work() -> None:
    """Its main thread looks at no socket until a task is done."""
    ours, theirs = socket.socketpair()
    code = (
        "import sys, acceptd.compare.__main__ as comparer\n"
        "def busy():\n"
        "    print('busy', flush=True)\n"
        "    while True: pass\n"
        "comparer.warm = busy\n"
        "comparer.main()\n"
    )
    number = str(theirs.fileno())
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--socket", number],
        pass_fds=[theirs.fileno()], cwd=ROOT, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process, ours:
        theirs.close()
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"busy\n"
            ours.close()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
