"""The ledger's word inside ``release.json``: that this promotion was entered before it was signed. Pure.

The proof carries the exact leaf of the ``intent`` entry, its audit path and the root (RFC 9162, 2.1.3.2), and the
log's signed checkpoint of that root (C2SP tlog-checkpoint). What the leaf says must be what the release says,
and what the checkpoint says what the proof leads to, so one of another promotion or tree is of no use.
"""

from __future__ import annotations

import binascii
import functools
from typing import Any, Final

from acceptd.errors import DigestMismatchError, MalformedError, SignatureError
from acceptd.record import note
from acceptd.record.inclusion import leaf_hash, verify_inclusion
from acceptd.record.keyring import Keyring
from acceptd.release.trust import ReleaseFacts, parse_json

SIGNED: Final = "signed"
"""The proof holds below the root of a checkpoint that a ledger key of the keyring signed."""
PROVED: Final = "unsigned"
"""The proof holds below the root that ``release.json`` names; no checkpoint that counts is attached."""
ABSENT: Final = "absent"
_NOBODY: Final = Keyring(())


def verify(facts: ReleaseFacts, keyring: Keyring = _NOBODY, given_up: Keyring = _NOBODY) -> str:
    """Return :data:`SIGNED`, :data:`PROVED` or :data:`ABSENT`.

    ``keyring`` holds the ledger keys of any time that count: a release outlives the key in office when it was
    made. ``given_up`` are those that were compromised: a checkpoint by one of them proves nothing, neither for
    the release nor against it. A keyring without a ledger key can check no checkpoint. Raises MalformedError or
    DigestMismatchError for a bad proof, SignatureError for a checkpoint by nobody who is known.
    """
    inclusion = facts.document.get("inclusion")
    signed = facts.document.get("checkpoint", "")
    if inclusion is None:
        if signed:
            raise MalformedError("release.json carries a checkpoint without the proof that leads to it")
        return ABSENT
    size, root = _included(facts, inclusion)
    if not signed:
        return PROVED
    if not isinstance(signed, str):
        raise MalformedError("release.json carries a checkpoint that is no text")
    try:
        head, _, _ = note.parse(data := signed.encode("utf-8"))
    except MalformedError as error:
        raise MalformedError(f"release.json: {error}") from None
    if (head.size, head.root) != (size, root):
        raise DigestMismatchError("release.json: its proof leads to another tree than its checkpoint is of")
    if not keyring.for_role("ledger"):
        return PROVED
    try:
        _verified(data, keyring)
    except SignatureError as error:
        try:
            note.verify(data, given_up)
        except SignatureError:
            raise SignatureError(f"release.json: {error}") from None
        return PROVED
    return SIGNED


@functools.lru_cache(maxsize=64)
def _verified(data: bytes, keyring: Keyring) -> None:
    """Verify a note; the same one under the same keys once in a process (what raises is not kept)."""
    note.verify(data, keyring)


def _included(facts: ReleaseFacts, inclusion: Any) -> tuple[int, bytes]:
    """Return size and root of the tree that the entry is proved to be in."""
    try:
        leaf = binascii.a2b_base64(inclusion["leaf"], strict_mode=True)
        seq, size = inclusion["seq"], inclusion["size"]
        root, path = bytes.fromhex(inclusion["root"]), [bytes.fromhex(step) for step in inclusion["path"]]
        entry = parse_json(leaf, "the ledger entry of release.json")
        body: dict[str, Any] = entry["body"]
        said = (entry["type"], entry["seq"], *(body[key] for key in ("model", "channel", "number", "digest")))
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise MalformedError(f"release.json carries a malformed proof: {error!r:.120}") from None
    if type(seq) is not int or type(size) is not int:
        raise MalformedError("release.json carries a proof without whole numbers")
    if said != ("intent", seq, facts.model_id, facts.channel, facts.number, facts.bundle_digest):
        raise DigestMismatchError("the ledger entry that release.json proves is about another promotion")
    if not verify_inclusion(leaf_hash(leaf), seq, size, path, root):
        raise DigestMismatchError("release.json: the inclusion proof of its ledger entry does not hold")
    return size, root
