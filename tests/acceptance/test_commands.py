"""What a person types wrongly: one line, the documented exit code, one JSON object, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples import evidence_classifier as classifier
from tests import commands
from tests.world import ROOT, TEAM, world

pytestmark = pytest.mark.acceptance


_acceptd = commands.run


@pytest.mark.parametrize(
    "words",
    [
        ("check", "/nowhere", "--json"),
        ("check", str(ROOT / "examples"), "--json", "--policy", "nowhere"),
        ("check", "--suite", str(ROOT), "--jsonl", "/nowhere/lines", "--json"),
        ("check", "--json", "--no-such-option"),
        ("status", "--state", "/nowhere", "--json"),
        ("no-such-command", "--json"),
    ],
)
def test_an_error_is_one_line_and_one_json_object(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    command = [sys.executable, "-m", "acceptd", *(str(tmp_path) if word == str(ROOT) else word for word in words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("acceptd: ")
    assert "Traceback" not in done.stderr
    said = json.loads(done.stdout)
    assert (set(said), said["exit_code"]) == ({"error", "remedy", "exit_code"}, 2)


def test_init_finishes_what_was_interrupted_and_checks_names_first(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert _acceptd("init", "--state", str(state), "--team", "Not A Name").returncode == 2
    assert not state.exists()
    assert _acceptd("init", "--state", str(state)).returncode == 0
    keyring = (state / "keyring.json").read_bytes()
    (state / "keyring.json").unlink()
    assert _acceptd("init", "--state", str(state)).returncode == 0
    assert (state / "keyring.json").read_bytes() == keyring


@pytest.mark.parametrize("name", ["v1.part", ".hidden", "n" * 250, "a.tmp"])
def test_submit_gives_every_bundle_a_name_that_is_taken(name: str, tmp_path: Path) -> None:
    with world(tmp_path) as made:
        bundle = classifier.write_bundle(tmp_path / name, version="1.0.0")
        said = json.loads(made.acceptd("submit", str(bundle), "--json").stdout)
        assert (made.state / "inbox" / TEAM / said["drop"]).is_dir()
        assert not said["drop"].startswith(".")
        assert not said["drop"].endswith((".part", ".tmp"))


def test_submit_leaves_nothing_of_what_cannot_be_copied(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        (tmp_path / "bundle").mkdir()
        os.mkfifo(tmp_path / "bundle" / "pipe")
        done = made.acceptd("submit", str(tmp_path / "bundle"))
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
        assert not list((made.state / "inbox" / TEAM).iterdir())


def test_check_follows_the_link_that_a_person_names(tmp_path: Path) -> None:
    classifier.write_bundle(tmp_path / "bundle", version="1.0.0")
    (tmp_path / "link").symlink_to("bundle")
    assert _acceptd("check", str(tmp_path / "link")).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_suite_ends_soon_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    for index in range(24):
        classifier.write_bundle(tmp_path / "suite" / f"m{index}", version="1.0.0")
    place, lines = tmp_path / "tmp", tmp_path / "lines"
    place.mkdir()
    command = [sys.executable, "-m", "acceptd", "check", "--suite", str(tmp_path / "suite"), "--jsonl", str(lines)]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "TMPDIR": str(place)}, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a run in the background ignores SIGINT
    )  # fmt: skip
    end = time.monotonic() + 60
    while not list(place.glob("*/sealed/*")) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert not list(place.iterdir())
    assert not lines.exists()  # whole or not at all


def test_a_contract_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        policies = tmp_path / "policies"
        (policies / "contracts" / TEAM).mkdir(parents=True)
        (policies / "contracts" / TEAM).chmod(0o775)
        (policies / "demo.toml").write_text('schema = 1\nname = "demo"\n')
        (made.state / "acceptd.toml").write_text(f'policy = "demo"\npolicies = "{policies}"\n')
        bundle = classifier.write_bundle(tmp_path / "bundle", version="1.0.0")
        done = made.acceptd("check", str(bundle))
        assert done.returncode == 2
        assert "chmod go-w" in done.stderr


def test_results_of_one_check_and_of_a_suite_are_the_same_findings_in_every_form(tmp_path: Path) -> None:
    good, bad = tmp_path / "suite" / "good", tmp_path / "suite" / "odd [red] :skull:"
    for place in (good, bad):
        classifier.write_bundle(place, version="1.0.0")
    (bad / "model.onnx").write_bytes(b"no model")
    files = {name: tmp_path / name for name in ("lines", "sarif", "junit")}
    words = [word for name, option in zip(files, ("--jsonl", "--sarif", "--junit"), strict=True)
             for word in (option, str(files[name]))]  # fmt: skip
    done = _acceptd("check", "--suite", str(tmp_path / "suite"), "--all", *words)
    assert done.returncode == 1, done.stderr
    assert "odd [red] :skull:" in done.stdout
    reports = [json.loads(line) for line in files["lines"].read_text().splitlines()]
    assert [report["path"].rpartition("/")[2] for report in reports] == [good.name, bad.name]
    assert [report["verdict"] for report in reports] == ["accepted", "rejected"]
    run = json.loads(files["sarif"].read_text())["runs"][0]
    codes = [finding["code"] for report in reports for finding in report["findings"]]
    assert [result["ruleId"] for result in run["results"]] == codes
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    assert {place.partition("/")[0] for place in places} >= {"odd%20%5Bred%5D%20%3Askull%3A"}
    suites = ElementTree.fromstring(files["junit"].read_text()).findall("testsuite")
    assert [suite.get("name") for suite in suites] == [good.name, bad.name]
    assert [suite.get("failures") == "0" for suite in suites] == [True, False]

    one = _acceptd("check", str(bad), "--json", *words)
    assert one.returncode == 1
    assert json.loads(one.stdout) == json.loads(files["lines"].read_text())
    alone = json.loads(files["sarif"].read_text())["runs"][0]
    assert [result["ruleId"] for result in alone["results"]] == [one["code"] for one in reports[1]["findings"]]


@pytest.mark.parametrize("option", ["--jsonl", "--sarif", "--junit"])
def test_a_result_that_cannot_be_written_stops_the_check_before_any_work(option: str, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "bundle", version="1.0.0")
    for path, said in (("/nowhere/out", "cannot be written"), (str(tmp_path / "bundle" / "out"), "inside what")):
        done = _acceptd("check", str(tmp_path / "bundle"), option, path)
        assert done.returncode == 2
        assert said in done.stderr
        assert not done.stdout
    assert bundle is None or not (tmp_path / "bundle" / "out").exists()


@pytest.mark.parametrize("words", [("external-data/path-escape",), ("--all",)])
def test_explain_is_one_json_document(words: tuple[str, ...]) -> None:
    facts = json.loads(_acceptd("policy", "explain", *words, "--json").stdout)
    one = facts if words != ("--all",) else next(x for x in facts if x["code"] == "external-data/path-escape")
    assert "CVE-2022-25882" in [reference["id"] for reference in one["references"]]
    assert one["policy_may_change"] == "fixed"


def test_explain_suggests_what_was_meant() -> None:
    done = _acceptd("policy", "explain", "external-data/path-escpae")
    assert done.returncode == 2
    assert "external-data/path-escape" in done.stderr
    assert _acceptd("policy", "explain").returncode == 2


def test_policy_check_tells_every_error_and_ends_with_two(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('name = "p"\n\n[limits]\nnodez = 1\nfiles = "x"\n')
    path.chmod(0o644)
    done = _acceptd("policy", "check", str(path))
    assert done.returncode == 2
    assert [line for line in done.stdout.splitlines() if line.startswith(str(path))] == [
        f"{path}:4: limits.nodez: [limits] has no key 'nodez'",
        f"{path}:5: limits.files: is text, 'x'; a whole number is needed",
    ]
    said = json.loads(_acceptd("policy", "check", str(path), "--json").stdout)
    assert [(one["line"], one["key"]) for one in said["troubles"]] == [(4, "limits.nodez"), (5, "limits.files")]
    assert _acceptd("policy", "check", str(ROOT / "policies")).returncode == 0
    assert _acceptd("policy", "check", str(tmp_path / "nowhere.toml")).returncode == 2


def test_policy_diff_and_schema(tmp_path: Path) -> None:
    assert (
        "stricter manifest.inferred: hold \u2192 refuse" in _acceptd("policy", "diff", "default", "strict").stdout
    )
    schema = _acceptd("policy", "schema", "policy").stdout
    assert schema == (ROOT / "docs" / "policy.schema.json").read_text()
    assert _acceptd("policy", "schema", "moat").returncode == 2
