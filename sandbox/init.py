"""From the fork to the job's body: pid 1 builds the room, forks pid 2, reaps it and reports.

pid 1 and pid 2 are forks of the warm parent. pid 1 keeps the status pipe, which the job never
holds, and tells the wait status from outside: as pid 1 a job's own deaths would be misreported
(abort() as SIGSEGV, the soft CPU limit ignored), as pid 2 they are what they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from sandbox import confine, jobs, messages

JOB_FD: Final = 3
FIRST_BLOB_FD: Final = 4
MAX_FDS: Final = 16
_RIGHTS_SPACE: Final = socket.CMSG_SPACE(MAX_FDS * 4)

_IGNORED: Final = (int(signal.SIGINT), int(signal.SIGXFSZ), int(signal.SIGPIPE))
"""What Python and the parent ignore."""

EXIT_DONE: Final = 0
EXIT_REFUSED: Final = 0
EXIT_WALL: Final = 97
EXIT_BROKEN: Final = 98


@dataclass(frozen=True, slots=True)
class Baseline:
    """Sizes of the warm parent at the fork, in bytes."""

    data: int
    address_space: int
    resident: int


class SocketChannel:
    """The job's voice: frames on its own stream socket, which nobody else holds."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def _write(self, payload: bytes | memoryview) -> None:
        view = memoryview(payload)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        """Send one JSON frame."""
        self._write(messages.encode(frame_type, body))

    def data(self, payload: bytes | memoryview) -> None:
        """Send raw bytes in frames of at most MAX_DATA_FRAME."""
        view = memoryview(payload)
        for start in range(0, len(view), messages.MAX_DATA_FRAME):
            part = view[start : start + messages.MAX_DATA_FRAME]
            self._write(messages.HEADER.pack(messages.DATA, len(part)))
            self._write(part)


def _read_exactly(descriptor: int, count: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = os.read(descriptor, min(count - len(chunks), 1 << 20))
        if not chunk:
            raise EOFError("the trusted side went away")
        chunks += chunk
    return bytes(chunks)


def _read_order() -> dict[str, Any]:
    kind, size = messages.HEADER.unpack(_read_exactly(JOB_FD, messages.HEADER.size))
    if kind != messages.JSON:
        raise ValueError("the order is not JSON")
    order: dict[str, Any] = json.loads(_read_exactly(JOB_FD, size))
    return order


def _receive(end: socket.socket) -> list[int]:
    """Wait for the descriptors of one order; an empty list when the parent closed its end instead.

    Until then ``end`` is kept and nothing else but 0 to 2, and afterwards not even that. The parent made it:
    another object for the same socket would dirty a hundred pages.
    """
    number = end.fileno()
    confine.close_from(3, number - 1)
    confine.close_from(number + 1)
    payload, ancillary, _, _ = end.recvmsg(8, _RIGHTS_SPACE)
    os.close(number)
    received: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received += memoryview(data[: len(data) - len(data) % 4]).cast("i")
    return received if payload == b"J" else []


def arrange_descriptors(received: list[int]) -> None:
    """Move received descriptors (job, stderr, blobs…) to their fixed numbers; close the rest."""
    job, stderr, *blobs = received
    # First out of the way of the fixed numbers, so that no dup2 overwrites one still needed.
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100) for descriptor in (job, *blobs)]
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(stderr, 2)
    for number, descriptor in enumerate(high, start=JOB_FD):
        os.dup2(descriptor, number, inheritable=False)
    confine.close_from(JOB_FD + len(high))


def run_as_pid1(
    init_end: socket.socket,
    job_end: socket.socket,
    baseline: Baseline,
    uid: int,
    gid: int,
    staging: str,
    visible: tuple[str, ...] = (),
) -> NoReturn:
    """Everything after the clone, in the child. Never returns.

    ``visible`` are libraries of the profile's provider that a job's root shows at their own paths.

    Each of the two processes keeps one socket, on which the parent will pass it what is its own: pid 1
    the status pipe, pid 2 the job's socket, stderr and blobs. Until then neither knows of a submission.
    """
    code = EXIT_BROKEN
    try:
        child = confine.fork()  # first: what is written before it, the kernel copies for both
        if child == 0:
            confine.default_signals(_IGNORED)
            confine.map_own_user(uid, gid)
            received = _receive(job_end)
            if received:
                arrange_descriptors(received)
                code = _job(_read_order(), baseline, staging, visible)
        else:
            code = _reap(child, init_end)
    except BaseException as error:  # noqa: BLE001 - last resort of a process that must not return into the parent's loop
        with contextlib.suppress(BaseException):
            os.write(2, f"init: {type(error).__name__}: {error}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(code)


def _build_room(
    order: dict[str, Any], staging: str, visible: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Pivot into the private root. pid 2 does it, so that ``/proc/self/fd`` is its own; pid 1 moves along."""
    off = set(order.get("walls_off", ()))  # only the matrix tests of the cell send this
    states = {"namespaces": "enforced", "network": "enforced"}
    notes: dict[str, str] = {}
    try:
        confine.forbid_user_namespaces()
    except OSError as error:  # a /proc/sys that is read-only on some hosts; seccomp still kills at unshare
        notes["namespaces"] = messages.clip(f"further user namespaces are not forbidden: {error}", 200)
    files = [(messages.MODEL_DIR + "/" + inside, source) for inside, source in order["files"]]
    files += [(path, path) for path in visible]
    try:
        if "root" in off:
            raise OSError(0, "switched off")
        scratch = (messages.SCRATCH_DIR, messages.SCRATCH_BYTES) if order.get("scratch") else None
        confine.private_root(staging, files, proc_fd=bool(order["proc_fd"]), scratch=scratch)
        states["root"] = "enforced"
    except OSError as error:
        states["root"], notes["root"] = "failed", str(error)
    return states, notes


def _reap(child: int, end: socket.socket) -> int:
    received = _receive(end)
    if not received:
        return 0  # the parent ends: so does the whole namespace
    os.close(2)  # nothing of the job's may stay open here: a held pipe would keep the client waiting
    confine.no_new_privileges()
    confine.drop_capabilities()
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == child:
            break
    # By hand: an encoder would dirty forty pages for it.
    report = (
        f'{{"status": {status}, "utime": {usage.ru_utime}, "stime": {usage.ru_stime}, '
        f'"maxrss": {usage.ru_maxrss * 1024}, "minflt": {usage.ru_minflt}, "majflt": {usage.ru_majflt}}}'
    )
    os.write(received[0], report.encode())
    return 0


def _confine_self(
    order: dict[str, Any],
    baseline: Baseline,
    states: dict[str, str],
    notes: dict[str, str],
    visible: tuple[str, ...],
) -> int:
    off = set(order.get("walls_off", ()))
    limits = messages.Limits(**order["limits"])
    abi = 0

    def wall(name: str, *, on: bool = True) -> bool:
        if name in off:
            states[name], notes[name] = "failed", "switched off"
            return False
        return on

    confine.not_dumpable()
    confine.no_new_privileges()
    if wall("rlimits"):
        data = baseline.data + limits.mapped_bytes + limits.memory_bytes
        confine.rlimits(
            cpu=limits.cpu_seconds,
            data=data,
            address_space=baseline.address_space + limits.mapped_bytes + limits.memory_bytes + (1 << 30),
            file_size=limits.output_bytes,
            open_files=limits.open_files,
            tasks=limits.threads + 8,  # this one, pid 1, and the threads
        )
        states["rlimits"] = "enforced"
    if wall("landlock"):
        readable = [messages.MODEL_DIR] if order["files"] and states.get("root") == "enforced" else []
        if states.get("root") == "enforced":
            # Their directory, which holds nothing else here: OpenVINO finds its parsers by listing it.
            readable += {path if os.path.isdir(path) else os.path.dirname(path) for path in visible}
        try:
            own = order.get("scratch") and states.get("root") == "enforced"
            abi = confine.landlock(readable, messages.SCRATCH_DIR if own else "")
            states["landlock"] = "enforced"
        except OSError as error:
            states["landlock"] = "unavailable" if error.errno == 95 else "failed"
            notes["landlock"] = str(error)
    if wall("capabilities"):
        confine.drop_capabilities()
        states["capabilities"] = "enforced"
    if wall("seccomp"):
        if order["seccomp"]:
            confine.seccomp(bytes.fromhex(order["seccomp"]))
            states["seccomp"] = "enforced"
        else:
            states["seccomp"], notes["seccomp"] = "unavailable", "no compiled filter was given"
    return abi


def _job(order: dict[str, Any], baseline: Baseline, staging: str, visible: tuple[str, ...]) -> int:
    states, notes = _build_room(order, staging, visible)
    channel = SocketChannel(JOB_FD)
    blobs = {name: FIRST_BLOB_FD + index for index, name in enumerate(order["blobs"])}
    kind: str = order["kind"]
    try:
        abi = _confine_self(order, baseline, states, notes, visible)
    except OSError as error:
        os.write(2, f"confine: {error}\n".encode())
        return EXIT_WALL
    channel.send("walls", {"states": states, "notes": notes, "landlock_abi": abi})
    if any(states.get(name) != "enforced" for name in order["required_walls"]):
        return EXIT_WALL  # before the first submitted byte
    try:
        phases = jobs.BODIES[kind]({"kind": kind, "spec": order["spec"]}, channel, blobs)
        channel.send("done", {"phases_ms": phases, "baseline_rss_bytes": baseline.resident})
    except messages.RefusedError as refused:
        channel.send(
            "refused",
            {
                "code": refused.code,
                "where": refused.where,
                "message": refused.message,
                "stage": refused.stage,
            },
        )
    except MemoryError:
        channel.send(
            "refused",
            {
                "code": "resources/memory-limit",
                "where": kind,
                "message": "memory budget used up",
                "stage": kind,
            },
        )
    except BrokenPipeError:
        return EXIT_BROKEN
    except Exception as error:  # noqa: BLE001 - whatever a body raises is a fact about its input, told in one frame
        text = messages.clip(f"{type(error).__name__}: {messages.text_of(str(error))}", 1000)
        sys.stderr.write(text)
        channel.send("refused", {"code": "sandbox/job-error", "where": kind, "message": text, "stage": kind})
    return EXIT_DONE
