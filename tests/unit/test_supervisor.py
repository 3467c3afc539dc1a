"""The service manager hears what is so: ready after the walls, alive while the loop and its threads are."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from acceptd.supervisor.notify import Notifier
from acceptd.supervisor.pulse import HANGS_AFTER, Pulse, Watched
from acceptd.supervisor.turns import Turns

pytestmark = pytest.mark.unit


@dataclass
class Manager:
    """Plays systemd: a socket, and what came in."""

    sock: socket.socket
    address: str

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.sock.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = f"@acceptd-test-{os.getpid()}-{id(request)}" if request.param == "abstract" else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        sock.setblocking(False)
        yield Manager(sock, name)


def test_what_is_said_is_the_protocol_of_sd_notify(manager: Manager) -> None:
    one = Notifier(manager.address)
    one.ready("2 running")
    one.reloading()
    one.stopping("bye")
    one.more_time(30)
    one.alive()
    ready, reloading, *rest = manager.heard()
    assert ready == "READY=1\nSTATUS=2 running"
    first, monotonic, status = reloading.split("\n")
    assert (first, status) == ("RELOADING=1", "STATUS=reading the policy")
    assert int(monotonic.removeprefix("MONOTONIC_USEC=")) > 0
    assert rest == ["STOPPING=1\nSTATUS=bye", "EXTEND_TIMEOUT_USEC=30000000", "WATCHDOG=1"]


def test_a_status_cannot_say_another_key(manager: Manager) -> None:
    Notifier(manager.address).status("policy\nREADY=1\x1b[2J" + "x" * 2000)
    (heard,) = manager.heard()
    assert "\n" not in heard
    assert "\x1b" not in heard
    assert len(heard) < 600


def test_the_environment_is_read_once_and_no_child_inherits_it() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/n",
        "WATCHDOG_USEC": "6000000",
        "WATCHDOG_PID": str(os.getpid()),
        "A": "b",
    }
    one = Notifier.take(environment)
    assert (one.address, one.watchdog_seconds, environment) == ("/run/n", 6.0, {"A": "b"})


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "vsock:2:1"},
        {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "-5"},
        {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "9" * 400},
        {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"},  # meant for another process
    ],
)
def test_a_watchdog_that_is_not_ours_or_not_asked_for_gets_no_sign(environment: dict[str, str]) -> None:
    assert Notifier.take(environment).watchdog_seconds == 0.0


def test_a_manager_that_is_gone_or_full_stops_nothing(tmp_path: Path, manager: Manager) -> None:
    Notifier(str(tmp_path / "gone")).ready("x")
    one = Notifier(manager.address)
    for _ in range(5000):  # more than any queue of datagrams holds
        one.alive()
    assert manager.heard()


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Beating:
    """A pulse over one live thread, at a clock that the test turns."""

    manager: Manager
    clock: Clock
    turns: Turns
    let_go: threading.Event
    thread: threading.Thread
    pulse: Pulse

    def beats(self) -> list[str]:
        self.clock.now += 2
        self.pulse.beat()
        return self.manager.heard()


@pytest.fixture
def beating(manager: Manager) -> Iterator[Beating]:
    clock, let_go = Clock(), threading.Event()
    turns = Turns(clock)
    thread = threading.Thread(target=let_go.wait, name="inbox", daemon=True)
    thread.start()
    pulse = Pulse(Notifier(manager.address, 6.0), lambda: [Watched(thread, turns)], clock)
    yield Beating(manager, clock, turns, let_go, thread, pulse)
    let_go.set()
    thread.join()


def test_a_whole_daemon_gives_its_sign_at_least_twice_in_each_interval(beating: Beating) -> None:
    assert beating.pulse.interval <= 3.0
    assert beating.beats() == ["WATCHDOG=1"]
    beating.pulse.beat()  # many words in a row are one turn
    assert beating.manager.heard() == []
    assert beating.beats() == ["WATCHDOG=1"]


def test_a_thread_that_ended_stops_the_signs_and_is_named(beating: Beating) -> None:
    beating.let_go.set()
    beating.thread.join()
    assert beating.beats() == ["STATUS=not whole: the thread inbox has ended"]
    assert beating.beats() == []
    assert beating.pulse.trouble


def test_a_thread_that_hangs_at_its_work_stops_the_signs_until_it_moves(beating: Beating) -> None:
    with beating.turns.turn():
        assert beating.beats() == ["WATCHDOG=1"]
        beating.clock.now += HANGS_AFTER
        assert beating.beats() == [f"STATUS=not whole: the thread inbox has hung for {HANGS_AFTER + 4:.0f} s"]
    assert beating.beats() == ["WATCHDOG=1"]
    assert not beating.pulse.trouble


def test_a_thread_that_waits_for_work_is_no_thread_that_hangs(beating: Beating) -> None:
    beating.clock.now += 100 * HANGS_AFTER
    assert beating.beats() == ["WATCHDOG=1"]


def test_a_stop_asks_for_more_time_and_stays_alive(beating: Beating) -> None:
    beating.pulse.stopping()
    assert beating.manager.heard() == ["EXTEND_TIMEOUT_USEC=30000000", "WATCHDOG=1"]
