"""What an operator does with real daemons, whose logins may no more than their roles: drain, upgrade, look."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acceptd.cli.fleet_words import as_json
from acceptd.fleet.look import look
from acceptd.fleet.standing import STORE_AWAY
from acceptd.record import tables
from tests.fleet.postgres import Server
from tests.fleet.roles_world import Fleet

pytestmark = pytest.mark.acceptance


@pytest.fixture
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """States of three nodes, each with a login that is a member of its role's group and owns nothing."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), postgres)
    for name, role in (("promoter", "promoter"), ("intake", "intake"), ("w1", "worker")):
        metrics = f'[metrics]\nfile = "{made.root}/{name}.prom"\nseconds = 1\n'
        made.node(name, role, settings=metrics)  # type: ignore[arg-type]
    yield made
    made.close()


def status(fleet: Fleet, node: str = "promoter") -> dict[str, Any]:
    """Return what `acceptd fleet status --json` prints."""
    with fleet.ledger(node) as ledger:
        return as_json(look(ledger))


def node_of(fleet: Fleet, name: str) -> dict[str, Any]:
    return next((one for one in status(fleet)["nodes"] if one["name"] == name), {})


def until(fleet: Fleet, holds: Callable[[], bool], what: str) -> None:
    """Ask the command again whenever the world rings: what it waits for comes by a heartbeat."""
    fleet.until(holds, what)


def figures(fleet: Fleet, name: str) -> dict[str, float]:
    text = (fleet.root / f"{name}.prom").read_text()
    found = re.findall(r"^(acceptd_[a-z_]+(?:\{[^}]*\})?) ([0-9.e+-]+)$", text, re.MULTILINE)
    return {key: float(value) for key, value in found}


def test_a_drained_worker_takes_nothing_until_it_is_undrained_and_each_screen_says_so(fleet: Fleet) -> None:
    fleet.start("promoter", "intake", "w1")
    until(fleet, lambda: len(status(fleet)["nodes"]) == 3, "all nodes have beaten")
    until(fleet, lambda: status(fleet)["troubles"] == [], "each has reached what it needs")
    assert "nothing stands still" in fleet.command("fleet", "status", "--state", str(fleet.state("w1")))
    fleet.accepted("first")
    said = fleet.command("fleet", "drain", "w1", "--wait", "--state", str(fleet.state("promoter")))
    assert "w1 is drained" in said
    name = fleet.put("second", version="1.5.0")
    until(fleet, lambda: any(one.state == "sealed" for one in fleet.rows()), "the drop is sealed")
    until(fleet, lambda: "queue cpu" in {one["what"] for one in status(fleet)["troubles"]}, "its task waits")
    (queue,) = [one for one in status(fleet)["queues"] if one["queue"] == "cpu"]
    assert (queue["waiting"], queue["running"], queue["taken_by"]) == (1, 0, [])
    remedies = {one["what"]: one["remedy"] for one in status(fleet)["troubles"]}
    assert remedies["queue cpu"] == "acceptd fleet undrain w1"
    assert fleet.stop("w1") == 0  # an upgrade: stopped, started, still drained
    fleet.start("w1")
    until(fleet, lambda: node_of(fleet, "w1").get("status") == "drained", "w1 is drained after its restart")
    fleet.command("fleet", "undrain", "w1", "--state", str(fleet.state("promoter")))
    assert fleet.verdict(name)["verdict"] == "accepted"
    fleet.whole()
    node_metrics(fleet)


def node_metrics(fleet: Fleet) -> None:
    """Each node has figures of its own, and every line of its log says whose it is."""
    until(
        fleet, lambda: figures(fleet, "w1").get('acceptd_tasks_total{outcome="done",task="examine"}') == 1, "told"
    )
    found = figures(fleet, "w1")
    assert found['acceptd_node{node="w1",role="worker"}'] == 1
    assert found["acceptd_node_silent_seconds"] < 60
    assert (
        found['acceptd_bundle_cache_total{found="fetched"}']
        + found.get('acceptd_bundle_cache_total{found="here"}', 0.0)
        >= 1
    )
    assert not [key for key in found if key.startswith(("acceptd_fleet_", "acceptd_ledger"))]
    assert any(key.startswith("acceptd_object_seconds_count") for key in found)
    promoter = figures(fleet, "promoter")
    assert promoter["acceptd_ledger_entries"] >= 3
    assert promoter['acceptd_fleet_seen_seconds{node="w1",role="worker"}'] < 60
    assert promoter['acceptd_fleet_nodes{role="worker",status="up"}'] == 1
    assert promoter["acceptd_fleet_troubles"] == 0
    for name in ("promoter", "intake", "w1"):
        lines = [
            json.loads(line) for line in (fleet.root / f"{name}.log").read_text().splitlines() if line[:1] == "{"
        ]
        assert len(lines) > 1
        assert {(line["node"], line["role"]) for line in lines} == {(name, fleet.roles[name])}


def test_a_worker_with_another_policy_is_named_before_its_evidence_is_asked_for(fleet: Fleet) -> None:
    fleet.start("promoter", "w1")
    until(fleet, lambda: len(status(fleet)["nodes"]) == 2, "both have beaten")
    text = (fleet.policies / "fleet.toml").read_text().replace("run_cpu_seconds = 4", "run_cpu_seconds = 5")
    (fleet.policies / "fleet.toml").write_text(text)
    assert fleet.stop("w1") == 0
    fleet.start("w1")  # it alone has read the new one
    found: list[dict[str, str]] = []

    def named() -> bool:
        troubles = status(fleet)["troubles"]
        found[:] = [one for one in troubles if one["what"] == "w1" and "has the policy" in one["says"]]
        return bool(found)

    until(fleet, named, "w1 is named, whatever else is said of it while it starts")
    assert "SIGHUP" in found[0]["remedy"]


def test_a_record_that_is_migrated_beyond_a_running_node_ends_it_and_keeps_it_from_starting(fleet: Fleet) -> None:
    fleet.start("promoter", "w1")
    until(fleet, lambda: len(status(fleet)["nodes"]) == 2, "both have beaten")
    later = tables.SCHEMA_VERSION + 1
    for statement in (
        f"UPDATE meta SET value = '{later}' WHERE key IN ('schema_version', 'readable_from')",
        f"UPDATE alembic_version SET version_num = '{later:04d}'",
        "NOTIFY acceptd_nodes, 'w1'",
    ):
        fleet.server.execute(statement, database=fleet.database)
    one = fleet.running["w1"]
    until(fleet, one.ended, "w1 ends")
    assert one.code == 5
    assert f"schema version {later} is newer than this acceptd's" in one.tail()
    again = fleet.running["w1"] = type(one)(
        ["daemon", "--state", str(fleet.state("w1"))], fleet.root / "again.log", fleet.bell
    )
    until(fleet, again.ended, "it does not start")
    assert again.code == 2
    assert "use the acceptd that wrote it, or a later one" in again.tail()


def test_a_store_that_is_away_is_on_the_screen_though_nobody_has_anything_to_do(fleet: Fleet) -> None:
    fleet.start("promoter", "w1")
    until(fleet, lambda: len(status(fleet)["nodes"]) == 2, "both have beaten")
    until(fleet, lambda: not away(fleet), "both reach the store")
    (fleet.root / "objects").rename(fleet.root / "elsewhere")  # as a volume that is not mounted
    until(fleet, lambda: away(fleet) == {"promoter", "w1"}, "both say that it is away")
    (fleet.root / "elsewhere").rename(fleet.root / "objects")
    until(fleet, lambda: not away(fleet), "both reach it again")


def away(fleet: Fleet) -> set[str]:
    """Return the nodes that say that they do not reach the object store."""
    return {one["what"] for one in status(fleet)["troubles"] if one["says"].startswith(STORE_AWAY)}
