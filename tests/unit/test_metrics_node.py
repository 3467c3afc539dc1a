"""Figures of one node of a fleet: what ended here, how the node stands, and at the promoter how all stand."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from acceptd.config import MetricsTable, Paths
from acceptd.errors import LedgerStorageError
from acceptd.fleet.nodes import Node, Status, Told
from acceptd.fleet.settings import ROLES
from acceptd.fleet.standing import Depth, Facts
from acceptd.fleet.task import KINDS
from acceptd.metrics import catalogue
from acceptd.metrics.figures import Figures
from acceptd.metrics.node import NodeLook, NodeShown

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = 'x"} 1\nacceptd_up 0\x1b[2J\u202e'


def read(figures: Figures) -> dict[tuple[str, tuple[str, ...]], float]:
    text = generate_latest(figures.registry).decode()
    assert "\x1b" not in text
    return {
        (one.name, tuple(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def node(name: str = "w1", role: str = "worker", **changes: Any) -> Node:
    one = Node(Told(name, role, "host"), "1.0.0", 2, "", "", draining=False, boot="b", stopped=False, age=7.0)
    return dataclasses.replace(one, **changes)


def shown(tmp_path: Path, **more: Any) -> NodeShown:
    pulse: Any = SimpleNamespace(trouble="")
    return NodeShown(
        Paths(tmp_path),
        pulse,
        "w1",
        "worker",
        running=lambda: 3,
        silent=lambda: 1.5,
        draining=lambda: True,
        **more,
    )


def test_tasks_refusals_bundles_and_calls_of_the_store_are_counted() -> None:
    figures = Figures(MetricsTable(file="/x.prom"))
    figures.task("examine", "done")
    figures.refused("bad-signature")
    figures.cached(hit=True)
    figures.cached(hit=False)
    figures.object_call("read", 0.2)
    figures.object_call("create", 0.1, failed=True)
    found = read(figures)
    assert found["acceptd_tasks_total", ("done", "examine")] == 1
    assert found["acceptd_evidence_refused_total", ("bad-signature",)] == 1
    assert found["acceptd_bundle_cache_total", ("here",)] == found["acceptd_bundle_cache_total", ("fetched",)] == 1
    assert found["acceptd_object_seconds_sum", ("read",)] == pytest.approx(0.2)
    assert found["acceptd_object_failures_total", ("create",)] == 1


def test_no_word_of_another_node_opens_a_series(tmp_path: Path) -> None:
    figures = Figures(MetricsTable(file="/x.prom"))
    figures.task(HOSTILE, HOSTILE)
    figures.refused(HOSTILE)
    figures.object_call(HOSTILE, 1.0)
    facts = Facts([node(HOSTILE, HOSTILE)], {HOSTILE: Depth(1), "q" * 200: Depth(2)})
    figures.registry.register(NodeLook(shown(tmp_path, fleet=lambda: facts), 5.0))
    labels = {value for (name, values), _ in read(figures).items() if "_bucket" not in name for value in values}
    assert labels == {"other", "w1", "worker", "up"}


def test_a_node_says_how_it_stands(tmp_path: Path) -> None:
    figures = Figures(MetricsTable(file="/x.prom"))
    figures.registry.register(NodeLook(shown(tmp_path, cache_bytes=lambda: 1 << 20), 5.0))
    found = read(figures)
    assert found["acceptd_node", ("w1", "worker")] == 1
    assert found["acceptd_node_running", ()] == 3
    assert found["acceptd_node_draining", ()] == 1
    assert found["acceptd_node_silent_seconds", ()] == 1.5
    assert found["acceptd_bundle_cache_bytes", ()] == 1 << 20
    assert not [name for name, _ in found if name.startswith("acceptd_fleet")]


def test_the_promoter_says_how_all_stand_and_nothing_where_the_record_is_away(tmp_path: Path) -> None:
    figures = Figures(MetricsTable(file="/x.prom"))
    answers: list[Any] = [
        Facts([node(), node("w2", age=400.0), node("w3", stopped=True)], {"cpu": Depth(4, 2, 9.0, 1)}),
        LedgerStorageError("away"),
    ]

    def fleet() -> Facts:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Facts)
        return answer

    figures.registry.register(NodeLook(shown(tmp_path, fleet=fleet), 5.0))
    found = read(figures)
    assert found["acceptd_fleet_nodes", ("worker", "up")] == 1
    assert found["acceptd_fleet_nodes", ("worker", "gone")] == 2
    assert found["acceptd_fleet_seen_seconds", ("w2", "worker")] == 400
    assert ("acceptd_fleet_seen_seconds", ("w3", "worker")) not in found
    depth = {
        what: found[f"acceptd_fleet_queue_{what}", ("cpu",)] for what in ("waiting", "running", "oldest_seconds")
    }
    assert depth == {"waiting": 4, "running": 2, "oldest_seconds": 9}
    assert found["acceptd_fleet_stalled", ("cpu",)] == 1
    assert found["acceptd_fleet_troubles", ()] >= 3
    later = read(figures)
    assert not [name for name, _ in later if name.startswith("acceptd_fleet")]
    assert later["acceptd_up", ()] == 1


def test_every_cause_of_a_refusal_has_a_label_of_its_own_and_no_other_has() -> None:
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "acceptd" / "fleet").rglob("*.py"))
    told = set(re.findall(r'(?:refused|FleetTrustError)\(\s*(?:"cell/[a-z-]+", )?"([a-z-]+)"', text))
    for name in ("seal.py", "statement.py"):
        wanted = (ROOT / "acceptd" / "fleet" / name).read_text("utf-8").partition("wanted")[2].partition("]\n")[0]
        told |= set(re.findall(r'\(\s*"([a-z-]+)", "', wanted))
    assert len(told) > 15
    assert told == set(catalogue.REFUSALS)


def test_tasks_and_their_ends_are_those_of_the_queue() -> None:
    assert set(catalogue.TASKS) == set(KINDS)
    taskworker = (ROOT / "acceptd" / "fleet" / "taskworker.py").read_text("utf-8")
    (ends,) = re.findall(r"_END = Literal\[(.*?)\]", taskworker)
    assert set(re.findall(r'"([a-z]+)"', ends)) == set(catalogue.OUTCOMES)
    assert set(catalogue.ROLES) == set(ROLES)
    assert set(catalogue.STATUSES) == set(get_args(Status))
