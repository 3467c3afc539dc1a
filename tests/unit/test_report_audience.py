"""Findings for reviewers stay with reviewers, in every output and in the record, whatever they weigh."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from acceptd.acceptance import Outcome
from acceptd.cli.outputs import CHANNELS
from acceptd.cli.setup import make_team
from acceptd.config import Paths
from acceptd.judge.finding import SEVERITY_ORDER, Finding, Judgement, ProfileVerdict, Severity, Verdict
from acceptd.judge.words import one_line
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record.canonical import canonical
from acceptd.record.keys import create_keys, load_signer
from acceptd.report.document import for_team
from acceptd.report.outbox import write_outbox
from acceptd.rules import Rules
from acceptd.verdicts import Prepared, entry_body
from tests import heldout_world as own
from tests import judge_world as world

pytestmark = pytest.mark.unit
MARK = "planted-zebra"
SEVERITIES = tuple(SEVERITY_ORDER)
VERDICTS: dict[str, Verdict] = {"reject": "rejected", "hold": "held", "warn": "accepted", "info": "accepted"}


def planted(severity: Severity) -> Finding:
    """A finding for reviewers whose every text is the mark; its code sorts before the team's own."""
    return Finding(
        code="behaviour/nondeterministic",
        severity=severity,
        audience="reviewer",
        stage="compare",
        where=f"where {MARK}",
        message=f"message {MARK}",
        evidence={"key": f"evidence {MARK}"},
    )


def prepared(severity: Severity, state: Path, *, beside: bool, prefix: str = "") -> Prepared:
    """Return what is recorded of a verdict that the planted finding decides, ``beside`` one of the same weight."""
    mine = planted(severity)
    theirs = mine.model_copy(
        update={
            "code": "vectors/insensitive",
            "audience": "team",
            "where": "main",
            "message": "told",
            "evidence": {},
        }
    )
    verdict = VERDICTS[severity]
    reason = prefix + one_line(mine.model_dump()) if verdict != "accepted" else "nothing rejects or holds"
    judgement = Judgement(
        verdict=verdict,
        findings=(mine, theirs) if beside else (mine,),
        judged_at=world.NOW,
        reason=reason,
        profiles=(
            ProfileVerdict(profile="cpu", required=True, verdict=verdict, reason=reason, decided_by="reviewer"),
        ),
    )
    held = own.held(rows=[own.row(worst_expected=MARK, exceeding=1), own.row("heldout-1")])
    given = own.submission(held.model_copy(update={"names": {"heldout-0": MARK, "heldout-1": MARK}}))
    outcome = Outcome(
        given, world.a_manifest(), own.contract(), "c" * 64, judgement, {"seal": 1.0, "heldout": 77.77}
    )
    rules = Rules(Policy(), "a" * 64, Profile(), "b" * 64, state)
    return entry_body("mosaic", "drop", rules, outcome, load_signer(state, "ledger"), "unanchored")


def body(found: Prepared) -> dict[str, Any]:
    return found.body("acceptd/" + "ab" * 16, 7)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("state")
    (made / "keys").mkdir(mode=0o700)
    create_keys(made)
    return made


def recorded(found: Prepared) -> str:
    """Return everything of the ledger's entry, the statement's payload decoded."""
    entry = body(found)
    payload = base64.b64decode(entry["statement"]["payload"]).decode()
    return canonical(entry).decode() + payload


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("prefix", ["", "under profile cpu: "])
@pytest.mark.parametrize("beside", [False, True])
def test_no_output_for_the_team_holds_a_byte_of_it(
    severity: Severity, prefix: str, beside: bool, state: Path, tmp_path: Path
) -> None:
    found = prepared(severity, state, beside=beside, prefix=prefix)
    shown = for_team(found.document)
    for channel in CHANNELS:
        assert MARK.encode() not in channel.render(shown), channel.name
    folder = write_outbox(tmp_path, "mosaic", "s-1", found.document)
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(written) == ["report.html", "verdict.json"]
    for data in written.values():
        assert MARK.encode() not in data
        assert b"77.77" not in data
    text = recorded(found)
    assert MARK not in text
    assert "77.77" not in text


def test_control_the_reviewers_outputs_hold_it(state: Path) -> None:
    """The same look finds it where it belongs, so that it would find it elsewhere."""
    whole = prepared("reject", state, beside=True).document
    silent = [channel.name for channel in CHANNELS if MARK.encode() not in channel.render(whole)]
    assert silent == ["outbox: verdict.json"]  # which is the team's, whatever it is given
    assert MARK in json.dumps(whole["heldout"])
    assert MARK.encode() in prepared("reject", state, beside=False).blobs[0]  # the evidence


def test_the_record_binds_what_it_does_not_show(state: Path) -> None:
    def digest(**changes: Any) -> str:
        return str(body(prepared("warn", state, **changes))["reviewer_findings"]["digest"])

    assert digest(beside=True) == digest(beside=True)
    assert body(prepared("warn", state, beside=True))["reviewer_findings"]["count"] == 1


def test_a_teams_outbox_that_the_operator_closed_to_other_teams_stays_closed(state: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        paths = Paths(tmp_path)
        for folder in (paths.inbox, paths.outbox):
            folder.mkdir()
        make_team(paths, "mosaic")
        (paths.outbox / "mosaic").chmod(0o2750)
        make_team(paths, "mosaic")  # `acceptd init --team`, again
        write_outbox(paths.outbox, "mosaic", "s-1", prepared("reject", state, beside=False).document)
    finally:
        os.umask(before)
    assert stat.S_IMODE((paths.outbox / "mosaic").stat().st_mode) == 0o2750
    assert sorted(os.listdir(paths.outbox / "mosaic" / "s-1")) == ["report.html", "verdict.json"]
