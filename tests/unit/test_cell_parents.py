"""Warm parents that are ill, silent or lie; walls that cannot be built: each told with its remedy, none used."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from array import array
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.cell import cgroup, doctor, host, launcher, runtime, seat, supply, syscalls
from acceptd.cell.blobs import Blob, closing_blob
from acceptd.cell.client import Cell
from acceptd.cell.supply import ROOMS, Kind, ParentSupply, Supplies, WarmParent
from acceptd.errors import CellUnavailableError, ConfigError, InternalError, StateError
from acceptd.evidence import JobRecord, Note, Walls
from acceptd.policy.profile import Profile
from acceptd.runtime import pins
from acceptd.runtime.facts import RuntimeFacts
from tests import judge_world

pytestmark = pytest.mark.unit


# -- a parent's own words


class Ends:
    """A warm parent of ours and the other end of its socket, to answer from."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.warm = WarmParent(cast("Any", SimpleNamespace(control=self.ours, anonymous=1 << 20)), Future(), ())

    def __enter__(self) -> Ends:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.theirs.close()

    def healthy(self, **changes: Any) -> bytes:
        return b"P" + json.dumps({"threads": 1, "anonymous": 1 << 20, "children": ROOMS} | changes).encode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"children": ROOMS + 1}, "children: 7 with no job running, 6 rooms"),
        ({"threads": 2}, "threads: 2"),
        ({"anonymous": (1 << 20) + supply.GROWTH_BYTES}, ""),
        ({"anonymous": (1 << 20) + supply.GROWTH_BYTES + 1}, "memory: 16777217 bytes more than when warm"),
        ({"threads": "many"}, "silent: ValueError"),
        ({"threads": None}, "silent: TypeError"),
        ({"children": float("inf")}, "silent: OverflowError"),
    ],
)
def test_a_parent_that_is_not_as_it_was_when_warm_is_ill(
    changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(supply.time, "sleep", waited.append)
    with Ends() as ends:
        for _ in range(supply._ASKED):
            ends.theirs.send(ends.healthy(**changes))
        assert ends.warm.ailment() == said
    assert len(waited) == (supply._ASKED if said.startswith("children") else 0)  # a room may be about to end


@pytest.mark.parametrize("answer", [b"P{]", b"X{}", b"P[]", b"P{}", b"P" + b"[" * 3000])
def test_an_answer_of_another_form_is_silence(answer: bytes) -> None:
    with Ends() as ends:
        ends.theirs.send(answer)
        assert ends.warm.ailment().startswith("silent: ")


@pytest.mark.parametrize("answer", [b"", b"E gone", b"S\0\0\0\1"])
def test_a_fork_without_a_pidfd_is_a_parent_that_is_gone(answer: bytes) -> None:
    with Ends() as ends:
        if answer:
            ends.theirs.send(answer)
        else:
            ends.theirs.close()
        with pytest.raises((InternalError, OSError)):
            ends.warm.fork([])


def test_a_pidfd_that_comes_is_handed_out_and_a_busy_parent_may_have_more_children() -> None:
    with Ends() as ends, open(os.devnull, "rb") as file:
        rights = array("i", [file.fileno()])
        ends.theirs.sendmsg([b"S" + struct.pack("!I", 1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(ends.warm.fork([]))
        ends.warm.running = 2
        ends.theirs.recv(64)
        ends.theirs.send(ends.healthy(children=ROOMS + 2))
        assert ends.warm.ailment() == ""


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        (b"{]", "the parent's hello: "),
        (b"[]", "the parent's hello: "),
        (b"{}", "the parent's hello: "),
        (b"[" * 100_000, "the parent's hello: RecursionError"),
        (b'{"anonymous": 1e999}', "the parent's hello: "),
    ],
)
def test_first_words_of_another_form_make_no_parent(hello: bytes, said: str) -> None:
    with pytest.raises(InternalError, match=said) as raised:
        launcher.hello_of(hello)
    assert len(str(raised.value)) < 300


# -- walls that cannot be built


def test_without_bubblewrap_there_is_no_cell_and_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher.shutil, "which", lambda _: None)
    with pytest.raises(CellUnavailableError, match="is not installed: the outer wall cannot be built") as raised:
        launcher.find_bwrap()
    assert raised.value.remedy == "install it: apt-get install bubblewrap"


def test_a_sealed_area_that_cannot_be_given_to_the_cell_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(launcher.os, "chown", denied)
    with pytest.raises(CellUnavailableError, match="cannot be given to the cell's group 4711") as raised:
        launcher._share(tmp_path, 4711)
    assert "SupplementaryGroups=" in (raised.value.remedy or "")


def test_jobs_run_as_the_cells_own_user_wherever_one_can_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher.powers, "drops", lambda: True)
    monkeypatch.setattr(launcher.pwd, "getpwnam", {}.__getitem__)
    assert launcher.cell_ids() == (launcher.FALLBACK_CELL_UID, launcher.FALLBACK_CELL_UID)
    entry = SimpleNamespace(pw_uid=58_001, pw_gid=58_002)
    monkeypatch.setattr(launcher.pwd, "getpwnam", {launcher.CELL_USER: entry}.__getitem__)
    assert launcher.cell_ids() == (58_001, 58_002)
    assert launcher.outer_walls()[0]["separate_uid"] == "enforced"
    monkeypatch.setattr(launcher.powers, "drops", lambda: False)
    assert launcher.cell_ids() == (os.getuid(), os.getgid())
    monkeypatch.setattr(launcher.cgroup, "area", lambda: (None, "nothing is delegated"))
    states, notes = launcher.outer_walls()
    assert states == {"separate_uid": "unavailable", "memory_cgroup": "unavailable"}
    assert "jobs keep the user's kernel uid" in notes["separate_uid"]
    assert notes["memory_cgroup"].startswith("nothing is delegated; rlimits")


def test_a_cgroup_that_cannot_be_used_is_a_reason_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Path:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(cgroup, "own_directory", broken)
    found, why = cgroup.area.__wrapped__()
    assert found is None
    assert why == "the cgroup of this process cannot be used: [Errno 30] Read-only file system"


def test_without_libseccomp_no_filter_is_made_and_nothing_runs_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(syscalls, "available", lambda: "libseccomp cannot be loaded: no such file")
    with pytest.raises(CellUnavailableError, match="cannot be loaded") as raised:
        syscalls.compiled.__wrapped__()
    assert "libseccomp2" in (raised.value.remedy or "")

    def unknown(number: int) -> Any:
        def add_rule(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        return SimpleNamespace(add_rule=add_rule)

    syscalls._add(unknown(errno.EINVAL), None, "open")  # of another architecture: the default refuses it
    with pytest.raises(OSError, match="Cannot allocate"):
        syscalls._add(unknown(errno.ENOMEM), None, "open")


def test_doctor_names_the_one_wall_that_keeps_the_cell_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {one.name: one for one in doctor._no_cell("the cell did not start: setting up uid map: EPERM")}
    assert {one.state for one in checks.values()} == {"failed"}
    assert "uid map" in checks["namespaces"].seen
    assert checks["namespaces"].remedy
    assert checks["landlock"].seen == "not tried: the cell did not start"
    assert checks["landlock"].remedy == ""
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    monkeypatch.setattr(doctor.syscalls, "available", lambda: "libseccomp cannot be loaded")
    checks = {one.name: one for one in doctor._no_cell("bubblewrap (bwrap) is not installed")}
    assert checks["namespaces"].remedy == "apt-get install bubblewrap"
    assert checks["seccomp"].seen == "libseccomp cannot be loaded"


def probed(facts: dict[str, Any] | None, **changes: Any) -> JobRecord:
    states = dict.fromkeys(doctor.MEANING, "enforced")
    notes = [] if facts is None else [Note(facts=facts)]
    walls = Walls(states=states, notes={}, landlock_abi=6)
    return judge_world.record("attack", **({"walls": walls, "notes": notes} | changes))


@pytest.mark.parametrize(
    ("record", "wall", "seen"),
    [
        (probed({"pid": 2, "root": "/etc is there"}), "root", "/etc is there"),
        (probed({"pid": 2, "network": "eth0"}), "network", "eth0"),
        (probed({"pid": 7}), "namespaces", "the probe job did not report"),
        (probed(None, message="it died\n"), "namespaces", "it died"),
    ],
)
def test_doctor_believes_what_the_probe_met_and_not_what_the_wall_says_of_itself(
    record: JobRecord, wall: str, seen: str
) -> None:
    cell: Any = SimpleNamespace(outer_states={"separate_uid": "odd"}, outer_notes={})
    checks = {one.name: one for one in doctor._walls(cell, record)}
    assert checks[wall].state == "failed"
    assert seen in checks[wall].seen
    assert checks[wall].remedy
    assert checks["landlock"].seen == "ABI 6"
    bare = {one.name: one.state for one in doctor._walls(cell, probed({"pid": 2}, walls=None))}
    assert set(bare.values()) == {"failed"}, "what nobody reports does not stand"


def test_doctor_tells_a_runtime_that_sends_or_has_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(telemetry="0", threads=3, versions=lambda: {"onnx": "1"})
    facts = SimpleNamespace(
        onnxruntime="1.32.0", distribution="", libraries=(), available_providers=["CPUExecutionProvider"]
    )
    cell: Any = SimpleNamespace(told=lambda *_: told, facts=lambda *_: facts)
    profile = Profile.model_validate(
        {"schema": 1, "name": "gpu", "providers": ["CUDAExecutionProvider"], "allow_cpu_fallback": False}
    )
    quiet, one, ran = runtime.checks(cell, [profile])
    assert [(check.state, check.remedy) for check in (quiet, one)] == [("failed", "report it")] * 2
    assert quiet.seen == "on"
    assert ran.state == "failed"
    assert "CUDAExecutionProvider is not in this build; 3 threads, telemetry on" in ran.seen
    assert "uses no provider (in the build, not used: CPUExecutionProvider)" in ran.seen

    def missing(*_: object) -> object:
        if _:
            raise ConfigError("the interpreter is gone", remedy="install it")
        return SimpleNamespace(telemetry="1", threads=1, versions=dict)

    cell.told = missing
    assert [(check.state, check.remedy) for check in runtime.checks(cell, [profile])] == [
        ("enforced", ""), ("enforced", ""), ("failed", "install it")
    ]  # fmt: skip


# -- supplies and blobs


@pytest.fixture
def supplies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supplies:
    """Supplies whose parents cannot start."""

    def none(*_: object, **__: object) -> None:
        raise CellUnavailableError("there is no cell here", remedy="install one")

    monkeypatch.setattr(launcher, "start", none)
    return Supplies(tmp_path)


def test_what_is_closed_or_asked_for_too_much_says_so(supplies: Supplies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "MAX_KINDS", 1)
    kinds = [Kind(providers=(f"{name}ExecutionProvider",)) for name in ("A", "B")]
    supplies.of(kinds[0])
    with pytest.raises(CellUnavailableError, match="1 runtimes of profiles are in use") as raised:
        supplies.of(kinds[1])
    assert "restart the daemon" in (raised.value.remedy or "")
    with pytest.raises(CellUnavailableError, match="nothing is known of warm parent 4711"):
        supplies.facts(4711)
    with pytest.raises(CellUnavailableError, match="there is no cell here"):
        supplies.of(Kind()).take()
    supplies.close()
    for act in (lambda: supplies.of(kinds[0]), supplies.of(Kind()).take):
        with pytest.raises(CellUnavailableError, match="the cell is closed"):
            act()


def test_a_library_that_cannot_be_read_any_more_makes_no_facts(supplies: Supplies) -> None:
    facts: Future[RuntimeFacts] = Future()
    facts.set_exception(OSError(errno.ENOENT, "No such file or directory", "/lib/x.so"))
    parent = WarmParent(cast("Any", SimpleNamespace()), facts, ())
    supplies._remember(parent)
    with pytest.raises(CellUnavailableError, match=r"cannot be measured: /lib/x\.so: No such file") as raised:
        supplies.facts(parent.number)
    assert "restart it" in (raised.value.remedy or "")
    supplies.close()


def test_a_profile_that_pins_libraries_runs_in_no_parent_whose_own_cannot_be_read() -> None:
    facts: Future[RuntimeFacts] = Future()
    facts.set_exception(OSError(errno.EACCES, "Permission denied", "/lib/x.so"))
    told = SimpleNamespace(onnxruntime="1.32.0")
    parent = WarmParent(cast("Any", SimpleNamespace(told=told)), facts, ())
    plain: Any = SimpleNamespace(name="cpu", libraries={}, onnxruntime="")
    assert seat.unfit(parent, plain) is None, "without pins nothing is waited for"
    pinned: Any = SimpleNamespace(name="cpu", libraries={"libx.so": "ab" * 32}, onnxruntime="")
    record = seat.unfit(parent, pinned)
    assert record is not None
    assert (record.ending, record.cause) == ("unavailable", pins.LIBRARY)
    assert record.message == "/lib/x.so: Permission denied"


def test_a_state_whose_sealed_directory_is_gone_is_told_and_starts_no_parent(
    tmp_path: Path, supplies: Supplies
) -> None:
    own: ParentSupply = supplies.of(Kind())
    own._sealed = tmp_path / "gone"
    with pytest.raises(StateError, match="No such file") as raised:
        own.sees_sealed(WarmParent(cast("Any", None), Future(), ()))
    assert "acceptd init" in (raised.value.remedy or "")
    supplies.close()


def test_the_job_of_the_tests_and_walls_that_are_off_exist_in_tests_alone(supplies: Supplies) -> None:
    """A daemon whose record could ask for either would run a stranger's program without a wall."""
    cell = Cell.__new__(Cell)
    cell._testing = False
    more: dict[str, Any] = {"files": {}, "spec": {}, "limits": None, "required_walls": []}
    with pytest.raises(InternalError, match="exists only in tests"):
        cell.run("attack", **more)
    with pytest.raises(InternalError, match="switched off only in tests"):
        cell.run("run", **more, walls_off=["seccomp"])
    supplies.close()


def test_a_file_system_without_nameless_files_has_blobs_without_a_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refused(path: Any, flags: int, *more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *more)

    monkeypatch.setattr("acceptd.cell.blobs.os.open", refused)
    with closing_blob(tmp_path) as blob:
        assert os.listdir(tmp_path) == []
        writer, reader = blob.writer(), blob.reader()
        os.write(writer, b"values")
        assert (os.pread(reader, 9, 0), blob.size) == (b"values", 6)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(reader, b"x")
        os.close(writer)
        os.close(reader)
    blob.close()  # twice is no error
    assert isinstance(blob, Blob)


def test_a_machine_that_tells_nothing_of_itself_counts_as_idle_and_unknown(tmp_path: Path) -> None:
    for name in ("loadavg", "stat"):
        (tmp_path / name).write_text("nonsense")
    blind = host.read(str(tmp_path))
    assert (blind.load1, blind.pressure_us, blind.stolen) == (0.0, None, 0)
    between = host.between(blind, blind)
    assert (between.pressure, between.steal) == (None, None)
    seen = host.Reading(blind.at + 10, 3.0, 5_000_000, 30, 100)
    found = host.between(host.Reading(blind.at, 1.0, 0, 0, 0), seen)
    assert (found.load1, found.pressure, found.steal) == (3.0, 0.5, 0.3)
    backwards = host.between(seen, host.Reading(seen.at + 1, 0.0, 0, 0, 200))
    assert (backwards.pressure, backwards.steal) == (0.0, 0.0)
