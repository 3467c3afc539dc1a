"""Policy, contract and profile digests are entries before a verdict rests on them, and `ledger verify` looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acceptd.contracts.force import Agreed
from acceptd.known_rules import KnownRules
from acceptd.policy import load
from acceptd.record import audit
from acceptd.record.auditing.report import Report
from acceptd.record.auditing.rules import BeforeUse, InPart
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from tests.contract_world import a_contract, an_instance
from tests.judge_world import NOW

pytestmark = pytest.mark.unit

POLICY, CONTRACT, PROFILE, OTHER = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
RULES = [("policy", POLICY), ("contract", CONTRACT), ("profile", PROFILE), ("profile", OTHER)]


def verdict(**more: Any) -> dict[str, Any]:
    usual = {"policy_digest": POLICY, "contract_digest": CONTRACT, "profile_digest": PROFILE}
    rows = [{"profile": "cpu", "digest": PROFILE}, {"profile": "old", "digest": OTHER}]
    head = {"verdict": "held", "judged_at": NOW, "reason": "r", "findings": []}
    return {**head, **usual, "profiles": rows, **more}


def found(*entries: tuple[str, dict[str, Any]], parts: int = 1) -> list[str]:
    """Return what is told of entries that are looked at in so many parts."""
    report = Report()
    whole = BeforeUse(report)
    rows = [Entry(seq, kind, NOW, "s", body, b"", b"") for seq, (kind, body) in enumerate(entries)]
    size = -(-len(rows) // parts)
    for first in range(0, len(rows), size):
        part = InPart()
        for entry in rows[first : first + size]:
            part.look(entry.type, entry.seq, entry.body)
        whole.take(json.loads(json.dumps(part.came())))
    return [f"{one.where}: {one.message}" for one in report.found]


def rules(*left_out: str) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, {"digest": digest}) for kind, digest in RULES if digest not in left_out]


def test_rules_that_were_entered_before_are_fine_and_a_verdict_without_contract_needs_none() -> None:
    for parts in (1, 2, 5):
        assert found(*rules(), ("verdict", verdict()), parts=parts) == []
    assert found(*rules(CONTRACT), ("verdict", verdict(contract_digest=None))) == []


@pytest.mark.parametrize(("kind", "digest"), RULES)
def test_each_rule_that_is_entered_too_late_or_never_is_found_with_its_place(kind: str, digest: str) -> None:
    late = [*rules(digest), ("verdict", verdict()), (kind, {"digest": digest})]
    words = f"entry 3: was judged by the {kind} {digest!r}, which no entry before it names"
    for entries in (late, late[:-1]):
        for parts in (1, 2, 4):
            assert found(*entries, parts=parts) == [words]


def test_a_digest_counts_for_its_own_kind_alone() -> None:
    entries = [("policy", {"digest": POLICY}), ("policy", {"digest": CONTRACT}), *rules(POLICY, CONTRACT)]
    assert len(found(*entries, ("verdict", verdict()))) == 1


def test_verify_says_which_verdict_it_was(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        for kind, body in rules(CONTRACT):
            ledger.append(kind, body)
        judged = ledger.append("verdict", verdict(), submission="s-1")
    words = [one.message for one in audit.verify(tmp_path) if one.where == f"entry {judged.seq}"]
    assert f"was judged by the contract {CONTRACT!r}, which no entry before it names" in words


def test_rules_are_entered_once_durably_with_their_text_and_again_by_nobody(tmp_path: Path) -> None:
    place = an_instance(tmp_path)
    agreed = Agreed(a_contract(), load.digest(a_contract()))
    rules_ = place.rules
    for _ in range(2):
        known = KnownRules(place.ledger)  # a daemon that was started anew
        for given in (Agreed(), agreed, agreed):
            known.enter(rules_, given)
    entered = [(one.type, one.body["digest"]) for one in place.ledger.entries() if one.type != "log"]
    assert entered == [
        ("policy", rules_.policy_digest), ("profile", rules_.profile_digest), ("contract", agreed.digest),
    ]  # fmt: skip
    assert place.ledger.evidence(agreed.digest) is not None
