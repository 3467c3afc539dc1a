"""One intake, a worker and a promoter do together what one machine does alone: real processes, real PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator

import pytest

from acceptd.loader import open_release
from acceptd.record.node_key import node_signer
from acceptd.record.queue import Queue
from examples import evidence_classifier as classifier
from tests.fleet.mixed import packed
from tests.fleet.postgres import Server
from tests.fleet.roles_world import TEAM, Fleet

pytestmark = pytest.mark.acceptance

SHIFTED = (classifier.BIAS[0] + 1e-4, *classifier.BIAS[1:])
"""Another model that decides alike."""


@pytest.fixture(scope="module")
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), postgres)
    for name, role in (("promoter", "promoter"), ("intake", "intake"), ("w1", "worker")):
        made.node(name, role)  # type: ignore[arg-type]
    made.start("promoter", "intake", "w1")
    yield made
    made.close()


def test_an_accepted_bundle_is_promoted_its_team_is_told_and_a_loader_opens_it(fleet: Fleet) -> None:
    report = fleet.accepted("good")
    state = fleet.state("promoter")
    opened = open_release(state, classifier.MODEL_ID, keys=state / "keyring.json")
    assert opened.number == report["release"]["number"]
    fleet.whole()
    assert not list((fleet.state("intake") / "inbox" / TEAM).iterdir()), "the drop is cleared"
    assert (fleet.root / "objects" / "approved" / f"{opened.bundle_digest}.json").exists()
    for name in ("intake", "promoter"):
        assert list((fleet.state(name) / "sealed").glob("2*")) == [], "no copy of the bundle stays"


def test_a_reviewer_sees_whose_evidence_a_verdict_rests_on_and_the_team_does_not(fleet: Fleet) -> None:
    told = fleet.accepted("whose", model_id=f"{TEAM}/whose")
    assert "sources" not in told
    words = ["report", told["submission"], "--state", str(fleet.state("promoter"))]
    fleet.whole()  # its report is on record
    (row,) = json.loads(fleet.command(*words, "--json"))["sources"]
    key = node_signer(fleet.state("w1")).key_id
    assert {name: row[name] for name in ("profile", "node", "key_id")} == {
        "profile": "cpu", "node": "w1", "key_id": key,
    }  # fmt: skip
    host = row["host"]
    assert host == socket.gethostname()
    assert f"cpu by w1 on {host}, key {key[:16]}" in " ".join(fleet.command(*words).split())


def test_a_second_version_is_compared_with_the_release_that_stands(fleet: Fleet) -> None:
    fleet.accepted("before", model_id=f"{TEAM}/compared")
    report = fleet.accepted("after", model_id=f"{TEAM}/compared", version="1.5.0", bias=SHIFTED)
    assert report["difference"]["status"] == "found", report["difference"]
    assert report["difference"]["release"]["number"] == 1
    fleet.whole()


def test_an_archive_is_unpacked_where_it_is_taken_in(fleet: Fleet) -> None:
    made = classifier.write_bundle(fleet.root / "made" / "packed", model_id=f"{TEAM}/packed")
    report = fleet.verdict(fleet.drop(packed(made, ".zip"), "packed.zip"))
    assert report["verdict"] == "accepted", report
    fleet.whole()


def test_what_cannot_be_sealed_is_rejected_and_goes_to_no_worker(fleet: Fleet) -> None:
    made = classifier.write_bundle(fleet.root / "made" / "linked", model_id=f"{TEAM}/linked")
    (made / "extra").symlink_to("/etc/passwd")
    report = fleet.verdict(fleet.drop(made, "linked"))
    assert report["verdict"] == "rejected"
    assert {one["code"] for one in report["findings"]} == {"seal/symlink"}
    fleet.whole()


def test_a_wrong_golden_is_rejected_with_the_findings_of_one_machine(fleet: Fleet) -> None:
    from dataclasses import replace

    variant = classifier.Variant()
    made = classifier.write_bundle(fleet.root / "made" / "wrong", model_id=f"{TEAM}/wrong")
    bias = tuple(one + 0.4 * (index == 0) for index, one in enumerate(variant.bias))
    classifier.write_goldens(made, replace(variant, bias=bias), count=7)
    report = fleet.verdict(fleet.drop(made, "wrong"))
    assert report["verdict"] == "rejected"
    assert "release" not in report
    fleet.whole()


def test_a_bundle_of_another_teams_model_takes_no_lock_and_no_prior_of_it(fleet: Fleet) -> None:
    fleet.verdict(fleet.put("theirs", model_id="other/model"))
    with fleet.ledger() as ledger:
        (row,) = [one for one in Queue(ledger).find() if one.name == "theirs"]
        assert row.data["verdict"] == "rejected"
        assert any(one["code"] == "manifest/team-mismatch" for one in row.data["document"]["findings"])
    fleet.whole()


def test_what_has_no_manifest_is_held_and_its_bytes_wait_at_the_promoter(fleet: Fleet) -> None:
    made = classifier.write_bundle(fleet.root / "made" / "bare")
    (made / "bundle.toml").unlink()
    report = fleet.verdict(fleet.drop(made, "bare"))
    assert report["verdict"] in {"held", "rejected"}, report
    if report["verdict"] == "held":
        assert (fleet.state("promoter") / "quarantine" / report["submission"] / "bundle").is_dir()
    fleet.whole()


def test_a_drop_that_is_taken_out_while_it_waits_is_inconclusive(fleet: Fleet) -> None:
    fleet.running["w1"].pause()  # nobody examines meanwhile
    try:
        fleet.put("gone", model_id=f"{TEAM}/gone")
        inbox = fleet.state("intake") / "inbox" / TEAM
        fleet.until(lambda: any(row.state == "sealed" for row in fleet.rows()), "it is sealed")
        for place in inbox.glob(".claimed-*"):
            shutil.rmtree(place)
        report = fleet.verdict("gone")
    finally:
        fleet.running["w1"].resume()
    assert report["verdict"] == "inconclusive"
    assert {one["code"] for one in report["findings"]} == {"cell/withdrawn"}
    fleet.whole()


def test_a_model_examined_on_a_worker_leaves_outputs_for_a_replay_at_the_promoter(fleet: Fleet) -> None:
    report = fleet.accepted("kept", model_id=f"{TEAM}/kept")
    with fleet.ledger() as ledger:
        entry = next(ledger.entries(kind="verdict", submission=report["submission"]))
        evidence = json.loads(ledger.evidence(entry.body["evidence_digest"]) or b"")
    files = {one["sha256"] for one in evidence["kept"].values()}
    assert files
    assert files <= set(os.listdir(fleet.state("promoter") / "outputs"))
    assert not list((fleet.state("w1") / "outputs").iterdir()), "the worker keeps none"


def test_nobody_but_the_promoter_holds_a_key_and_the_promoter_runs_no_cell(fleet: Fleet) -> None:
    for name in ("intake", "w1"):
        assert sorted(path.name for path in (fleet.state(name) / "keys").iterdir()) == ["node.pem"]
    import psutil

    promoter = psutil.Process(fleet.running["promoter"].pid)
    commands = [" ".join(one.cmdline()) for one in promoter.children(recursive=True)]
    assert not [one for one in commands if "bwrap" in one or "sandbox" in one], commands
