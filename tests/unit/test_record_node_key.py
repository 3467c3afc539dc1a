"""A node's own key: a file like the others or behind a command, known to no keyring, and it speaks for no role."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from acceptd.cli import key as keys_of
from acceptd.config import Paths
from acceptd.errors import ConfigError, SigningError, StateError
from acceptd.policy.fleet import FleetPolicyTable
from acceptd.record import key_status
from acceptd.record.keys import NODE, Keyring, PublicKey, Signer, create_keys, load_keyring, private_pem
from acceptd.record.log import Ledger
from acceptd.record.node_key import make_node_key, node_signer

pytestmark = pytest.mark.unit


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0o022)
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    yield made
    os.umask(before)


def test_a_node_needs_no_other_key_of_the_instance(state: Path) -> None:
    made = make_node_key(state)
    assert node_signer(state).public_key() == made
    assert made.role == NODE
    assert stat.S_IMODE((state / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "keys" / "node.pem").stat().st_mode) == 0o600
    assert [one.name for one in (state / "keys").iterdir()] == ["node.pem"]
    signature = node_signer(state).sign(b"x")
    Keyring((made,)).verify(NODE, made.key_id, b"x", signature)


def test_it_stands_beside_the_keys_of_an_instance_and_no_keyring_takes_it(state: Path) -> None:
    create_keys(state)
    made = make_node_key(state)
    assert made.key_id not in {one.key_id for one in load_keyring(state).keys}
    with pytest.raises(ConfigError, match="'node' is no role"):
        Keyring.of([made])
    text = json.dumps({"schema": 1, "keys": [{"role": NODE, "key_id": made.key_id, "public": "x"}]})
    with pytest.raises(ConfigError):
        Keyring.parse(text.encode())


def test_a_key_that_is_there_is_not_overwritten_unless_it_is_told(state: Path) -> None:
    first = make_node_key(state)
    with pytest.raises(StateError, match="not overwritten"):
        make_node_key(state)
    assert node_signer(state).public_key() == first
    second = make_node_key(state, replace=True)
    assert second != first
    assert node_signer(state).public_key() == second
    assert stat.S_IMODE((state / "keys" / "node.pem").stat().st_mode) == 0o600


def test_without_a_key_the_remedy_is_named(state: Path) -> None:
    with pytest.raises(ConfigError, match="acceptd key node --make"):
        node_signer(state)


@pytest.mark.parametrize(
    ("place", "mode", "words"),
    [("keys", 0o750, "readable or writable"), ("keys/node.pem", 0o640, "readable or writable")],
)
def test_a_key_that_others_can_read_is_refused(state: Path, place: str, mode: int, words: str) -> None:
    make_node_key(state)
    (state / place).chmod(mode)
    with pytest.raises(ConfigError, match=words):
        node_signer(state)


def test_a_link_to_a_key_is_none(state: Path, tmp_path: Path) -> None:
    make_node_key(state)
    shutil.move(state / "keys" / "node.pem", tmp_path / "elsewhere.pem")
    (state / "keys" / "node.pem").symlink_to(tmp_path / "elsewhere.pem")
    with pytest.raises(ConfigError):
        node_signer(state)


# -- behind a command --------------------------------------------------------------------------------------

SIGNS = """#!{python}
import sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key
assert sys.argv[1:3] == ["sign", "node"]
key = load_pem_private_key(open({key!r}, "rb").read(), None)
sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""


def _command(state: Path, home: Path) -> PublicKey:
    private = Ed25519PrivateKey.generate()
    (home / "elsewhere.pem").write_bytes(private_pem(private))
    (home / "sign").write_text(SIGNS.format(python=sys.executable, key=str(home / "elsewhere.pem")))
    (home / "sign").chmod(0o755)
    (state / "acceptd.toml").write_text(f'[keys.node]\ncommand = ["{home / "sign"}"]\nseconds = 60\n')
    return Signer.of(NODE, private).public_key()


def test_a_key_behind_a_command_is_never_here(state: Path, tmp_path: Path) -> None:
    public = _command(state, tmp_path)
    with pytest.raises(ConfigError, match=r"--make --public"):
        node_signer(state)
    assert make_node_key(state, public=public) == public
    assert [one.name for one in (state / "keys").iterdir()] == ["node.pub"]
    signer = node_signer(state)
    Keyring((public,)).verify(NODE, public.key_id, b"x", signer.sign(b"x"))


def test_a_command_with_another_key_is_not_taken_note_of(state: Path, tmp_path: Path) -> None:
    _command(state, tmp_path)
    other = Signer.of(NODE, Ed25519PrivateKey.generate()).public_key()
    with pytest.raises(SigningError):
        make_node_key(state, public=other)
    assert not (state / "keys").exists()


def test_a_public_half_without_a_command_is_refused(state: Path) -> None:
    other = Signer.of(NODE, Ed25519PrivateKey.generate()).public_key()
    with pytest.raises(ConfigError, match=r"keys\.node\.command is not set"):
        make_node_key(state, public=other)


def test_a_key_goes_behind_a_command_and_leaves_nothing_here(state: Path, tmp_path: Path) -> None:
    make_node_key(state)
    public = _command(state, tmp_path)
    make_node_key(state, public=public, replace=True)
    assert node_signer(state).public_key() == public
    assert not (state / "keys" / "node.pem").exists()


# -- the command -------------------------------------------------------------------------------------------


def call(state: Path, *words: str) -> Any:
    for place, mode in Paths(state).directories():
        place.mkdir(mode=mode, exist_ok=True)
    return CliRunner().invoke(keys_of.app, ["node", *words, "--state", str(state)])


def test_what_it_prints_is_a_table_that_a_policy_takes(state: Path) -> None:
    made = call(state, "--make")
    assert made.exit_code == 0, made.output
    again = call(state)
    assert again.output == made.output
    table = tomllib.loads(made.output[made.output.index("[[fleet.trust]]") :])["fleet"]
    taker, one = FleetPolicyTable.model_validate(table).trust  # a node that is not told to be one of them is both
    assert (taker.role, one.role, one.profiles) == ("intake", "worker", ["cpu"])
    assert one.key_id == node_signer(state).key_id
    told = json.loads(call(state, "--json").output)
    assert told == {"role": NODE, "name": one.name, "key_id": one.key_id, "public": one.key}
    assert base64.b64decode(one.key) == node_signer(state).public
    intake = call(state, "--role", "intake").output
    (other,) = FleetPolicyTable.model_validate(
        tomllib.loads(intake[intake.index("[[fleet.trust]]") :])["fleet"]
    ).trust
    assert other.role == "intake"


def test_what_acceptd_toml_says_of_the_node_stands_in_the_table(state: Path) -> None:
    (state / "acceptd.toml").write_text('[fleet]\nrole = "worker"\nname = "gpu-7"\nqueues = ["cuda"]\n')
    made = call(state, "--make").output
    (one,) = tomllib.loads(made[made.index("[[fleet.trust]]") :])["fleet"]["trust"]
    assert (one["name"], one["role"], one["profiles"]) == ("gpu-7", "worker", [])  # the policy has none for CUDA


@pytest.mark.parametrize(
    "words", [("--replace",), ("--public", "x"), ("--role", "promoter"), ("--make", "--public", "/nowhere")]
)
def test_what_cannot_be_meant_changes_nothing(state: Path, words: tuple[str, ...]) -> None:
    assert call(state, *words).exit_code != 0
    assert not (state / "keys" / "node.pem").exists()


def listed(state: Path) -> list[dict[str, Any]]:
    done = CliRunner().invoke(keys_of.app, ["list", "--json", "--state", str(state)])
    assert done.exit_code == 0, done.output
    return list(json.loads(done.output))


def test_a_worker_s_state_lists_and_shows_its_one_key(state: Path) -> None:
    call(state, "--make")
    (row,) = listed(state)
    assert (row["role"], row["place"], row["since"], row["problem"]) == (NODE, "keys/node.pem", None, "")
    shown = CliRunner().invoke(keys_of.app, ["show", NODE, "--state", str(state)])
    assert row["key_id"] in shown.output
    assert "BEGIN PUBLIC KEY" in shown.output
    table = CliRunner().invoke(keys_of.app, ["list", "--state", str(state)])
    assert "as the policy says" in table.output


def test_a_key_that_cannot_sign_is_listed_with_the_reason(state: Path) -> None:
    call(state, "--make")
    (state / "keys" / "node.pem").chmod(0o644)
    (row,) = listed(state)
    assert "chmod" in row["problem"]
    shown = CliRunner().invoke(keys_of.app, ["show", NODE, "--state", str(state)])
    assert shown.exit_code != 0
    assert "readable" in str(shown.exception)


def test_doctor_tells_of_the_node_s_key_beside_the_others_or_alone(state: Path) -> None:
    with Ledger.open(state) as ledger:
        made = make_node_key(state)
        assert key_status.examine(state, ledger, 0.0) == {"key node": f"{made.key_id[:16]}, keys/node.pem"}
        (state / "keys" / "node.pem").chmod(0o644)
        assert "chmod" in key_status.examine(state, ledger, 0.0)["key node"]
