"""What the console, the portfolio and the releases ask of the record has the same answer on either engine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from acceptd.advisories import register as advisories
from acceptd.config import Settings, policies_directory
from acceptd.contracts import register as contracts
from acceptd.portfolio.read import read_facts
from acceptd.record import copies
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.record.queue import Queue
from acceptd.release.book import read_book
from acceptd.retention import audit as retention_audit
from acceptd.web import queries
from tests.fleet.postgres import Server
from tests.fleet.test_record_copies import FINDING

pytestmark = pytest.mark.acceptance

OBSERVED = {"observed": True, "document": {"findings": [{"code": "x/y", "audience": "reviewer"}]}}


def filled(state: Path) -> None:
    with Ledger.open(state) as ledger:
        queue = Queue(ledger)
        for number in range(30):
            name = f"{'A' if number % 2 else 'a'}-{number}"
            queue.add(
                name, team="ab"[number % 2], name="n\x00'%", path="/c", kind="directory", model=f"a/m{number % 3}"
            )
            queue.advance(
                name,
                "judged",
                **(OBSERVED if number % 5 == 0 else {"observed": False, "why": "\x00", "and": "\\u0000"}),
            )
            body = {
                "verdict": ["accepted", "held"][number % 2],
                "judged_at": "2026-11-29T15:17:00Z",
                "reason": "r",
            }
            body |= {"team": "ab"[number % 2], "model": f"a/m{number % 3}", "bundle_digest": f"{number % 4}" * 64}
            ledger.append("verdict", {**body, "findings": [FINDING] if number % 3 else []}, submission=name)
        for number in range(1, 4):
            ledger.append("intent", {"model": "a/m1", "channel": "c", "number": number, "digest": "1" * 64})
            if number != 2:
                ledger.append("activated", {"model": "a/m1", "channel": "c", "number": number})
        ledger.append("abandoned", {"model": "a/m1", "channel": "c", "number": 2})
        ledger.append("revoked", {"digest": "2" * 64, "reason": "r"})


def answers(ledger: Ledger, state: Path) -> dict[str, Any]:
    def rows(found: Any) -> Any:
        return [tuple(row) for row in found.rows], found.older, found.looked

    def entries(found: Any) -> Any:
        return [entry.seq for entry in found.rows], found.older, found.looked

    wanted = [
        queries.Wanted(), queries.Wanted(team="a"), queries.Wanted(state="judged", verdict="held"),
        queries.Wanted(model="a/m1"), queries.Wanted(code="x/y"), queries.Wanted(code="a/b"),
        queries.Wanted(code="n/o"),
    ]  # fmt: skip
    told: dict[str, Any] = {f"submissions {one}": rows(queries.newest_submissions(ledger, one)) for one in wanted}
    told["before"] = rows(queries.newest_submissions(ledger, queries.Wanted(), "a-12"))
    told["verdicts"] = [tuple(row) for row in queries.verdicts_of(ledger, "a/m1", 30)]
    told["models"] = [
        [tuple(row) for row in found[0]] for found in (queries.models(ledger, "a"), queries.models(ledger))
    ]
    asked = [
        queries.WantedEntries(), queries.WantedEntries(kind="verdict"), queries.WantedEntries(model="a/m1"),
        queries.WantedEntries(text="2" * 64), queries.WantedEntries(text=ledger.entry(3).leaf_hash.hex()),
        queries.WantedEntries(since="2026-01-01T00:00:00Z", until="2099-01-01T00:00:00Z"),
    ]  # fmt: skip
    told |= {f"entries {one}": entries(queries.newest_entries(ledger, one)) for one in asked}
    told["numbers"] = queries.verdict_numbers(ledger, since="2026-01-01T00:00:00Z", team="a").rows
    told["newest"] = [entry.seq for entry in queries.newest_verdicts(ledger, 7)[0]]
    told["kinds"] = queries.kinds(ledger)
    facts = read_facts(ledger, policies_directory(Settings()), "default")
    told["portfolio"] = {key: value for key, value in dataclasses.asdict(facts).items() if key != "book"}
    told["book"] = {place: read_book(ledger).rows(*place) for place in sorted(read_book(ledger).channels)}
    told["retention"] = retention_audit.examine(state, ledger)
    told["registers"] = (advisories.newest(ledger), contracts.newest(ledger, "a/m1", below=7))
    told["queue"] = (Queue(ledger).counts(), Queue(ledger).unfinished(), Queue(ledger).pending())
    return told


def test_every_question_has_the_same_answer_on_postgresql(tmp_path: Path, postgres: Server) -> None:
    filled(tmp_path)
    place = Place(tmp_path, postgres.url(postgres.fresh_database()))
    copies.copy_to_postgres(copies.copy_to_file(Place(tmp_path), tmp_path / "kept", "copy"), place.url)
    with Ledger.open(tmp_path, create=False) as file, Ledger.open(tmp_path, create=False, place=place) as database:
        due, found = answers(file, tmp_path), answers(database, tmp_path)
        assert due.keys() == found.keys()
        for question in due:
            assert found[question] == due[question], question
        assert due["submissions Wanted(team='', state='', verdict='', model='', code='x/y')"][0], "there are some"
        database.rebuild()
        again = answers(database, tmp_path)
        assert again == found
