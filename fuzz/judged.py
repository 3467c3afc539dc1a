"""Target ``judged``: whatever a cell, a worker or an old record says, in the right form, is judged and reported.

The judge and the reports are pure; what they are given is hostile. No evidence of the documented form ends them,
nothing is accepted without its stages, and what comes out is one printable page and valid JSON.
"""

from __future__ import annotations

import io
import json

from pydantic import ValidationError
from rich.console import Console

from acceptd.evidence import Submission
from acceptd.judge.verdict import judge, pre_run
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.record.canonical import plain_bytes
from acceptd.report import document, html, junit, sarif, terminal
from tests import fleet_evidence, judge_world

MANIFEST = judge_world.a_manifest()
CONTRACT = judge_world.a_contract()
POLICY = Policy()
NOW = judge_world.NOW


def check(raw: bytes) -> None:
    """Judge ``raw`` as the evidence of the flawless submission, by three rules, and report each."""
    try:
        given = Submission.model_validate(json.loads(raw), strict=False)
    except (ValueError, RecursionError):  # ValidationError is one of them
        return
    pre_run(MANIFEST, CONTRACT, POLICY, given)
    for manifest, contract in ((MANIFEST, None), (MANIFEST, CONTRACT), (_own(given), None), (None, None)):
        found = judge(manifest, contract, POLICY, given, NOW)
        if found.verdict == "accepted":
            assert given.sealed is not None
            assert manifest is not None
            assert {job.kind for job in given.jobs} >= {"inspect", "run"}
        told = document.document(given, found, manifest, policy_digest="1" * 64, policy=POLICY)
        plain_bytes(told)
        for report in (told, document.for_team(told)):
            assert "<script" not in html.render(report)
        junit.render([("a", told)])
        json.dumps(sarif.render([("a", told)]), allow_nan=False)
        written = io.StringIO()
        terminal.print_verdict(Console(file=written, width=100), told, every_finding=True)
        assert all(char.isprintable() for char in written.getvalue().replace("\n", ""))


def _own(given: Submission) -> Manifest | None:
    for job in given.jobs:
        if job.manifest is not None:
            try:
                return Manifest.model_validate(job.manifest)
            except ValidationError:
                return None
    return None


def seeds() -> dict[str, bytes]:
    """Return flawless submissions: under one profile, and under three."""
    return {
        "one": judge_world.submission().model_dump_json(by_alias=True, exclude_none=True).encode(),
        "three": fleet_evidence.whole().model_dump_json(by_alias=True, exclude_none=True).encode(),
    }
