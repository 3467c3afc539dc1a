"""Depth and cycles of tree ensembles: onnxruntime descends them recursively while it loads.

A chain of 20,000 nodes overflows its stack, 10,000 is fine (measured). Nodes may share children:
LightGBM's set membership is converted that way, so only a true cycle is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.ma  # np.unique imports it lazily, which nothing can in a job

from sandbox.inspect.known import Attributes

MAX_DEPTH: Final = 10_000
OPERATORS: Final = frozenset({"TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"})
Edges = tuple[int, "np.ndarray[Any, np.dtype[np.int64]]", "np.ndarray[Any, np.dtype[np.int64]]"]


def faults(op_type: str, attributes: Attributes) -> Iterator[tuple[str, str]]:
    """Yield (code, message) of structure/tree-depth or structure/tree-cycle for one node."""
    edges = _indexed(attributes) if op_type == "TreeEnsemble" else _by_identity(attributes)
    if edges is None:
        return  # lists of unequal length: the checker and the runtime refuse them
    depth = longest_path(*edges)
    if depth is None:
        yield "structure/tree-cycle", "the nodes of a tree form a cycle"
    elif depth > MAX_DEPTH:
        yield "structure/tree-depth", f"a tree is deeper than {MAX_DEPTH} nodes"


def _ints(attributes: Attributes, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    found = attributes.get(name)
    return np.array(found.ints if found is not None else (), dtype=np.int64)


def _by_identity(attributes: Attributes) -> Edges | None:
    """Edges of ai.onnx.ml 1 to 4: nodes are known by (tree id, node id)."""
    trees, nodes = _ints(attributes, "nodes_treeids"), _ints(attributes, "nodes_nodeids")
    yes, no = _ints(attributes, "nodes_truenodeids"), _ints(attributes, "nodes_falsenodeids")
    modes = attributes.get("nodes_modes")
    branch = np.array([mode != b"LEAF" for mode in modes.strings] if modes is not None else (), dtype=bool)
    count = len(nodes)
    if not (len(trees) == len(yes) == len(no) == len(branch) == count) or count == 0:
        return None
    tree_codes = np.unique(trees, return_inverse=True)[1].astype(np.int64)
    ids = np.unique(np.concatenate((nodes, yes, no)))
    keys = tree_codes * len(ids) + np.searchsorted(ids, nodes)
    order = np.argsort(keys, kind="stable")
    parents, children = [], []
    for targets in (yes, no):
        wanted = tree_codes[branch] * len(ids) + np.searchsorted(ids, targets[branch])
        at = np.minimum(np.searchsorted(keys, wanted, sorter=order), count - 1)
        hit = keys[order[at]] == wanted
        parents.append(np.flatnonzero(branch)[hit])
        children.append(order[at][hit])
    return count, np.concatenate(parents), np.concatenate(children)


def _indexed(attributes: Attributes) -> Edges | None:
    """Edges of ai.onnx.ml 5: children are indices, into the nodes unless marked as leaf."""
    count = len(_ints(attributes, "nodes_featureids"))
    parents, children = [], []
    for targets, leaf in (("nodes_truenodeids", "nodes_trueleafs"), ("nodes_falsenodeids", "nodes_falseleafs")):
        to, is_leaf = _ints(attributes, targets), _ints(attributes, leaf)
        if not len(to) == len(is_leaf) == count or count == 0:
            return None
        inner = np.flatnonzero((is_leaf == 0) & (to >= 0) & (to < count))
        parents.append(inner)
        children.append(to[inner])
    return count, np.concatenate(parents), np.concatenate(children)


def longest_path(
    count: int, parents: np.ndarray[Any, np.dtype[np.int64]], children: np.ndarray[Any, np.dtype[np.int64]]
) -> int | None:
    """Return the nodes on the longest path, at most MAX_DEPTH + 1; None when there is a cycle. Kahn, by levels."""
    waiting = np.bincount(children, minlength=count)
    order = np.argsort(parents, kind="stable")
    targets = children[order]
    first = np.searchsorted(parents[order], np.arange(count + 1))
    level = np.flatnonzero(waiting == 0)
    depth = done = 0
    while len(level):
        depth += 1
        done += len(level)
        if depth > MAX_DEPTH:
            return depth
        lengths = first[level + 1] - first[level]
        offsets = np.repeat(first[level] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        reached, times = np.unique(targets[offsets + np.arange(lengths.sum())], return_counts=True)
        waiting[reached] -= times
        level = reached[waiting[reached] == 0]
    return depth if done == count else None
