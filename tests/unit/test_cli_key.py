"""``acceptd key``, what doctor says of keys, and files verified by keys that came before or after."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from acceptd.cli import key as keys_of
from acceptd.cli import setup
from acceptd.cli.sealing import sealing
from acceptd.cli.verify import verify
from acceptd.config import Paths
from acceptd.daemon_lock import acquire
from acceptd.errors import LedgerError, SigningError, StateError, UsageError
from acceptd.record import attest, audit, checkpoint, key_status
from acceptd.record.anchor import Directory
from acceptd.record.keys import ROLES, load_keyring
from acceptd.record.keystore import open_signer, own_history
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary

pytestmark = pytest.mark.unit


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0o022)
    assert call(setup.init, "--state", str(tmp_path / "state")).exit_code == 0
    yield tmp_path / "state"
    os.umask(before)


def call(command: Any, *words: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(words))


def key(state: Path, *words: str) -> Any:
    return CliRunner().invoke(keys_of.app, [*words, "--state", str(state)])


def rows(state: Path) -> list[dict[str, Any]]:
    done = key(state, "list", "--json")
    assert done.exit_code == 0, done.exception
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def told(state: Path) -> dict[str, str]:
    with Ledger.open(state, create=False) as ledger:
        return key_status.examine(state, ledger, 2_000_000_000.0)


def test_a_rotation_is_told_listed_sealed_and_verified(state: Path) -> None:
    (first,) = (row for row in rows(state) if row["role"] == "ledger")
    done = key(state, "rotate", "ledger", "--reason", "age")
    assert done.exit_code == 0, done.exception
    assert "entry 1: the ledger key is now " in done.stdout
    old, new = (row for row in rows(state) if row["role"] == "ledger")
    assert (old["key_id"], old["standing"], old["until"]) == (first["key_id"], "given up", 1)
    assert (new["standing"], new["since"], new["place"], new["problem"]) == ("in use", 1, "keys/ledger.pem", "")
    shown = json.loads(key(state, "show", "ledger", "--json").stdout)
    assert shown["key_id"] == new["key_id"]
    assert "BEGIN PUBLIC KEY" in shown["pem"]
    assert json.loads(key(state, "show", first["key_id"][:12], "--json").stdout)["standing"] == "given up"
    assert new["key_id"][:16] in key(state, "list").stdout
    assert checkpoint.sizes(state) == [2], "what was recorded is sealed, by the new key"
    assert audit.verify(state) == []


def test_what_cannot_be_rotated_is_one_line_and_changes_nothing(state: Path) -> None:
    keyring = load_keyring(state)
    for words, error in (
        (("root", "--reason", "r"), UsageError),
        (("ledger",), UsageError),
        (("ledger", "--reason", "r", "--from-entry", "1"), UsageError),
        (("ledger", "--reason", "r", "--compromised", "--from-entry", "9"), UsageError),
    ):
        assert isinstance(key(state, "rotate", *words).exception, error), words
    descriptor = acquire(Paths(state).lock)
    done = key(state, "rotate", "ledger", "--reason", "r")
    os.close(descriptor)
    assert isinstance(done.exception, StateError)
    assert "another daemon" in str(done.exception)
    assert load_keyring(state) == keyring
    assert len(rows(state)) == len(ROLES)
    assert "no rotation was interrupted" in key(state, "rotate", "ledger", "--resume").stdout


def test_who_gives_up_a_key_hears_what_loaders_need_and_where_a_new_one_belongs(state: Path) -> None:
    done = key(state, "rotate", "release", "--reason", "stolen", "--compromised")
    assert done.exit_code == 0, done.exception
    assert "give keyring.json to every loader now" in done.stdout
    done = key(state, "rotate", "revocation", "--reason", "age")
    assert f"move {state / 'keys' / 'revocation.pem'} offline again if it was" in done.stdout
    assert "every loader now" not in done.stdout
    assert {row["standing"] for row in rows(state) if row["role"] == "release"} == {"compromised", "in use"}
    for wanted in ("relea", "0" * 8):
        told = key(state, "show", wanted).exception
        assert isinstance(told, UsageError)
        assert (told.message, told.remedy) == (f"0 keys are '{wanted}'", "see `acceptd key list`")


def test_what_a_rotation_could_not_sign_anew_is_told_by_line(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = "a/m on production: its release.json does not verify"
    monkeypatch.setattr("acceptd.key_rotation._finish", lambda *_what: [problem])
    done = key(state, "rotate", "release", "--reason", "age")
    assert f"not signed anew: {problem}" in done.stdout


def test_a_command_that_does_not_sign_rotates_nothing_and_makes_no_state(state: Path, tmp_path: Path) -> None:
    program, public = tmp_path / "dead", tmp_path / "key.pub"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    public.write_bytes(b"k" * 32)
    text = f'[keys.release]\ncommand = ["{program}"]\nseconds = 30\n'
    (state / "acceptd.toml").write_text(text)
    done = key(state, "rotate", "release", "--reason", "r", "--public", str(public))
    assert isinstance(done.exception, SigningError)
    assert str(program) in str(done.exception)
    assert sorted(path.name for path in (state / "keys").iterdir()) == [f"{role}.pem" for role in ROLES]
    with Ledger.open(state, create=False) as ledger:
        assert ledger.tree().size == 1
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "acceptd.toml").write_text(text)
    made = call(setup.init, "--state", str(tmp_path / "fresh"), "--public", f"release={public}")
    assert isinstance(made.exception, SigningError)
    assert list((tmp_path / "fresh" / "keys").iterdir()) == []
    (state / "keys" / "release.pem").unlink()
    assert "no signature by the release key" in told(state)["key release"]


def test_doctor_tells_roles_places_age_and_what_is_pending(state: Path) -> None:
    facts = told(state)
    assert facts["keys"] == "distinct, one for each role"
    assert all("days old" in facts[f"key {role}"] and f"keys/{role}.pem" in facts[f"key {role}"] for role in ROLES)
    shutil.copy(state / "keys" / "ledger.pem", state / "keys" / "release.next.pem")
    assert "a rotation was interrupted" in told(state)["key release"]
    (state / "keys" / "release.next.pem").unlink()
    shutil.copy(state / "keys" / "ledger.pem", state / "keys" / "release.pem")
    assert "not in the keyring" in told(state)["key release"]
    document = json.loads((state / "keyring.json").read_text())
    document["keys"][1] = document["keys"][0] | {"role": "release"}
    (state / "keyring.json").write_text(json.dumps(document))
    assert "has two roles" in told(state)["keys"]


def test_a_key_that_others_may_read_is_told_by_doctor_and_not_used(state: Path) -> None:
    (state / "keys" / "ledger.pem").chmod(0o644)
    assert "readable or writable by group" in told(state)["key ledger"]
    (state / "keys" / "revocation.pem").unlink()
    assert told(state)["key revocation"].endswith("days old"), "kept offline: nothing is wrong"


def test_a_checkpoint_that_an_anchor_keeps_leads_over_a_rotation(state: Path, tmp_path: Path) -> None:
    anchor = Directory(tmp_path / "anchor")
    anchor.place.mkdir()
    (state / "acceptd.toml").write_text(f'[checkpoint]\nanchor = "{anchor.place}"\n')
    backup = tmp_path / "backup"
    with sealing(state) as ledger:
        ledger.append("note", {"of": "before"})
    shutil.copytree(state, backup)
    assert key(state, "rotate", "ledger", "--reason", "age").exit_code == 0
    with Ledger.open(state, create=False) as ledger:
        kept = checkpoint.exported(anchor, own_history(state, ledger), ledger.origin)
        assert kept is not None
        assert kept.size == 3
        ledger.append("note", {"of": "after"})
        Notary(state, ledger, open_signer(state, "ledger"), anchor, pytest.fail).begin()
    assert audit.verify(state) == []
    # The whole state of before, with the old key: what the anchor keeps is signed by one that it does not know.
    with (
        Ledger.open(backup, create=False) as ledger,
        pytest.raises(LedgerError, match="no signature by the ledger"),
    ):
        checkpoint.write(backup, ledger, open_signer(backup, "ledger"), own_history(backup, ledger), anchor)


@pytest.mark.parametrize("compromised", [False, True])
def test_signed_files_are_verified_by_keys_that_came_before_or_after(
    state: Path, tmp_path: Path, compromised: bool
) -> None:
    old_ring, files = tmp_path / "old.json", []
    shutil.copy(state / "keyring.json", old_ring)
    for name in ("before", "after"):
        value = attest.verdict_statement(
            submission=name, verdict="accepted", bundle_id="mosaic/m", bundle_digest="ab" * 32, files=[],
            findings=[], predicate={"bundle_digest": "ab" * 32},
        )  # fmt: skip
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(attest.sign_statement(value, open_signer(state, "ledger"))))
        if name == "before":
            words = ("--compromised",) if compromised else ()
            assert key(state, "rotate", "ledger", "--reason", "age", *words).exit_code == 0
    rotations = str(state / "rotations.json")
    for ring in (old_ring, state / "keyring.json"):
        alone = [call(verify, str(file), "--key", str(ring), "--json").exit_code for file in files]
        assert alone == ([0, 5] if ring == old_ring else [5, 0])
        followed = [
            call(verify, str(file), "--key", str(ring), "--rotations", rotations, "--json") for file in files
        ]
        codes = [done.exit_code for done in followed]
        if not compromised:
            assert codes == [0, 0]
        else:
            assert codes == ([5, 5] if ring == old_ring else [5, 0])
