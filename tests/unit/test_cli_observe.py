"""`acceptd observe` on a state: the screen, the document and the page say the same of what would be refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.cli.observe import NAMES_SHOWN, observe
from acceptd.record.canonical import digest, plain
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from tests.command_world import Commands, alone, ready
from tests.unit.test_observe import CODE, OTHER, verdict

pytestmark = pytest.mark.unit
HIDDEN = {"code": "contract/missing", "severity": "hold", "message": "none is agreed", "audience": "reviewer"}


class Record:
    def __init__(self, home: Path) -> None:
        self.state = ready(home / "state", "[observe]\nteams = ['a']\n")
        self.ledger = Ledger.open(self.state)
        self.run = Commands(alone(observe), self.state)
        self._count = 0

    def judged(self, model: str, word: str, *codes: str, hidden: dict[str, Any] | None = None, **more: Any) -> str:
        """Put a verdict that was made in observe mode on record, with what only reviewers may see."""
        self._count += 1
        entry = verdict(self._count, model, word, *codes, team=model.partition("/")[0])
        body = dict(entry.body) | more
        body["findings"] = [{"stage": "judge", "where": "m"} | one for one in body["findings"]]
        if hidden is not None:
            body["reviewer_findings"] = {"count": 1, "digest": digest(plain([hidden]))} | more
            queue = Queue(self.ledger)
            queue.add(
                entry.submission or "", team="a", name="d", path="/p", kind="directory", bundle_digest="ab" * 32
            )
            queue.advance(entry.submission or "", "done", document={"findings": [hidden, *body["findings"]]})
        self.ledger.append("verdict", body, submission=entry.submission)
        return str(entry.submission)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    made = Record(tmp_path)
    yield made
    made.ledger.close()


def test_where_nothing_was_observed_that_is_said_and_what_is_observed_now(record: Record) -> None:
    shown = record.run()
    assert shown.splitlines()[0] == "observed now: team a"
    assert "nothing was observed" in shown
    told = json.loads(record.run("--json"))
    assert (told["observe"]["teams"], told["models"], told["refusals"]) == (["a"], [], [])
    ready(record.state, "[observe]\nnonsense = 1\n")
    assert record.run().startswith("observed now: not known: ")
    assert json.loads(record.run("--json"))["observe"] is None


def test_what_would_be_refused_is_told_by_code_with_a_remedy_and_ends_with_zero(record: Record) -> None:
    for number in range(NAMES_SHOWN + 2):
        record.judged(f"a/m{number}", "rejected", CODE)
    record.judged("b/n", "rejected", OTHER)
    shown = record.run("--html", record.state.parent / "page.html")
    assert f"reject   {CODE}  {NAMES_SHOWN + 2} models" in shown
    assert "and 2 more" in shown
    assert f"for example a/m0: {CODE} of a/m0" in shown
    assert f"reject   {OTHER}  1 model\n" in shown
    assert shown.splitlines()[-1] == f"wrote {record.state.parent / 'page.html'}"
    assert "a/m9" in (record.state.parent / "page.html").read_text(encoding="utf-8")
    told = json.loads(record.run("--json", "--team", "b"))
    assert ([one["name"] for one in told["models"]], told["counts"]["rejected"]) == (["b/n"], 1)


def test_a_model_that_could_not_be_judged_ends_it_with_four_and_names_the_report(record: Record) -> None:
    record.judged("a/fine", "accepted")
    lost = record.judged("a/lost", "inconclusive", "cell/lost")
    said = record.run.run()
    assert said.code == 4
    assert "NOT JUDGED  a/lost" in said.out
    assert f"acceptd report {lost}" in said.out
    assert record.run.run("--team", "b").code == 0


def test_what_reviewers_alone_may_see_counts_only_where_the_entry_binds_it(record: Record) -> None:
    record.judged("a/bound", "held", hidden=HIDDEN)
    record.judged("a/forged", "held", hidden=HIDDEN, digest="0" * 64)
    refusals = json.loads(record.run("--json"))["refusals"]
    assert [(one["code"], one["models"]) for one in refusals] == [("contract/missing", ["a/bound"])]


def test_a_page_that_cannot_be_written_prints_no_half_result(record: Record) -> None:
    said = record.run.run("--html", record.state.parent / "nowhere" / "page.html")
    assert (said.code, said.out) == (2, "")
    assert "cannot be written" in said.error
