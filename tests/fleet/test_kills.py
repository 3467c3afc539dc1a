"""kill -9 of each role of a fleet in each of its steps, then a restart: one verdict, one release, nothing left."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from examples import evidence_classifier as classifier
from tests.fleet import embedded, house
from tests.fleet.mixed import ACCEPTED, Piece

pytestmark = pytest.mark.crash

PLACES = {
    "intake": (
        "record.queue.add.before-commit",
        "lifecycle.claimed.begin",
        "objects.blobs-written",
        "fleet.seal.uploaded",
        "record.queue.sealed.before-commit",
        "fleet.seal.handed-over",
        "lifecycle.promoted.begin",
        "lifecycle.promoted.outbox",
        "record.queue.done.before-commit",
    ),
    "worker-1": (
        "fleet.examine.begin",
        "objects.cache-fetched",
        "fleet.examine.uploaded",
        "fleet.examine.given",
    ),
    "promoter": (
        "fleet.order.written",
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
        "record.queue.promoted.after-commit",
    ),
}
FEW = {"intake": (3, 7), "worker-1": (1, 3), "promoter": (2, 8, 9)}
"""Of each role, which of its places are tried where nobody asks for all."""
SETTINGS = ("beat_seconds = 0.3", "stalled_seconds = 2", "retry_seconds = 0.1", "look_seconds = 0.5")


def version(number: int) -> Piece:
    """Return one version of one model: the releases of all kills follow one another."""
    model = "atlas/killed"
    write = partial(classifier.write_bundle, version=f"{number}.0.0", model_id=model, sets=3)
    return Piece(f"v{number}", "atlas", number, "valid", write, ACCEPTED, model)


@pytest.mark.parametrize("name", PLACES)
def test_a_kill_of_any_role_loses_nothing_and_doubles_nothing(name: str, tmp_path: Path) -> None:
    """One fleet takes all kills of one role, a drop each."""
    template = embedded.initialise(tmp_path / "template")
    with house.built(tmp_path / "fleet", template, workers=1, settings=SETTINGS, warm=True) as fleet:
        fleet.start()
        pieces = []
        places = PLACES[name]
        if os.environ.get("ACCEPTD_FLEET_KILLS") != "all":
            places = tuple(places[index] for index in FEW[name])
        for number, place in enumerate(places, 1):
            process = fleet[name].process
            assert process is not None
            process.arm(place)
            pieces.append(version(number))
            fleet.boxes.drop(pieces[-1])
            fleet.bell.until(process.ended, lambda place=place: f"{name} dies at {place}; {fleet.told()}")  # type: ignore[misc]
            assert process.code == -9, (place, process.tail())
            fleet.start(name)
            fleet.await_count(number)
            fleet.settled()
            assert fleet.fell == [], place
        fleet.stop()
        assert fleet.broken(pieces) == []
        book = fleet.book()
        assert [one.verdict for one in book.verdicts] == ["accepted"] * len(pieces)
        # Each verdict was promoted once, in the order of the drops; a number that a kill burnt is nobody's.
        released = [row.verdict_seq for row in book.releases if row.state != "abandoned"]
        assert released == [one.seq for one in book.verdicts]
