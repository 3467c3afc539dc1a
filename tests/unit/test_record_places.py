"""Files and settings around the ledger that are not what they should be, or cannot be written: told."""

from __future__ import annotations

import base64
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from structlog.testing import capture_logs

from acceptd.errors import AnchorError, ConfigError, LedgerError, LedgerStorageError, SigningError, StateError
from acceptd.record import checkpoint, keystore, node_key, reserve, sqlite
from acceptd.record.anchor import Command, Directory
from acceptd.record.auditing.report import MAX_DIFFERENCES, Report
from acceptd.record.key_command import KeyCommand
from acceptd.record.keyring import Keyring, read_owned
from acceptd.record.keys import Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.merkle import EMPTY_ROOT, leaf_hash, verify_consistency
from acceptd.record.notary import Notary

pytestmark = pytest.mark.unit


@pytest.fixture
def state(tmp_path: Path) -> Path:
    place = tmp_path / "state"
    place.mkdir(mode=0o700)
    create_keys(place)
    return place


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


# -- the reserve


def test_a_reserve_that_cannot_be_made_is_none_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve.os, "posix_fallocate", full)
    assert not reserve.keep(tmp_path, 4096)
    assert os.listdir(tmp_path) == []


def test_a_reserve_gives_way_when_next_to_nothing_is_free_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reserve.keep(tmp_path, 4096)
    assert not reserve.give_way(tmp_path)
    monkeypatch.setattr(reserve, "free_bytes", lambda _place: 0)
    assert reserve.give_way(tmp_path)
    assert not (tmp_path / reserve.NAME).exists()
    assert not reserve.give_way(tmp_path), "there is no second one"
    monkeypatch.setattr(reserve, "free_bytes", full)
    assert not reserve.give_way(tmp_path)


# -- the database's file


@pytest.mark.parametrize(
    ("kind", "words", "remedy"),
    [
        ("missing", "there is no ledger", "run `acceptd init`"),
        ("below a file", "cannot be read: Not a directory", ""),
        ("a link", "not a regular file", ""),
        ("a pipe", "not a regular file", ""),
        ("open", "writable by group or others", "chmod 600 "),
    ],
)
def test_a_database_that_is_none_of_ours_is_not_opened(kind: str, words: str, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    if kind == "below a file":
        path.write_bytes(b"")
        path = path / "ledger.sqlite3"
    elif kind == "a link":
        (tmp_path / "other").write_bytes(b"")
        path.symlink_to(tmp_path / "other")
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "open":
        path.write_bytes(b"")
        path.chmod(0o622)
    with pytest.raises(StateError) as caught:
        sqlite.check_file(path)
    assert caught.value.message.startswith(f"{path}: {words}")
    assert caught.value.remedy.startswith(remedy)


def test_two_who_make_the_ledger_at_once_make_one_and_nothing_half_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def later(source: Any, target: Any) -> None:
        with monkeypatch.context() as alone:
            alone.setattr(sqlite.os, "link", link)
            Ledger.open(tmp_path).close()  # somebody else was quicker
        link(source, target)

    monkeypatch.setattr(sqlite.os, "link", later)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.tree().size == 1
    assert [name for name in os.listdir(tmp_path) if name.startswith(".tmp")] == []


def test_a_ledger_that_cannot_be_made_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite.os, "link", full)
    with pytest.raises(StateError, match=r"ledger\.sqlite3: cannot be created: No space left on device"):
        Ledger.open(tmp_path)
    assert os.listdir(tmp_path) == []


# -- keys


def test_a_key_file_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(b"x" * (2 << 20))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"larger than \d+ bytes"):
        read_owned(path, None, forbidden=0o077)


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_no_key_and_no_keyring(kind: str, tmp_path: Path) -> None:
    """A directory in its place came out as an error of Python's, in a production loader too."""
    path = tmp_path / "key.pem"
    path.mkdir(mode=0o700) if kind == "directory" else os.mkfifo(path, 0o600)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigError, match="not a regular file"):
        read_owned(path, None, forbidden=0o077)
    with pytest.raises(ConfigError, match="not a regular file"):
        Keyring.load(path)
    assert len(os.listdir("/proc/self/fd")) == before, "no descriptor stays open"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ec.generate_private_key(ec.SECP256R1()).public_key(), "not an Ed25519 key"),
        (b"-----BEGIN PUBLIC KEY-----\n", "no Ed25519 public key"),
        (base64.b64encode(b"x" * 31), "31 bytes"),
        (b"\x00" * 32, "no Ed25519 public key"),
        (b"no base64!", "no Ed25519 public key"),
    ],
    ids=["another kind", "no PEM", "too short", "a weak point", "no text of ours"],
)
def test_a_file_that_holds_no_public_key_is_told_with_what_to_give(data: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "new.pub"
    raw = data if isinstance(data, bytes) else data.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.write_bytes(raw)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=words) as caught:
        keystore.read_public(path, "ledger")
    assert caught.value.message.startswith(f"{path}: no Ed25519 public key: ")
    assert caught.value.remedy == "give PEM, or base64 of its 32 bytes"


def test_a_key_behind_a_command_stands_alone_in_the_keyring(state: Path, tmp_path: Path) -> None:
    """With two in it nobody could say whose signature is asked for."""
    (state / "keys/ledger.pem").unlink()
    (state / "acceptd.toml").write_text('[keys.ledger]\ncommand = ["/bin/true"]\n')
    (state / "acceptd.toml").chmod(0o644)
    other = tmp_path / "other"
    other.mkdir()
    create_keys(other)
    ring, more = load_keyring(state), load_keyring(other)
    both = type(ring).of([*ring.keys, *more.for_role("ledger")])
    (state / "keyring.json").write_bytes(both.to_json())
    with pytest.raises(ConfigError, match=r"keyring\.json names 2 ledger keys"):
        keystore.any_signer(state, "ledger")


def test_a_command_that_is_gone_signs_nothing_and_says_so(tmp_path: Path) -> None:
    key = Signer.of("ledger", ed25519.Ed25519PrivateKey.generate()).public_key()
    asked = KeyCommand((str(tmp_path / "gone"),), 5.0, key)
    with pytest.raises(SigningError) as caught:
        asked.signer().sign(b"x")
    assert str(tmp_path / "gone") in caught.value.message


def test_a_nodes_key_that_cannot_be_written_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_key, "write_exclusive", full)
    with pytest.raises(StateError, match="the node's key cannot be written: No space left on device") as caught:
        node_key.make_node_key(tmp_path)
    assert str(tmp_path / "keys") in caught.value.message
    assert not (tmp_path / "keys/node.pem").exists()


# -- anchors


def test_a_note_is_not_put_where_its_volume_is_not_mounted(tmp_path: Path) -> None:
    anchor = Directory(tmp_path / "volume")
    with pytest.raises(AnchorError, match=r"volume \(mount its volume, or make the directory"):
        anchor.put("acceptd/0", 3, b"note")
    assert not (tmp_path / "volume").exists(), "made here it would look like an anchor that lost its notes"


def test_an_anchors_command_that_is_gone_or_silent_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AnchorError, match="ended with"):
        Command((str(tmp_path / "gone"),)).put("acceptd/0", 3, b"note")
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    monkeypatch.setattr("acceptd.record.anchor.SECONDS", 0.05)
    with pytest.raises(AnchorError, match=r"silent: gave no answer within 0\.05 s"):
        Command((str(silent),)).last("acceptd/0")


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (LedgerStorageError("the disk is full"), False),
        (StateError("the lock cannot be had"), False),
        (OSError(5, "Input/output error"), False),
        (LedgerError("the log does not extend the last checkpoint"), True),
    ],
)
def test_a_daemon_starts_without_a_checkpoint_that_is_not_possible_now_and_never_over_a_rewritten_log(
    error: Exception, raised: bool, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(checkpoint, "write", refused)
    with Ledger.open(state) as ledger, capture_logs() as said:
        notary = Notary(state, ledger, load_signer(state, "ledger"), None, lambda _why: None)
        if raised:
            with pytest.raises(LedgerError, match="does not extend"):
                notary.begin()
        else:
            notary.begin()
    assert [line["event"] for line in said] == ([] if raised else ["no checkpoint"])


# -- the audit


def test_an_audit_lists_so_many_differences_and_says_that_there_are_more() -> None:
    report = Report()
    for number in range(MAX_DIFFERENCES + 10):
        report.add("entry", f"entry {number}", "differs")
    assert len(report.found) == MAX_DIFFERENCES + 1
    assert report.found[-1].message == f"more than {MAX_DIFFERENCES} differences; the rest is not listed"


def test_a_part_that_could_not_be_read_is_told_once_however_many_parts_say_it() -> None:
    report = Report()
    for _ in range(3):
        report.merge({"differences": [], "error": "the database is damaged"})
    assert [(one.what, one.message) for one in report.found] == [("database", "the database is damaged")]


@pytest.mark.parametrize(("old", "new"), [(3, 5), (2, 4)])
def test_a_proof_with_steps_to_spare_or_none_proves_nothing(old: int, new: int) -> None:
    """Steps behind the top of the tree would let another root be reached."""
    some = leaf_hash(b"x")
    assert not verify_consistency(old, some, new, some, [])
    assert not verify_consistency(old, some, new, some, [some] * 20)
    assert not verify_consistency(new, some, old, some, [some])
    assert verify_consistency(0, EMPTY_ROOT, new, some, [])
    assert not verify_consistency(0, some, new, some, [])
