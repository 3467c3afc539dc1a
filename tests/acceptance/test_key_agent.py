"""Keys in another process: the daemon judges and promotes by an agent's signatures, and waits while it is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd import key_rotation
from acceptd.loader import open_release
from acceptd.record import key_status
from acceptd.record.keys import private_pem
from acceptd.record.keystore import read_public
from acceptd.record.log import Ledger
from examples import evidence_classifier as classifier
from examples.key_agent import may_sign
from tests.world import ROOT, World, world

pytestmark = pytest.mark.acceptance

AGENT = ROOT / "examples" / "key_agent.py"
ROLES = ("ledger", "release")


@contextmanager
def agent(home: Path) -> Iterator[None]:
    """Run the example's agent with the keys of both roles."""
    words = [
        sys.executable,
        str(AGENT),
        "serve",
        str(home / "socket"),
        *(f"{one}={home / one}.pem" for one in ROLES),
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            assert b"2 keys" in process.stderr.readline()
            yield
        finally:
            process.kill()
            (home / "socket").unlink(missing_ok=True)


def moved(made: World, home: Path) -> None:
    """Move the keys of both roles to the agent: each a rotation that the key in the file signs."""
    command = json.dumps([sys.executable, str(AGENT), "ask", str(home / "socket")])
    text = "".join(f"[keys.{role}]\ncommand = {command}\nseconds = 60\n" for role in ROLES)
    (made.state / "acceptd.toml").write_text(f'policy = "demo"\n[inbox]\nsettle_seconds = 0.2\n{text}')
    with Ledger.open(made.state, create=False) as ledger:
        public = read_public(home / "ledger.pub", "ledger")
        key_rotation.rotate(made.state, ledger, "ledger", reason="to the agent", public=public)
    words = ("key", "rotate", "release", "--reason", "to the agent", "--public", str(home / "release.pub"))
    done = made.acceptd(*words)
    assert done.returncode == 0, done.stderr


def test_a_daemon_signs_by_an_agent_and_loses_nothing_while_it_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "agent"
    home.mkdir(mode=0o700)
    secrets = []
    for role in ROLES:
        private = Ed25519PrivateKey.generate()
        secrets.append(private.private_bytes_raw())
        (home / f"{role}.pem").touch(0o600)
        (home / f"{role}.pem").write_bytes(private_pem(private))
        (home / f"{role}.pub").write_bytes(private.public_key().public_bytes_raw())
    with world(tmp_path) as made:
        first = (made.state / "keyring.json").read_bytes()
        with agent(home):
            moved(made, home)
            assert sorted(path.name for path in (made.state / "keys").iterdir()) == ["revocation.pem"]
            made.start()
            one = made.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), "one")
            report = made.verdict(one)
            assert (report["verdict"], report["release"]["number"]) == ("accepted", 1)
        two = made.drop(lambda path: classifier.write_bundle(path, version="2.0.0"), "two")
        made.until(lambda: b"no signature by the ledger key" in made.log.read_bytes(), "the outage is told")
        assert made.daemon is not None
        made.daemon.send_signal(signal.SIGHUP)  # housekeeping at once: it is tried again, and told again
        made.until(lambda: made.log.read_bytes().count(b"no signature by the ledger key") > 1, "tried again")
        assert [report["drop"] for report in made.verdicts()] == [one]
        failed = next(line for line in made.log.read_text().splitlines() if "no signature by the ledger" in line)
        assert sys.executable in failed
        assert "mend the command or start its agent" in failed
        with agent(home):
            made.daemon.send_signal(signal.SIGHUP)
            report = made.verdict(two)
            assert (report["verdict"], report["release"]["number"]) == ("accepted", 2), "no number was burnt"
            made.stop()
            done = made.acceptd("ledger", "verify")
            assert done.returncode == 0, done.stdout
        rotated = [entry["body"]["role"] for entry in made.entries("key-rotated")]
        assert rotated == list(ROLES)
        opened = open_release(made.state, classifier.MODEL_ID, keys=json.loads(first))
        assert opened.number == 2, "a loader with the keyring of before goes on"
        for path in made.state.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert not any(secret in data for secret in secrets)
        with Ledger.open(made.state, create=False) as ledger:
            rows = key_status.rows(made.state, ledger)
            problems = {row.role: row.problem for row in rows if row.standing == "in use"}
        assert "no signature by the release key" in problems["release"], "the agent is gone, and that is told"
        assert problems["revocation"] == ""


def test_the_agent_signs_for_a_role_only_what_that_role_signs() -> None:
    envelope = b"DSSEv1 37 application/vnd.acceptd.%s+json 2 {}"
    note = b"acceptd/" + b"0" * 32 + b"\n1\n"
    for role, data, allowed in (
        ("release", envelope % b"channel", True),
        ("release", envelope % b"release", True),
        ("release", envelope % b"revocations", False),
        ("release", note, False),
        ("revocation", envelope % b"revocations", True),
        ("revocation", envelope % b"channel", False),
        ("ledger", note, True),
        ("ledger", envelope % b"channel", False),
        ("ledger", b"DSSEv1 28 application/vnd.in-toto+json 2 {}", True),
        ("ledger", b"acceptd key probe v1\n", True),
        ("ledger", b"acceptd key probe v1\nand more", False),
        ("root", envelope % b"channel", False),
    ):
        assert may_sign(role, data) is allowed, (role, data)
