"""What an operator gets wrong while the daemon runs: one clear verdict or line, and the daemon goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from examples import evidence_classifier as classifier
from tests.world import MODEL, ROOT, TEAM, World, world

pytestmark = pytest.mark.acceptance


def _drop(made: World, name: str, version: str = "1.0.0") -> str:
    return made.drop(lambda path: classifier.write_bundle(path, version=version), name)


def test_a_broken_contract_is_one_inconclusive_verdict_at_once(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        policies = shutil.copytree(ROOT / "policies", tmp_path / "policies")
        contract = policies / "contracts" / TEAM / f"{MODEL}.toml"
        contract.parent.mkdir(parents=True, exist_ok=True)
        contract.write_text("id = [\n")
        settings = made.state / "acceptd.toml"
        settings.write_text(f'policies = "{policies}"\n' + settings.read_text())
        made.start()
        report = made.verdict(_drop(made, "first"))
        assert (report["verdict"], report["findings"][0]["code"]) == ("inconclusive", "contract/refused")
        contract.unlink()
        assert made.verdict(_drop(made, "second"))["verdict"] == "accepted"
        made.stop()
        log = made.log.read_text()
        assert str(contract) in log
        assert "exception" not in log
        assert len(made.entries("verdict")) == 2


def test_a_verdict_waits_until_its_outbox_is_mended(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.start()
        assert made.daemon is not None
        outbox = made.state / "outbox" / TEAM
        outbox.rmdir()
        outbox.touch()
        drop = _drop(made, "v1")
        for count in range(1, 5):  # more often than two deaths would allow
            made.until(lambda n=count: made.log.read_text().count("submission failed") >= n, "a failure")  # type: ignore[misc]
            made.daemon.send_signal(signal.SIGHUP)  # housekeeping now, not in some seconds
        outbox.unlink()
        made.daemon.send_signal(signal.SIGHUP)
        assert made.verdict(drop)["verdict"] == "accepted"
        made.stop()
        assert len(made.entries("verdict")) == 1
        assert not list((made.state / "quarantine").iterdir())


def test_a_full_disk_behind_the_log_stops_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as made, open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "acceptd", "daemon", "--state", str(made.state)]
        made.daemon = subprocess.Popen(command, cwd=ROOT, stderr=full)
        assert made.verdict(_drop(made, "v1"))["verdict"] == "accepted"
        made.stop()


def test_a_flood_of_signals_does_not_end_the_daemon(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        daemon = made.start()
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            os.kill(daemon.pid, signal.SIGHUP)
        assert made.verdict(_drop(made, "v1"))["verdict"] == "accepted"
        made.stop()
