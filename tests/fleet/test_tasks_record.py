"""The task queue beside the record in one database, each node under its own role: they change together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptd.fleet.ready import make_ready
from acceptd.fleet.refill import Refill
from acceptd.fleet.tasks import Offered, Tasks
from acceptd.record.entry import Appended
from acceptd.record.log import Ledger, Transaction
from acceptd.record.queue import Queue
from tests.fleet.record_world import Record
from tests.fleet.tasks_world import Seen, watch, working

pytestmark = pytest.mark.acceptance
PROMOTER, INTAKE, WORKER = ("a_promoter", "an_intake", "a_worker")


@pytest.fixture
def fleet(record: Record) -> Iterator[Ledger]:
    """A database as ``acceptd fleet init`` makes it, and the ledger as the promoter opens it."""
    make_ready(record.state)
    for role, group in ((PROMOTER, "promoter"), (INTAKE, "intake"), (WORKER, "worker")):
        if not record.ask(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            record.ask(f"CREATE ROLE {role} LOGIN")
        record.ask(f"GRANT acceptd_{group} TO {role}")
    record.settings(PROMOTER)
    with record.open(create=False) as ledger:
        yield ledger


def _drop(ledger: Ledger, submission: str) -> Queue:
    queue = Queue(ledger)
    queue.add(submission, team="mosaic", name="m", path="/", kind="directory", state="sealed")
    return queue


def test_a_state_and_its_task_are_written_together_or_not_at_all(record: Record, fleet: Ledger) -> None:
    queue = _drop(fleet, "s1")
    with Tasks(record.server.url(record.name, PROMOTER)) as tasks:

        def ordered(change: Transaction) -> list[Appended]:
            assert tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a", within=change.connection) == "queued"
            return [change.append("note", {"n": 1})]

        def broken(change: Transaction) -> list[Appended]:
            ordered(change)
            raise ZeroDivisionError

        size = fleet.tree().size
        with pytest.raises(ZeroDivisionError):
            queue.advance("s1", "sealed", entries=broken, round=1)
        assert (fleet.tree().size, tasks.counts()) == (size, {})
        queue.advance("s1", "sealed", entries=ordered, round=1)
        assert (fleet.tree().size, tasks.counts()) == (size + 1, {"cpu": {"todo": 1}})
    found = queue.get("s1")
    assert found is not None
    assert found.data == {"round": 1}


def test_the_promoter_refills_from_its_own_view_of_the_record(record: Record, fleet: Ledger) -> None:
    for number in range(6):
        _drop(fleet, f"s{number}")
    with Tasks(record.server.url(record.name, PROMOTER), team_places=2) as tasks:
        refill = Refill(fleet.reading, lambda one: tasks.examine(one, 1, "cpu", "cpu", f"mosaic/{one}"))
        assert refill.all() == 2
        assert tasks.counts() == {"cpu": {"todo": 2}}


def test_what_cannot_be_offered_hides_nothing_that_stands_behind_it(record: Record, fleet: Ledger) -> None:
    for number in range(6):
        _drop(fleet, f"s{number}")
    with Tasks(record.server.url(record.name, PROMOTER)) as tasks:

        def offer(one: str) -> Offered:
            if one in {"s0", "s3"}:
                raise ValueError(one)
            return "known" if one < "s4" else tasks.order(one, "", team="mosaic")

        assert Refill(fleet.reading, offer, most=2).all() == 2
        assert tasks.counts() == {"promoter": {"todo": 2}}


def test_members_of_the_roles_work_a_submission_from_end_to_end(record: Record, fleet: Ledger) -> None:
    urls = {role: record.server.url(record.name, role) for role in (PROMOTER, INTAKE, WORKER)}
    order, examine, decide, finish = Seen(), Seen(), Seen(), Seen()
    examine.answer = lambda task: held.decide(task.submission, "mosaic/a") and None
    record.ask(f"INSERT INTO fleet_logins VALUES ('a', '{INTAKE}')")
    Queue(fleet).add("s1", team="mosaic", name="m", path="/", kind="directory", node="a")
    with (
        Tasks(urls[INTAKE]) as intake,
        Tasks(urls[PROMOTER]) as promoter,
        Tasks(urls[WORKER]) as held,
        working(urls[PROMOTER], ["promoter"], {"order": order, "decide": decide}, watch=watch()),
        working(urls[WORKER], ["cpu"], {"examine": examine}),
        working(urls[INTAKE], ["intake:a"], {"finish": finish}),
    ):
        intake.order("s1", "mosaic/a")
        order.next()
        promoter.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        examine.next()
        decide.next()
        promoter.finish("s1", "a", team="mosaic")
        finish.next()
    assert record.ask("SELECT count(*) FROM procrastinate_jobs") == [(0,)]


def test_the_audit_finds_nothing_wrong_in_a_database_with_a_task_queue(record: Record, fleet: Ledger) -> None:
    from acceptd.record import audit
    from acceptd.record.keys import create_keys

    create_keys(record.state)
    record.settings()
    assert audit.verify(record.state) == []
