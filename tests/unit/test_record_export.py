"""`acceptd ledger export`: what an auditor gets, line by line, and what of it each audience sees."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from acceptd.cli.ledger import _wanted
from acceptd.errors import UsageError
from acceptd.record import merkle
from acceptd.record.canonical import document_digest
from acceptd.record.entry import Filter
from acceptd.record.export import lines
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue

pytestmark = pytest.mark.unit
HOSTILE = '\x1b]0;owned\x07 \u202e\u2028 \x7f \x9b31m "},{\n<script>'


def finding(code: str, audience: str = "team", **more: Any) -> dict[str, Any]:
    texts = {"severity": "hold", "stage": "run", "where": HOSTILE, "message": HOSTILE}
    return {"code": code, "audience": audience, **texts, **more}


class Clock:
    """A minute later at each look."""

    def __init__(self) -> None:
        self.minute = -1

    def __call__(self) -> str:
        self.minute += 1
        return f"2026-11-29T{self.minute // 60:02d}:{self.minute % 60:02d}:00Z"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Ledger.open(tmp_path_factory.mktemp("state"), clock=Clock()) as ledger:  # entry 0 at 00:00
        queue = Queue(ledger)
        for number, (word, team) in enumerate((("held", "mosaic"), ("rejected", "other"), ("held", "mosaic"))):
            name = f"s-{number}"
            hidden = [finding("behaviour/nondeterministic", "reviewer")]
            body = {
                "verdict": word, "judged_at": "2026-11-29T15:17:00Z", "reason": HOSTILE, "team": team,
                "model": f"{team}/m", "findings": [finding("run/crash")],
                "reviewer_findings": {"count": 1, "digest": document_digest(hidden)},
            }  # fmt: skip
            queue.add(name, team=team, name=HOSTILE, path="/p", kind="directory")
            ledger.append("verdict", body, submission=name)
            told = hidden if number < 2 else [finding("run/other", "reviewer")]
            queue.advance(name, "done", document={"findings": [finding("run/crash"), *told]}, durable=True)
        ledger.append("intent", {"model": "mosaic/m", "channel": "production", "number": 1, "digest": "ab" * 32})
        yield ledger


def seqs(ledger: Ledger, *, reviewers: bool = False, **wanted: Any) -> list[int]:
    return [json.loads(line)["seq"] for line in lines(ledger, Filter(**wanted), reviewers=reviewers)]


def test_each_line_is_one_line_of_ascii_without_control_characters(ledger: Ledger) -> None:
    found = list(lines(ledger, Filter(), reviewers=True))
    assert len(found) == 5
    assert all(" " <= char < "\x7f" for line in found for char in line)
    assert json.loads(found[1])["body"]["reason"] == HOSTILE


def test_each_line_has_what_a_proof_needs(ledger: Ledger) -> None:
    for text in lines(ledger, Filter()):
        line = json.loads(text)
        proof = ledger.proof(line["seq"])
        assert proof.holds()
        assert proof.leaf_hash.hex() == line["leaf_hash"]
        assert merkle.leaf_hash(proof.leaf) == proof.leaf_hash
        said = json.loads(proof.leaf)
        assert {key: line[key] for key in said} == said, "the line is the leaf"
        assert set(line) - set(said) == {"leaf_hash"}


@pytest.mark.parametrize(
    ("wanted", "due"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"team": "mosaic"}, [1, 3, 4]),
        ({"model": "other/m"}, [2]),
        ({"verdict": "held"}, [1, 3]),
        ({"verdict": "held", "team": "other"}, []),
        ({"code": "run/crash"}, [1, 2, 3]),
        ({"code": "run/crash", "type": "intent"}, []),
        ({"type": "intent"}, [4]),
    ],
)
def test_filters_keep_what_they_say(ledger: Ledger, wanted: dict[str, str], due: list[int]) -> None:
    assert seqs(ledger, **wanted) == due
    assert seqs(ledger, reviewers=True, **wanted) == due


def test_times_are_from_and_before(ledger: Ledger) -> None:
    at = [entry.at for entry in ledger.entries()]
    assert sorted(set(at)) == at
    assert seqs(ledger, since=at[1]) == [1, 2, 3, 4]
    assert seqs(ledger, until=at[3]) == [0, 1, 2]
    assert seqs(ledger, since=at[1], until=at[3], reviewers=True) == [1, 2]
    with pytest.raises(UsageError, match="until"):
        Filter(until="tomorrow")


def test_findings_for_reviewers_are_in_the_reviewers_view_alone(ledger: Ledger) -> None:
    """By content and by filter: a code that finds an entry tells that it is there."""
    assert "behaviour/nondeterministic" not in "".join(lines(ledger, Filter()))
    assert seqs(ledger, code="behaviour/nondeterministic") == []
    assert seqs(ledger, reviewers=True, code="behaviour/nondeterministic") == [1, 2]
    shown = [json.loads(line) for line in lines(ledger, Filter(type="verdict"), reviewers=True)]
    assert [one["reviewer_findings"] and one["reviewer_findings"][0]["code"] for one in shown] == [
        "behaviour/nondeterministic",
        "behaviour/nondeterministic",
        None,  # what the queue holds is not what the entry binds
    ]


@pytest.mark.parametrize(
    "option",
    [
        {"verdict": "good"}, {"code": "crash"}, {"team": "../x"}, {"model": "mosaic"},
        {"since": "yesterday"}, {"until": "2026-13-01T00:00:00Z"},
    ],
)  # fmt: skip
def test_a_value_that_nothing_can_have_is_refused(option: dict[str, str]) -> None:
    given = dict.fromkeys(("team", "model", "verdict", "code", "kind", "since", "until"), "") | option
    with pytest.raises(UsageError, match=f"--{next(iter(option))}"):
        _wanted(**given)


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak(ledger: Ledger) -> int:
        tracemalloc.start()
        count = sum(1 for _ in lines(ledger, Filter()))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == ledger.tree().size
        return found

    with Ledger.open(tmp_path) as ledger:
        peaks = []
        for _ in range(2):
            with ledger.transaction() as change:
                for _ in range(len(peaks) * 600 + 600):
                    change.append("note", {"text": "x" * 1000})
            peaks.append(peak(ledger))
    assert peaks[1] < 1.5 * peaks[0]
