"""The real worker threads: what they start, what they hold, and how they let go. Events only, no sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from acceptd.errors import ConfigError
from acceptd.work.admission import Admission
from acceptd.work.budget import NOTHING, Share
from acceptd.work.lease import Transition
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold, Workers
from tests.threads import only
from tests.work_house import ONE, PATIENCE, TWO_CORES, House, gate, held

pytestmark = pytest.mark.unit


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.workers.stop(0.0)


def job(entered: threading.Event, killed: threading.Event, dead: threading.Event) -> Callable[[Hold], None]:
    """Return work with one job that ends only by a kill, and whose death is confirmed when ``dead`` is set."""

    def run(hold: Hold) -> None:
        entered.set()
        while not hold.kill_due():  # as the watcher of a job asks, at every sample
            threading.Event().wait(0.001)
        killed.set()
        assert dead.wait(PATIENCE)
        hold.check()

    return run


def test_an_expired_submission_never_starts(house: House) -> None:
    house.clock = 10.0
    house.offer("late", deadline=9.0)
    house.offer("in time", deadline=10.0)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert sorted(house.done) == ["expired late", "in time"]
    assert house.states("late") == []


def test_more_expired_ones_than_workers_all_come_to_their_end(house: House) -> None:
    house.clock = 10.0
    for n in range(9):
        house.offer(f"late-{n}", deadline=9.0)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert sorted(house.done) == [f"expired late-{n}" for n in range(9)]


def test_one_that_waits_past_its_deadline_is_ended_by_the_warden_while_the_machine_is_held() -> None:
    house = House(slots=2, capacity=Share(1, 1))
    entered, let_go = gate()
    ended = threading.Event()
    house.offer("runs", held(entered, let_go))
    house.workers.start()
    assert entered.wait(PATIENCE)
    house.workers.offer(
        Task("waits", "b", "cpu", ONE, 5.0, run=lambda _: pytest.fail("started"), expired=ended.set)
    )
    house.clock = 6.0
    house.workers.sweep()
    assert ended.wait(PATIENCE), "its end does not wait for the budget"
    let_go.set()
    assert house.workers.stop(PATIENCE)
    assert house.done == ["runs"]


def test_the_warden_wakes_for_a_deadline_by_itself() -> None:
    """With the real clock: nobody calls sweep here."""
    told: list[Transition] = []
    workers = Workers(1, Admission(ONE, limit=9, listen=told.append), on_error=lambda *_: None)
    entered, killed, dead = threading.Event(), threading.Event(), threading.Event()
    dead.set()
    ended: list[str] = []
    workers.start()
    import time

    work = job(entered, killed, dead)
    workers.offer(
        Task("x", "a", "cpu", ONE, time.monotonic() + 0.05, run=lambda h: work(h), given_up=ended.append)
    )
    assert killed.wait(PATIENCE)
    assert workers.idle(PATIENCE)
    assert ended == ["deadline"]
    assert workers.stop(PATIENCE)


def test_a_running_one_past_its_deadline_goes_through_all_states_and_returns_the_budget_when_it_is_dead(
    house: House,
) -> None:
    entered, killed, dead = threading.Event(), threading.Event(), threading.Event()
    house.offer("hangs", job(entered, killed, dead), share=TWO_CORES, deadline=100.0)
    house.offer("next", team="b")
    house.workers.start()
    assert entered.wait(PATIENCE)
    house.clock = 101.0
    house.workers.sweep()
    assert killed.wait(PATIENCE)
    assert house.states("hangs") == ["held", "abandoned", "cancel-requested", "still-running"]
    assert house.workers.look_at(lambda one: one.budget.free) == NOTHING, "the kill is not confirmed yet"
    assert house.states("next") == []
    dead.set()
    assert house.workers.idle(PATIENCE)
    assert house.states("hangs")[-1] == "released"
    assert sorted(house.done) == ["deadline hangs", "next"]
    assert not house.errors


def test_stop_lets_what_runs_finish_and_starts_nothing_more() -> None:
    house = House(slots=1)
    entered, let_go = gate()
    house.offer("slow", held(entered, let_go))
    house.offer("waits")
    house.workers.start()
    assert entered.wait(PATIENCE)
    quiet = threading.Event()
    house.workers.drain(quiet.set)
    assert house.offer("new") == "full"
    assert not quiet.is_set()
    let_go.set()
    assert quiet.wait(PATIENCE)
    house.workers.join()
    assert house.done == ["slow"]
    assert house.states("slow") == ["held", "released"]
    assert house.admission.budget.held == NOTHING


def test_a_stop_that_has_no_time_cancels_what_runs_and_says_why(house: House) -> None:
    entered, killed, dead = threading.Event(), threading.Event(), threading.Event()
    dead.set()
    house.offer("hangs", job(entered, killed, dead))
    house.workers.start()
    assert entered.wait(PATIENCE)
    assert not house.workers.stop(0.0)
    assert house.done == ["stop hangs"]
    assert house.states("hangs") == ["held", "abandoned", "cancel-requested", "still-running", "released"]


def test_work_that_is_cancelled_between_two_jobs_was_never_still_running(house: House) -> None:
    entered, let_go = gate()

    def run(hold: Hold) -> None:
        entered.set()
        assert let_go.wait(PATIENCE)
        hold.check()

    house.offer("x", run)
    house.workers.start()
    assert entered.wait(PATIENCE)
    assert house.workers.give_up("x", "withdrawn")
    assert not house.workers.give_up("x", "stop"), "the first reason stays"
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert house.states("x") == ["held", "abandoned", "cancel-requested", "released"]
    assert house.done == ["withdrawn x"]


def test_an_error_reaches_the_handler_and_gives_the_budget_back(house: House) -> None:
    def burst(_hold: Hold) -> None:
        raise RuntimeError("burst")

    house.offer("bad", burst, share=TWO_CORES)
    house.offer("good", share=TWO_CORES)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert house.errors == ["bad: burst"]
    assert house.done == ["good"]
    assert house.admission.budget.held == NOTHING


def test_a_lease_that_was_finished_early_is_free_while_the_recording_goes_on(house: House) -> None:
    entered, let_go = gate()

    def run(hold: Hold) -> None:
        hold.finish()
        hold.finish()
        entered.set()
        assert let_go.wait(PATIENCE)

    house.offer("records", run, share=TWO_CORES)
    house.offer("next", share=TWO_CORES, team="b")
    house.workers.start()
    assert entered.wait(PATIENCE)
    assert house.offer("records") == "known", "it is still being worked"
    house.workers.idle(0.0)
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert sorted(house.done) == ["next", "records"]
    assert house.workers.active == 0


def test_a_full_queue_says_so_and_tells_when_there_is_room() -> None:
    house = House(slots=1, capacity=ONE, limit=2)
    entered, let_go = gate()
    house.offer("runs", held(entered, let_go))
    house.workers.start()
    assert entered.wait(PATIENCE)
    assert [house.offer(f"{n}") for n in range(3)] == ["queued", "queued", "full"]
    assert not house.room.is_set()
    let_go.set()
    assert house.room.wait(PATIENCE)
    house.offer("2")
    assert house.workers.idle(PATIENCE)
    assert sorted(house.done) == ["0", "1", "2", "runs"]


def test_what_can_never_fit_is_refused_when_it_is_offered(house: House) -> None:
    with pytest.raises(ConfigError, match="3 threads"):
        house.offer("giant", share=Share(3, 1))


def test_the_lowest_free_slot_works_first_so_that_its_cell_stays_warm(house: House) -> None:
    slots: list[int] = []
    house.workers.start()
    for n in range(5):
        house.offer(f"{n}", lambda hold: slots.append(hold.slot))
        assert house.workers.idle(PATIENCE)
    assert slots == [0] * 5


def test_a_thread_that_cannot_be_started_any_more_leaves_no_share_held(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.workers.start()
    only(0, monkeypatch)
    found: list[list[int]] = []
    house.offer("one", lambda hold: found.append(hold.side_by_side(ONE, [lambda: 1, lambda: 2])))
    assert house.workers.idle(PATIENCE)
    assert (found, house.errors) == ([[1, 2]], [])
    assert house.admission.budget.held == NOTHING
