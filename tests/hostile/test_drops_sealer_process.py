"""The sealer process: a drop that hangs is killed at its deadline and holds up no other."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import acceptd
from acceptd.errors import GivenUpError, SealError, StateError
from acceptd.intake import client as module
from acceptd.intake.client import SealerClient, seal_in_process
from acceptd.intake.seal import seal_directory
from acceptd.policy.policy import LimitsTable

pytestmark = pytest.mark.hostile
LIMITS = LimitsTable()


@pytest.fixture(scope="module")
def sealer() -> Iterator[SealerClient]:
    with SealerClient() as client:
        yield client


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    at = tmp_path / "drop"
    (at / "data").mkdir(parents=True)
    (at / "bundle.toml").write_bytes(b"schema = 1\n")
    (at / "data" / "größe.pb").write_bytes(b"x" * 100)
    return at


def stop_child(client: SealerClient) -> int:
    """Stop the idle child, as a read from a dead network file system would, and return its process id."""
    pid = client._idle[0]._process.pid
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_the_same_as_in_process(sealer: SealerClient, drop: Path, tmp_path: Path) -> None:
    assert sealer.seal(drop, tmp_path / "one", LIMITS) == seal_directory(drop, tmp_path / "two", LIMITS)
    (tmp_path / "x.tar").write_bytes(b"tar")
    copy = sealer.copy_archive(tmp_path / "x.tar", tmp_path / "three", LIMITS, "tar")
    assert (copy.path.read_bytes(), copy.size, copy.format) == (b"tar", 3, "tar")


def test_refusals_and_storage_faults_come_across(sealer: SealerClient, drop: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(StateError):
        sealer.seal(drop, tmp_path / "taken", LIMITS)
    os.mkdir(os.fsencode(drop) + b"/\xff")
    with pytest.raises(SealError) as caught:
        sealer.seal(drop, tmp_path / "target", LIMITS)
    assert (caught.value.code, caught.value.where) == ("seal/name-encoding", "\\xff")


def test_a_drop_that_hangs_is_killed_and_the_next_is_sealed(drop: Path, tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    with SealerClient() as client:
        client.seal(drop, sealed / "warm", LIMITS)
        pid = stop_child(client)
        with pytest.raises(SealError) as caught:
            client.seal(drop, sealed / "hung", LIMITS, seconds=0.05)
        assert caught.value.code == "seal/deadline"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        client.seal(drop, sealed / "next", LIMITS)
        assert sorted(os.listdir(sealed)) == ["next", "warm"]


def test_a_drop_that_hangs_holds_up_no_other(drop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SealerClient() as client:
        client.seal(drop, tmp_path / "warm", LIMITS)
        stop_child(client)
        asked = threading.Event()
        real = module.Child.ask

        def ask(child: module.Child, order: dict[str, Any], *rest: Any) -> dict[str, Any]:
            asked.set()
            return real(child, order, *rest)

        monkeypatch.setattr(module.Child, "ask", ask)
        errors: list[Exception] = []

        def hang() -> None:
            try:
                client.seal(drop, tmp_path / "hung", LIMITS, seconds=3600)
            except StateError as error:
                errors.append(error)

        stuck = threading.Thread(target=hang)
        stuck.start()
        assert asked.wait(30)
        assert client.seal(drop, tmp_path / "other", LIMITS).digest
        client.close()
        stuck.join()
        assert errors


def test_a_child_that_is_killed_by_a_stranger_is_replaced(drop: Path, tmp_path: Path) -> None:
    with SealerClient() as client:
        client.seal(drop, tmp_path / "warm", LIMITS)
        os.kill(stop_child(client), signal.SIGKILL)
        assert client.seal(drop, tmp_path / "target", LIMITS).digest


def test_children_that_always_die_are_the_hosts_fault(
    drop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SealerClient() as client:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        os.kill(stop_child(client), signal.SIGKILL)
        with pytest.raises(StateError, match="twice"):
            client.seal(drop, tmp_path / "target", LIMITS)


def test_no_child_outlives_its_parent(drop: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from acceptd.intake.client import SealerClient;"
        "from acceptd.policy.policy import LimitsTable; c = SealerClient();"
        "c.seal(Path(sys.argv[1]), Path(sys.argv[2]), LimitsTable());"
        "sys.stdout.write(str(c._idle[0]._process.pid)); sys.stdout.flush(); os._exit(9)"
    )
    # The child holds the pipe's write end: the end of file tells that it, too, is gone.
    done = subprocess.run(
        [sys.executable, "-c", program, str(drop), str(tmp_path / "target")],
        env={"PYTHONPATH": str(Path(acceptd.__file__).parents[1])},
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert done.returncode == 9
    assert int(done.stdout) > 0


def test_no_child_outlives_a_parent_that_died_with_its_reply_unread() -> None:
    """unix(7): closing with data unread is a reset for the other end, and no end of file."""
    with SealerClient() as client:
        child = client._idle[0]
        child._socket.sendall(b'{"source": "/", "target": "/", "limits": {}, "temporary": "", "archive": "tar"}\n')
        select.select([child._socket], [], [])
        child._socket.close()
        assert child._process.wait(60) == 0  # the bound only ends a failure


def test_the_child_holds_no_descriptor_of_its_parent(drop: Path, tmp_path: Path) -> None:
    with (drop / "bundle.toml").open("rb") as ours, SealerClient() as client:
        os.set_inheritable(ours.fileno(), True)
        client.seal(drop, tmp_path / "target", LIMITS)
        links = Path(f"/proc/{client._idle[0]._process.pid}/fd")
        assert not [link for link in links.iterdir() if os.readlink(link).endswith("bundle.toml")]


def test_a_sealer_without_descriptors_says_nothing_of_the_drop(drop: Path, tmp_path: Path) -> None:
    """Too many open files was the finding seal/unreadable: a rejection, for what the machine lacked."""
    said: list[str] = []
    with SealerClient() as client:
        client.seal(drop, tmp_path / "warm", LIMITS)
        for more in range(5):  # wherever on its way it runs out; one that dies of it is replaced
            pid = client._idle[0]._process.pid
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + more, hard))
            try:
                client.seal(drop, tmp_path / f"starved-{more}", LIMITS)
            except StateError as error:
                said.append(error.message)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert said
        assert all("Too many open files" in words for words in said)
        assert client.seal(drop, tmp_path / "again", LIMITS).digest


def test_a_closed_client_says_so(drop: Path, tmp_path: Path) -> None:
    client = SealerClient()
    client.close()
    with pytest.raises(StateError, match="closed"):
        client.seal(drop, tmp_path / "target", LIMITS)


def test_one_shot(drop: Path, tmp_path: Path) -> None:
    assert seal_in_process(drop, tmp_path / "target", LIMITS).total_bytes == 111


def test_a_sealing_that_hangs_is_killed_when_it_is_cancelled(drop: Path, tmp_path: Path) -> None:
    target = tmp_path / "sealed"
    target.mkdir()
    with SealerClient() as client:
        pid = stop_child(client)
        asked: list[bool] = []

        def cancelled() -> bool:
            asked.append(True)
            return len(asked) > 1

        with pytest.raises(GivenUpError):
            client.seal(drop, target / "bundle", LIMITS, cancelled=cancelled)
        assert len(asked) == 2
        assert not list(target.iterdir())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        # The next one is sealed by a fresh process.
        assert client.seal(drop, target / "bundle", LIMITS, cancelled=lambda: False).digest


def test_as_many_sealers_stay_as_are_wanted_and_one_that_was_killed_is_none_of_them(
    drop: Path, tmp_path: Path
) -> None:
    with SealerClient(ready=2) as client:
        one, two, three = (client._take() for _ in range(3))
        for child in (one, two, three):
            client._give_back(child)
        assert client._idle == [one, two]
        assert three._process.returncode is not None
        for child in (one, two):
            os.kill(child._process.pid, signal.SIGSTOP)
        for _ in (one, two):
            with pytest.raises(SealError, match="longer than"):
                client.seal(drop, tmp_path / "hung", LIMITS, seconds=0.05)
        assert not client._idle
        assert client.seal(drop, tmp_path / "next", LIMITS).digest


def test_who_waits_for_a_sealer_is_heard_when_he_is_given_up(drop: Path, tmp_path: Path) -> None:
    with SealerClient(children=1) as client:
        with client._slots, pytest.raises(GivenUpError):  # as while another drop is read, however long
            client.seal(drop, tmp_path / "bundle", LIMITS, cancelled=lambda: True)
        assert client.seal(drop, tmp_path / "bundle", LIMITS).digest


def test_an_archive_that_hangs_is_killed_when_it_is_cancelled(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"tar")
    with SealerClient() as client:
        stop_child(client)
        with pytest.raises(GivenUpError):
            client.copy_archive(tmp_path / "x.tar", tmp_path / "three", LIMITS, "tar", cancelled=lambda: True)
    assert [item.name for item in tmp_path.iterdir()] == ["x.tar"]
