"""That a leaf is in a tree: hashing and inclusion proofs of RFC 6962 and RFC 9162, as a loader checks them.

:mod:`acceptd.record.merkle` builds such trees and proofs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

HASH_BYTES: Final = 32


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf's exact bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Say whether the leaf hash ``leaf`` stands at ``index`` below ``root`` (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or not all_hashes([leaf, root, *proof]):
        return False
    fn, sn, current = index, size - 1, leaf
    for step in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            current = node_hash(step, current)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            current = node_hash(current, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and current == root


def all_hashes(values: Iterable[bytes]) -> bool:
    """Say whether each value is a hash by its form."""
    return all(isinstance(value, bytes) and len(value) == HASH_BYTES for value in values)
