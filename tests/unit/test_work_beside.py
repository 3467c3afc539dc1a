"""Work side by side: what an idle machine lends, what a lease holds, and the budget that nobody exceeds."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from acceptd.work.budget import NOTHING, Share
from acceptd.work.workers import Hold
from tests.work_house import ONE, PATIENCE, TWO_CORES, House, gate, held
from tests.work_world import sound

pytestmark = pytest.mark.unit


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.workers.stop(0.0)


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
