"""Held-out vectors through a real daemon: one bit in all that the team can read, all of it for a reviewer."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import evidence_classifier as classifier
from examples.bundle_text import write_set
from tests.world import MODEL_ID, ROOT, TEAM, World, codes, world

pytestmark = pytest.mark.acceptance
WRONG = (0.7131842, 0.2071931, 0.0796227)
"""Expected values that stand nowhere else: whoever finds them found what was held out."""
MARKS = [
    b"zebra",
    b"0.7131842",
    b"0.2071931",
    b"0.0796227",
    struct.pack("<f", WRONG[0]),
    struct.pack("<f", WRONG[1]),
]
"""Seven places: a report's seconds have at most six, and would be one of these by chance."""
READ = """
import json, os, sys
state, user, marks = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
tops = [os.path.join(state, name) for name in os.listdir(state)]  # who knows the names, not who may list them
if user:
    os.setgroups([]), os.setgid(user), os.setuid(user)
found = {}
for path in (os.path.join(place, name) for top in tops for place, _, names in os.walk(top) for name in names):
    try:
        data = open(path, "rb").read()
    except OSError:
        continue
    found[path] = [mark for mark in marks if bytes.fromhex(mark) in data or mark.encode() in data]
for path in [path for path in tops if os.path.isfile(path) and os.access(path, os.R_OK)]:
    data = open(path, "rb").read()
    found[path] = [mark for mark in marks if bytes.fromhex(mark) in data or mark.encode() in data]
print(json.dumps(found))
"""


def sets(home: Path, expected: tuple[float, ...] | None = None) -> Path:
    features = np.array([[0.31, 0.57, 0.25, 0.13]], np.float32)
    values = classifier.oracle(features)["probabilities"] if expected is None else np.array([expected])
    write_set(home / "zebra_0", [("features", features)], [("probabilities", values.astype(np.float32))])
    return home


class Desk:
    """A world whose contract holds vectors out."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.policies = made.state.parent / "policies"
        shutil.copytree(ROOT / "policies", self.policies)
        settings = f'policy = "demo"\npolicies = "{self.policies}"\n[inbox]\nsettle_seconds = 0.2\n'
        (made.state / "acceptd.toml").write_text(settings)

    def hold_out(self, expected: tuple[float, ...] | None, version: int, evaluations: int = 5) -> None:
        """Put a set in place and a contract in force that names it, under a version of its own."""
        source = sets(self.world.state.parent / f"held-{version}", expected)
        done = self.world.acceptd("policy", "heldout", "add", MODEL_ID, str(source))
        assert done.returncode == 0, done.stderr
        example = self.policies / "contracts" / "mosaic" / "evidence-disposition.toml.example"
        # No ceilings: a busy machine must not decide here.
        text = re.sub(r"\[ceilings\].*?(?=\n\[\[)", "", example.read_text(), flags=re.S)
        text = text.replace("version = 1", f"version = {version}", 1) + "\n" + done.stdout
        example.with_suffix("").write_text(text)
        table = f"\n[heldout]\nseconds = 2.0\nevaluations = {evaluations}\n[regression]\nenabled = false\n"
        (self.policies / "demo.toml").write_text((ROOT / "policies" / "demo.toml").read_text() + table)

    def judged(self, version: str) -> dict[str, Any]:
        return self.world.verdict(
            self.world.drop(lambda path: classifier.write_bundle(path, version=version, sets=1), f"v{version}")
        )

    def reviewed(self, report: dict[str, Any], *words: str) -> str:
        done = self.world.acceptd("report", report["submission"], *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def marks(self, user: int) -> dict[str, list[str]]:
        """Return every file of the state that a user can read (0: root), with the marks that stand in it."""
        reachable(self.world.state.parent)
        command = [sys.executable, "-c", READ, str(self.world.state), str(user), *(mark.hex() for mark in MARKS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


def reachable(home: Path) -> None:
    """Let another user reach the state, to show what he cannot read. Each start of a pytest takes it back."""
    for part in (home, *home.parents):
        if part.stat().st_uid == os.getuid() and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o011)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("heldout")
    reachable(home)
    with world(home) as made:
        yield Desk(made)


def test_a_kill_after_counting_counts_once_and_the_next_daemon_evaluates(desk: Desk) -> None:
    desk.hold_out(None, version=1)
    drop = desk.world.drop(lambda path: classifier.write_bundle(path, version="1.0.0", sets=1), "first")
    desk.world.start(failpoint="record.heldout.spent", ready=False)
    desk.world.until(desk.world.daemon_ended, "the daemon dies")
    (spent,) = desk.world.entries("heldout")
    assert desk.world.entries("verdict") == []
    desk.world.start()
    report = desk.world.verdict(drop)
    assert report["verdict"] == "accepted", report["findings"]
    assert report["release"]["number"] == 1
    assert desk.world.entries("heldout") == [spent]
    assert (spent["body"]["number"], spent["submission"]) == (1, report["submission"])
    assert json.loads(desk.reviewed(report, "--json"))["heldout"]["sets"] == {"heldout-0": "zebra_0"}
    assert report["heldout"] is None
    assert not {code for code in codes(report) if code.startswith("heldout/")}


def test_a_failure_is_one_bit_in_every_byte_that_the_team_can_read(desk: Desk) -> None:
    desk.hold_out(WRONG, version=2, evaluations=1)
    desk.world.reload()  # the policy's bound on evaluations is another one
    report = desk.judged("2.0.0")
    assert report["verdict"] == "rejected"
    assert report["reason"] == "heldout/failed at heldout: the acceptor's held-out vectors were not passed"
    assert codes(report, "reject", "hold") == {"heldout/failed"}
    # A reviewer sees all of it, in each form.
    for words in (["--json"], [], ["--html", str(desk.world.stage / "page.html")]):
        text = desk.reviewed(report, *words)
        text += (desk.world.stage / "page.html").read_text() if "--html" in words else ""
        assert "zebra_0" in text, words
        assert any(mark.decode() in text for mark in MARKS[1:4]), words
    if os.geteuid() == 0:
        seen = desk.marks(65534)
        outbox = desk.world.state / "outbox" / TEAM / report["submission"]
        assert {str(outbox / "verdict.json"), str(outbox / "report.html")} <= set(seen)
        assert any("/releases/" in path for path in seen)
        assert any("/store/" in path for path in seen)
        assert {path: marks for path, marks in seen.items() if marks} == {}
        # The same look with the right to read everything finds them: in heldout/ and in the record.
        found = {
            path.removeprefix(str(desk.world.state)).split("/")[1]
            for path, marks in desk.marks(0).items()
            if marks
        }
        assert {"heldout", "ledger.sqlite3"} <= {name.removesuffix("-wal") for name in found}


def test_beyond_the_budget_a_person_decides_and_nothing_is_run(desk: Desk) -> None:
    report = desk.judged("2.0.1")
    assert report["verdict"] == "held"
    assert codes(report, "reject", "hold") == {"heldout/budget-spent"}
    assert len(desk.world.entries("heldout")) == 2
    assert json.loads(desk.reviewed(report, "--json"))["heldout"]["jobs"] == []
    shown = json.loads(desk.world.acceptd("policy", "heldout", "show", MODEL_ID, "--json").stdout)
    assert (shown["contract"]["spent"], shown["contract"]["sets"]) == (1, ["zebra_0"])


def test_signed_statements_and_entries_say_no_more_than_the_outbox(desk: Desk) -> None:
    for entry in desk.world.entries():
        text = json.dumps(entry)
        assert "zebra" not in text
        assert "0.71318" not in text
        statement = (entry["body"].get("statement") or {}).get("payload")
        if statement:
            payload = json.loads(base64.b64decode(statement))
            predicate = payload["predicate"]
            assert "heldout" not in {one["stage"] for one in predicate.get("stages", ())}
            assert "zebra" not in json.dumps(payload)


def test_a_contract_is_on_record_before_its_held_out_sets_are_evaluated(desk: Desk) -> None:
    known: set[str] = set()
    for entry in desk.world.entries():
        if entry["type"] == "contract":
            known.add(entry["body"]["digest"])
        assert entry["type"] != "heldout" or entry["body"]["contract_digest"] in known


def test_a_local_check_never_has_them(desk: Desk, tmp_path: Path) -> None:
    made = classifier.write_bundle(tmp_path / "bundle", version="3.0.0", sets=1)
    done = desk.world.acceptd("check", str(made), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (0, "accepted"), done.stderr
    assert "heldout/not-here" in codes(report, "info")
    assert report["heldout"]["jobs"] == []
    assert len(desk.world.entries("heldout")) == 2


def test_under_two_required_profiles_one_evaluation_runs_both_and_tells_one_bit(desk: Desk) -> None:
    desk.hold_out(WRONG, version=3)
    twin = 'schema = 1\nname = "twin"\nproviders = ["CPUExecutionProvider"]\n'
    (desk.policies / "profiles" / "twin.toml").write_text(twin)
    text = (desk.policies / "demo.toml").read_text()
    assert "profile" not in re.sub(r"#.*", "", text), "else the key stands there already"
    (desk.policies / "demo.toml").write_text(f'profiles = ["cpu", "twin"]\n{text}')
    desk.world.reload()
    report = desk.judged("4.0.0")
    assert report["verdict"] == "rejected", report["findings"]
    assert codes(report, "reject", "hold") == {"heldout/failed"}
    assert len(desk.world.entries("heldout")) == 3, "counted once"
    told = [one["code"] for one in report["findings"] if "twin" in one["where"]]
    assert set(told) <= {"behaviour/probes-left-out"}, "that a host is busy is no bit of them"
    held = json.loads(desk.reviewed(report, "--json"))["heldout"]
    assert sorted(job["kind"] for job in held["jobs"]) == ["run", "run", "vectors"]
    assert {row["profile"] for row in held["rows"]} == {"", "twin"}
