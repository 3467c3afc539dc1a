"""Four profiles on sixteen simulated cores: a flood of one starves no other, and nothing exceeds the machine."""

from __future__ import annotations

import pytest

from acceptd.errors import ConfigError, InternalError
from acceptd.work.admission import OVERTAKINGS, Admission
from acceptd.work.budget import NOTHING, Budget, Share, require_fit
from acceptd.work.lease import LEGAL, STATES, Lease, granted, step
from acceptd.work.meter import Meter, abnormal
from tests.work_world import FOREVER, GIB, MACHINE, PROFILES, Machine, longest_wait, moment, sound, task

pytestmark = pytest.mark.unit

LASTS = 1.0
FLOOD = 1_000


@pytest.mark.parametrize("flooding", PROFILES)
def test_a_flood_of_one_profile_does_not_starve_the_other_three(flooding: str) -> None:
    machine = Machine()
    others = [profile for profile in PROFILES if profile != flooding]
    flood = [(0.0, task(f"flood-{n}", "loud", flooding), LASTS) for n in range(FLOOD)]
    machine.run([*flood, *((0.5, task(profile, "quiet", profile), LASTS) for profile in others)])
    bound = longest_wait(before=0, teams=1, profiles=4, overtakings=OVERTAKINGS, lasts=LASTS)
    for profile in others:
        assert machine.waited[profile] <= bound
    # The bound says something: first come first served would make all three wait longer than it.
    fit_at_once = min(16 // PROFILES[flooding].cores, 64 * GIB // PROFILES[flooding].memory)
    assert FLOOD / fit_at_once * LASTS > bound
    assert all(machine.order.index(profile) < 100 for profile in others)


def test_a_flood_of_one_team_does_not_starve_another_of_the_same_profile() -> None:
    machine = Machine()
    flood = [(0.0, task(f"flood-{n}", "loud", "eight"), LASTS) for n in range(FLOOD)]
    quiet = [(0.5, task(f"quiet-{n}", "quiet", "eight"), LASTS) for n in range(3)]
    machine.run([*flood, *quiet])
    for n in range(3):
        bound = longest_wait(before=n, teams=2, profiles=1, overtakings=OVERTAKINGS, lasts=LASTS)
        assert machine.waited[f"quiet-{n}"] <= bound
        assert machine.order.index(f"quiet-{n}") <= 2 * (n + 2)


def test_small_leases_that_never_stop_coming_do_not_starve_a_large_one() -> None:
    machine = Machine()
    # One core is always busy with an overlapping small one: without a reservation the machine is never empty.
    small = [(n * 0.05, task(f"small-{n}", f"t{n % 3}", "one"), LASTS) for n in range(2_000)]
    whole = task("whole", "big", "eight").sized(MACHINE)
    machine.run([*small, (3.0, whole, LASTS)])
    bound = longest_wait(before=0, teams=1, profiles=2, overtakings=OVERTAKINGS, lasts=LASTS)
    assert machine.waited["whole"] <= bound
    assert machine.meter.steps["released"] == 2_001


def test_without_the_bound_on_overtaking_the_large_one_waits_for_the_end_of_the_small_ones() -> None:
    machine = Machine(admission=Admission(MACHINE, limit=10_000, overtakings=1_000_000))
    small = [(n * 0.05, task(f"small-{n}", f"t{n % 3}", "one"), LASTS) for n in range(2_000)]
    machine.run([*small, (3.0, task("whole", "big", "eight").sized(MACHINE), LASTS)])
    assert machine.order[-1] == "whole"


def test_a_task_that_does_not_fit_is_overtaken_so_often_and_no_more() -> None:
    admission = Admission(MACHINE, limit=100, overtakings=3)
    admission.offer(task("first", "x", "eight"))
    first = admission.admit(moment(0.0))
    admission.offer(task("wide", "x", "eight").sized(Share(12, GIB)))
    for n in range(5):
        admission.offer(task(f"small-{n}", "y", "one"))
    passed = []
    while (admitted := admission.admit(moment(0.0))) is not None:
        passed.append(admitted)
    assert [one.id for one, _ in passed] == ["small-0", "small-1", "small-2"]
    assert first is not None
    admission.release(first[1], moment(1.0))
    again = admission.admit(moment(1.0))
    assert again is not None
    assert again[0].id == "wide"


def test_an_extra_share_is_given_only_while_nobody_waits_for_what_is_left() -> None:
    admission = Admission(MACHINE, limit=100)
    admission.offer(task("runs", "x", "eight"))
    _, lease = admission.admit(moment(0.0)) or pytest.fail("nothing admitted")
    extra = admission.try_extra(lease, Share(4, GIB))
    assert extra is not None
    admission.offer(task("waits", "y", "eight"))
    assert admission.admit(moment(0.0)) is None
    assert admission.try_extra(lease, Share(1, GIB)) is None, "it would be taken from the one that waits"
    with pytest.raises(InternalError, match="extras are out"):
        admission.release(lease, moment(1.0))
    admission.end_extra(lease, extra)
    assert admission.admit(moment(1.0)) is not None
    sound(admission)


def test_an_extra_share_leaves_what_the_next_one_needs_unless_no_worker_could_take_it() -> None:
    admission = Admission(MACHINE, limit=100)
    admission.offer(task("runs", "x", "eight"))
    _, lease = admission.admit(moment(0.0)) or pytest.fail("nothing admitted")
    admission.offer(task("waits", "y", "four"))
    assert admission.try_extra(lease, Share(5, GIB)) is None
    extra = admission.try_extra(lease, Share(4, GIB))
    assert extra is not None
    assert admission.admit(moment(0.0)) is not None
    admission.end_extra(lease, extra)
    admission.offer(task("later", "y", "eight"))
    assert admission.try_extra(lease, Share(4, GIB)) is None
    assert admission.try_extra(lease, Share(4, GIB), open_slots=False) is not None, "all workers are busy"
    sound(admission)


def test_a_lease_grows_only_into_what_is_free() -> None:
    admission = Admission(MACHINE, limit=100)
    leases = []
    for name in ("a", "b"):
        admission.offer(task(name, name, "eight"))
        leases.append((admission.admit(moment(0.0)) or pytest.fail("nothing admitted"))[1])
    assert not admission.resize(leases[0], Share(9, GIB))
    assert admission.resize(leases[0], Share(8, 48 * GIB))
    assert not admission.resize(leases[1], Share(8, 17 * GIB))
    with pytest.raises(ConfigError, match="memory_bytes"):
        admission.resize(leases[1], Share(8, 65 * GIB))
    sound(admission)


@pytest.mark.parametrize("share", [Share(17, GIB), Share(1, 64 * GIB + 1)])
def test_what_is_larger_than_the_machine_is_refused_at_once_and_not_queued(share: Share) -> None:
    admission = Admission(MACHINE, limit=100)
    with pytest.raises(ConfigError, match=r"acceptd\.toml"):
        admission.offer(task("giant").sized(share))
    assert len(admission.queue) == 0
    with pytest.raises(ConfigError, match="profile wide"):
        require_fit("profile wide", share, MACHINE)


def test_the_queue_is_bounded_and_a_flood_in_it_makes_way_for_another_lane() -> None:
    admission = Admission(MACHINE, limit=10)
    for n in range(10):
        assert admission.offer(task(f"loud-{n}", "loud")) == "queued"
    assert admission.offer(task("loud-10", "loud")) == "full"
    assert admission.offer(task("quiet", "quiet")) == "queued"
    assert len(admission.queue) == 10
    assert "loud-9" not in admission.queue
    assert "quiet" in admission.queue
    assert not admission.room(), "the queue is still full"
    for _ in range(5):
        assert admission.admit(moment(0.0))
    assert admission.room()
    assert not admission.room(), "said once"


def test_lanes_that_are_alike_do_not_push_one_another_out() -> None:
    admission = Admission(MACHINE, limit=10)
    for n in range(5):
        admission.offer(task(f"a{n}", "a"))
        admission.offer(task(f"b{n}", "b"))
    assert admission.offer(task("a5", "a")) == "full"
    assert admission.offer(task("b5", "b")) == "full"
    assert sorted(admission.queue.lanes().values()) == [5, 5]


def test_the_same_submission_waits_or_runs_only_once() -> None:
    admission = Admission(MACHINE, limit=10)
    assert admission.offer(task("x")) == "queued"
    assert admission.offer(task("x")) == "known"
    admitted = admission.admit(moment(0.0))
    assert admitted is not None
    assert admission.offer(task("x")) == "known"
    admission.release(admitted[1], moment(1.0))
    assert admission.offer(task("x")) == "queued"


def test_an_expired_task_is_never_admitted_even_when_the_machine_was_kept_free_for_it() -> None:
    admission = Admission(MACHINE, limit=100, overtakings=1)
    admission.offer(task("runs", "x", "eight"))
    admission.admit(moment(0.0))
    admission.offer(task("wide", "x", "eight", deadline=5.0).sized(Share(16, GIB)))
    admission.offer(task("small-0", "y"))
    admission.offer(task("small-1", "y"))
    assert admission.admit(moment(0.0)) is not None
    assert admission.admit(moment(0.0)) is None, "it is reserved for"
    assert admission.admit(moment(6.0)) is None, "expired, and not taken out yet"
    assert [late.id for late in admission.overdue(6.0)] == ["wide"]
    admitted = admission.admit(moment(6.0))
    assert admitted is not None
    assert admitted[0].id == "small-1"


@pytest.mark.parametrize("kept_free", [False, True])
def test_an_expired_task_that_would_fit_and_was_not_taken_out_yet_is_not_admitted(kept_free: bool) -> None:
    admission = Admission(MACHINE, limit=100, overtakings=1)
    admission.offer(task("runs", "x", "eight"))
    _, lease = admission.admit(moment(0.0)) or pytest.fail("nothing admitted")
    admission.offer(task("late", "x", "eight", deadline=5.0).sized(MACHINE))
    if kept_free:
        admission.offer(task("small", "y"))
        _, small = admission.admit(moment(0.0)) or pytest.fail("nothing admitted")
        admission.release(small, moment(1.0))
    admission.release(lease, moment(1.0))
    assert admission.admit(moment(6.0)) is None
    assert admission.admit(moment(4.0)) is not None


def test_within_a_team_first_come_first_served() -> None:
    admission = Admission(MACHINE, limit=100)
    for n in range(5):
        admission.offer(task(f"a{n}"))
    taken = [admission.admit(moment(0.0)) for _ in range(5)]
    assert [one[0].id for one in taken if one] == ["a0", "a1", "a2", "a3", "a4"]


def test_what_was_started_before_comes_first_of_its_team() -> None:
    admission = Admission(MACHINE, limit=1)
    admission.offer(task("a0"))
    assert admission.offer(task("a1").sized(Share(2, GIB)), again=True) == "queued", "whatever the limit"
    taken = admission.admit(moment(0.0))
    assert taken is not None
    assert taken[0].id == "a1"


# -- the states of a lease ---------------------------------------------------------------------------


def lease() -> Lease:
    made = Lease(1, "s", "t", "p", Share(2, GIB), FOREVER, moment(0.0))
    granted(made)
    return made


def test_the_four_states_of_work_that_is_given_up_come_in_their_order_each_with_both_times() -> None:
    one, meter = lease(), Meter()
    meter.take(granted(one))
    for at, state in enumerate(STATES[1:], start=1):
        meter.take(step(one, state, moment(float(at)), "deadline" if state == "abandoned" else ""))
    assert [one.entered[state].monotonic for state in STATES] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert one.entered["released"].wall - one.entered["abandoned"].wall == 3.0
    figures = meter.figures(9.0, {})
    assert figures["entered"] == dict.fromkeys(STATES, 1)
    assert figures["given_up"] == {"deadline": 1}
    assert figures["longest_still_running_s"] == 1.0
    assert all(row["cores"] == 0 for row in figures["held_now"].values())


@pytest.mark.parametrize("was", STATES)
@pytest.mark.parametrize("to", STATES)
def test_no_other_step_is_legal(was: str, to: str) -> None:
    one = lease()
    for state in STATES[1 : STATES.index(was) + 1]:  # type: ignore[arg-type]
        step(one, state, moment(1.0))
    if to in LEGAL[was]:  # type: ignore[index]
        assert step(one, to, moment(2.0)).state == to  # type: ignore[arg-type]
    else:
        with pytest.raises(InternalError, match="cannot go from"):
            step(one, to, moment(2.0))  # type: ignore[arg-type]
    backwards = STATES.index(to) <= STATES.index(was)  # type: ignore[arg-type]
    assert not (backwards and to in LEGAL[was])  # type: ignore[index]


def test_the_gauges_say_what_is_held_in_each_state_while_a_kill_is_not_confirmed() -> None:
    admission, meter = Admission(MACHINE, limit=10), Meter()
    admission._listen = meter.take
    for name in ("a", "b"):
        admission.offer(task(name, name, "four"))
    (_, first), (_, _second) = (admission.admit(moment(0.0)) or pytest.fail("none") for _ in range(2))
    admission.abandon(first, "deadline", moment(5.0))
    admission.request_cancel(first, moment(5.0))
    admission.still_running(first, moment(6.0))
    assert admission.try_extra(first, Share(1, GIB)) is None, "no more work for what is given up"
    figures = meter.figures(16.0, {})
    assert figures["held_now"]["still-running"] == {"leases": 1, "cores": 4, "memory_bytes": 8 * GIB}
    assert figures["held_now"]["held"] == {"leases": 1, "cores": 4, "memory_bytes": 8 * GIB}
    assert figures["longest_still_running_s"] == 10.0
    assert admission.budget.held == Share(8, 16 * GIB), "nothing came back yet"
    admission.release(first, moment(20.0))
    assert admission.budget.held == Share(4, 8 * GIB)
    with pytest.raises(InternalError):
        admission.release(first, moment(21.0))
    assert admission.budget.held == Share(4, 8 * GIB), "and it comes back once"


def test_only_what_was_given_up_is_recorded_durably() -> None:
    admission = Admission(MACHINE, limit=10)
    told = []
    admission._listen = told.append
    for name, given_up in (("good", False), ("bad", True)):
        admission.offer(task(name))
        _, one = admission.admit(moment(0.0)) or pytest.fail("none")
        if given_up:
            admission.abandon(one, "stop", moment(1.0))
        admission.release(one, moment(2.0))
    assert [(step.submission, step.state) for step in told if abnormal(step)] == [
        ("bad", "abandoned"),
        ("bad", "released"),
    ]


def test_a_budget_is_given_back_once_and_never_exceeded() -> None:
    budget = Budget(Share(2, 10))
    assert budget.take("a", Share(1, 6))
    assert not budget.take("b", Share(1, 5)), "the memory is not there"
    assert not budget.take("b", Share(2, 1)), "the cores are not there"
    assert budget.free == Share(1, 4)
    budget.give_back("a")
    with pytest.raises(InternalError):
        budget.give_back("a")
    with pytest.raises(InternalError):
        budget.take("c", Share(-1, 0))
    assert budget.held == NOTHING


def test_under_a_flood_without_end_no_later_drop_of_a_team_passes_those_that_wait_outside() -> None:
    admission = Admission(MACHINE, limit=4)
    outside: list[str] = []
    order: list[str] = []

    def offer(name: str, *, fresh: bool) -> None:
        if admission.offer(task(name, "loud"), fresh=fresh) == "full":
            outside.append(name)

    def work() -> None:
        found = admission.admit(moment(0.0)) or pytest.fail("nothing waits")
        order.append(found[0].id)
        admission.release(found[1], moment(0.0))
        if admission.room():
            admission.begin_refill()
            for name in [outside.pop(0) for _ in range(len(outside))]:
                offer(name, fresh=False)
            admission.end_refill()

    for number in range(60):  # two come for each one that is worked: without end, the queue is never half empty
        offer(f"{number:03}", fresh=True)
        if number % 2:
            work()
    while outside or len(admission.queue):
        work()
    assert order == sorted(order)
    assert len(order) == 60


def test_a_place_that_falls_free_during_a_refill_goes_to_none_of_a_lane_that_was_full_in_it() -> None:
    admission = Admission(MACHINE, limit=2)
    for name in ("a", "b", "c"):
        admission.offer(task(name), fresh=True)
    admission.begin_refill()
    assert admission.offer(task("c")) == "full"
    assert admission.admit(moment(0.0))
    assert admission.offer(task("d")) == "full", "c came before it"
    assert admission.offer(task("other", "b"), fresh=True) == "queued", "another team's lane"
    admission.end_refill()
    assert admission.offer(task("e"), fresh=True) == "full", "c and d came before it"
    assert admission.admit(moment(0.0))
    admission.begin_refill()
    assert admission.offer(task("c")) == "queued"
    admission.end_refill(whole=False)
    assert admission.offer(task("e"), fresh=True) == "full", "d was not offered again"
    admission.begin_refill()
    admission.end_refill()
    assert admission.admit(moment(0.0))
    assert admission.offer(task("e"), fresh=True) == "queued", "nothing waits outside any more"


def test_what_a_shorter_lane_sent_away_comes_before_what_its_team_drops_later() -> None:
    admission = Admission(MACHINE, limit=3)
    for name in ("a", "b", "c"):
        assert admission.offer(task(name, "loud"), fresh=True) == "queued"
    assert admission.offer(task("quiet", "quiet"), fresh=True) == "queued"
    assert admission.admit(moment(0.0))
    assert admission.offer(task("d", "loud"), fresh=True) == "full", "c was sent away before it"


def test_a_fresh_drop_that_comes_during_a_refill_keeps_none_of_its_team_out_that_came_before_it() -> None:
    admission = Admission(MACHINE, limit=2)
    for name in ("a", "b", "c", "d"):
        admission.offer(task(name), fresh=True)
    assert admission.admit(moment(0.0))
    assert admission.admit(moment(0.0))
    admission.begin_refill()
    assert admission.offer(task("e"), fresh=True) == "full", "c and d came before it"
    assert admission.offer(task("c")) == "queued"
    assert admission.offer(task("d")) == "queued"
    admission.end_refill()
    assert admission.admit(moment(0.0))
    assert admission.offer(task("f"), fresh=True) == "full", "e came before it"
