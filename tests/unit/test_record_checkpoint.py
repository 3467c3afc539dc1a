"""Checkpoints: the signed-note form, and a log that never signs a head which does not extend the last."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from acceptd import key_rotation
from acceptd.errors import LedgerError, LedgerStorageError, MalformedError, SignatureError
from acceptd.record import checkpoint, keystore
from acceptd.record import note as note_form
from acceptd.record.checkpoint import Checkpoint
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Keyring, Signer, create_keys, load_signer
from acceptd.record.log import Ledger
from tests.release_world import World

pytestmark = pytest.mark.unit


@dataclass
class Place:
    state: Path
    ledger: Ledger
    signer: Signer
    keyring: Keyring

    def write(self) -> Checkpoint:
        return checkpoint.write(self.state, self.ledger, self.signer, self.keyring)

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.state / "checkpoints").iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    keyring = create_keys(tmp_path)
    with Ledger.open(tmp_path) as ledger:
        yield Place(tmp_path, ledger, load_signer(tmp_path, "ledger"), keyring)


def test_the_key_hash_and_signature_are_those_of_signed_note() -> None:
    """The published example of golang.org/x/mod/sumdb/note."""
    hash_hex, encoded = "c74f20a3", "ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    public = base64.b64decode(encoded)
    assert public[:1] == b"\x01"
    assert note_form._note_key("PeterNeumann", public[1:]).hex() == hash_hex
    text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    line = (
        "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FF"
        "YC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    )
    name, marked = note_form._signature(line)
    assert (name, marked[:4].hex()) == ("PeterNeumann", hash_hex)
    Ed25519PublicKey.from_public_bytes(public[1:]).verify(marked[4:], text.encode())


def test_a_checkpoint_is_three_lines_a_blank_one_and_a_signature(place: Place) -> None:
    place.ledger.append("note", {})
    written = place.write()
    note = (place.state / "checkpoints" / "0000000000000002.note").read_text()
    lines = note.split("\n")
    assert lines[:4] == [place.ledger.origin, "2", base64.b64encode(place.ledger.tree().root).decode(), ""]
    assert lines[4].startswith(f"\u2014 {place.ledger.origin} ")
    assert lines[5:] == [""]
    assert checkpoint.verify(note.encode(), place.keyring, place.ledger.origin) == written
    assert checkpoint.latest(place.state, place.keyring) == written


def test_the_same_head_is_not_signed_twice_and_old_ones_are_pruned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "KEPT", 3)
    assert place.write() == place.write()
    assert len(place.names()) == 1
    for n in range(5):
        place.ledger.append("note", {"n": n})
        place.write()
    assert checkpoint.sizes(place.state) == [4, 5, 6]


def test_what_a_kill_left_half_written_is_swept_away_and_no_checkpoint_with_it(place: Place) -> None:
    place.write()
    before = place.names()
    directory = place.state / "checkpoints"
    (directory / ".tmp-1234").write_bytes(b"half a note")
    (directory / "somebody's").write_bytes(b"not ours")
    checkpoint.sweep(place.state)
    assert place.names() == sorted([*before, "somebody's"])
    assert checkpoint.latest(place.state, place.keyring) is not None


def test_a_state_without_checkpoints_is_swept_without_making_any(tmp_path: Path) -> None:
    checkpoint.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_restored_older_database_is_not_signed(place: Place) -> None:
    place.write()
    with place.ledger.transaction():
        shutil.copy(place.state / FILE_NAME, place.state / "backup")
    place.ledger.append("note", {"n": 1})
    place.write()
    origin = place.ledger.origin
    place.ledger.close()
    shutil.move(place.state / "backup", place.state / FILE_NAME)
    with Ledger.open(place.state) as older:
        assert older.origin == origin
        place.ledger = older
        with pytest.raises(LedgerError, match="older backup"):
            place.write()
        older.append("note", {"n": 2})  # a fork: as long as the signed log, but another one
        with pytest.raises(LedgerError, match="rewritten"):
            place.write()
        older.append("note", {"n": 3})
        with pytest.raises(LedgerError, match="rewritten"):
            place.write()
    assert len(place.names()) == 2


def test_a_checkpoint_that_cannot_be_read_is_the_storages_fault_and_says_where(place: Place) -> None:
    place.write()
    path = place.state / "checkpoints" / place.names()[0]
    path.unlink()
    with pytest.raises(LedgerError, match=f"^{path}: No such file or directory$"):
        checkpoint.read(place.state, 1, place.keyring)
    path.mkdir()
    with pytest.raises(LedgerStorageError, match=f"^{path}: cannot be read: Is a directory"):
        checkpoint.latest(place.state, place.keyring)


def test_a_checkpoint_of_the_first_entry_counts_by_the_key_that_was_in_office_there(tmp_path: Path) -> None:
    """Its key gave way at the very next entry: what it signed before still stands."""
    world = World(tmp_path)
    signer = load_signer(world.state, "ledger")
    before = keystore.own_history(world.state, world.ledger)
    assert checkpoint.write(world.state, world.ledger, signer, before).size == 1
    key_rotation.rotate(world.state, world.ledger, "ledger", reason="age", terms=world.terms)
    after = keystore.own_history(world.state, world.ledger)
    assert checkpoint.read(world.state, 1, after, world.ledger.origin).size == 1
    late = checkpoint.sign(Checkpoint(world.ledger.origin, world.ledger.tree().size, bytes(32)), signer)
    with pytest.raises(SignatureError, match="no signature by the ledger key that counted there"):
        checkpoint.verify(late, after)
    world.close()


def test_a_damaged_or_foreign_latest_checkpoint_stops_signing(place: Place) -> None:
    place.write()
    path = place.state / "checkpoints" / place.names()[0]
    good = path.read_bytes()
    place.ledger.append("note", {})
    other = Signer.of("ledger", Ed25519PrivateKey.generate())
    root = place.ledger.tree().root
    for note in (
        b"", good[:-3], good.replace(b"\n1\n", b"\n3\n"),
        checkpoint.sign(Checkpoint(place.ledger.origin, 1, root), other),
        checkpoint.sign(Checkpoint("acceptd/another", 1, root), place.signer),
        checkpoint.sign(Checkpoint(place.ledger.origin, 2, root), place.signer),
    ):  # fmt: skip
        path.write_bytes(note)
        with pytest.raises(LedgerError):
            place.write()
    path.write_bytes(good)
    assert place.write().size == 2


def test_no_forged_note_verifies() -> None:
    signer, other = (Signer.of("ledger", Ed25519PrivateKey.generate()) for _ in range(2))
    release = Signer.of("release", Ed25519PrivateKey.generate())
    keyring = Keyring.of([signer.public_key(), release.public_key()])
    head = Checkpoint("acceptd/a", 7, bytes(32))
    note = checkpoint.sign(head, signer)
    assert checkpoint.verify(note, keyring) == head
    witness = checkpoint.sign(head, other).rpartition(b"\n\n")[2].replace(b"acceptd/a", b"witness")
    assert checkpoint.verify(note + witness, keyring) == head
    for forged in (
        note.replace(b"\n7\n", b"\n8\n"), note.replace(b"acceptd/a\n7", b"acceptd/b\n7"),
        checkpoint.sign(head, other), checkpoint.sign(head, release),
        note.replace("\u2014 acceptd/a".encode(), "\u2014 acceptd/b".encode()),
    ):  # fmt: skip
        with pytest.raises(SignatureError):
            checkpoint.verify(forged, keyring)
    with pytest.raises(SignatureError, match="another log"):
        checkpoint.verify(note, keyring, "acceptd/b")


@pytest.mark.parametrize(
    "note",
    [
        b"", b"\xff", b"a\n1\n", b"a\n1\nAAAA\n\n", b"x" * 20_000,
        b"a\n01\n" + base64.b64encode(bytes(32)) + b"\n\n\xe2\x80\x94 a AAAAAAAA\n",
        b"a\n1\n" + base64.b64encode(bytes(31)) + b"\n\n\xe2\x80\x94 a AAAAAAAA\n",
        b"a\n1\n" + base64.b64encode(bytes(32)) + b"\n\n\xe2\x80\x94 a AAAA\n",
        b"a\n1\n" + base64.b64encode(bytes(32)) + b"\n\n- a AAAAAAAA\n",
        b"a\n1\n" + base64.b64encode(bytes(32)) + b"\n\n\xe2\x80\x94 a AAAAAAAA",
    ],
)  # fmt: skip
def test_malformed_notes_are_malformed(note: bytes) -> None:
    with pytest.raises(MalformedError) as told:
        checkpoint.parse(note)
    assert str(told.value) in {
        "no signed checkpoint: that is a log's name, a size, a root, an empty line and lines that begin with —",
        "a checkpoint that is too large",
        "a checkpoint whose root or size cannot be",
    }
