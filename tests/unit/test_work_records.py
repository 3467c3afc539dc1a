"""What is told about leases: rows of those that were given up, the snapshot for ``acceptd status``, needs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select, text

from acceptd.cell.limits import KINDS
from acceptd.config import Settings
from acceptd.errors import ConfigError, LedgerError
from acceptd.housekeeping import Housekeeping
from acceptd.opening import deadline
from acceptd.policy import load
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record import leases as records
from acceptd.record.leases import Leases
from acceptd.record.log import Ledger
from acceptd.rules import Rules
from acceptd.work import need as needs
from acceptd.work import snapshot
from acceptd.work.admission import Admission
from acceptd.work.budget import Share
from acceptd.work.journal import Journal
from acceptd.work.meter import Meter
from tests.work_world import GIB, MACHINE, moment, task

pytestmark = pytest.mark.unit


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path) as made:
        yield made


def rules(**profile: Any) -> Rules:
    policy, made = Policy(), Profile(**profile)
    return Rules(policy, load.digest(policy), made, load.digest(made), Path("/nonexistent"))


def run(ledger: Ledger, state: Path, boot: str, *, to_the_end: bool) -> None:
    """One daemon's life: a lease that ends well, and one that is given up."""
    records_ = Leases(ledger, boot)
    records_.open(now=5_000.0)
    journal = Journal(state, records_)
    admission = Admission(MACHINE, limit=10, listen=journal.hear)
    journal.start(lambda meter: snapshot.of(admission, 0, meter))
    for name in ("good", "bad"):
        admission.offer(task(name, name, "two"))
    (_, good), (_, bad) = (admission.admit(moment(0.0)) or pytest.fail("none") for _ in range(2))
    admission.release(good, moment(1.0))
    admission.abandon(bad, "deadline", moment(2.0))
    admission.request_cancel(bad, moment(2.0))
    admission.still_running(bad, moment(2.5))
    if to_the_end:
        admission.release(bad, moment(4.0))
    journal.stop()


def test_a_lease_that_was_given_up_has_one_row_with_all_its_times_and_a_good_one_has_none(
    ledger: Ledger, tmp_path: Path
) -> None:
    run(ledger, tmp_path, "first", to_the_end=True)
    (row,) = records.newest(ledger, 10)
    assert (row["submission"], row["team"], row["profile"], row["reason"]) == ("bad", "bad", "two", "deadline")
    assert (row["cores"], row["memory_bytes"]) == (2, 4 * GIB)
    assert (row["state"], row["closed_by"], row["seconds"]) == ("released", "kernel", 2.0)
    start = moment(0.0).wall
    names = ("abandoned_at", "cancel_requested_at", "still_running_at", "released_at")
    assert [row[name] - start for name in names] == [2.0, 2.0, 2.5, 4.0]


def test_what_a_dead_daemon_left_open_is_closed_at_the_next_start_since_its_cells_died_with_it(
    ledger: Ledger, tmp_path: Path
) -> None:
    run(ledger, tmp_path, "first", to_the_end=False)
    assert [row["state"] for row in records.newest(ledger, 10)] == ["still-running"]
    assert Leases(ledger, "second").open(now=9_000.0) == 1
    (row,) = records.newest(ledger, 10)
    assert (row["state"], row["closed_by"], row["released_at"]) == ("released", "restart", 9_000.0)
    assert row["seconds"] is None, "nobody saw how long it lasted"
    assert Leases(ledger, "third").open(now=9_001.0) == 0


def test_two_daemons_number_their_leases_alike_and_do_not_touch_each_others_rows(
    ledger: Ledger, tmp_path: Path
) -> None:
    for boot in ("first", "second"):
        run(ledger, tmp_path, boot, to_the_end=True)
    assert [row["boot"] for row in records.newest(ledger, 10)] == ["second", "first"]
    assert {row["lease"] for row in records.newest(ledger, 10)} == {2}


def test_old_rows_go_and_the_audit_does_not_miss_them(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "KEPT", 2)
    for boot in ("a", "b", "c"):
        run(ledger, tmp_path, boot, to_the_end=True)
    Leases(ledger, "d").open(now=1.0)
    assert [row["boot"] for row in records.newest(ledger, 10)] == ["c", "b"]
    with ledger.transaction() as change:
        change.connection.execute(text("DROP TABLE given_up_leases"))
    assert records.newest(ledger, 10) == [], "a ledger without the table is whole"
    assert Leases(ledger, "e").open(now=1.0) == 0
    with ledger.reading() as connection:
        assert connection.execute(select(records.given_up)).all() == []


def test_a_ledger_that_cannot_be_written_does_not_stop_the_work(tmp_path: Path) -> None:
    class Broken:
        def note(self, steps: object) -> None:
            raise LedgerError("busy")

    journal = Journal(tmp_path, Broken())  # type: ignore[arg-type]
    admission = Admission(MACHINE, limit=10, listen=journal.hear)
    journal.start(lambda meter: snapshot.of(admission, 0, meter))
    admission.offer(task("x"))
    _, lease = admission.admit(moment(0.0)) or pytest.fail("none")
    admission.abandon(lease, "stop", moment(1.0))
    admission.release(lease, moment(2.0))
    journal.stop()


def test_the_snapshot_is_the_running_daemons_own_or_nothing(tmp_path: Path) -> None:
    admission, meter = Admission(MACHINE, limit=10), Meter()
    admission._listen = meter.take
    for n in range(3):
        admission.offer(task(f"{n}", "a", "eight"))
    admission.admit(moment(0.0))
    assert snapshot.read(tmp_path, 1) is None
    snapshot.write(tmp_path, snapshot.of(admission, 1, meter))
    pid = json.loads((tmp_path / "work.json").read_bytes())["pid"]
    assert snapshot.read(tmp_path, pid + 1) is None, "another daemon's"
    shown = snapshot.read(tmp_path, pid)
    assert shown is not None
    assert shown["budget"]["cores_held"] == 8
    assert shown["queue"] == {
        "waiting": 2,
        "limit": 10,
        "lanes": [{"profile": "eight", "team": "a", "waiting": 2}],
    }
    assert [lease["state"] for lease in shown["leases"]] == ["held"]
    assert (tmp_path / "work.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "work.json").write_text("{ torn")
    assert snapshot.read(tmp_path, pid) is None


# -- what a submission needs -------------------------------------------------------------------------


def test_a_lease_is_as_large_as_the_largest_job() -> None:
    limits = Policy().limits
    assert needs.need(rules()) == Share(1, max(limits.memory_bytes, limits.inspect_memory_bytes))
    assert needs.need(rules(intra_op_threads=4, inter_op_threads=2)).cores == 4
    assert needs.job_share(rules(intra_op_threads=4), "inspect").cores == 1
    for kind in KINDS:
        assert needs.job_share(rules(), kind, mapped=7 if kind == "run" else 0).within(
            needs.need(rules(), mapped=7)
        )


def test_what_a_run_may_map_counts_up_to_the_machine() -> None:
    memory = Policy().limits.memory_bytes
    machine = Share(4, 3 * memory)
    assert needs.need(rules(), mapped=5, capacity=machine).memory == memory + 5
    assert needs.need(rules(), mapped=10 * memory, capacity=machine).memory == machine.memory, "it runs alone"


@pytest.mark.parametrize(
    ("capacity", "word"), [(Share(1, 1 << 40), "intra_op_threads"), (Share(8, 1 << 20), "memory_bytes")]
)
def test_rules_that_can_never_fit_are_refused_with_the_remedy(capacity: Share, word: str) -> None:
    with pytest.raises(ConfigError, match="profile cpu") as refused:
        needs.require_room(rules(intra_op_threads=2), capacity)
    assert word in refused.value.remedy


def test_the_budget_is_what_the_settings_say_or_what_the_host_has() -> None:
    assert needs.machine(Settings(cores=3, memory_bytes=5)) == Share(3, 5)
    found = needs.machine(Settings())
    assert found.cores >= 1
    assert found.memory > 0


# -- a drop that is taken back, and deadlines -----------------------------------------------------------


def test_running_work_whose_drop_was_taken_out_of_the_inbox_is_given_up_and_no_other(tmp_path: Path) -> None:
    here, gone = tmp_path / "here", tmp_path / "gone"
    here.mkdir()
    rows = {
        "kept": SimpleNamespace(state="sealed", path=str(here)),
        "taken": SimpleNamespace(state="sealed", path=str(gone)),
        "judged": SimpleNamespace(state="judged", path=str(gone)),
    }
    given_up: list[tuple[str, str]] = []
    workers = SimpleNamespace(
        look_at=lambda view: view(
            SimpleNamespace(leases={n: SimpleNamespace(submission=name) for n, name in enumerate(rows)})
        ),
        give_up=lambda submission, reason: given_up.append((submission, reason)),
    )
    rooms = SimpleNamespace(workers=workers, queue=SimpleNamespace(get=rows.get))
    Housekeeping.look_for_withdrawn(SimpleNamespace(rooms=rooms))  # type: ignore[arg-type]
    assert given_up == [("taken", "withdrawn")]


def test_a_deadline_counts_from_the_claim_and_a_clock_set_back_gives_nobody_more_than_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("acceptd.opening.time", SimpleNamespace(monotonic=lambda: 50.0, time=lambda: 1_000.0))
    of = lambda claimed: deadline(100.0, claimed)  # noqa: E731
    assert of(1_000.0) == 150.0
    assert of(940.0) == 90.0, "claimed a minute ago, whatever was restarted meanwhile"
    assert of(0.0) < 50.0, "over long since"
    assert of(5_000.0) == 150.0, "claimed in the future"
