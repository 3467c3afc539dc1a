"""kill -9 of the daemon in each state of a submission, then a restart: one verdict, no torn release."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptd.loader import open_release
from examples import evidence_classifier as classifier
from tests.world import MODEL_ID, TEAM, World, world

pytestmark = pytest.mark.crash

PLACES = {
    "claimed": (
        "record.queue.add.before-commit",
        "lifecycle.claimed.begin",
        "record.queue.sealed.before-commit",
        "record.queue.sealed.after-commit",
    ),
    "examined": (
        "lifecycle.sealed.begin",
        "lifecycle.sealed.before-record",
        "record.queue.judged.before-commit",
        "record.queue.judged.after-commit",
        "lifecycle.judged.begin",
    ),
    "promoting": (
        "release.store.moved",
        "lifecycle.judged.stored",
        "release.promote.intended",
        "release.promote.written",
        "release.promote.swapped",
    ),
    "promoted": (
        "release.promote.announced",
        "release.promote.activated",
        "lifecycle.promoted.begin",
        "lifecycle.promoted.outbox",
        "record.queue.done.before-commit",
    ),
}


@pytest.mark.parametrize("stage", PLACES)
def test_a_kill_loses_nothing_and_doubles_nothing(stage: str, tmp_path: Path) -> None:
    """One state takes all kills of a stage, a drop each: the daemon that takes up after one dies by the next."""
    with world(tmp_path) as made:
        made.start()
        for number, place in enumerate(PLACES[stage], 1):
            before = {entry["seq"] for entry in made.entries()}
            made.arm(place)
            drop = made.drop(
                lambda path, n=number: classifier.write_bundle(path, version=f"{n}.0.0"), f"v{number}"
            )
            made.until(made.daemon_ended, f"the daemon dies at {place}")
            assert made.daemon is not None
            assert made.daemon.returncode == -9, (place, made.log.read_text(errors="replace"))
            if ".sealed." in place:
                # What the first one was sealed and examined by is on record, though nothing was judged yet.
                added = [entry["type"] for entry in made.entries() if entry["seq"] not in before]
                assert added == (["policy", "profile"] if number == 1 else []), place
            made.start()
            # Between the claiming rename and the queue's commit the drop's own name is lost; its verdict is not.
            made.until_verdicts(number)
            made.until(lambda: not list((made.state / "sealed").iterdir()), f"{drop} is done, after {place}")
            whole(made, number, place, before)
        made.stop()
        assert len(made.verdicts()) == len(PLACES[stage])
        done = made.acceptd("ledger", "verify")
        assert done.returncode == 0, done.stdout


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


def whole(made: World, number: int, place: str, before: set[int]) -> None:
    """After the kill numbered so: one accepted verdict more, one active release more, whose files verify."""
    reports = made.verdicts()
    assert [report["verdict"] for report in reports] == ["accepted"] * number, (place, reports)
    added = [entry for entry in made.entries() if entry["seq"] not in before]
    assert len([entry for entry in added if entry["type"] == "verdict"]) == 1, place
    activated = [entry for entry in added if entry["type"] == "activated"]
    assert {entry["body"]["number"] for entry in activated} == {activated[0]["body"]["number"]}, place
    opened = open_release(made.state, MODEL_ID, keys=made.state / "keyring.json")
    assert opened.number == activated[-1]["body"]["number"], place
    assert opened.manifest["bundle"]["version"] == f"{number}.0.0", place
