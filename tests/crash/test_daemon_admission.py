"""A real daemon and its leases: deadlines, stops, floods, and a sealed directory that is made anew under it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples import evidence_classifier as classifier
from examples.hostile_bundles import BY_NAME
from tests.world import TEAM, World, codes, world

pytestmark = pytest.mark.crash

HANGS = BY_NAME["loops"].write
"""An honest form with a Loop of 2**62 inside: only a kill ends it."""


def patient(made: World, settings: str) -> None:
    """Let a hanging job run for longer than any of these tests."""
    policy = made.state / "patient.toml"
    policy.write_text('schema = 1\nname = "patient"\n[limits]\nrun_cpu_seconds = 900\ninspect_cpu_seconds = 900\n')
    inbox = "[inbox]\nsettle_seconds = 0.2\n"
    (made.state / "acceptd.toml").write_text(f'policy = "{policy}"\n{settings}\n{inbox}')


def honest(version: str, team: str = TEAM) -> Any:
    return lambda path: classifier.write_bundle(path, version=version, model_id=f"{team}/evidence-disposition")


def status(made: World) -> dict[str, Any]:
    done = made.acceptd("status", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def at_work(made: World) -> bool:
    """Whether a job computes below one of the daemon's cells: bwrap, bwrap, warm parent, pid 1, job."""
    assert not made.daemon_ended(), made.log.read_text(errors="replace")
    assert made.daemon is not None
    own = len(psutil.Process(made.daemon.pid).parents())
    for below in psutil.Process(made.daemon.pid).children(recursive=True):
        try:
            if len(below.parents()) > own + 4 and below.cpu_times().user > 0.3:
                return True
        except psutil.NoSuchProcess:
            continue
    return False


def test_a_model_that_hangs_past_its_deadline_is_cancelled_and_gives_its_budget_back(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        patient(made, "submission_seconds = 5")
        made.start()
        name = made.drop(HANGS, "hangs")
        report = made.verdict(name)
        assert (report["verdict"], codes(report, "reject")) == ("inconclusive", set())
        assert "cell/deadline" in codes(report)
        assert "while it was examined" in json.dumps(report["findings"])
        made.until(lambda: not status(made)["work"]["leases"], "the daemon told of the release")
        told = status(made)
        (row,) = told["given_up"]
        assert (row["reason"], row["state"], row["closed_by"]) == ("deadline", "released", "kernel")
        times = [row[f"{state}_at"] for state in ("abandoned", "cancel_requested", "still_running", "released")]
        assert times == sorted(times)
        work = told["work"]
        assert work["budget"]["cores_held"] == work["budget"]["memory_bytes_held"] == 0
        assert work["meter"]["given_up"] == {"deadline": 1}
        assert work["meter"]["entered"]["still-running"] == 1
        assert work["meter"]["entered"]["held"] == work["meter"]["entered"]["released"] == 1
        assert not at_work(made)
        text = made.acceptd("status").stdout
        assert "given up" in text
        assert "deadline" in text
        made.stop()
        assert not (made.state / "work.json").exists()


def test_a_stop_cancels_what_hangs_takes_it_up_again_and_counts_no_death(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        patient(made, "stop_seconds = 0")
        made.drop(HANGS, "hangs")
        for turn in range(3):  # two deaths would be quarantine
            made.start()
            made.until(lambda: at_work(made), "the model runs")
            made.stop()
            assert not made.verdicts()
            told = status(made)
            assert [row["state"] for row in told["submissions"]] == ["sealed"]
            assert [row["reason"] for row in told["given_up"]] == ["stop"] * (turn + 1)
        patient(made, "submission_seconds = 1")
        made.start()
        (report,) = made.until_verdicts(1)
        assert "cell/deadline" in codes(report), "the time since the claim counts, not that since the start"
        made.stop()
        assert made.acceptd("ledger", "verify").returncode == 0


def test_a_flood_that_fills_the_queue_lets_another_teams_drop_through(tmp_path: Path) -> None:
    with world(tmp_path, "loud", "quiet") as made:
        inbox = "[inbox]\nsettle_seconds = 0.2\n"
        (made.state / "acceptd.toml").write_text(f'policy = "demo"\nworkers = 1\nqueue_limit = 3\n{inbox}')
        flood = [made.drop(honest(f"1.{n}.0", "loud"), f"l{n:02}", "loud") for n in range(12)]
        single = made.drop(honest("2.0.0", "quiet"), "q", "quiet")
        made.start()
        made.until_verdicts(1, "quiet")
        made.until_verdicts(len(flood), "loud")
        made.until(lambda: not list((made.state / "sealed").iterdir()), "the last one is done")
        made.stop()
        order = [entry["body"]["drop"] for entry in made.entries("verdict")]
        assert sorted(order) == sorted([*flood, single])
        assert order.index(single) <= len(order) - 4, order
        assert [drop for drop in order if drop != single] == flood, "as they came, also those that found no place"


def test_a_sealed_directory_made_anew_under_the_daemon_costs_nothing_but_new_parents(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.start()
        first = made.drop(honest("1.0.0"), "first")
        assert made.verdict(first)["verdict"] == "accepted"
        made.until(lambda: not list((made.state / "sealed").iterdir()), "the first one is done")
        shutil.rmtree(made.state / "sealed")
        (made.state / "sealed").mkdir(mode=0o700)
        for number in (2, 3):
            name = made.drop(honest(f"{number}.0.0"), f"later-{number}")
            assert made.verdict(name)["verdict"] == "accepted"
        made.stop()


def test_a_policy_that_can_never_fit_the_budget_stops_the_daemon_with_one_line(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        (made.state / "acceptd.toml").write_text('policy = "demo"\nmemory_bytes = 1000000\n')
        daemon = made.start(ready=False)
        assert daemon.wait(60) == 2
        assert "memory_bytes" in made.log.read_text()
