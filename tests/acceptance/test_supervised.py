"""A real daemon under a service manager that the test plays: systemd's socket, its watchdog, reload and stop."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from acceptd.cell.client import Cell
from acceptd.config import CHECKOUT
from acceptd.metrics.catalogue import METRICS
from tests import commands
from tests.world import PATIENCE, World

pytestmark = pytest.mark.acceptance

WATCHDOG = 1.0
PROGRAM = """
import pathlib, sys, threading
from acceptd.cli.daemon import configure_logging
from acceptd.config import Paths, load_settings
from acceptd.daemon import Daemon
state, hang = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
configure_logging("info", as_json=True)
daemon = Daemon(Paths(state), load_settings(state))
daemon.install_signals()
whole = daemon.rules
def rules():  # the policy is asked for in each turn of the main loop
    if hang.exists() and threading.current_thread() is threading.main_thread():
        hang.unlink()
        threading.Event().wait()
    return whole()
daemon.rules = rules
daemon.run()
"""


class Manager:
    """What systemd hears of one service."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(place))
        self.heard: list[str] = []

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Return the next message that is wanted; all are kept."""
        self.sock.settimeout(PATIENCE)
        while True:
            self.heard.append(self.sock.recv(4096).decode())
            if wanted(self.heard[-1]):
                return self.heard[-1]

    def silent(self, seconds: float) -> bool:
        """Say whether nothing at all comes for so long."""
        self.sock.settimeout(seconds)
        try:
            self.heard.append(self.sock.recv(4096).decode())
        except TimeoutError:
            return True
        return False

    @property
    def environment(self) -> dict[str, str]:
        return {"NOTIFY_SOCKET": str(self.place), "WATCHDOG_USEC": str(int(WATCHDOG * 1e6))}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(tmp_path / "notify")
    yield one
    one.sock.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path / "w")
    yield one
    one.kill()


def test_ready_comes_after_the_walls_the_policy_is_read_anew_and_a_hung_loop_is_not_covered_for(
    world: World, manager: Manager, tmp_path: Path
) -> None:
    policies, hang = tmp_path / "policies", tmp_path / "hang"
    shutil.copytree(CHECKOUT / "policies", policies)
    environment = {**os.environ, **manager.environment, "ACCEPTD_POLICIES": str(policies)}
    with world.log.open("ab") as log:
        world.daemon = commands.Process(
            str(world.state), str(hang), code=PROGRAM, environment=environment, stdout=log, stderr=log
        )
    ready = manager.until(lambda text: text.startswith("READY=1"))
    assert "STATUS=0 running, 0 waiting; policy demo " in ready
    assert "STATUS=proving the walls" in manager.heard
    manager.until(lambda text: text == "WATCHDOG=1")

    demo = policies / "demo.toml"
    demo.write_text(demo.read_text().replace("\n", "\n[limits]\nwall_seconds = 'soon'\n", 1))
    world.daemon.send_signal(signal.SIGHUP)
    manager.until(lambda text: text.startswith("RELOADING=1\nMONOTONIC_USEC="))
    refused = manager.until(lambda text: text.startswith("READY=1"))
    assert "STATUS=policy not reloaded: " in refused
    assert "policy demo " in refused  # the old one

    hang.touch()
    world.daemon.send_signal(signal.SIGHUP)
    world.until(lambda: not hang.exists(), "the main loop hangs")
    for _ in range(100):  # what was under way
        if manager.silent(2 * WATCHDOG):
            break
    assert manager.silent(2 * WATCHDOG)
    assert world.daemon.poll() is None  # every other thread is well


def test_a_stop_is_told_and_every_figure_was_shown(world: World, manager: Manager, tmp_path: Path) -> None:
    # Without a watchdog: nobody reads meanwhile, and its signs would fill the socket's queue.
    environment = {**os.environ, "NOTIFY_SOCKET": str(manager.place)}
    shown = tmp_path / "acceptd.prom"
    with (world.state / "acceptd.toml").open("a") as settings:
        settings.write(f'[metrics]\nfile = "{shown}"\n')
    with world.log.open("ab") as log:
        words = ["daemon", "--state", str(world.state)]
        world.daemon = commands.Process(*words, environment=environment, stdout=log, stderr=log)
    manager.until(lambda text: text.startswith("READY=1"))
    world.stop()
    figures = {family.name: family for family in text_string_to_metric_families(shown.read_text())}
    declared = {one.name.removesuffix("_total") for one in METRICS}
    missing = declared - set(figures)
    of_a_fleet = ("acceptd_fleet_", "acceptd_node", "acceptd_bundle_cache_bytes")
    assert {name for name in missing if not name.startswith(of_a_fleet)} == {"acceptd_revocations_age_seconds"}
    assert "acceptd_fleet_nodes" in missing  # one machine is no fleet, and has no revocation list yet
    assert set(figures) <= declared
    assert [one.value for one in figures["acceptd_up"].samples] == [1.0]
    assert figures["acceptd_ledger_entries"].samples[0].value >= 1
    manager.until(lambda text: text.startswith("STOPPING=1\nSTATUS=stopping: 0 running"))


def test_without_a_wall_that_the_policy_requires_nobody_hears_of_ready(
    world: World, manager: Manager, tmp_path: Path
) -> None:
    with Cell(world.state / "sealed") as cell:
        lacking = [name for name, state in cell.outer_states.items() if state != "enforced"]
    if not lacking:
        pytest.skip("this host has every wall")
    policy = tmp_path / "harsh.toml"
    policy.write_text(f'schema = 1\nname = "harsh"\nrequired_walls = ["{lacking[0]}"]\n')
    done = world.acceptd("daemon", "--policy", str(policy), **manager.environment)
    assert (done.returncode, lacking[0] in done.stderr) == (2, True)
    assert manager.until(lambda text: text.startswith("STATUS=")) == "STATUS=proving the walls"
    assert manager.silent(0.1)  # it has ended: what it said is here
