"""The real worker threads: what they start, what they hold, and how they let go. Events only, no sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from acceptd.errors import ConfigError
from acceptd.work.admission import Admission
from acceptd.work.budget import NOTHING, Share
from acceptd.work.lease import Moment, Transition
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold, Workers
from tests.work_world import sound

pytestmark = pytest.mark.unit

PATIENCE = 60.0
"""Seconds until a wait gives up; a test never passes by waiting."""
ONE = Share(1, 1)
TWO_CORES = Share(2, 2)


@dataclass
class House:
    """Workers of a small machine with a clock that the test turns."""

    slots: int = 2
    capacity: Share = TWO_CORES
    limit: int = 100
    clock: float = 0.0
    told: list[Transition] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    room: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.admission = Admission(self.capacity, limit=self.limit, listen=self.told.append)
        self.workers = Workers(
            self.slots,
            self.admission,
            on_error=lambda task, error: self.errors.append(f"{task.id}: {error}"),
            on_room=self.room.set,
            clock=lambda: Moment(self.clock, self.clock),
        )

    def offer(
        self,
        name: str,
        run: Callable[[Hold], Share | None] | None = None,
        *,
        team: str = "a",
        share: Share = ONE,
        deadline: float = 1e9,
    ) -> str:
        def work(hold: Hold) -> Share | None:
            result = run(hold) if run is not None else None
            if result is None:
                self.done.append(name)
            return result

        return self.workers.offer(
            Task(
                name,
                team,
                "cpu",
                share,
                deadline,
                run=work,
                expired=lambda: self.done.append(f"expired {name}"),
                given_up=lambda reason: self.done.append(f"{reason} {name}"),
            )
        )

    def states(self, name: str) -> list[str]:
        return [step.state for step in self.told if step.submission == name]


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.workers.stop(0.0)


def gate() -> tuple[threading.Event, threading.Event]:
    return threading.Event(), threading.Event()


def held(entered: threading.Event, let_go: threading.Event) -> Callable[[Hold], None]:
    """Return work that says that it began, and ends when it may."""

    def run(_hold: Hold) -> None:
        entered.set()
        assert let_go.wait(PATIENCE)

    return run


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


def test_two_calls_run_side_by_side_on_an_idle_machine(house: House) -> None:
    both = threading.Barrier(2)

    def run(hold: Hold) -> None:
        # Each waits for the other: one after the other they would never meet.
        assert hold.side_by_side(ONE, [lambda: both.wait(PATIENCE), lambda: both.wait(PATIENCE)])

    house.offer("x", run)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert house.done == ["x"]
    assert not house.errors
    assert house.admission.budget.held == NOTHING


def test_calls_run_one_after_the_other_while_another_submission_holds_the_rest(house: House) -> None:
    entered, let_go = gate()
    running, most = [0], [0]

    def call() -> int:
        running[0] += 1
        most[0] = max(most[0], running[0])
        running[0] -= 1
        return most[0]

    house.offer("other", held(entered, let_go))
    house.workers.start()
    assert entered.wait(PATIENCE)
    alone = threading.Event()

    def run(hold: Hold) -> None:
        names: set[str] = set()
        results = hold.side_by_side(ONE, [lambda: names.add(threading.current_thread().name)] * 5)
        assert len(results) == 5
        assert names == {threading.current_thread().name}
        alone.set()

    house.offer("x", run, team="b")
    assert alone.wait(PATIENCE)
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert not house.errors


def test_nothing_is_taken_beside_while_a_worker_that_records_is_about_to_start_what_waits(house: House) -> None:
    recording, recorded = gate()
    waits, go_on = gate()

    def records(hold: Hold) -> None:
        hold.finish()
        recording.set()
        assert recorded.wait(PATIENCE)

    def run(hold: Hold) -> None:
        waits.set()
        assert go_on.wait(PATIENCE)
        names: set[str] = set()
        hold.side_by_side(ONE, [lambda: names.add(threading.current_thread().name)] * 5)
        assert names == {threading.current_thread().name}
        recorded.set()

    house.offer("records", records)
    house.offer("x", run, team="b")
    house.workers.start()
    assert recording.wait(PATIENCE)
    assert waits.wait(PATIENCE)
    house.offer("next", team="c")
    assert house.workers.depth == 1, "a core is free, and both workers are busy"
    go_on.set()
    idle = house.workers.idle(PATIENCE)
    recorded.set()
    assert idle, house.errors
    assert not house.errors
    assert len(house.done) == 3


def test_a_wide_lease_runs_narrow_calls_side_by_side_inside_itself() -> None:
    house = House(slots=1)
    both = threading.Barrier(2)

    def run(hold: Hold) -> None:
        hold.side_by_side(ONE, [lambda: both.wait(PATIENCE), lambda: both.wait(PATIENCE)])
        assert house.workers.look_at(lambda one: one.budget.free) == NOTHING

    house.offer("x", run, share=TWO_CORES)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert house.done == ["x"]
    assert house.workers.stop(PATIENCE)


def test_an_error_beside_comes_out_after_the_other_has_ended(house: House) -> None:
    order: list[str] = []
    failed, go_on = threading.Event(), threading.Event()

    def bad() -> None:
        failed.set()
        raise RuntimeError("beside")

    def good() -> None:
        assert failed.wait(PATIENCE)
        assert go_on.wait(PATIENCE)
        order.append("good ended")

    def run(hold: Hold) -> None:
        threading.Thread(target=lambda: (failed.wait(PATIENCE), go_on.set())).start()
        with pytest.raises(RuntimeError, match="beside"):
            hold.side_by_side(ONE, [good, bad])
        order.append("came out")

    house.offer("x", run)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert order == ["good ended", "came out"]
    assert house.admission.budget.held == NOTHING


def test_what_needs_more_than_is_free_waits_again_and_goes_on_before_its_team(house: House) -> None:
    entered, let_go = gate()
    house.offer("other", held(entered, let_go), team="b")
    house.workers.start()
    assert entered.wait(PATIENCE)
    asked: list[bool] = []
    first = threading.Event()

    def grows(hold: Hold) -> Share | None:
        fits = hold.fit(TWO_CORES)
        asked.append(fits)
        first.set()
        return None if fits else TWO_CORES

    house.offer("grows", grows)
    assert first.wait(PATIENCE)
    house.offer("after", share=TWO_CORES)
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert asked == [False, True]
    assert house.done == ["other", "grows", "after"]
    assert house.states("grows") == ["held", "released", "held", "released"]


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


def test_many_threads_never_exceed_the_budget_and_lose_nothing() -> None:
    house = House(slots=8, capacity=Share(4, 4), limit=1_000)
    lock, cores, most = threading.Lock(), [0], [0]

    def call(width: int) -> None:
        with lock:
            cores[0] += width
            most[0] = max(most[0], cores[0])
        with lock:
            cores[0] -= width

    def run(hold: Hold) -> None:
        hold.side_by_side(ONE, [lambda: call(1)] * 4)
        house.workers.look_at(sound)

    house.workers.start()
    for n in range(200):
        house.offer(f"{n}", run, team=f"t{n % 7}", share=Share(1 + n % 3, 1 + n % 3))
    assert house.workers.idle(PATIENCE)
    assert len(house.done) == 200
    assert not house.errors
    assert most[0] <= 4
    assert house.admission.budget.held == NOTHING
    assert house.workers.stop(PATIENCE)


def test_a_thread_that_cannot_be_started_any_more_leaves_no_share_held(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    house.workers.start()
    monkeypatch.setattr(threading.Thread, "start", full)
    found: list[list[int]] = []
    house.offer("one", lambda hold: found.append(hold.side_by_side(ONE, [lambda: 1, lambda: 2])))
    assert house.workers.idle(PATIENCE)
    assert (found, house.errors) == ([[1, 2]], [])
    assert house.admission.budget.held == NOTHING
