"""Work is fair between teams, bounded, and never starts what has expired."""

from __future__ import annotations

import threading
import time

import pytest

from acceptd.work import Rotation, Task, Workers

pytestmark = pytest.mark.unit


def task(name: str, team: str, done: list[str], *, deadline: float | None = None) -> Task:
    limit = time.monotonic() + 3600 if deadline is None else deadline
    return Task(name, team, limit, lambda: done.append(name), lambda: done.append(f"expired {name}"))


def test_a_flood_of_one_team_does_not_starve_another() -> None:
    rotation = Rotation()
    for number in range(100):
        rotation.add(task(f"a{number}", "a", []))
    rotation.add(task("b0", "b", []))
    taken = [rotation.take(), rotation.take()]
    assert {one.id for one in taken if one} == {"a0", "b0"}


def test_within_a_team_first_come_first_served() -> None:
    rotation = Rotation()
    for number in range(5):
        rotation.add(task(f"a{number}", "a", []))
    assert [one.id for one in iter(rotation.take, None)] == ["a0", "a1", "a2", "a3", "a4"]
    assert len(rotation) == 0


def test_the_same_submission_waits_only_once() -> None:
    rotation = Rotation()
    assert rotation.add(task("x", "a", []))
    assert not rotation.add(task("x", "a", []))


def test_an_expired_submission_never_starts() -> None:
    done: list[str] = []
    workers = Workers(1, limit=10, on_error=lambda *_: None)
    workers.offer(task("late", "a", done, deadline=time.monotonic() - 1))
    workers.start()
    assert workers.idle(30)
    assert workers.stop(30)
    assert done == ["expired late"]


def test_a_full_queue_refuses() -> None:
    workers = Workers(1, limit=2, on_error=lambda *_: None)
    assert workers.offer(task("1", "a", []))
    assert workers.offer(task("2", "a", []))
    assert not workers.offer(task("3", "a", []))


def test_an_error_reaches_the_handler_and_the_worker_goes_on() -> None:
    errors: list[str] = []
    done: list[str] = []
    workers = Workers(1, limit=10, on_error=lambda failed, error: errors.append(f"{failed.id}: {error}"))

    def burst() -> None:
        raise RuntimeError("burst")

    workers.offer(Task("bad", "a", time.monotonic() + 3600, burst, burst))
    workers.offer(task("good", "a", done))
    workers.start()
    assert workers.idle(30)
    assert workers.stop(30)
    assert errors == ["bad: burst"]
    assert done == ["good"]


def test_stop_lets_what_runs_finish() -> None:
    entered, gate, done = threading.Event(), threading.Event(), []
    workers = Workers(1, limit=10, on_error=lambda *_: None)

    def slow() -> None:
        entered.set()
        gate.wait(30)
        done.append("finished")

    workers.offer(Task("slow", "a", time.monotonic() + 3600, slow, slow))
    workers.start()
    assert entered.wait(30)
    gate.set()
    assert workers.stop(30)
    assert done == ["finished"]
