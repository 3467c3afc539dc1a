"""Stored submissions judged again under another policy, with nothing run; two profiles through a real daemon."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from acceptd.cli.replay import exit_code, moment
from acceptd.config import CHECKOUT
from acceptd.errors import ProfileRefusedError, UsageError
from acceptd.kept import KeptOutputs
from acceptd.loader import open_release
from acceptd.policy.load import load_policy
from acceptd.policy.policy import Policy
from acceptd.record.attest import _open
from acceptd.record.canonical import canonical, digest
from acceptd.record.entry import Filter
from acceptd.record.log import Ledger
from acceptd.replay.again import Replayed, agrees, judged, recorded
from acceptd.replay.run import Replay
from acceptd.replay.stored import Shelf
from examples import evidence_classifier as classifier
from examples import hostile_bundles
from tests.world import MODEL_ID, TEAM, World, world

pytestmark = pytest.mark.acceptance

HOSTILE = ("goldens-wrong", "other-team", "zip-traversal", "external-parent")
BASIC = """schema = 1
name = "basic"
providers = ["CPUExecutionProvider"]
optimisation = "basic"
intra_op_threads = 2
"""


def bare(path: Path) -> Path:
    classifier.write_bundle(path)
    (path / "bundle.toml").unlink()
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A state with a daemon's verdicts of every kind under two profiles; the daemon is gone."""
    home = tmp_path_factory.mktemp("replay")
    with world(home, TEAM, "other") as made:
        policies = home / "policies"
        shutil.copytree(CHECKOUT / "policies", policies)
        (policies / "profiles" / "basic.toml").write_text(BASIC, "utf-8")
        text = (policies / "demo.toml").read_text("utf-8")
        two = text.replace("schema = 1\n", 'schema = 1\nprofiles = ["cpu"]\noptional_profiles = ["basic"]\n')
        (policies / "demo.toml").write_text(two, "utf-8")
        (made.state / "acceptd.toml").write_text(
            f"policy = 'demo'\npolicies = {json.dumps(str(policies))}\n[inbox]\nsettle_seconds = 0.2\n", "utf-8"
        )
        made.start()
        names = [made.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), "good")]
        names += [made.drop(hostile_bundles.BY_NAME[name].write, f"hostile-{name}") for name in HOSTILE]
        names.append(made.drop(bare, "bare"))
        for name in names:
            made.verdict(name)
        second = made.drop(
            lambda path: classifier.write_bundle(path, version="2.0.0", bias=(-0.75, 0.5, 0.0)), "second"
        )
        assert made.verdict(second)["difference"]["release"]  # beside the release that the first one made
        made.stop()
        yield made


def policy(place: World, *changes: tuple[str, str], more: str = "") -> Policy:
    """Return the policy of the world with text replaced or added at the end."""
    text = (place.state.parent / "policies" / "demo.toml").read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = place.state.parent / "changed.toml"
    file.write_text(text + more, "utf-8")
    return load_policy(file)


def replay(state: Path, chosen: Policy, **wanted: str) -> tuple[int, list[Replayed]]:
    """Judge again in this process; return the exit code of the command and what became of each."""
    with Ledger.open(state, create=False) as ledger:
        work = Replay(ledger, KeptOutputs(state / "outputs"), chosen)
        found = list(work.run(work.chosen(Filter(type="verdict", **wanted))))
    return exit_code(found, damaged=work.damaged), found


def accepted(found: Sequence[Replayed]) -> Replayed:
    return next(one for one in found if one.old == "accepted")


def test_positive_control_the_world_holds_every_kind_of_verdict(done: World) -> None:
    verdicts = {report["verdict"] for report in done.verdicts()}
    assert {"accepted", "rejected", "held"} <= verdicts
    assert all(len(entry["body"]["profiles"]) == 2 for entry in done.entries("verdict"))


def test_under_its_own_policy_every_submission_gives_the_very_same_findings(done: World) -> None:
    with Ledger.open(done.state, create=False) as ledger:
        shelf = Shelf(ledger)
        entries = list(ledger.entries(kind="verdict"))
        assert len(entries) == len(HOSTILE) + 3
        for entry in entries:
            stored = shelf.read(entry)
            again = judged(stored, stored.policy, stored.submission, stored.targets)
            found = recorded(again)
            team = [one for one in found if one["audience"] == "team"]
            assert canonical(team) == canonical(entry.body["findings"]), entry.body["drop"]
            assert agrees(found, entry.body)
            assert (again.verdict, again.judged_at) == (entry.body["verdict"], entry.body["judged_at"])
            assert [(one.profile, one.verdict) for one in again.profiles] == [
                (one["profile"], one["verdict"]) for one in entry.body["profiles"]
            ]


def test_the_command_says_that_the_same_policy_changes_nothing(done: World) -> None:
    ran = done.acceptd("policy", "replay", "--policy", "demo", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["counts"] == {"unchanged": len(HOSTILE) + 3}
    assert (found["drifted"], found["damaged"], found["exit_code"]) == (0, 0, 0)


def test_a_severity_shows_as_a_changed_verdict_with_its_codes(done: World) -> None:
    code, found = replay(done.state, policy(done, more='\n[severity]\n"parity/mismatch" = "warn"\n'))
    turned = next(one for one in found if "parity/mismatch" in (one.added or {}))
    assert (turned.status, turned.old) == ("changed", "rejected")
    assert turned.added == turned.removed  # the same findings, of another weight
    assert code != 0
    assert {one.team for one in replay(done.state, policy(done), team="other")[1]} <= {"other"}
    assert replay(done.state, policy(done), since="2099-01-01T00:00:00Z") == (0, [])


def test_a_tighter_tolerance_is_compared_again_from_kept_bytes_and_without_them_needs_a_rerun(
    done: World, tmp_path: Path
) -> None:
    tight = policy(done, more="\n[parity]\nmax_rtol = 0.0\nmax_atol = 0.0\n")
    code, found = replay(done.state, tight)
    good = accepted(found)
    assert (good.status, good.new, code) == ("changed", "rejected", 1)
    assert "parity/mismatch" in (good.added or {})
    outputs = done.state / "outputs"
    assert outputs.stat().st_mode & 0o777 == 0o700
    for file in outputs.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert hashlib.sha256(file.read_bytes()).hexdigest() == file.name
    aside = tmp_path / "aside"
    shutil.move(outputs, aside)
    try:
        code, found = replay(done.state, tight)
        assert (accepted(found).status, code) == ("needs-rerun", 4)
        assert replay(done.state, policy(done))[0] == 0  # the same tolerances need no bytes
        shutil.copytree(aside, outputs)
        for file in outputs.iterdir():
            file.write_bytes(file.read_bytes()[:-1] + b"\x01")
        code, found = replay(done.state, tight)
        assert code == 5
        assert "digest" in accepted(found).reason
    finally:
        shutil.rmtree(outputs, ignore_errors=True)
        shutil.move(aside, outputs)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[limits]", "[probes]\nmax_elements = 17\n[limits]", "probes.max_elements changed"),
        ("[limits]", "[limits]\nfiles = 3", "limits.files was lowered: 16 were used, 3 are allowed"),
        ('profiles = ["cpu"]', 'profiles = ["cpu", "gpu"]', "it was never run under profile gpu"),
    ],
)
def test_what_would_have_been_run_otherwise_needs_a_rerun(done: World, old: str, new: str, words: str) -> None:
    code, found = replay(done.state, policy(done, (old, new)))
    good = accepted(found)
    assert (good.status, code) == ("needs-rerun", 4)
    assert words in good.reason


def test_one_profile_less_needs_no_rerun(done: World) -> None:
    both = 'profiles = ["cpu"]\noptional_profiles = ["basic"]'
    _, found = replay(done.state, policy(done, (both, 'profile = "basic"')))
    one = accepted(found)
    assert one.new == "accepted", one
    # On a busy host a profile's run may have left probes out: what it said of that goes with the profile.
    assert {*(one.added or ()), *(one.removed or ())} <= {"behaviour/probes-left-out"}, one
    assert one.status == ("changed" if one.added or one.removed else "unchanged")


def test_a_submission_whose_rules_were_not_kept_says_so(done: World, tmp_path: Path) -> None:
    copy = tmp_path / "state"
    copy.mkdir()
    shutil.copy2(done.state / "ledger.sqlite3", copy / "ledger.sqlite3")
    used = {entry["body"]["policy_digest"] for entry in done.entries("verdict")}
    database = sqlite3.connect(copy / "ledger.sqlite3")
    database.executemany("DELETE FROM evidence WHERE digest = ?", [(one,) for one in used])
    database.commit()
    database.close()
    code, found = replay(copy, policy(done))
    assert {one.reason for one in found} == {"the policy that it was judged with is not kept"}
    assert (code, {one.status for one in found}) == (4, {"not-replayable"})


def test_since_is_a_span_or_a_time_and_nothing_else() -> None:
    assert moment("2d", now=1_795_953_420.0) == "2026-11-27T11:57:00Z"
    assert moment("2026-11-27T11:57:00Z") == "2026-11-27T11:57:00Z"
    for text in ("yesterday", "0d", "3", "2026-11-27", "-1d", ""):
        with pytest.raises(UsageError, match="since"):
            moment(text)


# -- what the release says of the profiles


def test_the_release_holds_for_the_profiles_that_accepted_and_statements_name_each(done: World) -> None:
    keys = done.state / "keyring.json"
    with pytest.raises(ProfileRefusedError, match="cpu, basic"):
        open_release(done.state, MODEL_ID, keys=keys, now=lambda: 0)
    for name, level in (("cpu", "all"), ("basic", "basic")):
        opened = open_release(done.state, MODEL_ID, keys=keys, profile=name, now=lambda: 0)
        assert opened.options["optimisation"] == level
        answer = opened.session().run({"features": [[0.9, 0.8, 0.75, 0.1]]})
        assert answer.labels() == ["accept"]
    entry = next(one for one in done.entries("verdict") if one["body"]["verdict"] == "accepted")
    rows = {row["profile"]: row for row in entry["body"]["profiles"]}
    assert rows["cpu"]["runtime_identity"] != rows["basic"]["runtime_identity"]
    said = json.loads(_open(entry["body"]["statement"])[0])["predicate"]
    assert said["profiles"] == entry["body"]["profiles"]
    assert {digest(one) for one in said["runtimes"]} == {row["runtime_identity"] for row in rows.values()}
    listed = json.loads(done.acceptd("release", "list", "--json").stdout)
    assert listed[0]["profiles"] == ["cpu", "basic"]
