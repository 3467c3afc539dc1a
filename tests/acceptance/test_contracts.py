"""A contract's whole life beside a running daemon: proposed, signed, in force, edited by hand, superseded."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from acceptd.cli import main
from acceptd.review import keys
from examples.evidence_classifier import MODEL_ID, write_bundle
from tests.world import ROOT, codes, world

pytestmark = pytest.mark.acceptance

POLICY = '[contracts]\nmissing = "hold"\nunsigned = "hold"\n'


class Commands:
    """The command line on one state, in this process: a fresh one for each of twenty commands is seconds."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._state, self._monkeypatch, self._capsys = state, monkeypatch, capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error."""
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["acceptd", *words])
            patch.setenv("ACCEPTD_STATE", str(self._state))
            with pytest.raises(SystemExit) as ended:
                main.main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out, err

    def __call__(self, *words: str) -> str:
        code, out, err = self.run(*words)
        assert code == 0, err
        return out

    def signed(self, file: Path, name: str, reason: str) -> str:
        """Make the bytes to sign, and sign them with a person's key; return the signed file."""
        bytes_, out = file.with_suffix(f".{name}.bytes"), file.with_suffix(f".{name}")
        self("contract", "sign", str(file), "--reason", reason, "--output", str(bytes_))
        self("contract", "sign", str(bytes_), "--key", str(file.parent / f"{name}.pem"), "--output", str(out))
        return str(out)


def test_a_contract_lives_and_only_what_people_signed_is_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = shutil.copytree(ROOT / "policies", tmp_path / "policies")
    with (policies / "demo.toml").open("a") as file:
        file.write(POLICY)
    place = policies / "contracts" / f"{MODEL_ID}.toml"
    with world(tmp_path) as made:
        acceptd, lines = Commands(made.state, monkeypatch, capsys), ["schema = 1"]
        for name, team in (("ada", "safety"), ("eve", MODEL_ID.partition("/")[0])):
            key = keys.public_text(keys.make(tmp_path / f"{name}.pem"))
            lines += ["[[reviewers]]", f'name = "{name}"', f'team = "{team}"', f'key = "{key}"']
        (policies / "reviewers.toml").write_text("\n".join(lines))
        settings = made.state / "acceptd.toml"
        settings.write_text(f"policies = {json.dumps(str(policies))}\n{settings.read_text()}")
        made.start()

        def judged(name: str) -> tuple[dict[str, Any], set[str]]:
            report = made.verdict(made.drop(write_bundle, name))
            entry = next(one for one in made.entries("verdict") if one["submission"] == report["submission"])
            whole = json.loads(acceptd("report", report["submission"], "--json"))
            return entry, {code for code in codes(whole, "hold", "warn") if code.startswith("contract/")}

        assert judged("first")[1] == {"contract/missing"}

        file = tmp_path / "v1.toml"
        bundle = str(write_bundle(tmp_path / "bundle"))
        acceptd("contract", "propose", "--from-bundle", bundle, "--out", str(file))
        text = re.sub(r"(?m)^.*_ms = .*\n", "", file.read_text())  # this host may be busy
        file.write_text(text)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(file, place)
        assert judged("unsigned")[1] == {"contract/unsigned"}

        code, _, err = acceptd.run("contract", "install", acceptd.signed(file, "eve", "ours"))
        assert (code, "do not count" in err) == (2, True)
        acceptd("contract", "install", acceptd.signed(file, "ada", "agreed in review 7"))
        [version] = made.entries("contract-version")
        entry, found = judged("signed")
        assert (found, entry["body"]["verdict"]) == (set(), "accepted")
        assert entry["body"]["contract_digest"] == version["body"]["digest"]

        place.write_text(re.sub("model_bytes = .*", "model_bytes = 8519680", text))
        entry, found = judged("edited")
        assert found == {"contract/edited"}
        assert entry["body"]["contract_digest"] == version["body"]["digest"], "judged by what was signed"

        second = tmp_path / "v2.toml"
        second.write_text(place.read_text().replace("version = 1", "version = 2"))
        code, out, _ = acceptd.run("contract", "diff", MODEL_ID, str(second))
        assert (code, out.splitlines()[0]) == (
            1, "LOOSER   ceilings.model_bytes: 4259840 → 8519680 (2 times as much)",
        )  # fmt: skip
        out = acceptd("contract", "supersede", acceptd.signed(second, "ada", "a larger one is due"))
        assert "LOOSER" in out
        entry, found = judged("second")
        assert found == set()
        made.stop()

        # Before anything was judged by them, the rules were entries; what verifies says so of every verdict.
        seqs = {
            (one["type"], one["body"]["digest"]): one["seq"]
            for one in made.entries()
            if one["type"] in {"policy", "profile", "contract"}
        }
        for one in made.entries("verdict"):
            for kind in ("policy", "profile", "contract"):
                used = one["body"][f"{kind}_digest"]
                assert used is None or seqs[kind, used] < one["seq"]
        assert [one["version"] for one in json.loads(acceptd("contract", "history", MODEL_ID, "--json"))] == [
            2,
            1,
        ]
        [row] = json.loads(acceptd("contract", "list", "--json"))
        assert (row["model"], row["version"], row["status"], row["signers"]) == (MODEL_ID, 2, "signed", ["ada"])
        assert "verified" in acceptd("ledger", "verify")
        assert "ceilings.model_bytes" in acceptd("contract", "show", MODEL_ID, "--effective")
        after = acceptd("contract", "propose", "--from-release", MODEL_ID)
        assert "# Version 2 is in force; this one supersedes it." in after
