"""Random arrivals, ends, extras, cancellations and deaths against the admission: what must hold, holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from acceptd.work.admission import OVERTAKINGS, Admission
from acceptd.work.budget import NOTHING, Share
from acceptd.work.lease import STATES, Lease, Transition
from acceptd.work.meter import Meter
from tests.work_world import FOREVER, GIB, MACHINE, PROFILES, Machine, longest_wait, moment, sound, task

pytestmark = pytest.mark.property

LIMIT = 12
profiles = st.sampled_from(sorted(PROFILES))
teams = st.sampled_from(["a", "b", "c"])


class Life(RuleBasedStateMachine):
    """An admission with everything that its daemon does to it, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 0.0
        self.count = self.again = 0
        self.meter = Meter()
        self.history: dict[int, list[str]] = {}
        self.admission = Admission(MACHINE, limit=LIMIT, listen=self.hear)

    def hear(self, told: Transition) -> None:
        self.meter.take(told)
        self.history.setdefault(told.lease, []).append(told.state)

    def running(self, *states: str) -> list[Lease]:
        return [one for one in self.admission.leases.values() if one.state in states]

    @rule(team=teams, profile=profiles, patience=st.sampled_from([0.0, 3.0, FOREVER]))
    def arrive(self, team: str, profile: str, patience: float) -> None:
        self.count += 1
        one = task(f"s{self.count}", team, profile, self.clock + patience)
        before = len(self.admission.queue)
        offered = self.admission.offer(one)
        assert offered in {"queued", "full"}
        assert (offered == "full") <= (before == LIMIT), "turned away only by a full queue"

    @rule(seconds=st.sampled_from([0.5, 2.0]))
    def wait(self, seconds: float) -> None:
        self.clock += seconds
        for late in self.admission.overdue(self.clock):
            assert late.deadline < self.clock

    @rule()
    def admit(self) -> None:
        admitted = self.admission.admit(moment(self.clock))
        if admitted is None:
            fits = [one for one in self.admission.queue.heads() if one.share.within(self.admission.budget.free)]
            waiting = [one for one in fits if one.deadline >= self.clock]
            assert not waiting or self.admission._reserved, "a free machine stands idle"
        else:
            assert admitted[0].deadline >= self.clock, "an expired task was started"

    @precondition(lambda self: self.running("held"))
    @rule(data=st.data(), cores=st.integers(1, 8))
    def extra(self, data: st.DataObject, cores: int) -> None:
        one = data.draw(st.sampled_from(self.running("held")))
        self.admission.try_extra(one, Share(cores, GIB))

    @precondition(lambda self: any(one.extras for one in self.admission.leases.values()))
    @rule(data=st.data())
    def extra_ends(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from([lease for lease in self.admission.leases.values() if lease.extras]))
        self.admission.end_extra(one, data.draw(st.sampled_from(sorted(one.extras))))

    @precondition(lambda self: self.running("held"))
    @rule(data=st.data(), cores=st.integers(1, 16), memory=st.integers(1, 64))
    def resize(self, data: st.DataObject, cores: int, memory: int) -> None:
        one = data.draw(st.sampled_from(self.running("held")))
        was = one.share
        wanted = Share(cores, memory * GIB)
        done = self.admission.resize(one, wanted)
        assert one.share == (wanted if done else was)

    @precondition(lambda self: self.running("held", "abandoned", "cancel-requested"))
    @rule(data=st.data())
    def one_step_of_giving_up(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.running("held", "abandoned", "cancel-requested")))
        held = self.admission.budget.held
        if one.state == "held":
            self.admission.abandon(one, data.draw(st.sampled_from(["deadline", "stop"])), moment(self.clock))
        elif one.state == "abandoned":
            self.admission.request_cancel(one, moment(self.clock))
        else:
            self.admission.still_running(one, moment(self.clock))
        assert self.admission.budget.held == held, "the budget returns at released and at no other time"

    @precondition(lambda self: any(not one.extras for one in self.admission.leases.values()))
    @rule(data=st.data(), again=st.booleans())
    def dies(self, data: st.DataObject, again: bool) -> None:
        """The work ends, well or not, in whatever state; perhaps it is to be taken up again."""
        one = data.draw(st.sampled_from([lease for lease in self.admission.leases.values() if not lease.extras]))
        held = self.admission.budget.held
        self.admission.release(one, moment(self.clock))
        assert held - self.admission.budget.held == one.share, "it comes back whole, and once"
        if again:
            self.again += 1
            self.admission.offer(task(one.submission, one.team, one.profile), again=True)

    @invariant()
    def holds(self) -> None:
        sound(self.admission)
        # Only what is taken up again may come on top of the limit: with the workers, one for each slot.
        assert len(self.admission.queue) <= LIMIT + self.again
        shown = self.meter.figures(self.clock, {n: one.whole for n, one in self.admission.leases.items()})
        held = sum(row["cores"] for row in shown["held_now"].values())
        assert held == self.admission.budget.held.cores

    def teardown(self) -> None:
        for one in list(self.admission.leases.values()):
            for number in list(one.extras):
                self.admission.end_extra(one, number)
            self.admission.release(one, moment(self.clock))
        assert self.admission.budget.held == NOTHING
        for states in self.history.values():
            assert states[0] == "held"
            assert states[-1] == "released"
            assert states.count("released") == 1
            assert states == sorted(states, key=STATES.index)
        assert self.meter.steps["held"] == self.meter.steps["released"]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

arrivals = st.lists(
    st.tuples(st.floats(0, 20), profiles, teams, st.floats(0.05, 1.0), st.sampled_from([FOREVER, FOREVER, 2.0])),
    max_size=60,
)


@given(arrivals, st.integers(1, 16))
@settings(max_examples=100, deadline=None)
def test_nothing_starves_and_everybody_waits_at_most_as_long_as_stated(
    came: list[tuple[float, str, str, float, float]], slots: int
) -> None:
    machine = Machine(slots=slots)
    work = [
        (at, task(f"{n}", team, profile, at + patience), lasts)
        for n, (at, profile, team, lasts, patience) in enumerate(sorted(came))
    ]
    machine.run(work)
    ids = {one.id for _, one, _ in work}
    assert ids == set(machine.waited) | set(machine.expired)
    assert not set(machine.waited) & set(machine.expired)
    for n, (at, one, _) in enumerate(work):
        if one.id not in machine.waited:
            continue
        ahead = [
            other.id
            for _, other, _ in work[:n]
            if (other.team, other.profile) == (one.team, one.profile)
            and other.id in machine.waited
            and machine.waited[other.id] + next(t for t, o, _ in work if o is other) > at
        ]
        bound = longest_wait(before=len(ahead), teams=3, profiles=4, overtakings=OVERTAKINGS, lasts=1.0)
        assert machine.waited[one.id] <= bound
    assert {told.state for told in machine.told} <= {"held", "released"}
