"""The incremental tree and its proofs against RFC 6962's recursive definition, for any size."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd.record import merkle

pytestmark = pytest.mark.property

Hashes = list[bytes]


def naive_root(data: list[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, word for word."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = 1
    while k * 2 < len(data):
        k *= 2
    return hashlib.sha256(b"\x01" + naive_root(data[:k]) + naive_root(data[k:])).digest()


def naive_path(m: int, data: list[bytes]) -> Hashes:
    """PATH of RFC 6962, 2.1.1."""
    if len(data) == 1:
        return []
    k = 1
    while k * 2 < len(data):
        k *= 2
    if m < k:
        return [*naive_path(m, data[:k]), naive_root(data[k:])]
    return [*naive_path(m - k, data[k:]), naive_root(data[:k])]


def naive_subproof(m: int, data: list[bytes], whole: bool) -> Hashes:
    """SUBPROOF of RFC 6962, 2.1.2."""
    if m == len(data):
        return [] if whole else [naive_root(data)]
    k = 1
    while k * 2 < len(data):
        k *= 2
    if m <= k:
        return [*naive_subproof(m, data[:k], whole), naive_root(data[k:])]
    return [*naive_subproof(m - k, data[k:], False), naive_root(data[:k])]


def tree(data: list[bytes]) -> tuple[merkle.Frontier, merkle.Fetch]:
    frontier, nodes = merkle.Frontier(), {}
    for index, item in enumerate(data):
        nodes[0, index] = merkle.leaf_hash(item)
        frontier, completed = frontier.append(nodes[0, index])
        for node in completed:
            assert (node.level, node.index) not in nodes, "a perfect subtree is completed once"
            nodes[node.level, node.index] = node.hash
    return frontier, lambda level, index: nodes[level, index]


data_lists = st.lists(st.binary(max_size=4), min_size=1, max_size=70)


@settings(max_examples=60, deadline=None)
@given(data_lists, st.data())
def test_roots_and_proofs_are_those_of_the_recursive_definition(data: list[bytes], draw: st.DataObject) -> None:
    frontier, fetch = tree(data)
    size = draw.draw(st.integers(1, len(data)), "size")
    index = draw.draw(st.integers(0, size - 1), "index")
    old = draw.draw(st.integers(1, size), "old")
    assert frontier.root() == naive_root(data)
    assert len(frontier.hashes) == bin(len(data)).count("1")
    at_size = merkle.frontier_at(size, fetch)
    root = naive_root(data[:size])
    assert at_size.root() == root
    path = merkle.inclusion_proof(index, size, fetch)
    assert path == naive_path(index, data[:size])
    assert merkle.verify_inclusion(merkle.leaf_hash(data[index]), index, size, path, root)
    proof = merkle.consistency_proof(old, size, fetch)
    assert proof == naive_subproof(old, data[:size], True)
    assert merkle.verify_consistency(old, naive_root(data[:old]), size, root, proof)


@settings(max_examples=60, deadline=None)
@given(data_lists, st.data())
def test_a_changed_proof_proves_nothing(data: list[bytes], draw: st.DataObject) -> None:
    frontier, fetch = tree(data)
    size, root = frontier.size, frontier.root()
    index = draw.draw(st.integers(0, size - 1), "index")
    leaf, path = merkle.leaf_hash(data[index]), merkle.inclusion_proof(index, size, fetch)
    other = merkle.leaf_hash(data[index] + b"x")
    assert not merkle.verify_inclusion(other, index, size, path, root)
    assert not merkle.verify_inclusion(leaf, index, size, [*path, root], root)
    if path:
        place = draw.draw(st.integers(0, len(path) - 1), "place")
        broken = [*path[:place], bytes([path[place][0] ^ 1]) + path[place][1:], *path[place + 1 :]]
        assert not merkle.verify_inclusion(leaf, index, size, broken, root)
        assert not merkle.verify_inclusion(leaf, index, size, path[:-1], root)
    old = draw.draw(st.integers(1, size), "old")
    before, proof = naive_root(data[:old]), merkle.consistency_proof(old, size, fetch)
    rewritten = naive_root([data[0] + b"x", *data[1:old]])
    assert not merkle.verify_consistency(old, rewritten, size, root, proof)
    if old < size:
        assert not merkle.verify_consistency(old, before, size, other, proof)
        assert not merkle.verify_consistency(old, before, size, root, proof[:-1])
