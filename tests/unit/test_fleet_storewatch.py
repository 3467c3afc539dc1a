"""A node says that its object store is away, also one that has nothing to do, and takes it back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.errors import ObjectDamagedError, ObjectsUnreachableError
from acceptd.fleet.nodes import Node, Told
from acceptd.fleet.standing import STORE_AWAY, Facts, troubles
from acceptd.fleet.storewatch import StoreWatch
from acceptd.objectstore.local import Directory

pytestmark = pytest.mark.unit

PATIENCE = 60.0


class Asked:
    """Gives one answer after the other, the last for ever; each question is a step of the test."""

    where = "s3://models"

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.step = threading.Semaphore(0)

    def look(self, _key: str) -> None:
        assert self.step.acquire(timeout=PATIENCE)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer


@pytest.fixture
def told() -> threading.Semaphore:
    return threading.Semaphore(0)


@pytest.fixture
def watching(told: threading.Semaphore) -> Iterator[StoreWatch]:
    away = ObjectsUnreachableError("s3://models: no whole answer within 5 s")
    remote = Asked(None, away, away, ObjectDamagedError("another one"), RuntimeError("a bug"), None)
    made = StoreWatch(remote, told.release, seconds=0.0, again=0.0)  # type: ignore[arg-type]
    made.remote = remote  # type: ignore[attr-defined]
    made.start()
    yield made
    made.stop()
    remote.step.release(100)
    made.thread.join(PATIENCE)
    assert not made.thread.is_alive()


def test_a_store_that_is_away_is_said_once_and_taken_back_when_it_answers_again(
    watching: StoreWatch, told: threading.Semaphore
) -> None:
    step = watching.remote.step  # type: ignore[attr-defined]
    step.release(2)
    assert told.acquire(timeout=PATIENCE)
    assert watching.remark() == f"{STORE_AWAY}: s3://models: no whole answer within 5 s"
    step.release(2)  # away still, which is nothing new; then an answer, whatever it is
    assert told.acquire(timeout=PATIENCE)
    assert watching.remark() == ""
    step.release()
    assert told.acquire(timeout=PATIENCE)
    assert "RuntimeError: a bug" in watching.remark(), "whatever it is: nothing is reached by it"
    step.release()
    assert told.acquire(timeout=PATIENCE)
    assert watching.remark() == ""
    assert not told.acquire(blocking=False)


def test_a_volume_that_is_not_mounted_is_away_and_one_without_the_object_is_there(tmp_path: Path) -> None:
    root = tmp_path / "objects"
    watch = StoreWatch(Directory(root, make=False), lambda: None)
    assert str(root) in watch._ask()
    root.mkdir()
    assert watch._ask() == ""


def test_the_screen_says_where_to_look() -> None:
    told = Told("w1", "worker", "host-1", standing=f"{STORE_AWAY}: s3://models: no answer")
    stamp = "2026-11-30T12:00:00Z"
    one = Node(told, "1.0.0", 2, stamp, stamp, False, "b", False, 1.0)
    [found] = [trouble for trouble in troubles(Facts([one])) if trouble.what == "w1"]
    assert "cannot be reached" in found.says
    assert "acceptd doctor on w1" in found.remedy
