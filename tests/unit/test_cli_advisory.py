"""`acceptd advisory`: a list is signed offline, installed, and says which releases it means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.cli.advisory import app
from acceptd.record.keys import Signer
from acceptd.release import store
from acceptd.review import keys
from tests.command_world import Commands, ready
from tests.release_world import MODEL, Accepted, World
from tests.unit.test_advisories import LIST, RUNTIME, advisory, changed

pytestmark = pytest.mark.unit


class Desk:
    """An instance with one reviewer, whose key lies in a file."""

    def __init__(self, home: Path) -> None:
        self.world = World(home)
        ready(self.world.state)
        self.key = home / "ada.pem"
        self.signer: Signer = keys.make(self.key)
        self.people = self.world.state / "policies" / "reviewers.toml"
        public = keys.public_text(self.signer)
        self.people.write_text(f'[[reviewers]]\nname = "ada"\nteam = "security"\nkey = "{public}"\n')
        self.run = Commands(app, self.world.state)

    def file(self, content: object, name: str = "list.json") -> Path:
        path = self.world.root / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def install(self, document: dict[str, Any]) -> str:
        signed = self.world.root / f"{document['number']}.signed"
        Commands(app)("sign", self.file(document), "--key", self.key, "--output", signed)
        return self.run("install", signed)

    def released(self, *runtimes: Any) -> str:
        """Promote a bundle whose evidence says under which runtimes it was accepted."""
        manifest = {"schema": 1, "bundle": {"id": MODEL, "version": "1.0.0"}, "models": []}
        path, sealed = self.world.sealed({"model.onnx": b"model" * 50})
        body = self.world.verdict(sealed, manifest, path.name, model_id=MODEL)
        said = {"runtimes": [one.model_dump(mode="json", by_alias=True) for one in runtimes], "others": []}
        with self.world.ledger.transaction() as change:
            if runtimes:
                body["evidence_digest"] = change.put_evidence(json.dumps(said).encode())
            seq = change.append("verdict", body, submission=path.name).seq
        store.put(self.world.state, path, sealed)
        self.world.promote(Accepted(sealed.digest, manifest, seq))
        return sealed.digest


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.world.close()


def test_without_a_list_nothing_is_said_to_be_unaffected(desk: Desk) -> None:
    assert desk.run("list").strip() == "no list was ever installed"
    assert json.loads(desk.run("list", "--json")) == {"list": None}
    said = desk.run.run("affected")
    assert (said.code, said.error) == (2, "no list was ever installed")
    assert said.remedy == "acceptd advisory install FILE"


def test_the_list_in_force_is_shown_with_its_signer_and_its_end(desk: Desk) -> None:
    out = desk.install(LIST)
    assert f"list 3 is in force until {LIST['expires_at']}, 1 advisory" in out
    shown = desk.run("list")
    assert "list 3, signed by ada" in shown
    assert f"until {LIST['expires_at']}" in shown
    assert "CVE-2026-1" in shown
    told = json.loads(desk.run("list", "--json"))
    assert (told["list"]["number"], told["signer"], told["expired"]) == (3, "ada", False)
    desk.install(changed(number=4, advisories=[]))
    assert "it names no advisory" in desk.run("list")


def test_a_list_that_has_expired_is_told_by_the_exit_code_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.install(LIST)
    monkeypatch.setattr("acceptd.cli.advisory.utc_now", lambda: "2099-01-01T00:00:00Z")
    said = desk.run.run("list")
    assert (said.code, "EXPIRED at 2099-01-01T00:00:00Z" in said.out) == (3, True)
    said = desk.run.run("list", "--json")
    assert (said.code, said.json["expired"]) == (3, True)
    said = desk.run.run("affected")
    assert (said.code, "the list EXPIRED at" in said.out) == (0, True)


def test_what_is_promoted_is_affected_unknown_or_neither_and_nothing_is_moved(desk: Desk) -> None:
    desk.install(advisory(versions="<1.0"))
    digest = desk.released(RUNTIME)
    before = desk.world.ledger.tree()
    assert desk.run("affected").strip() == "1 promoted, by list 3: 0 affected, 0 unknown"
    desk.install(advisory(versions=">=1.17") | {"number": 4})
    said = desk.run.run("affected")
    assert said.code == 3
    assert said.out.splitlines()[0] == f"affected  {MODEL}  {digest[:12]}  production 1"
    assert said.out.splitlines()[1].startswith("  A-1: ")
    [row] = desk.run.run("affected", "--json").json["releases"]
    assert (row["status"], row["places"]) == ("affected", [{"channel": "production", "number": 1}])
    assert [one["onnxruntime"] for one in row["runtimes"]] == [RUNTIME.onnxruntime]
    assert desk.world.ledger.tree().size == before.size + 1, "the second list alone"


def test_a_release_of_which_no_runtime_is_on_record_is_unknown_and_not_unaffected(desk: Desk) -> None:
    desk.install(LIST)
    digest = desk.released()
    desk.world.revoke(digest)
    said = desk.run.run("affected")
    assert said.code == 4
    first, second, last = said.out.splitlines()
    assert (first.startswith("unknown   "), first.endswith("  revoked")) == (True, True)
    assert second.startswith("  ")
    assert last == "1 promoted, by list 3: 0 affected, 1 unknown"
    assert desk.run.run("affected", "--json").json["exit_code"] == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [("no json", "no list of advisories"), ("[]", "no JSON object"), ("[" * 100_000, "no list of advisories")],
)
def test_a_file_that_is_no_list_is_neither_signed_nor_installed(desk: Desk, content: str, said: str) -> None:
    path, out = desk.file(content), desk.world.root / "out"
    for words in (("sign", path, "--key", desk.key, "--output", out), ("install", path)):
        told = (desk.run if words[0] == "install" else Commands(app)).run(*words)
        assert told.code == 5
        assert f"{path}: no " in told.error
    assert not out.exists()
    assert [entry.type for entry in desk.world.ledger.entries()] == ["log"]


def test_a_list_whose_signer_is_struck_off_is_not_shown_as_in_force(desk: Desk) -> None:
    desk.install(LIST)
    desk.people.write_text("schema = 1\n")
    for words in (("list",), ("list", "--json"), ("affected",)):
        said = desk.run.run(*words)
        assert (said.code, said.out, "no reviewer's key" in said.error) == (5, "", True)
