"""Several profiles on several workers, rules that change, time that is over, and people who decide: in a fleet."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.loader import open_release
from acceptd.record.attest import unverified
from acceptd.record.queue import Queue
from examples import evidence_classifier as classifier
from tests import commands
from tests.fleet.postgres import Server
from tests.fleet.roles_world import TEAM, Fleet
from tests.fleet.s3 import S3

pytestmark = pytest.mark.acceptance

SECOND = 'schema = 1\nname = "second"\nintra_op_threads = 2\n'


@pytest.fixture(scope="module")
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two profiles, each with a worker that alone may speak of it."""
    root = tmp_path_factory.mktemp("fleet")
    made = Fleet(root, postgres, profiles={"second": SECOND}, policy="", keys='profiles = ["cpu", "second"]\n')
    made.node("promoter", "promoter")
    made.node("intake", "intake")
    made.node("first", "worker", profiles=("cpu",))
    made.node("other", "worker", profiles=("second",))
    made.start("promoter", "intake", "first", "other")
    yield made
    made.close()


def test_two_workers_examine_one_bundle_each_under_its_profile_and_one_verdict_names_both(fleet: Fleet) -> None:
    report = fleet.accepted("two", model_id=f"{TEAM}/two")
    with fleet.ledger() as ledger:
        entry = next(ledger.entries(kind="verdict", submission=report["submission"]))
    said = json.loads(unverified(entry.body["statement"])[0])["predicate"]
    assert [(one["profile"], one["verdict"]) for one in entry.body["profiles"]] == [
        ("cpu", "accepted"), ("second", "accepted"),
    ]  # fmt: skip
    assert {(one["profile"], one["node"]) for one in said["nodes"]} == {("cpu", "first"), ("second", "other")}
    fleet.whole()


def test_rules_that_change_while_a_bundle_waits_are_those_that_it_is_judged_by(fleet: Fleet) -> None:
    """What was ordered under the old policy is ordered anew, whether its evidence was there or not."""
    fleet.running["other"].pause()
    fleet.put("changed", model_id=f"{TEAM}/changed")

    def given() -> bool:
        found = fleet.server.execute("SELECT profile FROM fleet_evidence", database=fleet.database)
        rows = [row for row in fleet.rows() if row.name == "changed" and row.data.get("order")]
        return bool(rows) and ("cpu",) in found

    fleet.until(given, "the first worker has given evidence")
    fleet.policy = '[contracts]\nmissing = "hold"\n'
    fleet.write_policy()
    for name in ("promoter", "intake", "first", "other"):
        fleet.running[name].send(signal.SIGHUP)
    fleet.running["other"].resume()
    report = fleet.verdict("changed")
    assert report["verdict"] == "held", report["reason"]
    with fleet.ledger() as ledger:
        (row,) = [one for one in Queue(ledger).find() if one.name == "changed"]
        assert any(one["code"] == "contract/missing" for one in row.data["document"]["findings"])
    fleet.whole()


def test_what_is_held_waits_at_the_promoter_and_a_reviewer_promotes_it(fleet: Fleet, tmp_path: Path) -> None:
    key = commands.run("review", "keygen", str(tmp_path / "ada.pem"), "--name", "ada", "--team", "safety")
    assert key.returncode == 0, key.stderr
    (fleet.policies / "reviewers.toml").write_text(key.stdout)
    report = fleet.verdict(fleet.put("decided", model_id=f"{TEAM}/decided"))
    assert report["verdict"] == "held", report["reason"]
    state = fleet.state("promoter")
    fleet.whole()
    assert (state / "quarantine" / report["submission"] / "bundle").is_dir()
    signing = ("--reason", "read the model card", "--key", str(tmp_path / "ada.pem"))
    fleet.command("review", "approve", report["submission"], *signing, "--state", str(state))
    opened = open_release(state, f"{TEAM}/decided", keys=state / "keyring.json", profile="cpu")
    assert opened.number == 1
    place = fleet.root / "objects" / "approved" / f"{opened.bundle_digest}.json"
    fleet.until(place.exists, "what a person approved lies in the object store for workers to compare with")


def test_a_bundle_that_nobody_examines_in_time_is_inconclusive(fleet: Fleet) -> None:
    fleet.running["first"].pause()
    late = "UPDATE submissions SET received_at = '2026-01-01T00:00:00Z' WHERE name = 'late'"
    try:
        fleet.put("late", model_id=f"{TEAM}/late")
        fleet.until(lambda: any(row.name == "late" and row.data.get("order") for row in fleet.rows()), "ordered")
        fleet.server.execute(late, database=fleet.database)
        report = fleet.verdict("late")
    finally:
        fleet.running["first"].resume()
    assert report["verdict"] == "inconclusive"
    assert {one["code"] for one in report["findings"]} == {"cell/deadline"}
    fleet.whole()


def test_bundles_and_evidence_go_over_an_s3_compatible_store(postgres: Server, tmp_path: Path, s3: S3) -> None:
    bucket = s3.bucket()
    fleet = Fleet(tmp_path, postgres, objects=f"s3://{bucket}/gate", endpoint=s3.endpoint)
    try:
        for name, role in (("promoter", "promoter"), ("intake", "intake"), ("w1", "worker")):
            fleet.node(name, role)  # type: ignore[arg-type]
        fleet.start("promoter", "intake", "w1")
        report = fleet.accepted("over-s3")
        assert s3.get(bucket, f"gate/approved/{report['bundle_digest']}.json")
        fleet.whole()
    finally:
        fleet.close()


def test_one_process_with_all_roles_does_the_same(postgres: Server, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, postgres)
    try:
        fleet.node("one", "all")
        fleet.start("one")
        report = fleet.verdict(fleet.put("alone", intake="one"), intake="one")
        assert report["verdict"] == "accepted", report["reason"]
        assert report["release"]["number"] == 1
        fleet.whole("one")
        status = json.loads(fleet.command("fleet", "status", "--json", "--state", str(fleet.state("one"))))
        assert [(node["name"], node["role"], node["status"]) for node in status["nodes"]] == [("one", "all", "up")]
        opened = open_release(fleet.state("one"), classifier.MODEL_ID, keys=fleet.state("one") / "keyring.json")
        assert opened.number == 1
        assert fleet.stop("one") == 0
    finally:
        fleet.close()
