"""The warm parent: imports everything once, reads no submitted byte, forks one job per order.

Control protocol on an inherited SOCK_SEQPACKET socket (its number is the last argument), closed set:

- in  ``J`` + descriptors (job socket, status pipe, stderr pipe, blobs…): fork a job;
- out ``S`` + pid (4 bytes) + pidfd of the job's pid 1;
- in  ``P``: health; out ``P`` + JSON {threads, resident, children}.
"""

from __future__ import annotations

import array
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from typing import Final

STAGING: Final = "/cell"
MAX_FDS: Final = 16


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


def _reply_health(control: socket.socket, children: dict[int, int]) -> None:
    sizes = _sizes()
    body = {"threads": sizes["Threads"], "resident": sizes["VmRSS"], "children": len(children)}
    control.send(b"P" + json.dumps(body).encode())


def main() -> None:
    """Warm up, announce readiness, then serve orders until the control socket closes."""
    uid, gid, control_fd = (int(word) for word in sys.argv[1:4])
    _drop_to(uid, gid)
    from sandbox import confine, init, jobs

    jobs.preload()
    gc.collect()
    gc.freeze()  # the collector must not touch, and thereby copy, the shared pages in each fork
    sizes = _sizes()
    baseline = init.Baseline(sizes["VmData"], sizes["VmSize"], sizes["VmRSS"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=control_fd)
    anonymous = sizes["RssAnon"] + sizes["RssShmem"]
    hello = {"threads": sizes["Threads"], "anonymous": anonymous, **jobs.versions()}
    control.send(b"R" + json.dumps(hello).encode())
    poll = select.poll()
    poll.register(control, select.POLLIN)
    children: dict[int, int] = {}  # pidfd -> pid
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != control.fileno():
                poll.unregister(descriptor)
                os.waitpid(children.pop(descriptor), 0)
                os.close(descriptor)
                continue
            payload, ancillary, _flags, _address = control.recvmsg(64, socket.CMSG_SPACE(MAX_FDS * 4))
            received = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    received.frombytes(data[: len(data) - len(data) % 4])
            if not payload:
                return
            if payload == b"P":
                _reply_health(control, children)
                continue
            pid, pidfd = confine.clone_into_namespaces()
            if pid == 0:
                init.run_as_pid1(list(received), baseline, uid, gid, STAGING)
            for number in received:
                os.close(number)
            rights = array.array("i", [pidfd])
            control.sendmsg([b"S" + struct.pack("!I", pid)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            children[pidfd] = pid
            poll.register(pidfd, select.POLLIN)


if __name__ == "__main__":
    main()
