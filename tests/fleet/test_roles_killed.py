"""Whoever is killed, and wherever: one verdict of each submission, one release of each accepted one, no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptd.release.book import read_book
from tests.fleet.postgres import Server
from tests.fleet.roles_world import TEAM, Fleet

pytestmark = pytest.mark.crash

ROUNDS = (
    # What kills the intake, the worker and the promoter over one drop.
    ("fleet.seal.uploaded", "fleet.examine.uploaded", "fleet.order.written"),
    ("fleet.seal.handed-over", "fleet.examine.given", "record.queue.judged.before-commit"),
    ("lifecycle.promoted.outbox", "", "lifecycle.judged.stored"),
    ("record.queue.done.before-commit", "", "lifecycle.judged.promoted"),
)
MORE = (
    ("lifecycle.claimed.begin", "fleet.examine.begin", "lifecycle.sealed.begin"),
    ("lifecycle.promoted.begin", "", "lifecycle.sealed.before-record"),
    ("", "", "record.queue.judged.after-commit"),
    ("", "", "record.queue.promoted.after-commit"),
)
"""Each of these passed too; a minute more than `make test-fleet` has."""
NODES = ("intake", "w1", "promoter")


@pytest.fixture(scope="module")
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), postgres)
    for name, role in (("promoter", "promoter"), ("intake", "intake"), ("w1", "worker")):
        made.node(name, role)  # type: ignore[arg-type]
    made.start("promoter", "intake", "w1")
    yield made
    made.close()


@pytest.mark.parametrize("places", [*ROUNDS, *(pytest.param(one, marks=pytest.mark.slow) for one in MORE)])
def test_each_node_killed_over_one_drop_leaves_one_verdict_and_one_release(
    fleet: Fleet, places: tuple[str, str, str]
) -> None:
    number = (*ROUNDS, *MORE).index(places)
    model = f"{TEAM}/killed-{number}"
    for name, place in zip(NODES, places, strict=True):
        if place:
            fleet.kill(name)
            fleet.launch(name, environment={"ACCEPTD_FAILPOINT": place})
    fleet.put(f"killed-{number}", model_id=model)
    due = {name for name, place in zip(NODES, places, strict=True) if place}
    while due:
        fleet.until(lambda: any(fleet.running[name].ended() for name in due), f"{due} die at {places}")
        for name in [one for one in due if fleet.running[one].ended()]:
            assert fleet.running[name].code == -9, fleet.running[name].tail()
            fleet.launch(name)
            due.remove(name)
    report = fleet.verdict(f"killed-{number}")
    assert report["verdict"] == "accepted", report["reason"]
    fleet.whole()
    with fleet.ledger() as ledger:
        rows = read_book(ledger).rows(model, "production")
        assert [row.number for row in rows if row.activated_seq >= 0] == [max(row.number for row in rows)]


def test_a_fleet_that_is_killed_at_once_and_comes_back_finishes_what_it_had(fleet: Fleet) -> None:
    for number in range(4):
        fleet.put(f"all-{number}", model_id=f"{TEAM}/all-{number}")
    fleet.until(lambda: any(row.state == "sealed" for row in fleet.rows()), "something is under way")
    for name in NODES:
        fleet.kill(name)
    fleet.start(*NODES)
    for number in range(4):
        assert fleet.verdict(f"all-{number}")["verdict"] == "accepted"
    fleet.whole()
