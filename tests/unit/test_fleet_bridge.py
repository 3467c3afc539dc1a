"""A task of the fleet's queue on this node's own workers: what each word of the one becomes in the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from acceptd.errors import GivenUpError, StateError
from acceptd.fleet.bridge import work_here
from acceptd.fleet.task import Cancel
from acceptd.work.admission import Admission
from acceptd.work.budget import Share
from acceptd.work.hold import Hold
from acceptd.work.rotation import Task
from acceptd.work.workers import Workers

pytestmark = pytest.mark.unit
ONE = Share(1, 1 << 20)
PATIENCE = 30.0


class Node:
    """A node's workers and threads that hand it work, as the queue's worker does."""

    def __init__(self, cores: int = 1) -> None:
        self.errors: list[BaseException] = []
        admission = Admission(Share(cores, 1 << 30), limit=10)
        self.workers = Workers(cores, admission, on_error=lambda _task, error: self.errors.append(error))
        self.workers.start()
        self.threads = ThreadPoolExecutor(8)

    def work(
        self, name: str, work: Callable[[Hold], Share | None], cancel: Cancel, seconds: float = 3600.0
    ) -> Future[None]:
        """Hand it over from a thread of its own."""
        deadline = time.monotonic() + seconds
        return self.threads.submit(
            work_here, self.workers, cancel, name=name, team="mosaic", profile="cpu", share=ONE, deadline=deadline,
            work=work,
        )  # fmt: skip


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.workers.stop(0)
    made.threads.shutdown(wait=True)
    assert made.errors == []


class Busy:
    """Work that goes on until it is told to end, as a job does."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.killed = False

    def __call__(self, hold: Hold) -> None:
        self.began.set()
        while not self.go.wait(0.005):
            if hold.kill_due():
                self.killed = True
                hold.check()


def test_it_returns_when_the_work_is_done_and_its_lease_is_over(node: Node) -> None:
    held: list[int] = []
    node.work("s1", lambda hold: held.append(hold.slot), Cancel()).result(PATIENCE)
    assert held == [0]
    assert node.workers.idle(PATIENCE)


@pytest.mark.parametrize("error", [ValueError("broken"), StateError("the store is away")])
def test_what_the_work_raises_comes_out_and_the_node_hears_nothing_of_it(node: Node, error: Exception) -> None:
    def work(_: Hold) -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        node.work("s1", work, Cancel()).result(PATIENCE)


def test_work_that_needs_more_of_the_node_waits_for_it_and_goes_on(node: Node) -> None:
    asked: list[Any] = []

    def work(hold: Hold) -> Share | None:
        asked.append(hold)
        return Share(1, 1 << 29) if len(asked) == 1 else None

    node.work("s1", work, Cancel()).result(PATIENCE)
    assert len(asked) == 2


@pytest.mark.parametrize("reason", ["withdrawn", "stop", "interrupted"])
def test_a_task_that_is_cancelled_while_it_runs_kills_its_jobs_and_says_why(node: Node, reason: Any) -> None:
    busy, cancel = Busy(), Cancel()
    done = node.work("s1", busy, cancel)
    assert busy.began.wait(PATIENCE)
    assert cancel.set(reason)
    with pytest.raises(GivenUpError, match=reason):
        done.result(PATIENCE)
    assert busy.killed
    assert cancel.reason == reason


def test_a_task_that_is_cancelled_while_it_waits_for_the_node_never_starts(node: Node) -> None:
    busy, other, cancel = Busy(), Busy(), Cancel()
    first = node.work("s1", busy, Cancel())
    assert busy.began.wait(PATIENCE)
    second = node.work("s2", other, cancel)
    while not node.workers.depth:
        threading.Event().wait(0.005)
    cancel.set("withdrawn")
    with pytest.raises(GivenUpError, match="withdrawn"):
        second.result(PATIENCE)
    assert not other.began.is_set()
    assert node.workers.depth == 0
    busy.go.set()
    first.result(PATIENCE)


def test_a_task_that_was_cancelled_before_is_not_offered(node: Node) -> None:
    cancel = Cancel()
    cancel.set("stop")
    with pytest.raises(GivenUpError, match="stop"):
        node.work("s1", Busy(), cancel).result(PATIENCE)


@pytest.mark.parametrize("seconds", [0.05, -1.0])
def test_a_deadline_that_passes_while_it_runs_or_waits_ends_it_as_that(node: Node, seconds: float) -> None:
    cancel = Cancel()
    with pytest.raises(GivenUpError, match="deadline"):
        node.work("s1", Busy(), cancel, seconds).result(PATIENCE)
    assert cancel.reason == "deadline"


def test_a_node_that_stops_gives_back_what_runs(node: Node) -> None:
    busy, cancel = Busy(), Cancel()
    done = node.work("s1", busy, cancel)
    assert busy.began.wait(PATIENCE)
    node.workers.cancel("stop")
    with pytest.raises(GivenUpError):
        done.result(PATIENCE)
    assert cancel.reason == "stop"


def test_the_same_task_twice_and_one_too_many_are_turned_away_as_nobodys_fault(node: Node) -> None:
    busy = Busy()
    first = node.work("s1", busy, Cancel())
    assert busy.began.wait(PATIENCE)
    with pytest.raises(StateError, match="already"):
        node.work("s1", Busy(), Cancel()).result(PATIENCE)
    for number in range(10):
        node.workers.offer(Task(f"own{number}", "mosaic", "cpu", ONE, time.monotonic() + 3600))
    with pytest.raises(StateError, match="no place on this node"):
        node.work("s2", Busy(), Cancel()).result(PATIENCE)
    busy.go.set()
    first.result(PATIENCE)


def test_work_that_is_withdrawn_leaves_the_others_their_turns() -> None:
    admission = Admission(Share(1, 1 << 30), limit=10)
    for name in ("a", "b", "c"):
        admission.offer(Task(name, "mosaic", "cpu", ONE, 1e18))
    assert admission.withdraw("b") is True
    assert admission.withdraw("b") is False
    assert [task.id for task in admission.queue.heads()] == ["a"]
    assert admission.queue.by_team() == {"mosaic": ["a", "c"]}
