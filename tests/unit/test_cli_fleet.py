"""`acceptd fleet status`, `drain`, `undrain`, `forget`: a node finishes what runs; what is not so yet is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.cli import fleet as module
from acceptd.errors import LedgerStorageError
from acceptd.fleet.nodes import Nodes, Told
from acceptd.record.log import Ledger
from tests.command_world import Commands, ready

pytestmark = pytest.mark.unit
W1 = Told("w1", "worker", "host-1", queues=("cpu",), slots=2, policy="a" * 64)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Ledger.open(ready(tmp_path / "state")) as ledger:
        yield Nodes(ledger)


@pytest.fixture
def fleet(nodes: Nodes, tmp_path: Path) -> Commands:
    return Commands(module.app, tmp_path / "state")


class Ear:
    """Hears a word at each wait: what happens meanwhile is the next of ``steps``."""

    def __init__(self, *steps: Callable[[], Any]) -> None:
        self._steps = list(steps)
        self.closed = False

    def __call__(self, _place: Path) -> Ear:
        return self

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *_what: object) -> None:
        self.closed = True

    def wait(self, seconds: float) -> list[str]:
        assert seconds > 0
        assert self._steps, "it waits longer than anything happens"
        self._steps.pop(0)()
        return []


def beat(nodes: Nodes, **changes: Any) -> None:
    nodes.beat(dataclasses.replace(W1, **changes), "boot")


@pytest.fixture(autouse=True)
def up(nodes: Nodes) -> None:
    nodes.beat(dataclasses.replace(W1, running=1), "boot", first=True)


def test_a_drain_is_told_once_and_what_runs_there_is_said(fleet: Commands, nodes: Nodes) -> None:
    assert fleet("drain", "w1").strip() == "w1 is to drain: draining, 1 running"
    assert fleet("drain", "w1").strip() == "w1 was told before: draining, 1 running"
    assert fleet("undrain", "w1").strip() == "w1 takes work again"
    assert fleet("undrain", "w1").strip() == "w1 was not drained"
    nodes.beat(W1, "boot", stopped=True)
    assert "it is gone; it hears of it at its next start" in fleet("drain", "w1")


def test_a_node_that_is_gone_is_forgotten_and_its_trust_stays_till_the_policy_ends_it(
    fleet: Commands, nodes: Nodes
) -> None:
    said = fleet.run("forget", "w1")
    assert (said.code, "no node that is gone" in said.error) == (2, True)
    nodes.beat(W1, "boot", stopped=True)
    assert "its [[fleet.trust]] stays in the policy until you take it out" in fleet("forget", "w1")
    assert nodes.all() == []
    for words in (("drain", "w1"), ("undrain", "w1")):
        said = fleet.run(*words)
        assert (said.code, "no node is called 'w1'" in said.error) == (2, True)


def test_who_waits_for_a_drain_hears_of_each_step_and_of_its_end(
    fleet: Commands, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = Ear(
        lambda: beat(nodes, running=1),
        lambda: beat(nodes, running=0, taking=True),
        lambda: beat(nodes, running=0, taking=False),
    )
    monkeypatch.setattr(module, "_ear", ear)
    assert fleet("drain", "w1", "--wait").splitlines() == [
        "w1 is to drain: draining, 1 running",
        "w1: draining, 1 running",
        "w1: draining, 0 running",
        "w1 is drained",
    ]
    assert ear.closed


def test_a_drain_that_somebody_takes_back_meanwhile_does_not_end_as_drained(
    fleet: Commands, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ear", Ear(lambda: nodes.drain("w1", on=False)))
    said = fleet.run("drain", "w1", "--wait")
    assert (said.code, said.error) == (2, "w1 was undrained meanwhile")
    assert said.remedy == "acceptd fleet drain w1 --wait"


def test_a_node_that_is_forgotten_while_somebody_waits_is_no_drained_one(
    fleet: Commands, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgotten() -> None:
        nodes.beat(W1, "boot", stopped=True)
        nodes.forget("w1")

    monkeypatch.setattr(module, "_ear", Ear(forgotten))
    said = fleet.run("drain", "w1", "--wait")
    assert (said.code, said.error) == (2, "no node is called 'w1'")
    assert said.remedy == "`acceptd fleet status` lists them"


def test_a_drain_that_takes_too_long_ends_with_four_and_stays_asked_for(
    fleet: Commands, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0.0, 1.0, 91.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr(module, "_ear", Ear(lambda: None))
    said = fleet.run("drain", "w1", "--wait", "--within", "90s")
    assert (said.code, said.out.splitlines()[-1]) == (4, "w1 is not drained yet: draining, 1 running")
    assert [one.draining for one in nodes.all()] == [True]
    said = fleet.run("drain", "w1", "--wait", "--within", "soon")
    assert (said.code, said.error.startswith("--within")) == (2, True)


def test_the_standing_is_a_screen_or_one_document(fleet: Commands) -> None:
    told = json.loads(fleet("status", "--json"))
    assert [(one["name"], one["status"], one["running"]) for one in told["nodes"]] == [("w1", "up", 1)]
    assert "w1" in fleet("status")


class Over(Exception):
    """The person has pressed Ctrl-C."""


def test_who_watches_sees_each_change_also_after_the_record_was_away(
    fleet: Commands, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from acceptd.fleet import look as looking

    real, away = looking.look, iter([False, True, False])

    def look(ledger: Ledger) -> Any:
        if next(away):
            raise LedgerStorageError("the server closed the connection")
        return real(ledger)

    def over() -> None:
        raise Over

    monkeypatch.setattr(looking, "look", look)
    ear = Ear(lambda: None, lambda: nodes.drain("w1"), over)
    monkeypatch.setattr(module, "_ear", ear)
    with pytest.raises(Over):
        module.status(watch=True, state=fleet.state)
    out = capsys.readouterr().out
    before, _, after = out.partition("the record is away: the server closed the connection")
    assert " up " in before
    assert " draining " in after
    assert ear.closed


def test_a_state_that_is_no_node_cannot_be_enrolled_and_a_file_is_no_fleets_record(fleet: Commands) -> None:
    said = fleet.run("enroll")
    assert (said.code, "this state is no node of a fleet" in said.error) == (2, True)
    assert said.remedy == "acceptd init --role ROLE --state DIR makes one"
    said = fleet.run("init")
    assert (said.code, "this record is a file, and a fleet has a database" in said.error) == (2, True)
    assert "[record] of acceptd.toml" in said.remedy
