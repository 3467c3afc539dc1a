"""The warm parent: imports everything once, reads no submitted byte, forks one job per order.

A few rooms stand ready ahead of the orders: already cloned and forked, waiting for their descriptors,
each used once. That takes the two forks, about half of a small job's time, off its path.

Control protocol on an inherited SOCK_SEQPACKET socket, closed set:

Arguments: uid, gid, role (``all`` or ``run``), what a profile adds (JSON: ``providers`` by name,
paths of ``operators``), number of the control socket.

- in  ``J`` + descriptors (status pipe, job socket, stderr pipe, blobs…): start a job;
- out ``S`` + pid (4 bytes) + pidfd of the job's pid 1;
- in  ``P``: health; out ``P`` + JSON {threads, resident, anonymous, children};
- in  ``X`` + word: an illness, in a parent started for testing alone.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sandbox import confine

STAGING: Final = "/cell"
MAX_FDS: Final = 16
READY_ROOMS: Final = 6
"""A submission's jobs, and the next one's first."""
FEW_ROOMS: Final = 3
"""Fewer are not waited with for a pause: the lanes of a suite leave none."""
IDLE_MS: Final = 10
YOUNG: Final = 50_000
"""New containers between two collections of a job: most jobs make fewer in their whole life."""


@dataclass(frozen=True, slots=True)
class Room:
    """A cloned pid 1 and its forked pid 2, both waiting for descriptors on a socket of their own."""

    pid: int
    pidfd: int
    to_init: socket.socket
    to_job: socket.socket

    def close(self) -> None:
        """Close our ends; the processes go on if they were started."""
        self.to_init.close()
        self.to_job.close()


def _drop_to(uid: int, gid: int) -> None:
    if os.getuid() != uid or os.getgid() != gid:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _sizes() -> dict[str, int]:
    values: dict[str, int] = {}
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in {"VmData", "VmSize", "VmRSS", "RssAnon", "RssShmem"}:
                values[name] = int(rest.split()[0]) * 1024
            elif name == "Threads":
                values[name] = int(rest)
    return values


class WarmParent:
    """Serves orders; one thread, one poll loop."""

    def __init__(self, control: socket.socket, uid: int, gid: int, visible: Sequence[str] = ()) -> None:
        from sandbox import init

        self._init = init
        sizes = _sizes()
        self._baseline = init.Baseline(sizes["VmData"], sizes["VmSize"], sizes["VmRSS"])
        self._control = control
        self._ids = (uid, gid)
        self._visible = tuple(visible)
        self._ready: list[Room] = []
        self._ballast = bytearray()
        self._children: dict[int, int] = {}  # pidfd -> pid
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        """Serve until the control socket closes."""
        while True:
            short = len(self._ready) < READY_ROOMS
            events = self._poll.poll(IDLE_MS if short else None)
            ready = [descriptor for descriptor, _ in events]
            for descriptor in ready:
                if descriptor != self._control.fileno():
                    self._reap(descriptor)  # before the order: who asks for children counts none that has ended
            if self._control.fileno() in ready and not self._order():
                return
            if not events or len(self._ready) < FEW_ROOMS:
                self._prepare()  # between orders, so that the forks do not compete with a running job

    def _prepare(self) -> None:
        init_here, init_there = socket.socketpair()
        job_here, job_there = socket.socketpair()
        pid, pidfd = confine.clone_into_namespaces()
        if pid == 0:
            self._init.run_as_pid1(init_there, job_there, self._baseline, *self._ids, STAGING, self._visible)
        init_there.close()
        job_there.close()
        self._ready.append(Room(pid, pidfd, init_here, job_here))
        self._children[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)

    def _reap(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        os.waitpid(self._children.pop(pidfd), 0)
        os.close(pidfd)
        for room in [room for room in self._ready if room.pidfd == pidfd]:
            self._ready.remove(room)
            room.close()

    def _order(self) -> bool:
        payload, ancillary, _flags, _address = self._control.recvmsg(64, socket.CMSG_SPACE(MAX_FDS * 4))
        received = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received.frombytes(data[: len(data) - len(data) % 4])
        if not payload:
            return False
        if payload == b"P":
            self._control.send(b"P" + json.dumps(self._health()).encode())
            return True
        if payload[:1] == b"X" and os.environ.get("ACCEPTD_CELL_TESTING") == "1":
            self._fall_ill(payload[1:].decode())
            return True
        if not self._ready:
            self._prepare()
        room = self._ready.pop(0)
        _pass(room.to_init, received[:1])
        _pass(room.to_job, received[1:])
        room.close()
        for number in received:
            os.close(number)
        rights = array.array("i", [room.pidfd])
        reply = [b"S" + struct.pack("!I", room.pid)]
        self._control.sendmsg(reply, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        return True

    def _health(self) -> dict[str, int]:
        sizes = _sizes()
        return {
            "threads": sizes["Threads"],
            "resident": sizes["VmRSS"],
            "anonymous": sizes["RssAnon"] + sizes["RssShmem"],
            "children": len(self._children),
        }

    def _fall_ill(self, how: str) -> None:
        """Do what a parent must not do; the cell's own tests ask for it."""
        if how == "threads":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        elif how == "memory":
            self._ballast = bytearray(64 << 20)
        elif how == "children":
            while len(self._children) < READY_ROOMS + 4:
                self._prepare()
        elif how == "silent":
            os.kill(os.getpid(), signal.SIGSTOP)


def _pass(end: socket.socket, descriptors: array.array[int]) -> None:
    # A room that died while it waited shows by its pidfd; the client sees a job that ended at once.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        end.sendmsg([b"J"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])


def main() -> None:
    """Warm up, announce readiness, then serve orders until the control socket closes."""
    uid, gid = (int(word) for word in sys.argv[1:3])
    role, more, control_fd = sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5])
    _drop_to(uid, gid)
    gc.disable()  # what is imported stays: looking for cycles in it over and over is a tenth of the start
    from sandbox import identity, jobs, pages  # only after the uid has been dropped

    held = pages.reserve()
    jobs.load(role)
    visible: list[str] = []
    if more:
        from sandbox import preloaded

        visible = preloaded.providers(more.get("providers", ()))
        preloaded.operators(more.get("operators", ()))
    facts = identity.facts()
    del held
    gc.collect()
    filled = pages.fill()
    gc.freeze()  # the collector must not touch, and thereby copy, the shared pages in each fork
    pages.collapse()
    sizes = _sizes()
    gc.set_threshold(YOUNG)
    gc.enable()
    confine.not_dumpable()  # and so is every pid 1 from its first instruction
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=control_fd)
    parent = WarmParent(control, uid, gid, visible)
    anonymous = sizes["RssAnon"] + sizes["RssShmem"]
    hello = {"threads": sizes["Threads"], "anonymous": anonymous, "resident": sizes["VmRSS"], **facts}
    control.send(b"R" + json.dumps(hello).encode())
    parent.serve()
    del filled  # kept so long


if __name__ == "__main__":
    main()
