"""Observe mode through a real daemon: all is judged and on record, nothing is blocked, and nothing is promoted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from examples import evidence_classifier as classifier
from examples import hostile_bundles
from tests.world import MODEL_ID, ROOT, TEAM, world

pytestmark = pytest.mark.acceptance


def test_an_observing_daemon_records_what_would_be_and_the_next_submission_outside_it_decides(
    tmp_path: Path,
) -> None:
    policies = shutil.copytree(ROOT / "policies", tmp_path / "policies")
    plain = (policies / "demo.toml").read_text()
    (policies / "demo.toml").write_text(f"{plain}\n[observe]\neverything = true\n")
    with world(tmp_path) as made:
        settings = made.state / "acceptd.toml"
        settings.write_text(f"policies = {json.dumps(str(policies))}\n{settings.read_text()}")
        made.start()
        good = classifier.write_bundle(tmp_path / "good")
        bad = hostile_bundles.BY_NAME["goldens-wrong"].write(tmp_path / "bad")
        told = {}
        for name, place in (("good", good), ("bad", bad)):
            done = made.acceptd("submit", str(place), "--team", TEAM, "--wait")
            assert done.returncode == 0, done.stderr
            assert "OBSERVE MODE" in done.stderr
            told[name] = done.stdout
        assert "OBSERVED: WOULD BE ACCEPTED" in told["good"]
        assert "OBSERVED: WOULD BE REJECTED" in told["bad"]
        rows = json.loads(made.acceptd("status", "--json").stdout)
        assert [(row["verdict"], row["observed"], row["release"]) for row in rows["submissions"]] == [
            ("accepted", True, None), ("rejected", True, None),
        ]  # fmt: skip
        assert rows["observe"]["everything"]
        assert "observe everything" in " ".join(made.acceptd("status").stdout.split())
        assert [entry["body"]["observed"] for entry in made.entries("verdict")] == [True, True]
        assert made.entries("intent") == []
        made.until(lambda: not list((made.state / "sealed").iterdir()), "the sealed copies are gone")
        for folder in (f"inbox/{TEAM}", "store/sha256", "quarantine"):
            place = made.state / folder
            assert not place.exists() or list(place.iterdir()) == [], folder
        seen = made.acceptd("observe", "--json", "--html", str(tmp_path / "page.html"))
        assert seen.returncode == 0, seen.stderr
        found = json.loads(seen.stdout)
        # The newest verdict of a model counts: the bad bundle is the same model.
        assert found["counts"] == {"accepted": 0, "rejected": 1, "held": 0, "inconclusive": 0}
        assert [(one["code"], one["models"]) for one in found["refusals"]] == [("parity/mismatch", [MODEL_ID])]
        report = made.state / "outbox" / TEAM / rows["submissions"][1]["submission"] / "report.html"
        assert "observed: would be rejected" in report.read_text(encoding="utf-8")
        assert MODEL_ID in (tmp_path / "page.html").read_text(encoding="utf-8")

        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "old.onnx").write_bytes(classifier.build_model())
        adopt = ("adopt", str(tmp_path / "models"), "--into", str(tmp_path / "out"), "--team", TEAM, "--submit")
        taken = made.acceptd(*adopt, "--json")
        assert taken.returncode == 0, taken.stderr
        [row] = json.loads(taken.stdout)["models"]
        assert (row["verdict"], row["model"]) == ("accepted", f"{TEAM}/old")
        assert row["submission"] in {one["submission"] for one in made.entries("verdict")}
        assert made.entries("intent") == []

        (policies / "demo.toml").write_text(plain)
        made.reload()
        made.until(lambda: b'"everything": false' in (made.state / "work.json").read_bytes(), "it tells so")
        refused = made.acceptd(*adopt)
        assert refused.returncode == 2
        assert "it would promote" in refused.stderr
        digest = made.entries("verdict")[0]["body"]["bundle_digest"]
        refused = made.acceptd("release", "promote", MODEL_ID, "--digest", digest)
        assert refused.returncode == 2
        assert "observe mode" in refused.stderr
        done = made.acceptd("submit", str(good), "--team", TEAM, "--wait")
        assert done.returncode == 0, done.stderr
        assert "production 1" in done.stdout
        left = json.loads(made.acceptd("observe", "--json").stdout)["models"]
        assert [one["name"] for one in left] == [f"{TEAM}/old"]
        verified = made.acceptd("ledger", "verify")
        assert verified.returncode == 0, verified.stdout
