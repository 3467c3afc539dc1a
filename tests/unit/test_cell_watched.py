"""A job that is watched ends when it has to, also where nobody in it listens; doctor's own look never raises."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.cell import compact, doctor, launcher, probes_walls, refused, selfcheck
from acceptd.cell.escape import _met
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.cell.protocol import Reader
from acceptd.cell.watch import Watched, outer_pid, watch
from acceptd.errors import CellUnavailableError, InternalError, SealError
from acceptd.evidence import Note, Refused
from acceptd.policy.limits import LimitsTable
from acceptd.policy.policy import Policy
from sandbox import messages
from tests import judge_world
from tests.unit.test_cell_compact import Make, content
from tests.unit.test_cell_compact import make as make

pytestmark = pytest.mark.unit

LIMITS = replace(job_limits("manifest", LimitsTable()), stderr_bytes=1000)


class Job:
    """A process of ours in the place of a job's pid 1: it says what it was told to, and then sleeps."""

    def __init__(self, words: bytes, *, sleeps: bool = True, complaint: bytes = b"") -> None:
        self.ours, theirs = socket.socketpair()
        self.status, status = os.pipe()
        self.stderr, stderr = os.pipe()
        os.write(stderr, complaint)
        command = ["/bin/sh", "-c", "exit 0"] if not sleeps else ["/bin/sleep", "600"]
        theirs.sendall(words)
        self.process = subprocess.Popen(command, stdin=theirs, stdout=status, stderr=stderr)
        theirs.close()
        os.close(status)
        os.close(stderr)
        self.pidfd = os.pidfd_open(self.process.pid)

    def watched(self, limits: JobLimits = LIMITS, kind: str = "manifest", **more: Any) -> Watched:
        return watch(
            pidfd=self.pidfd,
            job=self.ours.fileno(),
            status=self.status,
            stderr=self.stderr,
            reader=Reader(kind, max_bytes=limits.frame_bytes, max_frames=limits.frames),
            limits=limits,
            baseline=0,
            **({"on_frame": lambda _: None} | more),
        )

    def close(self) -> int:
        code = self.process.wait()
        self.ours.close()
        for one in (self.status, self.stderr, self.pidfd):
            os.close(one)
        return code


@pytest.fixture
def job() -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def one(words: bytes = b"", **more: Any) -> Job:
        made.append(Job(words, **more))
        return made[-1]

    yield one
    for each in made:
        each.process.kill()
        each.close()


def walls() -> bytes:
    return messages.HEADER.pack(messages.JSON, 25) + b'{"t":"walls","states":{}}'


def test_a_job_that_is_given_up_is_dead_when_its_watcher_returns(job: Callable[..., Job]) -> None:
    one = job(walls())
    seen = one.watched(cancelled=lambda: True)
    assert (seen.cancelled, seen.killed_for, seen.stage) == (True, "cancelled", "walls")
    assert one.process.wait() == -signal.SIGKILL


def test_what_the_caller_refuses_kills_the_job_and_comes_out_when_it_is_dead(job: Callable[..., Job]) -> None:
    """A cap of sealing must not leave an unpacking job behind that goes on."""
    one = job(walls())
    heard: list[object] = []

    def refusing(frame: object) -> None:
        heard.append(frame)
        raise SealError("seal/too-many-files", "(drop)", "enough")

    with pytest.raises(SealError, match="enough"):
        one.watched(on_frame=refusing)
    assert len(heard) == 1
    assert one.process.wait() == -signal.SIGKILL


def test_a_job_that_complains_without_end_is_stopped_by_its_first_byte_too_many(job: Callable[..., Job]) -> None:
    one = job(walls(), complaint=b"x" * (LIMITS.stderr_bytes + 1))
    seen = one.watched()
    assert (seen.killed_for, len(seen.stderr)) == ("stderr", LIMITS.stderr_bytes + 1)
    assert one.process.wait() == -signal.SIGKILL


def test_a_job_that_lies_is_killed_at_the_lie_and_one_that_dies_in_a_frame_told_none(
    job: Callable[..., Job],
) -> None:
    lying = job(b"?????")
    assert lying.watched().killed_for == "violation"
    assert lying.process.wait() == -signal.SIGKILL
    half = job(walls()[:9], sleeps=False)
    seen = half.watched()
    assert (seen.killed_for, seen.violation) == ("", "")  # without pid 1's word on how it ended


def test_a_descriptor_that_is_no_pidfd_names_no_process(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        assert outer_pid(file.fileno()) == -1
    pidfd = os.pidfd_open(os.getpid())
    assert outer_pid(pidfd) == os.getpid()
    os.close(pidfd)


# -- a wall that does not come up


class _Outer:
    """Stands for bubblewrap: says some first words, or none, and is killed."""

    def __init__(self, words: bytes, out: int) -> None:
        self.pid, self.returncode, self.killed = 4711, 0, 0
        if words:
            os.write(out, words)

    def kill(self) -> None:
        self.killed += 1

    def communicate(self) -> tuple[bytes, bytes]:
        return b"", b"bwrap: setting up uid map: Permission denied\n"


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (b"", CellUnavailableError, "the cell did not start: bwrap: setting up uid map: Permission denied"),
        (b"X{}", CellUnavailableError, "the cell did not start"),
        (b"R{}", InternalError, "the parent's hello"),
    ],
)
def test_a_parent_that_says_nothing_or_nonsense_is_ended_with_its_wall(
    words: bytes, error: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_Outer] = []

    def started(*_: object, stdout: int, **__: object) -> _Outer:
        made.append(_Outer(words, stdout))
        return made[-1]

    monkeypatch.setattr(launcher, "find_bwrap", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(launcher, "_share", lambda *_: None)
    monkeypatch.setattr(launcher, "compiled", lambda *_: None)
    monkeypatch.setattr(launcher.guard, "stands", lambda *_: None)
    monkeypatch.setattr(launcher.subprocess, "Popen", started)
    begun: list[object] = []
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(error, match=said):
        launcher.start(tmp_path, begun=begun.append)
    assert made[0].killed
    assert begun == [made[0], None]
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_ordinary_user_gets_a_user_namespace_and_root_keeps_what_the_drop_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uid, has, has_not in ((0, "--cap-add", "--unshare-user"), (1000, "--unshare-user", "--cap-add")):
        monkeypatch.setattr(launcher.os, "getuid", lambda uid=uid: uid)
        command = launcher.bwrap_arguments(
            "bwrap", tmp_path, tmp_path, 5, 5, interpreter=launcher.examine(), role="all"
        )
        assert has in command
        assert has_not not in command
        assert "--die-with-parent" in command
        assert command[command.index("--cap-drop") + 1] == "ALL"


def test_doctor_never_raises_whatever_its_own_cell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise CellUnavailableError("the cell did not start: RTM_NEWADDR", remedy="none")

    monkeypatch.setattr(doctor, "Cell", none)
    checks = {one.name: one for one in doctor.examine()}
    assert "RTM_NEWADDR" in checks["namespaces"].seen
    assert "CAP_NET_ADMIN" in checks["namespaces"].remedy
    assert refused.remedy("something that nobody knows") == ""
    told = SimpleNamespace(telemetry="1", threads=1, versions=dict)
    places: list[Path] = []

    class Fine:
        outer_states: dict[str, str] = {"separate_uid": "enforced", "memory_cgroup": "unavailable"}
        outer_notes: dict[str, str] = {"memory_cgroup": "nothing is delegated"}

        def __init__(self, sealed: Path, *, testing: bool) -> None:
            places.append(sealed)
            assert sealed.is_dir()
            assert testing

        def __enter__(self) -> Fine:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def run(self, *_: object, **__: object) -> Any:
            return judge_world.record("attack", notes=[Note(facts={"pid": 2})])

        def told(self) -> Any:
            return told

    monkeypatch.setattr(doctor, "Cell", Fine)
    found = {one.name: one for one in doctor.examine()}
    assert (found["memory_cgroup"].state, found["memory_cgroup"].seen) == ("unavailable", "nothing is delegated")
    assert {found["telemetry"].state, found["threads"].state} == {"enforced"}
    assert not places[0].exists()


def test_a_self_check_that_does_not_end_well_starts_no_daemon(tmp_path: Path) -> None:
    """A wall that stands by its own word, and a probe that died behind it."""
    states = dict.fromkeys(Policy().required_walls, "enforced")
    record = judge_world.record("attack", ending="crash", cause="SIGSYS", message="")
    cell: Any = SimpleNamespace(outer_states=states, run=lambda *_, **__: record)
    with pytest.raises(CellUnavailableError, match="the self-check job ended as crash: SIGSYS") as raised:
        selfcheck.require_walls(cell, tmp_path, Policy())
    assert raised.value.remedy == "run `acceptd doctor`"
    bare = record.model_copy(update={"walls": None})
    cell = SimpleNamespace(outer_states={}, run=lambda *_, **__: bare)
    with pytest.raises(CellUnavailableError, match="requires walls that do not hold here: "):
        selfcheck.require_walls(cell, tmp_path, Policy())


@pytest.mark.parametrize(
    ("changes", "met"),
    [
        ({"ending": "done", "notes": [Note(facts={"escaped": True, "why": "EPERM"})]}, "escaped"),
        ({"ending": "crash", "cause": "SIGSYS", "notes": [Note(facts={"escaped": True})]}, "escaped"),
        ({"ending": "done", "notes": [Note(facts={"why": "EPERM"})]}, "EPERM"),
        ({"ending": "done", "notes": [Note(facts={})]}, "no refusal"),
        ({"ending": "done", "notes": []}, "done: "),
        ({"ending": "crash", "cause": "SIGSYS"}, "SIGSYS"),
        ({"ending": "lost", "cause": "wall"}, "lost: wall"),
        (
            {"ending": "refused", "refused": Refused(code="resources/memory-limit", where="", message="")},
            "MemoryError",
        ),
    ],
)
def test_a_probe_that_escaped_is_told_as_one_whatever_its_end(changes: dict[str, Any], met: str) -> None:
    assert _met(judge_world.record("attack", **changes)).startswith(met)


def test_a_probe_that_root_stops_otherwise_is_credited_to_the_walls_of_each() -> None:
    for name in probes_walls._FOR_OWNER:
        probe: Any = SimpleNamespace(name=name)
        assert probes_walls.walls_of(probe, owner=True) == probes_walls._FOR_OWNER[name]
        assert "separate_uid" not in probes_walls.walls_of(probe, owner=True)
    nobody: Any = SimpleNamespace(name="a probe of no table")
    assert probes_walls.walls_of(nobody, owner=True) == ("seccomp",)


# -- inputs of a run


@pytest.mark.parametrize("kernel", [errno.EXDEV, errno.EOPNOTSUPP, 0])
def test_where_the_kernel_copies_no_blob_the_bytes_are_read_and_written(
    kernel: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes(range(256)) * 8
    source, target = make(data), make(b"")

    def refusing(*_: object) -> int:
        if kernel:
            raise OSError(kernel, os.strerror(kernel))
        return 0

    monkeypatch.setattr(compact.os, "copy_file_range", refusing)
    monkeypatch.setattr(compact, "_PIECE", 100)
    compact._copy(source, 16, 1000, target, 0)
    assert content(target) == data[16:1016]
    with pytest.raises(OSError, match="shorter than it was"):
        compact._copy(source, 2000, 1000, target, 0)
