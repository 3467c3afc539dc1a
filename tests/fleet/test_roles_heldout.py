"""Held-out vectors in a fleet: a worker that has them evaluates, and counts where it is trusted with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from acceptd.record.queue import Queue
from acceptd.release.book import read_book
from examples import evidence_classifier as classifier
from tests.acceptance.test_heldout import WRONG, sets
from tests.fleet.postgres import Server
from tests.fleet.roles_world import Fleet

pytestmark = pytest.mark.acceptance

POLICY = "[heldout]\nseconds = 2.0\nevaluations = 5\n[regression]\nenabled = false\n"


def hold_out(fleet: Fleet, node: str, version: int, expected: tuple[float, ...] | None) -> None:
    """Put a set where a worker keeps them, and a contract in force that names it."""
    source = sets(fleet.root / f"held-{version}", expected)
    words = ("policy", "heldout", "add", classifier.MODEL_ID, str(source), "--state", str(fleet.state(node)))
    added = fleet.command(*words)
    example = fleet.policies / "contracts" / "mosaic" / "evidence-disposition.toml.example"
    text = re.sub(r"\[ceilings\].*?(?=\n\[\[)", "", example.read_text(), flags=re.S)
    example.with_suffix("").write_text(text.replace("version = 1", f"version = {version}", 1) + "\n" + added)


def test_a_release_waits_for_held_out_vectors_and_a_bundle_that_fails_them_is_none(
    postgres: Server, tmp_path: Path
) -> None:
    fleet = Fleet(tmp_path, postgres, policy=POLICY)
    try:
        fleet.node("promoter", "promoter")
        fleet.node("intake", "intake")
        fleet.node("w1", "worker", heldout=True)
        hold_out(fleet, "w1", 1, None)
        fleet.start("promoter", "intake", "w1")
        report = fleet.accepted("passes", sets=1)
        with fleet.ledger() as ledger:
            (spent,) = ledger.entries(kind="heldout")
            assert (spent.submission, spent.body["number"]) == (report["submission"], 1)
        hold_out(fleet, "w1", 2, WRONG)
        report = fleet.verdict(fleet.put("fails", sets=1, version="1.5.0"))
        assert report["verdict"] == "rejected", report["reason"]
        with fleet.ledger() as ledger:
            (row,) = [one for one in Queue(ledger).find() if one.name == "fails"]
            assert {"heldout/failed", "heldout/result"} <= {
                one["code"] for one in row.data["document"]["findings"]
            }
            current = read_book(ledger).current(classifier.MODEL_ID, "production")
            assert current is not None
            assert current.number == 1
        fleet.whole()
    finally:
        fleet.close()
