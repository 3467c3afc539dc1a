"""Nodes: who is late the database's clock says, a drain is obeyed, a hostile row breaks nothing."""

from __future__ import annotations

import dataclasses
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import insert, update

from acceptd.cli.fleet_words import as_json, print_standing
from acceptd.errors import LedgerError, LedgerStorageError, UsageError
from acceptd.fleet.beat import Beat
from acceptd.fleet.nodes import GONE_SECONDS, LATE_SECONDS, Heard, Node, Nodes, Told, status_of
from acceptd.fleet.standing import STILL_SECONDS, Depth, Facts, policy_of, span, troubles
from acceptd.record import tables
from acceptd.record.log import Ledger

pytestmark = pytest.mark.unit

W1 = Told("w1", "worker", "host-1", queues=("cpu",), slots=2, policy="a" * 64, profiles={"cpu": "c" * 64})
P1 = Told("p1", "promoter", "host-0", policy="a" * 64, profiles={"cpu": "c" * 64})
I1 = Told("i1", "intake", "host-0", policy="a" * 64)
HOSTILE = "w\x1b[2J\u202e]evil\n  → rm -rf /"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path) as one:
        yield one


@pytest.fixture
def nodes(ledger: Ledger) -> Nodes:
    return Nodes(ledger)


def node(told: Told = W1, **changes: Any) -> Node:
    one = Node(told, "1.0.0", 2, "2026-11-30T10:00:00Z", "2026-11-30T12:00:00Z", False, "b", False, 1.0)
    return dataclasses.replace(one, **changes)


def seen(ledger: Ledger, name: str, moment: str) -> None:
    with ledger.transaction() as change:
        table = tables.fleet_nodes
        change.connection.execute(update(table).where(table.c.name == name).values(seen_at=moment))


def screen(facts: Facts, width: int = 80) -> str:
    out = io.StringIO()
    print_standing(Console(file=out, width=width, highlight=False, markup=False, emoji=False), facts)
    return out.getvalue()


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "up"),
        ({"age": LATE_SECONDS - 0.1}, "up"),
        ({"age": LATE_SECONDS}, "late"),
        ({"age": GONE_SECONDS}, "gone"),
        ({"age": float("inf")}, "gone"),
        ({"stopped": True}, "gone"),
        ({"draining": True}, "draining"),
        ({"draining": True, "told": dataclasses.replace(W1, taking=False)}, "drained"),
        ({"draining": True, "told": dataclasses.replace(W1, taking=False, running=1)}, "draining"),
        ({"draining": True, "age": LATE_SECONDS}, "late"),
    ],
)
def test_how_a_node_stands(changes: dict[str, Any], status: str) -> None:
    assert status_of(node(**changes)) == status


def test_a_node_that_has_not_heard_of_its_drain_is_not_drained(nodes: Nodes) -> None:
    nodes.beat(W1, "boot", first=True)
    assert nodes.drain("w1")
    assert [one.status for one in nodes.all()] == ["draining"]  # nothing runs, but it may take something yet
    assert nodes.beat(dataclasses.replace(W1, taking=False), "boot") == Heard(draining=True, rival=False)
    assert [one.status for one in nodes.all()] == ["drained"]
    assert not nodes.drain("w1")
    assert nodes.drain("w1", on=False)
    assert not nodes.beat(W1, "boot").draining


def test_a_node_is_told_back_as_it_said_it(nodes: Nodes) -> None:
    nodes.beat(dataclasses.replace(W1, running=1, standing="the disk is nearly full"), "boot", first=True)
    (one,) = nodes.all()
    assert one.told == dataclasses.replace(W1, running=1, standing="the disk is nearly full")
    assert (one.age < LATE_SECONDS, one.boot, one.schema) == (True, "boot", tables.SCHEMA_VERSION)


def test_a_restart_keeps_the_drain_and_takes_the_name_over(nodes: Nodes) -> None:
    nodes.beat(W1, "first", first=True)
    nodes.drain("w1")
    assert nodes.beat(W1, "second", first=True) == Heard(draining=True, rival=False)
    assert nodes.beat(W1, "second") == Heard(draining=True, rival=False)
    assert nodes.beat(W1, "first").rival  # the first one lives after all


def test_who_stops_in_order_is_gone_and_no_trouble(nodes: Nodes) -> None:
    nodes.beat(W1, "boot", first=True)
    nodes.beat(W1, "boot", stopped=True)
    (one,) = nodes.all()
    assert (one.status, one.stopped) == ("gone", True)
    assert not [found for found in troubles(Facts([one])) if found.what == "w1"]
    nodes.forget("w1")
    assert nodes.all() == []


def test_only_a_node_that_is_gone_is_forgotten_and_no_unknown_one_is_drained(nodes: Nodes) -> None:
    nodes.beat(W1, "boot", first=True)
    with pytest.raises(UsageError, match="no node that is gone"):
        nodes.forget("w1")
    with pytest.raises(UsageError, match="no node is called"):
        nodes.drain("w2")


@pytest.mark.parametrize("moment", ["2999-01-01T00:00:00Z", "yesterday", "", "2026-13-45"])
def test_a_time_that_a_node_made_up_makes_no_sum_fail(nodes: Nodes, ledger: Ledger, moment: str) -> None:
    nodes.beat(W1, "boot", first=True)
    seen(ledger, "w1", moment)
    (one,) = nodes.all()
    assert one.status in {"up", "gone"}
    screen(Facts([one], states={"sealed": (1, float("inf"))}))
    told = json.dumps(as_json(Facts([one], states={"sealed": (1, one.age)})), allow_nan=False)
    assert json.loads(told)["nodes"][0]["name"] == "w1"


@pytest.mark.parametrize(
    "told", ["{", "[]", "null", "[" * 30_000, '{"profiles": [1], "boot": {}}', '{"taking": 0, "policy": 7}']
)
def test_a_row_that_no_acceptd_wrote_is_shown_and_breaks_nothing(ledger: Ledger, told: str) -> None:
    evil = HOSTILE[:64]
    row = {"role": evil[:16], "host": evil, "version": evil, "schema": -1, "key_id": evil, "queues": told[:16_384]}
    row |= {"slots": -5, "running": 1 << 40, "told": told[:16_384], "started_at": evil[:40], "seen_at": evil[:40]}
    with ledger.transaction() as change:
        change.connection.execute(insert(tables.fleet_nodes).values(name=evil, **row))
    facts = Facts(Nodes(ledger).all(), {HOSTILE: Depth(3, 1, 10.0, 1)}, {"sealed": (1, 1.0)}, 2)
    text = screen(facts)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("→ rm")]
    assert "\x1b" not in json.dumps(as_json(facts), ensure_ascii=False)
    assert len(json.dumps(as_json(facts))) < 50_000


# -- what stands still ---------------------------------------------------------------------------------


def says(facts: Facts) -> list[str]:
    return [f"{one.what}: {one.says}" for one in troubles(facts)]


ALL = [node(W1), node(P1), node(I1)]


def test_a_whole_fleet_has_no_trouble() -> None:
    facts = Facts(ALL, {"cpu": Depth(5, 1, 3.0), "promoter": Depth(1)}, {"sealed": (2, 5.0)}, 2)
    assert says(facts) == []
    assert "nothing stands still" in screen(facts)


@pytest.mark.parametrize("role", [0, 1, 2])
def test_a_role_that_nobody_has_is_named_with_what_stands_still(role: int) -> None:
    left = [one for at, one in enumerate(ALL) if at != role]
    name = ALL[role].told.role
    assert any(text.startswith(f"{name}: no {name} is up") for text in says(Facts(left)))


def test_all_in_one_has_every_role() -> None:
    assert says(Facts([node(dataclasses.replace(P1, role="all", queues=("cpu",)))], {"cpu": Depth(1)})) == []


def test_a_queue_that_nobody_takes_is_named_and_a_drained_node_is_the_remedy() -> None:
    facts = Facts(ALL, {"cuda": Depth(12, 0, 60.0)}, schema=2)
    assert "queue cuda: 12 wait, and no node that is up takes them" in says(facts)
    asleep = node(dataclasses.replace(W1, name="w2", queues=("cuda",)), draining=True)
    (found,) = [one for one in troubles(Facts([*ALL, asleep], {"cuda": Depth(12)})) if one.what == "queue cuda"]
    assert found.remedy == "acceptd fleet undrain w2"
    (lost,) = [one for one in troubles(Facts(ALL, {"intake:i2": Depth(1)})) if one.what.startswith("queue")]
    assert "its drops are on its own disk" in lost.remedy


def test_another_policy_or_profile_than_the_promoters_is_named() -> None:
    stranger = node(dataclasses.replace(W1, name="w2", policy="b" * 64))
    assert policy_of(Facts([*ALL, stranger])) == "a" * 64
    (said,) = [one for one in says(Facts([*ALL, stranger])) if one.startswith("w2")]
    assert "has the policy bbbbbbbbbbbb, the promoter aaaaaaaaaaaa" in said
    other = node(dataclasses.replace(W1, name="w3", profiles={"cpu": "d" * 64, "own": "e" * 64}))
    assert any("w3: has another profile cpu than" in one for one in says(Facts([*ALL, other])))


def test_a_node_of_an_older_schema_is_named_and_mixed_versions_too() -> None:
    old = node(dataclasses.replace(W1, name="w2"), schema=1, version="0.9.0")
    (found,) = [one for one in says(Facts([*ALL, old], schema=2)) if one.startswith("w2")]
    assert "works on schema 2 with acceptd 0.9.0, which knows schema 1" in found
    mixed = node(dataclasses.replace(W1, name="w2"), version="0.9.0")
    assert "versions: 0.9.0 on 1, 1.0.0 on 3" in says(Facts([*ALL, mixed], schema=2))


def test_late_gone_stalled_and_still_are_named_with_remedies() -> None:
    late = node(dataclasses.replace(W1, name="w2"), age=LATE_SECONDS + 1)
    gone = node(dataclasses.replace(W1, name="w3"), age=GONE_SECONDS + 1)
    facts = Facts([*ALL, late, gone], {"cpu": Depth(0, 2, None, 2)}, {"sealed": (3, STILL_SECONDS + 1)}, 2)
    found = {one.what: one for one in troubles(facts)}
    assert set(found) == {"w2", "w3", "queue cpu", "state sealed"}
    assert "fleet forget w3" in found["w3"].remedy
    assert all(one.remedy for one in found.values())


def test_two_promoters_at_once_are_named() -> None:
    second = node(dataclasses.replace(P1, name="p2"))
    assert any("p1, p2 are up at once" in one for one in says(Facts([*ALL, second])))


@pytest.mark.parametrize("width", [80, 40])
def test_the_screen_fits_and_names_can_be_copied(width: int) -> None:
    long = dataclasses.replace(W1, name="worker-of-the-second-rack-03", queues=("cpu", "openvino", "cuda"))
    queues = {"cpu": Depth(12_345, 4, 3600.0), "openvino": Depth(1)}
    facts = Facts([*ALL, node(long, draining=True)], queues, {"done": (9, 1.0)}, 2)
    lines = screen(facts, width).splitlines()
    if width == 80:
        assert max(map(len, lines)) <= 80
    assert any("worker-of-the-second-rack-03" in one for one in lines)


def test_lengths_of_time_are_told_in_one_unit() -> None:
    assert [span(one) for one in (0.4, 90, 150, 7300, 200_000, float("inf"))] == [
        "0 s", "90 s", "2 min", "2 h", "2 d", "long",
    ]  # fmt: skip


# -- the thread ----------------------------------------------------------------------------------------


class Record:
    """Stands for :class:`Nodes`: a list of what to answer, an error raised; when none is left, the last again."""

    def __init__(self, *answers: Heard | Exception) -> None:
        self.answers = list(answers)
        self.beats: list[tuple[Told, bool, bool]] = []
        self.heard = threading.Semaphore(0)

    def beat(self, told: Told, boot: str, *, first: bool = False, stopped: bool = False) -> Heard:
        self.beats.append((told, first, stopped))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.heard.release()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.heard.acquire(timeout=20)


QUIET, DRAIN = Heard(draining=False, rival=False), Heard(draining=True, rival=False)


def beating(record: Record, asked: list[bool], tell: Any = lambda: W1) -> Beat:
    return Beat(record, tell, asked.append, seconds=3600)  # type: ignore[arg-type]


def test_the_operators_word_reaches_the_node_once_and_is_answered_at_once() -> None:
    record, asked = Record(QUIET, DRAIN, DRAIN, QUIET), [False][:0]
    one = beating(record, asked)
    one.start()
    record.wait(1)
    one.nudge()
    record.wait(2)  # the beat that hears it, and the one that tells that it is heard
    assert (asked, one.draining) == ([True], True)
    one.nudge()
    record.wait(2)
    assert asked == [True, False]
    one.stop()
    assert [stopped for _, _, stopped in record.beats] == [False] * (len(record.beats) - 1) + [True]
    assert [first for _, first, _ in record.beats] == [True] + [False] * (len(record.beats) - 1)


def test_a_database_that_is_away_ends_no_heartbeat_and_keeps_no_node_from_stopping() -> None:
    away = LedgerStorageError("the server does not answer")
    record, asked = Record(away, OSError("no route"), ValueError("a bug"), QUIET), [False][:0]
    one = beating(record, asked)
    one.start()
    for _ in range(4):
        record.wait(1)
        one.nudge()
    assert one.thread.is_alive()
    assert next(first for _, first, _ in record.beats[3:]) is True  # nobody has heard the first one yet
    one.stop()
    assert not one.thread.is_alive()


def test_what_a_node_cannot_do_is_asked_again_at_the_next_beat() -> None:
    record = Record(DRAIN)
    calls: list[bool] = []

    def refuse(wish: bool) -> None:
        calls.append(wish)
        if len(calls) == 1:
            raise RuntimeError("not now")

    one = Beat(record, lambda: W1, refuse, seconds=3600)  # type: ignore[arg-type]
    one.start()
    record.wait(1)
    one.nudge()
    record.wait(2)
    one.stop()
    assert calls == [True, True]
    assert one.draining


def test_what_a_node_writes_is_small_or_refused_by_the_database(nodes: Nodes, ledger: Ledger) -> None:
    large = dataclasses.replace(
        W1, host="h" * 9000, queues=("q" * 64,) * 500, profiles={f"p{n}": "d" * 64 for n in range(500)},
        standing="s" * 90_000,
    )  # fmt: skip
    nodes.beat(large, "boot", first=True)  # its own word is cut before
    (one,) = nodes.all()
    assert (len(one.told.queues), len(one.told.profiles), len(one.told.standing)) == (64, 64, 400)
    for column in ("told", "queues", "host", "role"):
        with pytest.raises(LedgerError, match="fleet_nodes_small"), ledger.transaction() as change:
            change.connection.execute(update(tables.fleet_nodes).values({column: "x" * 100_000}))


def test_a_name_that_two_processes_have_is_said_by_both() -> None:
    record = Record(QUIET, Heard(draining=False, rival=True))
    one = beating(record, [])
    for _ in range(3):
        one._beat()
    assert [told.standing for told, _, _ in record.beats] == [
        "",
        "",
        "another process beats under this node's name",
    ]


def test_more_rows_than_are_read_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acceptd.fleet.standing.MOST", 3)
    assert any(one.startswith("nodes: 3 are shown") for one in says(Facts(ALL)))
