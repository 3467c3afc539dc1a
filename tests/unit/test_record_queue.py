"""The queue: states go forward only, changes stand with their entries, deaths are counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from acceptd.errors import DuplicateEntryError, LedgerError
from acceptd.record.canonical import MAX_DEPTH, Written, canonical, document_digest, parse, plain
from acceptd.record.entry import Appended, NewEntry
from acceptd.record.log import Ledger, Transaction
from acceptd.record.queue import Death, Queue
from acceptd.record.tables import FINAL_STATES, STATES, submissions

pytestmark = pytest.mark.unit

AT = "2026-11-29T15:17:00Z"
VERDICT = NewEntry("verdict", {"verdict": "rejected", "judged_at": AT, "reason": "r", "findings": []})


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path, clock=lambda: AT) as opened:
        yield opened


def added(ledger: Ledger, id_: str = "s-1", **fields: Any) -> Queue:
    queue = Queue(ledger)
    queue.add(
        id_, team="mosaic", name="drop", path="/inbox/mosaic/.claimed-s-1", kind="directory", uid=1000, **fields
    )
    return queue


@pytest.mark.parametrize("data", ['{"a": 1, "b": [2, 3]}', ' { "b":[2,3],"a":1 } ', '{"b":[2,3],\n"a":1.0}'])
def test_what_somebody_wrote_in_another_form_can_be_gone_on_with(data: str, ledger: Ledger) -> None:
    queue = added(ledger)
    with ledger.transaction() as change:
        change.connection.execute(submissions.update().values(data=data))
    queue.advance("s-1", "sealed", c=4)
    found = queue.get("s-1")
    assert found is not None
    assert found.data == {"a": 1, "b": [2, 3], "c": 4}


def test_a_submission_goes_through_its_states_with_its_fields(ledger: Ledger) -> None:
    queue = added(ledger, inode=7)
    for state in STATES[1:5]:
        fields: dict[str, Any] = {f"at_{state}": True}
        queue.advance("s-1", state, **fields)
    queue.advance("s-1", "done", bundle_digest="ab" * 32, model="mosaic/m")
    found = queue.get("s-1")
    assert found is not None
    assert (found.team, found.uid, found.state, found.final) == ("mosaic", 1000, "done", True)
    assert (found.bundle_digest, found.model) == ("ab" * 32, "mosaic/m")
    assert found.data == {"inode": 7, **{f"at_{state}": True for state in STATES[1:5]}}
    assert queue.get("s-2") is None


def test_a_step_leaves_every_other_field_as_it_stands_in_canonical_text(ledger: Ledger) -> None:
    first = {
        "z": [1, 0.5, {"b": 'a "quoted" ,"a":} text'}],
        "document": {"drop": "é\udcff", "n": 2**60},
        "a": None,
    }
    queue = added(ledger, **first)
    queue.advance("s-1", "judged", é="key", empty={}, document=float("nan"))
    queue.advance("s-1", "promoted", a={"later": 1e-9})
    whole = {**first, "é": "key", "empty": {}, "document": float("nan"), "a": {"later": 1e-9}}
    with ledger.reading() as connection:
        text = connection.execute(select(submissions.c.data)).scalar_one()
    assert text.encode() == canonical(plain(whole))


@pytest.mark.parametrize("value", [{"drop": "é\udcff", "n": 2**60, "a": [1e-9]}, [], "text", None, 0.5])
def test_what_was_written_before_is_kept_as_if_it_were_written_here(value: Any, ledger: Ledger) -> None:
    texts = []
    for number, given in enumerate([value, Written.of(value)]):
        queue = added(ledger, f"s-{number}", z=1)
        queue.advance(f"s-{number}", "judged", é=given, document=given)
        with ledger.reading() as connection:
            query = select(submissions.c.data).where(submissions.c.id == f"s-{number}")
            texts.append(connection.execute(query).scalar_one())
    assert texts[0] == texts[1]
    assert canonical(parse(texts[1].encode())) == texts[1].encode()
    assert Written.of(value).digest == document_digest(value)


def test_what_is_too_deep_to_lie_in_a_submission_is_refused_however_it_is_given(ledger: Ledger) -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH):
        deep = [deep]
    queue = added(ledger)
    with pytest.raises(LedgerError, match="nested deeper"):
        queue.advance("s-1", "judged", document=deep)
    with pytest.raises(LedgerError, match="nested deeper"):
        Written.of(deep)
    queue.advance("s-1", "judged", document=Written.of(deep[0]))
    found = queue.get("s-1")
    assert found is not None
    assert found.data == {"document": deep[0]}


def test_pending_are_all_that_are_not_final_oldest_first(tmp_path: Path) -> None:
    times = iter(f"2026-11-29T15:00:{second:02d}Z" for second in range(60))
    with Ledger.open(tmp_path, clock=lambda: next(times)) as ledger:
        for index, state in enumerate(STATES):
            added(ledger, f"s-{index}", state=state)
        queue = Queue(ledger)
        assert [item.state for item in queue.pending()] == [state for state in STATES if state not in FINAL_STATES]
        assert [item.id for item in queue.find(limit=2)] == ["s-5", "s-6"]
        assert [item.id for item in queue.find(states=["done"], team="mosaic")] == ["s-5"]
        assert queue.find(team="other") == []
        assert queue.counts() == dict.fromkeys(STATES, 1)


@pytest.mark.parametrize(
    ("start", "to"),
    [
        ("sealed", "claimed"),
        ("judged", "examined"),
        ("done", "quarantined"),
        ("quarantined", "done"),
        ("done", "claimed"),
    ],
)
def test_no_state_is_taken_back(ledger: Ledger, start: str, to: str) -> None:
    queue = added(ledger, state=start)
    with pytest.raises(LedgerError, match=f"cannot go from {start} to {to}"):
        queue.advance("s-1", to)
    assert queue.get("s-1").state == start  # type: ignore[union-attr]


@pytest.mark.parametrize("start", [state for state in STATES if state not in FINAL_STATES])
def test_any_unfinished_state_may_be_quarantined_or_stay(ledger: Ledger, start: str) -> None:
    queue = added(ledger, state=start)
    queue.advance("s-1", start, tried=1)
    queue.advance("s-1", "quarantined")
    assert queue.get("s-1").data == {"tried": 1}  # type: ignore[union-attr]


def test_unknown_states_ids_and_values_are_refused(ledger: Ledger) -> None:
    queue = added(ledger)
    for broken in (
        lambda: queue.advance("s-1", "approved"),
        lambda: queue.advance("s-9", "sealed"),
        lambda: queue.advance("s-1", "sealed", what=object()),
        lambda: queue.note_start("s-1", "approved"),
        lambda: queue.clear("s-9"),
        lambda: queue.bump_deaths("s-9"),
        lambda: added(ledger),
        lambda: added(ledger, "../x"),
        lambda: queue.advance("s-1", "judged", entries=[VERDICT], durable=False),
    ):
        with pytest.raises(LedgerError):
            broken()
    assert queue.get("s-1").state == "claimed"  # type: ignore[union-attr]
    assert ledger.tree().size == 1


def test_names_and_values_of_any_drop_can_be_kept(ledger: Ledger) -> None:
    """A file name that is no UTF-8 must not be able to stop its own refusal from being recorded."""
    queue = Queue(ledger)
    refusal = {"where": "caf\udce9", "size": 2**62, "ratio": float("inf")}
    made = queue.add("s-1", team="mosaic", name="caf\udce9\ud800", path="/p", kind="directory", refusal=refusal)
    assert made == queue.get("s-1")
    assert made.name == "caf\\xe9\\ud800"
    assert made.data == {"refusal": {"where": "caf\\xe9", "size": str(2**62), "ratio": "Infinity"}}
    assert queue.get("caf\udce9") is None
    with pytest.raises(LedgerError, match="Unicode"):
        queue.add("s-2", team="mosaic", name="d", path="/caf\udce9", kind="directory")
    with pytest.raises(LedgerError, match="Unicode"):
        queue.find(team="caf\udce9")


def test_state_and_verdict_stand_together_and_once(ledger: Ledger) -> None:
    queue = added(ledger, entries=[NewEntry("submission", {"team": "mosaic"}, "s-1")])
    (verdict,) = queue.advance("s-1", "judged", entries=[VERDICT])
    assert ledger.entry(verdict.seq).submission == "s-1"
    with pytest.raises(DuplicateEntryError):
        queue.advance("s-1", "done", entries=[VERDICT], report="x")
    found = queue.get("s-1")
    assert found is not None
    assert (found.state, found.data) == ("judged", {})
    assert [entry.type for entry in ledger.entries()] == ["log", "submission", "verdict"]


def test_an_entry_may_hold_its_own_number_and_evidence(ledger: Ledger) -> None:
    queue = added(ledger)

    def record(change: Transaction) -> list[Appended]:
        digest = change.put_evidence(b"facts")
        body = {**VERDICT.body, "entry": change.next_seq, "evidence": digest}
        return [change.append("verdict", body, submission="s-1")]

    (done,) = queue.advance("s-1", "judged", entries=record)
    body = ledger.entry(done.seq).body
    assert body["entry"] == done.seq
    assert ledger.evidence(body["evidence"]) == b"facts"


def test_deaths_are_counted_for_each_state(ledger: Ledger) -> None:
    queue = added(ledger)
    assert queue.recover() == []
    assert queue.note_start("s-1", "claimed") == 0
    assert queue.recover() == [Death("s-1", "claimed", 1)]
    assert queue.recover() == [], "one death is counted once"
    assert queue.note_start("s-1", "claimed") == 1
    queue.advance("s-1", "sealed")
    assert queue.recover() == [], "work that ended in order is no death"
    assert queue.note_start("s-1", "sealed") == 0
    queue.clear("s-1")
    assert queue.recover() == []
    queue.note_start("s-1", "sealed")
    assert queue.bump_deaths("s-1") == 1
    assert queue.bump_deaths("s-1") == 2
    assert queue.recover() == []
    assert (queue.deaths("s-1", "claimed"), queue.deaths("s-1", "sealed"), queue.deaths("s-1", "judged")) == (
        1,
        2,
        0,
    )


def test_final_submissions_may_be_forgotten_their_entries_stay(ledger: Ledger) -> None:
    queue = added(ledger)
    with pytest.raises(LedgerError, match="still being worked"):
        queue.forget("s-1")
    queue.bump_deaths("s-1")
    queue.advance("s-1", "done", entries=[VERDICT])
    with pytest.raises(LedgerError, match="no work left"):
        queue.note_start("s-1", "done")
    queue.forget("s-1")
    assert queue.get("s-1") is None
    assert queue.deaths("s-1", "claimed") == 0
    assert [entry.submission for entry in ledger.entries(kind="verdict")] == ["s-1"]


def test_workers_race_for_one_verdict_and_one_wins(ledger: Ledger) -> None:
    queue = added(ledger)
    won: list[int] = []
    lost: list[LedgerError] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        try:
            won.extend(item.seq for item in queue.advance("s-1", "judged", entries=[VERDICT]))
        except LedgerError as error:
            lost.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert [type(error) for error in lost] == [DuplicateEntryError] * 3
