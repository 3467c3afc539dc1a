"""Work that is given up, taken out or finished early: no share is held for ever, and nobody waits in vain."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from acceptd.errors import GivenUpError, InternalError
from acceptd.work.budget import NOTHING, Budget, Share
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold
from tests.work_house import ONE, PATIENCE, TWO_CORES, House, gate, held
from tests.work_world import task

pytestmark = pytest.mark.unit


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.workers.stop(0.0)


def test_what_waits_can_be_taken_out_and_is_told_nothing(house: House) -> None:
    house.offer("waits")
    assert house.workers.withdraw("waits")
    assert not house.workers.withdraw("waits")
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert house.done == []
    assert house.workers.depth == 0


def test_what_was_given_up_begins_no_further_call_and_says_why(house: House) -> None:
    entered, let_go = gate()
    told: list[object] = []

    def run(hold: Hold) -> None:
        own = threading.current_thread()

        def ended() -> None:
            told.append("main" if threading.current_thread() is own else "beside")
            hold.check()

        entered.set()
        assert let_go.wait(PATIENCE)
        told.append(hold.reason)
        with hold.alone() as got:
            told.append(got)
        # The call after the first ends at its own check, and none runs beside it.
        hold.side_by_side(ONE, [ended, ended, ended])

    house.offer("x", run)
    house.workers.start()
    assert entered.wait(PATIENCE)
    assert house.workers.give_up("x", "withdrawn")
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert told == ["withdrawn", False, "main"]
    assert house.done == ["withdrawn x"]
    assert house.errors == []
    assert house.admission.budget.held == NOTHING


def test_a_lease_that_is_alone_holds_every_core_and_gives_back_what_it_had_not(house: House) -> None:
    shares: list[Share] = []

    def run(hold: Hold) -> None:
        with hold.alone() as got:
            assert got
            shares.append(house.admission.budget.free)
        shares.append(house.admission.budget.free)

    house.offer("alone", run)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert not house.errors
    assert [one.cores for one in shares] == [0, 1]


def test_beside_another_that_holds_cores_nobody_is_alone(house: House) -> None:
    entered, let_go = gate()
    found: list[bool] = []

    def run(hold: Hold) -> None:
        with hold.alone() as got:
            found.append(got)

    house.offer("other", held(entered, let_go), team="b")
    house.workers.start()
    assert entered.wait(PATIENCE)
    house.offer("x", run)
    assert house.workers.idle(0.0) is False
    while not found:
        assert not let_go.wait(0.001)
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert found == [False]


def test_an_error_of_a_call_beside_ends_those_that_did_not_begin(house: House) -> None:
    began: list[int] = []

    def call(number: int) -> int:
        began.append(number)
        if number == 0:
            raise RuntimeError("the first")
        return number

    def run(hold: Hold) -> None:
        hold.side_by_side(TWO_CORES, [lambda number=number: call(number) for number in range(9)])  # type: ignore[misc]

    house.offer("x", run, share=TWO_CORES)
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert house.errors == ["x: the first"]
    assert began == [0]


def test_a_place_that_is_free_after_a_refill_is_told_to_who_waits_outside(house: House) -> None:
    with house.workers.refill() as done:
        done.whole = True
    assert not house.room.is_set(), "nobody was sent away"
    small = House(limit=1)
    small.offer("first")
    assert small.offer("second") == "full"
    with small.workers.refill() as done:
        assert small.offer("second") == "full"
        small.workers.withdraw("first")
        done.whole = True
    assert small.room.is_set()
    small.room.clear()
    with small.workers.refill():
        pass  # it did not come to its end: what waits outside is looked at again
    small.workers.stop(0.0)


def test_who_waits_for_the_threads_is_not_held_for_longer_than_he_asked(house: House) -> None:
    entered, let_go = gate()
    house.offer("slow", held(entered, let_go))
    house.workers.start()
    assert entered.wait(PATIENCE)
    house.workers.drain()
    assert house.workers.join(0.0) is False
    let_go.set()
    assert house.workers.join(PATIENCE)


def test_work_of_which_nothing_fits_any_more_is_a_fault_of_ours_and_not_given_twice(house: House) -> None:
    budget = Budget(Share(2, 10))
    assert budget.take("a", Share(1, 1))
    with pytest.raises(InternalError, match="holds a share already"):
        budget.take("a", Share(1, 1))
    assert budget.held == Share(1, 1)
    house.offer("x")
    house.admission.budget.take("stranger", TWO_CORES)  # past the admission
    assert house.admission.admit(house.workers._clock()) is None
    house.admission.budget.give_back("stranger")
    house.workers.start()
    assert house.workers.idle(PATIENCE)
    assert house.done == ["x"]


def test_one_id_waits_once_and_an_empty_queue_sends_nobody_away(house: House) -> None:
    queue = house.admission.queue
    one: Task = task("one")
    assert queue.room_for(one) is None
    assert queue.add(one)
    assert not queue.add(task("one", team="b"))
    assert len(queue) == 1
    assert "one" in queue
    assert queue.find("one") is one
    queue.remove(one)
    assert queue.find("one") is None
    assert list(queue.heads()) == []


def test_a_check_of_work_that_is_held_says_nothing_and_one_that_was_given_up_its_reason(house: House) -> None:
    said: list[str] = []
    entered, let_go = gate()

    def run(hold: Hold) -> None:
        hold.check()
        said.append(hold.reason)
        entered.set()
        assert let_go.wait(PATIENCE)
        with pytest.raises(GivenUpError, match="the work on x was given up: stop"):
            hold.check()

    house.offer("x", run)
    house.workers.start()
    assert entered.wait(PATIENCE)
    assert house.workers.cancel("stop") == 1
    assert house.workers.cancel("stop") == 0
    let_go.set()
    assert house.workers.idle(PATIENCE)
    assert said == [""]
    assert not house.errors
