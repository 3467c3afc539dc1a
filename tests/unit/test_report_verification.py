"""Who holds a report checks it by what stands in it: the scripts in it do what they say."""

from __future__ import annotations

import contextlib
import html
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from typer.testing import CliRunner

from acceptd.cli.ledger import app as ledger_command
from acceptd.config import Paths
from acceptd.intake.seal import seal_directory
from acceptd.policy.policy import LimitsTable
from acceptd.record import attest, checkpoint
from acceptd.record.keys import create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.report.html import render
from acceptd.report.verification import place, section
from tests.report_world import HOSTILE, report

pytestmark = pytest.mark.unit
DIGEST = "ab" * 32
SIZES = 9


def scripts(page: str) -> list[str]:
    """Return the Python of a page's folded blocks, as whoever copies it gets it."""
    found = re.findall(r"<details><summary>[^<]*\.py[^<]*</summary><pre[^>]*><code>(.*?)</code>", page, re.DOTALL)
    return [html.unescape(text) for text in found]


def obey(text: str, folder: Path, *words: str) -> None:
    """Run a script as ``python -`` in ``folder`` would."""
    with contextlib.chdir(folder):
        sys_argv, sys.argv = sys.argv, ["check.py", *words]
        try:
            exec(compile(text, "check.py", "exec"), {"__name__": "__main__"})
        finally:
            sys.argv = sys_argv


@dataclass(frozen=True)
class Held:
    """What somebody holds of one verdict: the report, and a folder with the three files beside it."""

    report: dict[str, Any]
    folder: Path

    @property
    def check(self) -> str:
        return scripts(section(self.report))[0]

    def change(self, name: str, **members: Any) -> None:
        file = self.folder / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of verdicts under one checkpoint."""
    made = tmp_path_factory.mktemp("house") / "state"
    made.mkdir()
    for folder in Paths(made).missing():
        folder.mkdir(parents=True, exist_ok=True)
    create_keys(made)
    with Ledger.open(made) as ledger:
        for number in range(1, SIZES):
            said = {"bundle_digest": DIGEST, "entry": {"log": ledger.origin, "number": number}}
            value = attest.verdict_statement(
                submission=f"s-{number}", verdict="accepted", bundle_id="mosaic/m", bundle_digest=DIGEST, files=[],
                findings=[], predicate=said,
            )  # fmt: skip
            body = {
                "verdict": "accepted", "judged_at": "2026-11-29T15:17:00Z", "reason": "r", "findings": [],
                "bundle_digest": DIGEST, "statement": attest.sign_statement(value, load_signer(made, "ledger")),
            }  # fmt: skip
            ledger.append("verdict", body, submission=f"s-{number}")
        checkpoint.write(made, ledger, load_signer(made, "ledger"), load_keyring(made))
    return made


def held(state: Path, number: int, folder: Path) -> Held:
    with Ledger.open(state, create=False) as ledger:
        entry = ledger.entry(number)
        told = place(entry, ledger.origin)
    proof = CliRunner().invoke(ledger_command, ["proof", str(number), "--state", str(state)])
    assert proof.exit_code == 0, proof.output
    (folder / "proof.json").write_text(proof.stdout)
    (folder / "statement.json").write_text(json.dumps(entry.body["statement"]))
    (folder / "keyring.json").write_bytes((state / "keyring.json").read_bytes())
    return Held(report(verdict="accepted", bundle_digest=DIGEST, entry=told), folder)


def test_the_commands_name_this_bundle_and_this_entry(state: Path, tmp_path: Path) -> None:
    page = render(held(state, 3, tmp_path).report)
    assert f"acceptd verify statement.json --key keyring.json --digest {DIGEST}" in page
    assert "acceptd ledger proof 3 &gt; proof.json\nacceptd ledger verify" in page
    assert '<dd class="mono">3 of acceptd/' in page


@pytest.mark.parametrize("number", range(1, SIZES))
def test_the_script_verifies_every_place_of_a_log(state: Path, tmp_path: Path, number: int, capsys: Any) -> None:
    one = held(state, number, tmp_path)
    obey(one.check, tmp_path)
    assert capsys.readouterr().out == "verified\n"


def tampered(one: Held, what: str, state: Path) -> None:
    proof = json.loads((one.folder / "proof.json").read_text())
    if what == "another statement":
        other = held(state, 2, one.folder)
        one.change("proof.json", **proof)
        assert other.folder == one.folder
    elif what == "a changed payload":
        envelope = json.loads((one.folder / "statement.json").read_text())
        one.change("statement.json", payload=envelope["payload"][:-8] + "AAAAAAA=")
    elif what == "no signature":
        one.change("statement.json", signatures=[])
    elif what == "another root":
        one.change("proof.json", root="0" * 64)
    elif what == "a shorter path":
        one.change("proof.json", path=proof["path"][:-1])
    elif what == "another checkpoint":
        text, _, marked = proof["checkpoint"].rpartition("\n\n")
        log, size, root = text.split("\n")
        one.change("proof.json", checkpoint=f"{log}\n{int(size) + 1}\n{root}\n\n{marked}")
    elif what == "an unsigned checkpoint":
        text, _, marked = proof["checkpoint"].rpartition("\n\n")
        one.change("proof.json", checkpoint=f"{text}\n\n{marked[:-8]}AAAAAA==\n")
    elif what == "a stranger's keys":
        ring = json.loads((one.folder / "keyring.json").read_text())
        release = next(key for key in ring["keys"] if key["role"] == "release")
        one.change("keyring.json", keys=[{**release, "role": "ledger"}])
    else:
        one.report["entry"]["leaf_hash"] = "0" * 64


@pytest.mark.parametrize(
    "what",
    ["another statement", "a changed payload", "no signature", "another root", "a shorter path",
     "another checkpoint", "an unsigned checkpoint", "a stranger's keys", "a report of another leaf"],
)  # fmt: skip
def test_the_script_takes_nothing_that_was_changed(state: Path, tmp_path: Path, what: str, capsys: Any) -> None:
    one = held(state, 5, tmp_path)
    tampered(one, what, state)
    with pytest.raises((AssertionError, InvalidSignature, KeyError, ValueError)):
        obey(one.check, tmp_path)
    assert "verified" not in capsys.readouterr().out


def test_a_proof_without_a_checkpoint_is_none_and_the_script_says_so(state: Path, tmp_path: Path) -> None:
    one = held(state, 5, tmp_path)
    one.change("proof.json", checkpoint=None)
    with pytest.raises(AssertionError, match="no signed checkpoint covers the entry yet"):
        obey(one.check, tmp_path)


def test_the_second_script_knows_the_bytes_of_the_bundle(tmp_path: Path, capsys: Any) -> None:
    bundle = tmp_path / "bundle"
    for name in ("model.onnx", "données/étiquettes \U0001f40d.txt", "a/b", "a.b", 'quo"te\u00a0'):
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_text(name)
    (bundle / ".ready").touch()
    sealed = seal_directory(bundle, tmp_path / "sealed", LimitsTable())
    (text,) = scripts(section(report(bundle_digest=sealed.digest)))
    obey(text, tmp_path, str(bundle))
    assert "these are the bytes" in capsys.readouterr().out
    (bundle / "a.b").write_text("other")
    with pytest.raises(AssertionError):
        obey(text, tmp_path, str(bundle))


def test_a_local_check_says_that_there_is_no_record(tmp_path: Path) -> None:
    page = section(report(submission="check-1", ledger="none: nothing is recorded", bundle_digest=DIGEST))
    assert "nothing of it was signed or recorded" in page
    assert "acceptd verify" not in page
    assert len(scripts(page)) == 1
    assert scripts(section(report(submission="check-1", bundle_digest=None))) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_of_a_stranger_becomes_a_command(name: str) -> None:
    """A document that was tampered with, in the queue or on the way, gives no command at all."""
    text = HOSTILE[name]
    good = {"log": "acceptd/" + "cd" * 16, "number": 3, "leaf_hash": DIGEST}
    for key in good:
        page = section(report(verdict="accepted", bundle_digest=DIGEST, entry={**good, key: text}))
        assert "acceptd verify" not in page
        assert text == "" or text not in page
    page = section(report(verdict=text, bundle_digest=text, entry=good))
    assert scripts(page) == []
    assert "acceptd verify" not in page
    for bad in (True, -1, 1.5, None, [3]):
        assert "acceptd verify" not in section(report(verdict="accepted", entry={**good, "number": bad}))


def test_a_drop_that_could_not_be_sealed_has_no_digest_to_compare() -> None:
    entry = {"log": "acceptd/" + "cd" * 16, "number": 3, "leaf_hash": DIGEST}
    page = section(report(verdict="rejected", bundle_digest=None, entry=entry))
    assert "--digest" not in page
    (text,) = scripts(page)
    assert 'said["bundle_digest"] == None' in text
