"""The last lines of a check are what one would paste into a ticket: whole, at 80 columns, and inert."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd import __version__
from acceptd.report.ticket import FIRST, ticket_rows
from tests.report_world import finding, report
from tests.unit.test_report_render import HOSTILE, terminal

pytestmark = pytest.mark.unit


def last_lines(made: dict[str, Any]) -> list[str]:
    lines = terminal(made, ticket=True).splitlines()
    return lines[next(number for number, one in enumerate(lines) if one.startswith("  verdict ")) :]


def test_a_rejection_ends_with_verdict_first_findings_digests_and_versions() -> None:
    made = report()
    lines = last_lines(made)
    assert lines[0].split() == ["verdict", "REJECTED", "mosaic/evidence", "1.4.0"]
    told = " ".join(" ".join(lines).split())
    for wanted in (
        "parity/mismatch", "→ Compare the", made["bundle_digest"], made["policy_digest"], f"acceptd {__version__}"
    ):  # fmt: skip
        assert wanted in told
    whole = terminal(made, ticket=True)
    assert whole.count(made["bundle_digest"]) == 1
    assert "  verdict " not in terminal(made)


def test_what_did_not_decide_is_left_out_and_each_code_stands_once() -> None:
    many = [finding(code=f"parity/c{n % 5}") for n in range(20)]
    rows = ticket_rows(report(findings=[finding(code="structure/w", severity="warn"), *many]))
    assert [text.split()[0] for name, text in rows if name == "because"] == ["parity/c0", "parity/c1", "parity/c2"]
    assert FIRST == 3
    assert not [name for name, _ in ticket_rows(report(verdict="accepted")) if name == "because"]


def test_a_verdict_without_findings_or_digest_says_why() -> None:
    rows = dict(ticket_rows(report(verdict="inconclusive", findings=[], reason="no cell", bundle_digest=None)))
    assert (rows["because"], rows["bundle"]) == ("no cell", "not sealed")


def test_a_bundle_whose_manifest_cannot_be_read_is_called_by_its_path() -> None:
    made = report(bundle_id=None, bundle_version=None, path="models/mine", submission="check-70ed95bbb871")
    assert last_lines(made)[0].split() == ["verdict", "REJECTED", "models/mine"]
    head = terminal(made, ticket=True).splitlines()[0]
    assert head.split()[1:] == ["REJECTED", "models/mine"]


@pytest.mark.parametrize("verdict", ["rejected", "held", "inconclusive", "accepted"])
def test_hostile_words_stay_in_their_lines(verdict: str) -> None:
    made = report(
        HOSTILE * 3, verdict=verdict, bundle_id=HOSTILE, bundle_version=HOSTILE,
        findings=[finding(severity="reject", where=HOSTILE, remedy=HOSTILE)],
    )  # fmt: skip
    lines = last_lines(made)
    assert max(map(len, lines)) <= 80
    assert all(char.isprintable() for char in "".join(lines))
