"""Attacks from inside a job, each with a positive control that shows the same probe succeeding outside.

The control runs the very same source in this process (an ordinary one, without walls) and must see
``escaped``; inside the cell the job must see an errno, or die of SIGSYS.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cell.conftest import Attack

pytestmark = pytest.mark.cell

# Each source sets `escaped` to true when the attack worked. `host` names files that exist outside.
PROBES: dict[str, str] = {
    "read a host file": "escaped = bool(open('/etc/passwd').read())",
    "read another submission": "escaped = bool(open(spec['other']).read())",
    "read the expected output": "escaped = bool(open(spec['expected']).read())",
    "read the expected output beside the model": (
        "escaped = bool(open(os.path.join(os.path.dirname(spec['model']), 'test_data_set_0/output_0.pb')).read())"
    ),
    "list the root": "escaped = 'etc' in os.listdir('/')",
    "read the environment through proc": "escaped = bool(open('/proc/self/environ','rb').read() is not None)",
    "read the memory of its parent": "escaped = open(f'/proc/{os.getppid()}/status').read() != ''",
    "write beside the model": "open(os.path.dirname(spec['model']) + '/x', 'w').write('x'); escaped = True",
    "write to the temporary directory": "open('/tmp/acceptd-escape', 'w').write('x'); escaped = True",
    "overwrite the model": "os.close(os.open(spec['model'], os.O_WRONLY)); escaped = True",
    "remove the model": "os.rename(spec['model'], spec['model'] + '2'); escaped = True",
    "link a file": "os.symlink('/etc/passwd', spec['scratch'] + '/link'); escaped = True",
    "change a mode": "os.chmod(spec['model'], 0o777); escaped = True",
    "take a lease on the sealed file": (
        "fd = os.open(spec['model'], os.O_RDONLY); fcntl.fcntl(fd, 1024, 0); escaped = True"  # F_SETLEASE F_RDLCK
    ),
    "lock the sealed file": (
        "fd = os.open(spec['model'], os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_SH); escaped = True"
    ),
    "open a TCP socket": "socket.socket(socket.AF_INET, socket.SOCK_STREAM); escaped = True",
    "open a UDP socket": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM); escaped = True",
    "open a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); escaped = True",
    "open a Unix socket": "socket.socket(socket.AF_UNIX); escaped = True",
    "make a socket pair": "socket.socketpair(); escaped = True",
    "fork": "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0); escaped = True",
    "start a program": "escaped = os.posix_spawn('/bin/true', ['true'], {}) > 0",
    "signal its parent": "os.kill(os.getppid(), 0); escaped = True",
    "signal itself by kill": "os.kill(os.getpid(), 0); escaped = True",
    "make a pipe": "os.pipe(); escaped = True",
    "make shared writable memory": "mmap.mmap(-1, 4096, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS); escaped = True",
    "make shared memory and protect it later": (
        "m = mmap.mmap(-1, 4096, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ); escaped = True"
    ),
    "make a memfd": "os.memfd_create('x'); escaped = True",
    "raise its own limits": (
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); escaped = True"
    ),
    "list its descriptors": "escaped = bool(os.listdir('/proc/self/fd'))",
    "poll on an eventfd": "os.eventfd(0); escaped = True",
    "schedule itself away": "os.sched_setaffinity(0, {0}); escaped = True",
    "renice": "os.nice(0); os.setpriority(os.PRIO_PROCESS, 0, 0); escaped = True",
    "name a thread by prctl": "escaped = ctypes.CDLL(None).prctl(15, b'evil', 0, 0, 0) == 0",
    "make itself dumpable": "escaped = ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0",
}  # fmt: skip


def raw(number: int, *arguments: int) -> str:
    """Return the source of a raw system call with harmless arguments that sets `escaped` by its errno."""
    words = ", ".join(f"ctypes.c_long({argument})" for argument in arguments)
    return textwrap.dedent(
        f"""
        libc = ctypes.CDLL(None, use_errno=True)
        result = libc.syscall(ctypes.c_long({number}){", " + words if words else ""})
        # Any errno but EPERM means that the kernel looked at the arguments: the call went through.
        escaped = result >= 0 or ctypes.get_errno() != errno.EPERM
        """
    )


# x86-64 numbers; bad pointers and descriptors, so that even a call that goes through does no harm.
FORBIDDEN_CALLS: dict[str, tuple[int, ...]] = {
    "ptrace": (101, 0xFFFF, 0, 0, 0),
    "process_vm_readv": (310, -1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, -1, 0, 0, 0, 0, 0),
    "pidfd_open": (434, -1, 0),
    "pidfd_getfd": (438, -1, 0, 0),
    "pidfd_send_signal": (424, -1, 0, 0, 0),
    "io_uring_setup": (425, 0, 0),
    "keyctl": (250, 0xFFFF, 0, 0, 0, 0),
    "mount": (165, 1, 1, 1, 0, 0),
    "umount2": (166, 1, 0xFFFF),
    "unshare": (272, 0),
    "setns": (308, -1, 0),
    "move_mount": (429, -1, 1, -1, 1, 0),
    "open_tree": (428, -1, 1, 0),
    "execve": (59, 1, 0, 0),
    "personality": (135, 0xFFFFFFFF),
    "setuid": (105, -1),
    "modify_ldt": (154, 0xFFFF, 0, 0),
}


def outside(source: str, spec: dict[str, str]) -> bool:
    """Run ``source`` without walls, in a throw-away process; return whether the attack worked there."""
    names = "ctypes errno fcntl mmap os resource select signal socket struct threading time"
    program = "\n".join(
        [f"import {name}" for name in names.split()] + [f"spec = {spec!r}", source, "print(escaped)"]
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip().endswith("True")


def places(sealed: Path, scratch: Path) -> dict[str, str]:
    return {
        "model": str(sealed / "mine/model.onnx"),
        "other": str(sealed / "other/model.onnx"),
        "expected": str(sealed / "mine/test_data_set_0/output_0.pb"),
        "scratch": str(scratch),
    }


@pytest.mark.parametrize("name", sorted(PROBES))
def test_the_attack_works_outside_and_fails_inside(
    name: str, attack: Attack, sealed: Path, tmp_path: Path
) -> None:
    source = PROBES[name]
    spec = places(sealed, tmp_path)
    assert outside(source, spec), "the positive control must succeed, or the probe proves nothing"
    Path("/tmp/acceptd-escape").unlink(missing_ok=True)
    for path in (Path(spec["model"] + "2"), sealed / "mine/x"):
        if path.exists():
            path.rename(spec["model"]) if path.name.endswith("2") else path.unlink()
    for where in (spec, {**spec, "model": "/m/model.onnx", "other": "/sealed/other/model.onnx"}):
        record = attack(f"spec = {where!r}\nescaped = False\n{source}\nnote(escaped=escaped)")
        assert not any(note.facts["escaped"] for note in record.notes), record
        assert record.ending in {"refused", "crash", "done", "limit"}, record


@pytest.mark.parametrize("name", sorted(FORBIDDEN_CALLS))
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_the_forbidden_call_kills_the_job(name: str, attack: Attack) -> None:
    record = attack(raw(*FORBIDDEN_CALLS[name]) + "\nnote(escaped=escaped)")
    assert (record.ending, record.cause) == ("crash", "SIGSYS"), record
    assert not record.notes


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="i386 calls exist on x86-64 only")
def test_x32_calls_are_refused(attack: Attack) -> None:
    record = attack(raw(0x40000000 | 39) + "\nnote(escaped=escaped)")
    assert not any(note.facts["escaped"] for note in record.notes), record


def test_clone3_falls_back_and_threads_still_start(attack: Attack) -> None:
    record = attack("t = threading.Thread(target=lambda: note(thread=True)); t.start(); t.join()")
    assert record.ending == "done"
    assert record.notes[0].facts == {"thread": True}


def test_no_capability_is_left_and_no_network_device_is_up(attack: Attack) -> None:
    source = """
        libc = ctypes.CDLL(None, use_errno=True)
        note(caps=[libc.prctl(23, c, 0, 0, 0) for c in range(8)], uid=os.getuid(), pid=os.getpid())
    """
    record = attack(textwrap.dedent(source), walls_off=["seccomp"])
    facts = record.notes[0].facts
    assert facts["caps"] == [0] * 8  # PR_CAPBSET_READ: dropped from the bounding set
    assert facts["pid"] == 2


def test_positive_control_the_named_file_can_be_read(attack: Attack) -> None:
    record = attack("note(text=open('/m/model.onnx').read(), names=os.listdir('/m'))")
    assert record.notes[0].facts == {"text": "my model", "names": ["model.onnx"]}
    assert record.ending == "done"


def test_nothing_but_its_own_descriptors_is_open(attack: Attack) -> None:
    source = """
        open_ones = []
        for number in range(0, 64):
            try:
                os.fstat(number); open_ones.append(number)
            except OSError:
                pass
        note(open=open_ones)
    """
    assert attack(textwrap.dedent(source)).notes[0].facts == {"open": [0, 1, 2, 3]}


_ = (contextlib, ctypes, errno, fcntl, mmap, resource, select, signal, socket, struct, threading, time, Any)
