"""Nodes on PostgreSQL: a drain is heard at once, an outage is waited out, what stands still is said."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acceptd.cli.fleet import app
from acceptd.cli.setup import init
from acceptd.errors import AcceptdError, StateError, UsageError
from acceptd.fleet.beat import Beat
from acceptd.fleet.look import look
from acceptd.fleet.nodes import Nodes, Told
from acceptd.fleet.ready import make_ready
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.standing import troubles
from acceptd.fleet.tasks import Tasks
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.record.postgres.roles import differences, grant
from tests.fleet.postgres import Server
from tests.fleet.record_world import Record, make_record

pytestmark = pytest.mark.acceptance

W1 = Told("w1", "worker", "host-1", queues=("cpu",), slots=2, policy="a" * 64)
LONG = 3600.0
"""Between two beats: whatever happens earlier was told of."""


@pytest.fixture
def record(tmp_path: Path, postgres: Server) -> Record:
    made = make_record(tmp_path / "state", postgres)
    made.open().close()
    return made


@pytest.fixture
def ledger(record: Record) -> Iterator[Ledger]:
    with record.open() as one:
        yield one


class Node:
    """A node that obeys: what it tells follows what it was asked."""

    def __init__(self, ledger: Ledger, url: str) -> None:
        self.told = W1
        self.asked: list[bool] = []
        self.changed = threading.Condition()
        self.beat = Beat(Nodes(ledger), lambda: self.told, self.drain, url=url, seconds=LONG)

    def drain(self, wish: bool) -> None:
        with self.changed:
            self.told = dataclasses.replace(self.told, taking=not wish)
            self.asked.append(wish)
            self.changed.notify_all()

    def wait(self, wanted: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(wanted, timeout=30)


def eventually(beat: Beat, wanted: Callable[[], bool]) -> None:
    """Wait for what a beat brings about: asked for again and again, since a thread of another's does it."""
    tick = threading.Event()
    for _ in range(600):
        if wanted():
            return
        beat.nudge()
        tick.wait(0.05)
    raise AssertionError("it never came")


def status_of(ledger: Ledger, name: str = "w1") -> str:
    return next(one.status for one in Nodes(ledger).all() if one.name == name)


def test_a_drain_is_heard_at_once_and_told_back_and_so_is_its_end(record: Record, ledger: Ledger) -> None:
    node = Node(ledger, record.server.url(record.name))
    node.beat.start()
    try:
        eventually(node.beat, lambda: bool(Nodes(ledger).all()))
        assert Nodes(ledger).drain("w1")
        node.wait(lambda: node.asked == [True])  # nobody nudges it: the next beat is due in an hour
        eventually(node.beat, lambda: status_of(ledger) == "drained")
        assert Nodes(ledger).drain("w1", on=False)
        node.wait(lambda: node.asked == [True, False])
    finally:
        node.beat.stop()
    assert status_of(ledger) == "gone"


def test_the_command_waits_until_what_runs_has_ended(record: Record, ledger: Ledger, tmp_path: Path) -> None:
    state = initialised(record)
    node = Node(ledger, record.server.url(record.name))
    node.told = dataclasses.replace(W1, running=1)
    node.beat.start()
    try:
        eventually(node.beat, lambda: bool(Nodes(ledger).all()))
        done: list[str] = []
        words = ["drain", "w1", "--wait", "--state", str(state)]
        thread = threading.Thread(target=lambda: done.append(CliRunner().invoke(app, words).output))
        thread.start()
        node.wait(lambda: node.asked == [True])
        assert not done
        node.told = dataclasses.replace(node.told, running=0)
        node.beat.nudge()
        thread.join(30)
        assert done
        assert "w1 is drained" in done[0]
    finally:
        node.beat.stop()


def initialised(record: Record) -> Path:
    init(team=[], state=record.state)
    return record.state


def test_a_wait_that_is_too_short_says_so_by_its_exit_code(record: Record, ledger: Ledger) -> None:
    state = initialised(record)
    Nodes(ledger).beat(dataclasses.replace(W1, running=1), "boot", first=True)
    done = CliRunner().invoke(app, ["drain", "w1", "--wait", "--within", "1s", "--state", str(state)])
    assert (done.exit_code, "not drained yet: draining, 1 running" in done.output) == (4, True)


def test_a_server_that_is_away_for_a_while_costs_no_node_its_heartbeat(
    tmp_path: Path, own_postgres: Server
) -> None:
    record = make_record(tmp_path / "state", own_postgres)
    with record.open(busy_seconds=0.5) as ledger:
        node = Node(ledger, own_postgres.url(record.name))
        node.beat.start()
        try:
            eventually(node.beat, lambda: bool(Nodes(ledger).all()))
            own_postgres.stop()
            tick = threading.Event()
            for _ in range(3):
                node.beat.nudge()
                tick.wait(0.2)
            own_postgres.start()
            (before,) = record.ask("SELECT seen_at FROM fleet_nodes")
            eventually(node.beat, lambda: record.ask("SELECT seen_at FROM fleet_nodes") != [before])
            Nodes(ledger).drain("w1")
            eventually(node.beat, lambda: node.asked == [True])
        finally:
            node.beat.stop()


def test_a_worker_tells_how_it_stands_and_drains_and_undrains_nobody(record: Record, ledger: Ledger) -> None:
    place = Place(record.state, record.server.url(record.name))
    grant(place)
    assert differences(place) == []
    record.ask("CREATE ROLE lesser LOGIN IN ROLE acceptd_worker")
    try:
        record.settings("lesser")
        with record.open() as theirs:
            nodes = Nodes(theirs)
            nodes.beat(W1, "boot", first=True)
            for on in (True, False):
                with pytest.raises(UsageError, match="may not drain"):
                    nodes.drain("w1", on=on)
            with pytest.raises(UsageError, match=r"may not drain or forget|no node that is gone"):
                nodes.forget("w1")
            Nodes(ledger).drain("w1")
            assert nodes.beat(W1, "boot").draining
        for statement in ("UPDATE fleet_nodes SET draining = false", "DELETE FROM fleet_nodes"):
            with pytest.raises(Exception, match="permission denied"):
                record.ask(statement, "lesser")
        assert status_of(ledger) == "draining"
    finally:
        record.ask("DROP ROLE lesser")


def test_status_tells_depths_ages_and_who_takes_them(record: Record, ledger: Ledger) -> None:
    url = record.server.url(record.name)
    apply_schema(url)
    with Tasks(url) as tasks:
        for number in range(3):
            tasks.examine(f"s{number}", 1, "cpu", "cpu", f"mosaic/m{number}")
        tasks.examine("s9", 1, "gpu", "cuda", "mosaic/m9")
        tasks.order("s10", "mosaic/m10")
    Nodes(ledger).beat(W1, "boot", first=True)
    facts = look(ledger)
    assert {name: depth.waiting for name, depth in facts.queues.items()} == {"cpu": 3, "cuda": 1, "promoter": 1}
    assert all(depth.oldest is not None and depth.oldest < 60 for depth in facts.queues.values())
    found = {one.what for one in troubles(facts)}
    assert {"queue cuda", "queue promoter", "promoter", "intake"} <= found
    assert "queue cpu" not in found


def test_a_task_whose_worker_died_is_said_to_be_stalled(record: Record, ledger: Ledger) -> None:
    url = record.server.url(record.name)
    apply_schema(url)
    with Tasks(url) as tasks:
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/m1")
    record.ask("UPDATE procrastinate_jobs SET status = 'doing'")
    (depth,) = look(ledger).queues.values()
    assert (depth.waiting, depth.running, depth.stalled) == (0, 1, 1)


def test_the_commands_work_on_a_database(record: Record, ledger: Ledger) -> None:
    state = initialised(record)
    Nodes(ledger).beat(W1, "boot", first=True)
    Nodes(ledger).beat(dataclasses.replace(W1, name="w2"), "other", first=True)
    run = CliRunner()
    body = json.loads(run.invoke(app, ["status", "--json", "--state", str(state)]).output)
    assert [one["name"] for one in body["nodes"]] == ["w1", "w2"]
    assert {one["what"] for one in body["troubles"]} == {"intake", "promoter"}
    assert "w1 is to drain: draining, 0 running" in run.invoke(app, ["drain", "w1", "--state", str(state)]).output
    assert "was told before" in run.invoke(app, ["drain", "w1", "--state", str(state)]).output
    assert "takes work again" in run.invoke(app, ["undrain", "w1", "--state", str(state)]).output
    assert "nothing is examined" not in run.invoke(app, ["status", "--state", str(state)]).output
    Nodes(ledger).beat(W1, "boot", stopped=True)
    assert "w1 is forgotten" in run.invoke(app, ["forget", "w1", "--state", str(state)]).output
    assert [one.name for one in Nodes(ledger).all()] == ["w2"]


def test_init_makes_everything_once_and_says_what_it_did(tmp_path: Path, postgres: Server) -> None:
    record = make_record(tmp_path / "state", postgres)
    run = CliRunner()
    first = run.invoke(app, ["init", "--state", str(record.state)])
    assert first.exit_code == 0, first.exception
    assert "tables of schema 2 made, with the first entry" in first.output
    again = run.invoke(app, ["init", "--state", str(record.state)]).output
    assert [line.split(None, 1)[1] for line in again.splitlines()[1:]] == [
        "schema 2, as it was", "rights are as they must be", "as it was",
    ]  # fmt: skip
    with record.open(create=False) as ledger:
        assert ledger.tree().size == 1
    assert differences(Place(record.state, postgres.url(record.name))) == []


def test_two_inits_at_once_make_one_fleet(tmp_path: Path, postgres: Server) -> None:
    record = make_record(tmp_path / "state", postgres)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: make_ready(record.state), range(2)))
    assert sorted(one.schema[0] for one in done) in ([0, 2], [0, 0])
    with record.open(create=False) as ledger:
        assert ledger.tree().size == 1


def test_init_as_somebody_else_than_the_owner_changes_nothing(tmp_path: Path, postgres: Server) -> None:
    record = make_record(tmp_path / "state", postgres)
    make_ready(record.state)
    record.ask("CREATE ROLE lesser LOGIN IN ROLE acceptd_worker")
    try:
        record.settings("lesser")
        with pytest.raises(AcceptdError, match="another role's, who alone gives rights") as told:
            make_ready(record.state)
        assert "\n" not in str(told.value)
    finally:
        record.ask("DROP ROLE lesser")
    assert differences(Place(record.state, postgres.url(record.name))) == []


def test_a_record_that_is_a_file_is_no_fleets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this record is a file"):
        make_ready(tmp_path)


def test_what_waits_for_the_end_of_an_upgrade_is_said_and_done_by_finish(tmp_path: Path, postgres: Server) -> None:
    record = make_record(tmp_path / "state", postgres)
    make_ready(record.state)
    posts = [row[0] for row in record.ask("SELECT migration FROM acceptd_tasks_schema") if "_post_" in row[0]]
    record.ask(f"DELETE FROM acceptd_tasks_schema WHERE migration = '{max(posts)}'")  # as an older acceptd left it
    assert make_ready(record.state).waits == (max(posts),)
    assert "acceptd fleet init --finish" in dict(make_ready(record.state).words())["queue"]


def test_a_role_that_owns_nothing_finds_the_queue_whole_or_says_who_mends_it(
    tmp_path: Path, postgres: Server
) -> None:
    record = make_record(tmp_path / "state", postgres)
    make_ready(record.state)
    record.ask("CREATE ROLE lesser LOGIN IN ROLE acceptd_promoter")
    try:
        theirs = postgres.url(record.name, "lesser")
        assert apply_schema(theirs) == []
        record.ask("DELETE FROM acceptd_tasks_schema WHERE migration NOT LIKE '%\\_post\\_%'")
        with pytest.raises(StateError, match="belong to another role") as told:
            apply_schema(theirs)
        assert "acceptd fleet init" in told.value.remedy
    finally:
        record.ask("DROP ROLE lesser")


@pytest.mark.parametrize("role", ["promoter", "intake", "worker", "reviewer"])
def test_every_role_may_look_how_the_fleet_stands(tmp_path: Path, postgres: Server, role: str) -> None:
    record = make_record(tmp_path / "state", postgres)
    make_ready(record.state)
    with record.open() as ledger, Tasks(postgres.url(record.name)) as tasks:
        Nodes(ledger).beat(W1, "boot", first=True)
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/m1")
    record.ask(f"CREATE ROLE lesser LOGIN IN ROLE acceptd_{role}")
    try:
        record.settings("lesser")
        with record.open(create=False, read_only=True) as theirs:
            facts = look(theirs)
        assert [one.name for one in facts.nodes] == ["w1"]
        assert facts.queues["cpu"].waiting == 1
    finally:
        record.ask("DROP ROLE lesser")
