"""`acceptd adopt --submit`: nothing goes where a daemon might promote it, and each verdict comes to its row."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.adopt.place import Place
from acceptd.adopt.rows import Row
from acceptd.cli import adopt_submit as module
from acceptd.daemon_lock import acquire
from acceptd.errors import StateError, UsageError
from acceptd.work import snapshot
from tests.command_world import ready

pytestmark = pytest.mark.unit


def row(name: str = "m", **more: Any) -> Row:
    return Row(
        **({"path": f"{name}.onnx", "kind": "model", "state": "made", "name": name, "model": f"a/{name}"} | more)
    )


def says(state: Path, **table: Any) -> None:
    snapshot.write(state, {"observe": {"everything": False, "teams": [], "models": []} | table})


class House:
    """A state with a daemon that runs, an inbox for the team ``a``, and two bundles to drop."""

    def __init__(self, home: Path) -> None:
        self.state = ready(home / "state")
        self.inbox, self.outbox = self.state / "inbox" / "a", self.state / "outbox" / "a"
        self.inbox.mkdir()
        self.place = Place(home / "out")
        for name in ("m", "n"):
            self.place.bundle(name).mkdir(parents=True)
            (self.place.bundle(name) / "model.onnx").write_text(name)
        self.lock = acquire(self.state / "daemon.lock")
        says(self.state, teams=["a"])

    def end(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1

    def judge(self, verdict: str = "accepted", *, most: int = 9) -> None:
        """Take what lies in the inbox and give a verdict, as a daemon does."""
        for drop in sorted(self.inbox.iterdir())[:most]:
            report = {
                "drop": drop.name, "submission": f"s-{drop.name}", "verdict": verdict, "reason": "r",
                "findings": [], "bundle_id": f"a/{drop.name[0]}", "bundle_version": "1.0.0",
                "goldens": {"models": [{"parity": 2}]},
            }  # fmt: skip
            self.put(f"s-{drop.name}", report)
            drop.rename(self.state / "tmp" / drop.name)

    def put(self, name: str, report: dict[str, Any]) -> None:
        (self.outbox / name).mkdir(parents=True)
        (self.outbox / name / "verdict.json").write_text(json.dumps(report))

    def dropped(self, rows: list[Row], *steps: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[Row]:
        """Run it; at each look at the outbox the next of ``steps`` happens."""
        left = list(steps)
        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: left.pop(0)())
        monkeypatch.setattr(module, "time", clock)
        return module.dropped(self.state, self.place, rows, "a")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.end()


def test_every_row_gets_what_the_daemon_said_of_its_own_drop(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.put("old", {"drop": "m-00000000", "verdict": "rejected"})  # from before: another's, and not read
    rows = [row("m"), row("broken", state="failed"), row("n"), row("theirs", model="b/theirs")]
    done = house.dropped(rows, lambda: house.judge(most=1), house.judge, monkeypatch=monkeypatch)
    assert [one.name for one in done] == ["m", "broken", "n", "theirs"]
    assert [(one.verdict, one.submission[:4]) for one in done] == [
        ("accepted", "s-m-"), ("", ""), ("accepted", "s-n-"), ("", ""),
    ]  # fmt: skip
    assert [one.goldens.get("parity", 0) for one in done] == [2, 0, 2, 0]
    assert [path.read_text() for path in sorted((house.state / "tmp").glob("*/model.onnx"))] == ["m", "n"]


def test_a_daemon_that_ends_meanwhile_is_told_with_what_is_left(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end() -> None:
        house.judge(most=1)
        house.end()

    with pytest.raises(StateError, match="1 of 2 have no verdict: the daemon ended") as told:
        house.dropped([row("m"), row("n")], end, monkeypatch=monkeypatch)
    assert "is judged when it runs again" in told.value.remedy
    assert len(list(house.inbox.iterdir())) == 1, "what was dropped stays"


def test_verdicts_that_come_with_the_daemons_end_are_not_lost(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It judges the last drop and stops, just after somebody has looked for verdicts."""
    real, looks = module.verdicts, []

    def verdicts(outbox: Path, known: set[str]) -> list[dict[str, Any]]:
        found = list(real(outbox, known))
        looks.append(len(found))
        if len(looks) == 1:
            house.judge()
            house.end()
        return found

    monkeypatch.setattr(module, "verdicts", verdicts)
    done = house.dropped([row("m"), row("n")], lambda: None, monkeypatch=monkeypatch)
    assert [one.verdict for one in done] == ["accepted", "accepted"]
    assert looks == [0, 2]


def test_patience_counts_from_the_last_verdict(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def later() -> None:
        now[0] += module.PATIENCE - 1
        if now[0] < module.PATIENCE:
            house.judge(most=1)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _seconds: later()))
    with pytest.raises(StateError, match="1 of 2 have no verdict"):
        module.dropped(house.state, house.place, [row("m"), row("n")], "a")
    assert now[0] > 2 * module.PATIENCE - 3


REFUSED: dict[str, tuple[Callable[[House], Any], str, str]] = {
    "no daemon": (House.end, "no daemon is running on this state", "start it: acceptd daemon"),
    "a daemon that has said nothing yet": (
        lambda house: (house.state / "work.json").unlink(),
        "no daemon is running on this state",
        "start it: acceptd daemon",
    ),
    "what a daemon before it said": (
        lambda house: (house.state / "work.json").write_text('{"pid": 1, "observe": {"everything": true}}'),
        "no daemon is running on this state",
        "start it: acceptd daemon",
    ),
    "no inbox": (lambda house: house.inbox.rmdir(), "there is no inbox for team 'a'", "acceptd init --team a"),
    "nothing observed": (
        lambda house: says(house.state),
        "the daemon observes nothing: what it accepts it would promote",
        "put the team into [observe] of the policy, and send SIGHUP to the daemon",
    ),
    "a table that is none": (
        lambda house: snapshot.write(house.state, {"observe": {"everything": "maybe"}}),
        "the daemon observes nothing: what it accepts it would promote",
        "put the team into [observe] of the policy, and send SIGHUP to the daemon",
    ),
    "one model alone": (
        lambda house: says(house.state, models=["a/m"]),
        "the daemon does not observe a/n: it might promote it",
        "put the team into [observe] of the policy, and send SIGHUP to the daemon",
    ),
    "another team": (
        lambda house: says(house.state, teams=["b"]),
        "the daemon does not observe a/m: it might promote it",
        "put the team into [observe] of the policy, and send SIGHUP to the daemon",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_nothing_at_all_is_dropped_where_a_daemon_might_promote_it(
    house: House, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, message, remedy = REFUSED[why]
    change(house)
    with pytest.raises(UsageError) as told:
        house.dropped([row("m"), row("n")], monkeypatch=monkeypatch)
    assert (told.value.message, told.value.remedy) == (message, remedy)
    assert not house.inbox.is_dir() or list(house.inbox.iterdir()) == []
