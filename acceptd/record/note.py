"""Signed tree heads ("checkpoints") in the signed-note form (C2SP tlog-checkpoint and signed-note). Pure.

The text is three lines, origin, size and base64 root; a blank line and the signature line follow. The loader
verifies them too, so this stands on the standard library and cryptography alone.
"""

from __future__ import annotations

import binascii
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from acceptd.errors import MalformedError, SignatureError
from acceptd.record.canonical import MAX_INT
from acceptd.record.inclusion import HASH_BYTES
from acceptd.record.keyring import Keyring, PublicKey

if TYPE_CHECKING:
    from acceptd.record.keys import Offices, Signer

MAX_BYTES: Final = 16 << 10
_ED25519: Final = b"\x01"  # signed-note's signature type
_DASH: Final = "\u2014 "


class Checkpoint(NamedTuple):
    """A tree head: the log's name, its size and its root."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Return what is signed: three lines, each with its newline."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"


def sign(checkpoint: Checkpoint, signer: Signer) -> bytes:
    """Return the signed note, signed in the log's own name."""
    text = checkpoint.text()
    signature = _note_key(checkpoint.origin, signer.public) + signer.sign(text.encode())
    return f"{text}\n{_DASH}{checkpoint.origin} {_base64(signature)}\n".encode()


def verify(note: bytes, keys: Offices, origin: str | None = None) -> Checkpoint:
    """Return the checkpoint in a note that a ledger key has signed, of the log ``origin`` where given.

    The key must be the one in office at the newest entry that the note covers. A note only adds to what must hold,
    so one by a key that was compromised later is not passed over. Raises MalformedError where it is no such note,
    SignatureError where no signature counts.
    """
    checkpoint, text, signatures = parse(note)
    if origin is not None and checkpoint.origin != origin:
        raise SignatureError(f"a checkpoint of another log: {checkpoint.origin!r:.80}")
    keyring = keys.in_office(max(0, checkpoint.size - 1))
    for name, marked in signatures:
        if name != checkpoint.origin:
            continue  # a witness's line: welcome, but not ours
        for key in keyring.for_role("ledger"):
            if marked[:4] == _note_key(name, key.raw):
                _check(keyring, key, text, marked[4:])
                return checkpoint
    raise SignatureError(
        f"the checkpoint of {checkpoint.size} entries carries no signature by the ledger key that counted there"
    )


_NO_NOTE: Final = (
    "no signed checkpoint: that is a log's name, a size, a root, an empty line and lines that begin with —"
)


def parse(note: bytes) -> tuple[Checkpoint, bytes, list[tuple[str, bytes]]]:
    """Return (checkpoint, signed text, [(name, key hash and signature)]) without verifying anything."""
    if len(note) > MAX_BYTES:
        raise MalformedError("a checkpoint that is too large")
    try:
        text, blank, below = note.decode("utf-8").rpartition("\n\n")
        lines = text.split("\n")
        origin, size, root = lines[:3]
        decoded = binascii.a2b_base64(root, strict_mode=True)
        signatures = [_signature(line) for line in below.removesuffix("\n").split("\n")]
    except (ValueError, UnicodeError, binascii.Error) as error:
        raise MalformedError(_NO_NOTE) from error
    if not blank or not below.endswith("\n") or not origin or not _plain_number(size):
        raise MalformedError(_NO_NOTE)
    if len(decoded) != HASH_BYTES or int(size) > MAX_INT:
        raise MalformedError("a checkpoint whose root or size cannot be")
    return Checkpoint(origin, int(size), decoded), f"{text}\n".encode(), signatures


def _check(keyring: Keyring, key: PublicKey, text: bytes, signature: bytes) -> None:
    keyring.verify("ledger", key.key_id, text, signature)


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _note_key(name: str, public: bytes) -> bytes:
    """Return signed-note's 4-byte key hash: SHA-256(name || 0x0A || type || key)."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


def _plain_number(text: str) -> bool:
    """Return whether ``text`` is a number of at most 16 digits, as it is written in one way alone."""
    return 0 < len(text) <= 16 and not text.strip("0123456789") and (text == "0" or text[0] != "0")


def _signature(line: str) -> tuple[str, bytes]:
    if not line.startswith(_DASH):
        raise ValueError("a signature line begins with an em dash")
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    marked = binascii.a2b_base64(encoded, strict_mode=True)
    if not name or len(marked) < 5:
        raise ValueError("a signature line has a name and a signature")
    return name, marked
