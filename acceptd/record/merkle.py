"""The Merkle tree of RFC 6962 (hashing and proofs as RFC 9162 states them), without I/O.

A leaf is SHA-256(0x00 || data), a node SHA-256(0x01 || left || right), the root of nothing
SHA-256(""). A *perfect* subtree at (level, index) covers the leaves [index << level, (index + 1) << level)
and never changes once it is full: storing those nodes makes every proof a matter of O(log n) look-ups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from acceptd.record.inclusion import HASH_BYTES as HASH_BYTES
from acceptd.record.inclusion import all_hashes
from acceptd.record.inclusion import leaf_hash as leaf_hash
from acceptd.record.inclusion import node_hash as node_hash
from acceptd.record.inclusion import verify_inclusion as verify_inclusion

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

Fetch = Callable[[int, int], bytes]
"""(level, index) -> the hash of that perfect subtree; level 0 are the leaf hashes."""


@dataclass(frozen=True, slots=True)
class Node:
    """A perfect subtree that has just become full; ``level`` is 1 or more."""

    level: int
    index: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Frontier:
    """The compact range of a log: the roots of its perfect subtrees, largest first, at most log2(n) + 1."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> tuple[Frontier, list[Node]]:
        """Return the frontier with one more leaf hash, and the inner nodes that this completes."""
        return self.join(0, leaf)

    def join(self, level: int, subtree: bytes) -> tuple[Frontier, list[Node]]:
        """Return the frontier with the root of the next 2^level leaves, and the inner nodes that this completes.

        ``size`` must be a multiple of 2^level.
        """
        stack = list(self.hashes)
        completed: list[Node] = []
        size, index, current = self.size + (1 << level), self.size >> level, subtree
        while index & 1:
            current = node_hash(stack.pop(), current)
            level, index = level + 1, index >> 1
            completed.append(Node(level, index, current))
        stack.append(current)
        return Frontier(size, tuple(stack)), completed

    def root(self) -> bytes:
        """Return the tree's root at this size."""
        return _fold(self.hashes) if self.hashes else EMPTY_ROOT


def frontier_at(size: int, fetch: Fetch) -> Frontier:
    """Return the frontier of the first ``size`` leaves, from stored perfect subtrees."""
    return Frontier(size, tuple(fetch(level, index) for level, index in perfect_subtrees(0, size)))


def perfect_subtrees(start: int, end: int) -> list[tuple[int, int]]:
    """Return (level, index) of the perfect subtrees of [start, end), left to right.

    ``start`` must be a multiple of the largest power of two that fits, as it is for every subtree of RFC 6962.
    """
    parts: list[tuple[int, int]] = []
    while start < end:
        level = (end - start).bit_length() - 1
        if start & ((1 << level) - 1):
            raise ValueError(f"[{start}, {end}) is no subtree")
        parts.append((level, start >> level))
        start += 1 << level
    return parts


def levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return the hashes of all perfect subtrees over leaf hashes, by level, from the leaves up."""
    found = [list(leaves)]
    while len(found[-1]) > 1:
        below = found[-1]
        found.append([node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)])
    return found


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes, in one pass and O(log n) memory."""
    frontier = Frontier()
    for leaf in leaves:
        frontier, _ = frontier.append(leaf)
    return frontier.root()


def inclusion_proof(index: int, size: int, fetch: Fetch) -> list[bytes]:
    """Return the audit path of leaf ``index`` in the tree of ``size`` leaves (RFC 9162, 2.1.3.1)."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_subtree(middle, end, fetch))
            end = middle
        else:
            path.append(_subtree(start, middle, fetch))
            start = middle
    path.reverse()
    return path


def consistency_proof(old: int, new: int, fetch: Fetch) -> list[bytes]:
    """Return the proof that the first ``old`` of ``new`` leaves are unchanged (RFC 9162, 2.1.4.1).

    Empty for ``old`` 0 (anything extends nothing) and for equal sizes.
    """
    if not 0 <= old <= new:
        raise ValueError(f"no tree of {old} leaves comes before one of {new}")
    if old in {0, new}:
        return []
    proof: list[bytes] = []
    start, end, remaining, complete = 0, new, old, True
    while remaining != end - start:
        half = _split(end - start)
        if remaining <= half:
            proof.append(_subtree(start + half, end, fetch))
            end = start + half
        else:
            proof.append(_subtree(start, start + half, fetch))
            start, remaining, complete = start + half, remaining - half, False
    if not complete:
        proof.append(_subtree(start, end, fetch))
    proof.reverse()
    return proof


def verify_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Say whether the tree ``new`` extends the tree ``old`` (RFC 9162, 2.1.4.2; ``old`` 0 with no proof holds)."""
    if not 0 <= old <= new or not all_hashes([old_root, new_root, *proof]):
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    if not proof:
        return False
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first = second = path[0]
    for step in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            first, second = node_hash(step, first), node_hash(step, second)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            second = node_hash(second, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and first == old_root and second == new_root


def _split(length: int) -> int:
    """Return the largest power of two smaller than ``length`` (2 or more): RFC 6962's k."""
    return 1 << ((length - 1).bit_length() - 1)


def _subtree(start: int, end: int, fetch: Fetch) -> bytes:
    return _fold([fetch(level, index) for level, index in perfect_subtrees(start, end)])


def _fold(hashes: Sequence[bytes]) -> bytes:
    """Join perfect subtrees, largest first, from the right: the shape of RFC 6962's left-heavy tree."""
    current = hashes[-1]
    for left in reversed(hashes[:-1]):
        current = node_hash(left, current)
    return current
