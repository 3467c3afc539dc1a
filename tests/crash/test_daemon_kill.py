"""kill -9 of the daemon in each state of a submission, then a restart: one verdict, no torn release."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptd.loader import open_release
from examples import evidence_classifier as classifier
from tests.world import MODEL_ID, TEAM, World, world

pytestmark = pytest.mark.crash

PLACES = (
    "record.queue.add.before-commit",
    "lifecycle.claimed.begin",
    "record.queue.sealed.before-commit",
    "record.queue.sealed.after-commit",
    "lifecycle.sealed.begin",
    "lifecycle.sealed.before-record",
    "record.queue.judged.before-commit",
    "record.queue.judged.after-commit",
    "lifecycle.judged.begin",
    "release.store.moved",
    "lifecycle.judged.stored",
    "release.promote.intended",
    "release.promote.written",
    "release.promote.swapped",
    "release.promote.announced",
    "release.promote.activated",
    "lifecycle.promoted.begin",
    "lifecycle.promoted.outbox",
    "record.queue.done.before-commit",
)


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_loses_nothing_and_doubles_nothing(place: str, tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.start(failpoint=place)
        drop = made.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), "v1")
        made.until(made.daemon_ended, f"the daemon dies at {place}")
        assert made.daemon is not None
        assert made.daemon.returncode == -9, made.log.read_text(errors="replace")
        if ".sealed." in place:  # what it was sealed and examined by is on record, though nothing was judged yet
            assert [one["type"] for one in made.entries()] == ["log", "policy", "profile"]
        made.start()
        # Between the claiming rename and the queue's commit the drop's own name is lost; its verdict is not.
        made.until(lambda: bool(made.verdicts()) or made.daemon_ended(), f"a verdict on {drop}")
        (report,) = made.verdicts()
        assert report["verdict"] == "accepted", report
        made.until(lambda: not list((made.state / "sealed").iterdir()), "the submission is done")
        made.stop()
        whole(made)


def test_two_deaths_in_one_state_are_quarantined_and_the_others_go_on(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.start(failpoint="lifecycle.sealed.begin")
        poison = made.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), "poison")
        made.until(made.daemon_ended, "the first death")
        made.start(failpoint="lifecycle.sealed.begin", ready=False)
        made.until(made.daemon_ended, "the second death")
        made.start()
        report = made.verdict(poison)
        assert report["verdict"] == "inconclusive"
        # Its bytes are in quarantine: the drop goes, and does not stay claimed in the inbox for ever.
        made.until(lambda: not list((made.state / "inbox" / TEAM).iterdir()), "the inbox is empty")
        (kept,) = (made.state / "quarantine").iterdir()
        assert (kept / "bundle" / "model.onnx").is_file()
        good = made.drop(lambda path: classifier.write_bundle(path, version="2.0.0"), "good")
        assert made.verdict(good)["verdict"] == "accepted"
        made.stop()
        verdicts = [entry["body"]["verdict"] for entry in made.entries("verdict")]
        assert sorted(verdicts) == ["accepted", "inconclusive"]
        assert made.acceptd("ledger", "verify").returncode == 0


def whole(made: World) -> None:
    """Exactly one verdict entry, one active release whose files verify, a ledger that verifies."""
    assert len(made.entries("verdict")) == 1
    activated = made.entries("activated")
    assert len({entry["body"]["number"] for entry in activated}) == 1
    opened = open_release(made.state, MODEL_ID, keys=made.state / "keyring.json")
    assert opened.number == activated[-1]["body"]["number"]
    done = made.acceptd("ledger", "verify")
    assert done.returncode == 0, done.stdout
    assert not list((made.state / "sealed").iterdir())
