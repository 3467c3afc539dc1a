"""RFC 6962 hashing and proofs against the known vectors of google/certificate-transparency."""

from __future__ import annotations

import pytest

from acceptd.record import merkle

pytestmark = pytest.mark.unit

# certificate-transparency, merkletree/merkle_tree_test.cc: the eight leaves and the roots of 1 to 8 of them.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
# (leaf, size, audit path), leaves counted from 0.
INCLUSION = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
CONSISTENCY = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]


def stored(count: int) -> tuple[merkle.Frontier, dict[tuple[int, int], bytes]]:
    frontier, nodes = merkle.Frontier(), {}
    for index in range(count):
        leaf = merkle.leaf_hash(LEAVES[index])
        nodes[0, index] = leaf
        frontier, completed = frontier.append(leaf)
        nodes.update({(node.level, node.index): node.hash for node in completed})
    return frontier, nodes


def test_root_of_nothing_is_the_hash_of_nothing() -> None:
    assert merkle.Frontier().root() == merkle.EMPTY_ROOT
    assert merkle.EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_the_known_ones(size: int) -> None:
    frontier, nodes = stored(size)
    assert frontier.root().hex() == ROOTS[size - 1]
    assert merkle.root_of(merkle.leaf_hash(leaf) for leaf in LEAVES[:size]).hex() == ROOTS[size - 1]
    assert merkle.frontier_at(size, lambda level, index: nodes[level, index]) == frontier


@pytest.mark.parametrize(("index", "size", "path"), INCLUSION)
def test_inclusion_proofs_are_the_known_ones(index: int, size: int, path: list[str]) -> None:
    _, nodes = stored(8)
    proof = merkle.inclusion_proof(index, size, lambda level, at: nodes[level, at])
    assert [step.hex() for step in proof] == path
    leaf, root = merkle.leaf_hash(LEAVES[index]), bytes.fromhex(ROOTS[size - 1])
    assert merkle.verify_inclusion(leaf, index, size, proof, root)


@pytest.mark.parametrize(("old", "new", "path"), CONSISTENCY)
def test_consistency_proofs_are_the_known_ones(old: int, new: int, path: list[str]) -> None:
    _, nodes = stored(8)
    proof = merkle.consistency_proof(old, new, lambda level, at: nodes[level, at])
    assert [step.hex() for step in proof] == path
    before, after = bytes.fromhex(ROOTS[old - 1]), bytes.fromhex(ROOTS[new - 1])
    assert merkle.verify_consistency(old, before, new, after, proof)


def test_a_node_is_no_leaf() -> None:
    """Second preimage: the two hashes of an inner node, offered as a leaf's data, give another hash."""
    left, right = merkle.leaf_hash(b"a"), merkle.leaf_hash(b"b")
    assert merkle.leaf_hash(left + right) != merkle.node_hash(left, right)


def test_proofs_outside_the_tree_are_refused() -> None:
    _, nodes = stored(8)
    with pytest.raises(ValueError, match="not in a tree of 8"):
        merkle.inclusion_proof(8, 8, lambda level, at: nodes[level, at])
    with pytest.raises(ValueError, match="comes before"):
        merkle.consistency_proof(9, 8, lambda level, at: nodes[level, at])
    with pytest.raises(ValueError, match="no subtree"):
        merkle.perfect_subtrees(1, 3)


def test_verifying_takes_no_malformed_hash_and_no_stray_step() -> None:
    root = bytes.fromhex(ROOTS[0])
    assert merkle.verify_inclusion(root, 0, 1, [], root)
    assert not merkle.verify_inclusion(root, 0, 1, [root], root)
    assert not merkle.verify_inclusion(root, 1, 1, [], root)
    assert not merkle.verify_inclusion(root[:31], 0, 1, [], root[:31])
    assert not merkle.verify_consistency(1, root, 1, root, [root])
    assert not merkle.verify_consistency(0, root, 1, root, [])
    assert merkle.verify_consistency(0, merkle.EMPTY_ROOT, 1, root, [])
    assert not merkle.verify_consistency(2, root, 1, root, [])
    assert not merkle.verify_consistency(1, root, 2, bytes.fromhex(ROOTS[1]), [])
