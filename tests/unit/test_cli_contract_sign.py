"""`acceptd contract sign`, `install`, `supersede`: only what people signed is next, and the file says so."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cli.contract import app
from acceptd.review import keys
from tests.command_world import Commands, ready
from tests.contract_world import ADA, MODEL, Instance, a_contract, an_instance, looser, tighter
from tests.unit.test_cli_contract import a_file, envelope

pytestmark = pytest.mark.unit


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Instance]:
    made = an_instance(tmp_path / "state")
    ready(made.home)
    yield made
    made.ledger.close()


@pytest.fixture
def contract(place: Instance) -> Commands:
    return Commands(app, place.home)


def test_a_version_is_prepared_signed_and_recorded_and_the_file_says_so(
    place: Instance, contract: Commands
) -> None:
    top = place.home.parent
    key = keys.make(top / "ada.pem")
    file = place.home / "policies" / "reviewers.toml"
    text = file.read_text().replace(ADA[1].key, keys.public_text(key))
    file.write_text(text)
    prepared, signed = top / "bytes", top / "signed"
    out = contract("sign", a_file(place, a_contract()), "--reason", "review 7", "--output", prepared)
    assert f"wrote {prepared}: bytes to sign" in out
    assert "supersedes   -" in out
    offline = Commands(app)  # no state: this is another machine
    assert "signed" in offline("sign", prepared, "--key", top / "ada.pem", "--output", signed).splitlines()[-1]
    place.ledger.close()
    out = contract("install", signed)
    assert f"{MODEL} version 1 is in force" in out
    assert f"wrote {place.file}" in out
    assert "what reviewers signed is in force, whatever stands here" in place.file.read_text()
    assert place.file.stat().st_mode & 0o777 == 0o644

    # In one step, the next version; the file says so already where somebody wrote it before.
    second = a_file(place, a_contract(2, looser), "second.toml")
    out = contract("sign", second, "--reason", "r", "--key", top / "ada.pem", "--output", top / "signed2")
    assert out.startswith("LOOSER ")
    place.write(a_contract(2, looser))
    out = contract("supersede", top / "signed2")
    assert "LOOSER " in out
    assert f"{place.file} says so already" in out


def test_nothing_is_signed_without_a_reason_a_key_or_the_next_number(place: Instance, contract: Commands) -> None:
    top = place.home.parent
    place.install(place.signed(a_contract(4)))
    own = a_file(place, a_contract(4, looser))
    prepared = top / "bytes.json"
    prepared.write_bytes(place.bytes_of(a_contract(5)))
    (top / "taken").touch()
    for words, error, remedy in (
        ((own,), "a version needs a reason", '--reason "why it changes"'),
        ((own, "--reason", "r"), f"{own}: version: is 4, and version 4 is in force", "write version = 5"),
        ((prepared,), f"{prepared} holds bytes to sign", "give your private key: --key FILE"),
        ((top / "nowhere",), f"{top / 'nowhere'}: No such file or directory", "name a contract, or bytes to sign"),
    ):
        said = contract.run("sign", *words, "--output", top / "out")
        assert (said.code, said.error, said.remedy) == (2, error, remedy)
        assert not (top / "out").exists()
    fifth = a_file(place, a_contract(5), "fifth.toml")
    said = contract.run("sign", fifth, "--reason", "r", "--output", top / "taken")
    assert (said.code, said.error) == (2, f"{top / 'taken'} exists")
    assert (top / "taken").read_bytes() == b""


@pytest.mark.parametrize("content", ["no json", "[]", "[" * 100_000])
def test_a_file_that_is_no_signed_version_records_nothing(
    place: Instance, contract: Commands, content: str
) -> None:
    path = place.home.parent / "file"
    path.write_text(content)
    before = place.ledger.tree()
    said = contract.run("install", path)
    assert said.error.endswith(f"{path}: no signed version")
    assert place.ledger.tree() == before


def test_a_version_counts_by_the_order_of_the_commands_too(place: Instance, contract: Commands) -> None:
    first = envelope(place, a_contract(1))
    said = contract.run("supersede", first)
    assert (said.error, said.remedy) == (f"{MODEL} has no version to supersede", "acceptd contract install")
    contract("install", first)
    for words in (("install", first), ("supersede", first)):
        said = contract.run(*words)
        assert (said.code, f"{MODEL} version 1 is on record already, entry 1" in said.error) == (2, True)
        assert said.remedy == f"nothing is to be done: see `acceptd contract show {MODEL}`"
    second = envelope(place, a_contract(2), name="second.json")
    said = contract.run("install", second)
    assert (said.error, said.remedy) == (f"{MODEL} has version 1 already", "acceptd contract supersede")
    assert "no difference" in contract("supersede", second)


@pytest.mark.parametrize("how", ["no TOML", "open to others"])
def test_a_file_that_is_refused_is_put_right_by_what_was_signed(
    place: Instance, contract: Commands, how: str
) -> None:
    """Else the version would be on record, and every bundle refused for its broken file."""
    place.write(a_contract())
    if how == "no TOML":
        place.file.write_text("this is [ no TOML")
    else:
        place.file.chmod(0o666)
    out = contract("install", envelope(place, a_contract()))
    assert f"{MODEL} version 1 is in force" in out
    assert out.splitlines()[-1] == f"wrote {place.file}"
    assert json.loads(contract("show", MODEL, "--json"))["status"] == "signed"
    assert place.file.stat().st_mode & 0o777 == 0o644


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_beside_it(
    place: Instance, contract: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(a_contract(change=tighter))
    before = place.file.read_bytes()

    def full(*_what: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    signed = envelope(place, a_contract())
    monkeypatch.setattr("acceptd.intake.files.os.write", full)
    out = contract("install", signed)
    monkeypatch.undo()
    assert "could not be written (No space left on device)" in out
    assert place.file.read_bytes() == before
    assert [path.name for path in place.file.parent.iterdir()] == [place.file.name]


def test_a_version_is_in_force_also_where_its_file_cannot_be_written(place: Instance, contract: Commands) -> None:
    place.file.parent.parent.mkdir(exist_ok=True)
    place.file.parent.write_text("")  # a file where the team's directory would be
    out = contract("install", envelope(place, a_contract()))
    assert f"{MODEL} version 1 is in force" in out
    assert "could not be written (" in out
    assert out.splitlines()[-1] == f"  → acceptd contract show {MODEL} --toml"
    assert len(place.register.entries(MODEL)) == 1
