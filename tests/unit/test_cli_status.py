"""`acceptd status`, `submit` and `report` as people call them: with a daemon, without one, with wrong words."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd import daemon_lock
from acceptd.cli import submit as submitting
from acceptd.config import Paths
from acceptd.record.leases import Leases
from acceptd.record.queue import Queue
from acceptd.work import snapshot
from tests import called
from tests.office_world import OfficeWorld
from tests.release_world import MODEL, memory_directory
from tests.report_world import report

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def base() -> Iterator[OfficeWorld]:
    made = OfficeWorld(memory_directory())
    made.close()
    yield made
    shutil.rmtree(made.root)


@pytest.fixture
def world(base: OfficeWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[OfficeWorld]:
    made = base.copied(memory_directory())
    monkeypatch.chdir(made.root)
    yield made
    made.close()
    shutil.rmtree(made.root)


@pytest.fixture
def running(world: OfficeWorld) -> Iterator[OfficeWorld]:
    """This process is the daemon, as far as the lock says."""
    lock = daemon_lock.acquire(Paths(world.state).lock)
    yield world
    os.close(lock)


def observe(world: OfficeWorld, lines: str) -> None:
    policy = world.root / "policies" / "office.toml"
    policy.write_text(policy.read_text() + f"\n[observe]\n{lines}\n")


# -- status

GIB = 1 << 30
BUSY: dict[str, Any] = {
    "budget": {"cores": 4, "memory_bytes": 8 * GIB, "cores_held": 3, "memory_bytes_held": 2 * GIB},
    "queue": {"waiting": 2, "limit": 64, "lanes": [{"profile": "cpu", "team": "mosaic", "waiting": 2}]},
    "leases": [
        {"submission": "sub-7", "team": "mosaic", "profile": "cpu", "state": state, "reason": reason, "cores": 1,
         "memory_bytes": GIB, "extras": 0, "since_s": 12.0, "in_state_s": 1.0, "deadline_in_s": 33.0}
        for state, reason in (("held", ""), ("still-running", "deadline"))
    ],
    "recording": 0,
    "meter": {
        "held_now": {"held": {"leases": 1, "cores": 1, "memory_bytes": GIB},
                     "still-running": {"leases": 1, "cores": 2, "memory_bytes": GIB}},
        "given_up": {"deadline": 1, "memory": 2}, "longest_still_running_s": 4.25,
    },
}  # fmt: skip


def test_a_busy_daemon_tells_what_it_holds_and_what_waits_behind_it(running: OfficeWorld) -> None:
    queue = Queue(running.ledger)
    for name in range(6):
        queue.add(f"new-{name}", team="mosaic", name="d", path="/p", kind="directory")
    snapshot.write(running.state, BUSY)
    said = running.said("status")
    assert said.startswith(f"daemon   running (pid {os.getpid()})")
    for line in (
        "budget   3 of 4 cores and 2.0 GiB of 8.0 GiB held",
        "queue    2 of at most 64 wait; 2 more stand in the database until there is room",
        "         cpu/mosaic 2",
        "         still-running: 1 holding 2 cores and 1.0 GiB",
        "given up since the start: deadline 1, memory 2; longest still-running 4.2 s",
    ):
        assert line in said.splitlines(), said
    states = [line.split()[3:5] for line in said.splitlines() if line.startswith("sub-7")]
    assert states == [["running", "1"], ["still-running", "(deadline)"]]
    assert json.loads(running.said("status", "--json"))["work"]["queue"]["beyond"] == 2


def test_what_another_daemon_left_behind_says_nothing_of_this_one(running: OfficeWorld) -> None:
    snapshot.write(running.state, BUSY)
    left = json.loads((running.state / snapshot.NAME).read_text())
    (running.state / snapshot.NAME).write_text(json.dumps(left | {"pid": 1}))
    assert "budget" not in running.said("status")


def test_leases_that_were_given_up_are_told_with_what_it_took(world: OfficeWorld) -> None:
    leases = Leases(world.ledger, boot="one")
    leases.open(1.0)
    step = {"submission": "sub-7", "team": "mosaic", "profile": "cpu", "cores": 1, "memory_bytes": GIB,
            "reason": "deadline", "at": 1_795_953_420.0, "seconds": None}  # fmt: skip
    for lease in (1, 2):
        leases.note([step | {"lease": lease, "state": "abandoned"}])
    leases.note([step | {"lease": 1, "state": "released", "seconds": 1.5}])
    Leases(world.ledger, boot="two").open(2.0)
    rows = [line.split() for line in world.said("status").splitlines() if " deadline " in line]
    assert [row[2:6] for row in rows] == [["sub-7", "mosaic", "deadline", "released"]] * 2
    assert [" ".join(row[9:]) for row in rows] == ["the daemon's death", "1.50 s"]
    assert [one["closed_by"] for one in json.loads(world.said("status", "--json"))["given_up"]] == [
        "restart",
        "kernel",
    ]


def test_what_is_only_observed_is_told_and_a_broken_policy_hides_nothing_else(world: OfficeWorld) -> None:
    assert "observe" not in world.said("status")
    observe(world, 'teams = ["mosaic"]')
    assert "observe  team mosaic" in world.said("status").splitlines()
    assert json.loads(world.said("status", "--json"))["observe"]["teams"] == ["mosaic"]
    observe(world, "broken")
    said = world.said("status")
    assert "observe  not known: " in said
    assert "sub-3" in said
    assert json.loads(world.said("status", "--json"))["observe"] is None


def test_what_the_running_daemon_observes_counts_not_what_the_file_says_by_now(running: OfficeWorld) -> None:
    snapshot.write(running.state, BUSY | {"observe": {"everything": True, "teams": [], "models": []}})
    assert "observe  everything" in running.said("status").splitlines()


def test_the_portfolio_tells_every_model_and_how_far_ahead_it_looked(world: OfficeWorld) -> None:
    text = world.said("status", "--portfolio", "--within", "2w", "--all")
    assert text.startswith("1 model")
    assert "(soon: within 14 days)" in text
    assert "production 2" in text
    rows = json.loads(world.said("status", "--portfolio", "--json"))["rows"]
    assert [one["model_id"] for one in rows] == [MODEL]
    assert json.loads(world.said("status", "--portfolio", "--team", "other", "--json"))["rows"] == []
    world.promote(world.waiting, channel="canary")
    text = world.said("status", "--portfolio", "--all")
    assert text.startswith("1 model in 2 places")
    assert "canary 1" in text


@pytest.mark.parametrize(
    ("words", "error", "remedy"),
    [
        (("status", "--within", "30d"), "--within and --all go with --portfolio", "acceptd status --portfolio"),
        (("status", "--all"), "--within and --all go with --portfolio", "acceptd status --portfolio"),
        (
            ("status", "--portfolio", "--within", "soon"),
            "--within 'soon': no span of time",
            "write 30d, 12h or 8w",
        ),
        (("status", "--portfolio", "--within", "0d"), "--within '0d': no span of time", "write 30d, 12h or 8w"),
        (("status", "--limit", "0"), "Invalid value for '--limit'", "see acceptd status --help"),
        (("report", "x"), "0 submissions begin with 'x'", "see `acceptd status`"),
        (("submit", "/nowhere"), "the bundle /nowhere does not exist", "check the path"),
        (("submit", "keys.txt"), "keys.txt is neither a directory nor a .zip", "give the directory that holds"),
        (("submit", "policies"), "more than one team, or none", "give --team (there are: none)"),
        (("submit", "policies", "--team", "../x"), "'../x' is no name", "give --team"),
        (("submit", "policies", "--team", "moon"), "there is no inbox for team 'moon'", "the operator makes it"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_words_that_cannot_be_meant(world: OfficeWorld, words: tuple[str, ...], error: str, remedy: str) -> None:
    Path("keys.txt").touch()
    told, mend = world.refused(*words)
    assert error in told
    assert mend.startswith(remedy)
    assert not list(Paths(world.state).inbox.iterdir())


# -- report


def test_a_submission_without_a_verdict_has_no_report_yet(world: OfficeWorld) -> None:
    Queue(world.ledger).add("new-1", team="mosaic", name="d", path="/p", kind="directory")
    assert world.refused("report", "new-1") == (
        "submission new-1 is claimed: there is no verdict yet", "see `acceptd status`"
    )  # fmt: skip


def test_a_state_without_submissions_says_how_to_make_one(tmp_path: Path) -> None:
    assert called.run("init", "--state", str(tmp_path / "s")).returncode == 0
    done = called.run("report", "--state", str(tmp_path / "s"))
    assert (done.returncode, done.stderr.splitlines()) == (
        2, ["acceptd: there is no submission yet", "  → drop one: acceptd submit PATH --team TEAM"]
    )  # fmt: skip


# -- submit


@pytest.fixture
def team(world: OfficeWorld, monkeypatch: pytest.MonkeyPatch) -> OfficeWorld:
    """There is one team, and every drop is called ``drop``."""
    (Paths(world.state).inbox / "mosaic").mkdir()
    (Paths(world.state).outbox / "mosaic" / "s-1").mkdir(parents=True)
    monkeypatch.setattr(submitting, "unique", lambda _name, _kind: "drop")
    return world


def answered(world: OfficeWorld, **changes: Any) -> None:
    """Let the verdict on the drop lie in the outbox."""
    place = Paths(world.state).outbox / "mosaic" / "s-1" / "verdict.json"
    place.write_text(json.dumps(report(**changes) | {"drop": "drop"}))


def test_who_does_not_wait_is_told_whether_anybody_looks(team: OfficeWorld) -> None:
    said = team.said("submit", "policies")
    assert said == "dropped as mosaic/drop; no daemon is running, it waits until one does\n"
    names = [one.name for one in (Paths(team.state).inbox / "mosaic" / "drop").iterdir()]
    assert sorted(names) == ["office.toml", "reviewers.toml"]


def test_an_archive_is_dropped_as_one_file(team: OfficeWorld) -> None:
    Path("b.zip").write_bytes(b"PK")
    daemon = daemon_lock.acquire(Paths(team.state).lock)
    assert team.said("submit", "b.zip") == "dropped as mosaic/drop\n"
    os.close(daemon)
    assert (Paths(team.state).inbox / "mosaic" / "drop").read_bytes() == b"PK"


def test_an_archive_that_cannot_be_read_leaves_nothing(team: OfficeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Path, target: Path) -> None:
        target.write_bytes(b"P")
        raise OSError(28, "No space left on device", str(target))

    Path("b.zip").write_bytes(b"PK")
    monkeypatch.setattr(shutil, "copyfile", refuse)
    error, remedy = team.refused("submit", "b.zip")
    assert error.endswith(".drop.part: No space left on device")
    assert remedy == "check the path, its permissions and the free space"
    assert not list((Paths(team.state).inbox / "mosaic").iterdir())


@pytest.mark.parametrize(
    ("verdict", "observed", "code"),
    [("accepted", False, 0), ("rejected", False, 1), ("held", False, 3), ("inconclusive", False, 4),
     ("rejected", True, 0), ("inconclusive", True, 0)],
)  # fmt: skip
def test_who_waits_gets_the_verdict_and_its_exit_code(
    team: OfficeWorld, verdict: str, observed: bool, code: int
) -> None:
    answered(team, verdict=verdict, observed=observed)
    words = ("submit", "policies", "--wait", "--state", str(team.state))
    done = called.run(*words)
    assert done.returncode == code
    assert f"submission  {report()['submission']}" in done.stdout
    told = [line for line in done.stderr.splitlines() if line.startswith("acceptd: OBSERVE MODE: ")]
    assert [line.endswith("nothing is blocked or promoted, so this ends with 0") for line in told] == [
        True
    ] * observed
    shutil.rmtree(Paths(team.state).inbox / "mosaic" / "drop")
    done = called.run(*words, "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (code, verdict)


def test_verdicts_on_other_drops_and_halves_of_one_are_not_taken_for_it(team: OfficeWorld) -> None:
    outbox = Paths(team.state).outbox / "mosaic"
    answered(team)
    other = json.loads((outbox / "s-1" / "verdict.json").read_text()) | {"drop": "another"}
    (outbox / "s-1" / "verdict.json").write_text(json.dumps(other))
    (outbox / ".s-2").mkdir()
    (outbox / ".s-2" / "verdict.json").write_text(json.dumps(other | {"drop": "drop"}))
    (outbox / "s-3").mkdir()
    said = team.said("submit", "policies", "--wait", "--timeout", "0.1", code=2).splitlines()
    assert said == [
        "mosaic/drop: dropped; no daemon is running, it waits until one does",
        "acceptd: no verdict on mosaic/drop within 0.1 s",
        "  → see `acceptd status`: is the daemon running?",
    ]


def test_who_stops_waiting_has_dropped_all_the_same(team: OfficeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submitting, "find", interrupted)
    done = called.run("submit", "policies", "--wait", "--state", str(team.state))
    assert done.returncode == 130
    place = Paths(team.state).outbox / "mosaic"
    assert f"no longer waiting; mosaic/drop goes on: see {place}" in done.stderr.splitlines()
    assert (Paths(team.state).inbox / "mosaic" / "drop").is_dir()
