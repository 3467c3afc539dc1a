"""The canonical hash over random graphs: names and order never count; broken bytes never break it."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from acceptd.evidence import Structure
from sandbox.inspect import canonical, digests, network, structure
from sandbox.inspect.external import Bundle
from tests.network_world import in_branch, in_function, trigger, two_branches
from tests.static_world import model, value, weight

pytestmark = pytest.mark.property

SEEDS = [
    two_branches().SerializeToString()[:2000],
    in_function().SerializeToString(),
    in_branch(3).SerializeToString(),
    model(trigger("If")).SerializeToString(),
]
OPERATORS = ("Add", "Mul", "Where", "Greater", "Sum")


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, len(SEEDS) - 1), st.lists(st.tuples(st.integers(0, 2**31), st.binary(max_size=6)), max_size=8)
)
def test_broken_bytes_that_protobuf_takes_give_a_frame(seed: int, edits: list[tuple[int, bytes]]) -> None:
    raw = bytearray(SEEDS[seed])
    for at, put in edits:
        place = at % len(raw)
        raw[place : place + (at % 3)] = put
    try:
        parsed = onnx.ModelProto.FromString(bytes(raw))
    except DecodeError:
        return
    found = structure.collect(parsed, 8)
    Structure.model_validate(found)
    key = digests.tensor_key(Path("/nowhere/model.onnx"), Bundle("model.onnx", {}, frozenset(), frozenset()))
    with contextlib.suppress(digests.UnreadableError):
        assert len(canonical.Hasher(network.build(parsed), key).run()) == 32


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, list[int]]]:
    """A graph as operators with the indices of what they read: 0 is the input, 1 a weight, then earlier nodes."""
    count = draw(st.integers(1, 12))
    return [
        (draw(st.sampled_from(OPERATORS)), draw(st.lists(st.integers(0, at + 1), min_size=1, max_size=3)))
        for at in range(count)
    ]


def built(nodes: list[tuple[str, list[int]]], prefix: str, order: list[int]) -> onnx.ModelProto:
    names = [f"{prefix}x", f"{prefix}w", *(f"{prefix}n{at}" for at in range(len(nodes)))]
    made = [
        helper.make_node(op_type, [names[index] for index in read], [names[at + 2]], name=f"{prefix}{at}")
        for at, (op_type, read) in enumerate(nodes)
    ]
    return model(
        [made[at] for at in order],
        inputs=[value(names[0])],
        outputs=[value(names[-1])],
        initializer=[weight(names[1])],
    )


@settings(max_examples=50, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_names_and_order_never_count_and_what_is_read_does(
    nodes: list[tuple[str, list[int]]], shuffle: random.Random
) -> None:
    order = list(range(len(nodes)))
    before = structure.collect(built(nodes, "a", order), 8)
    shuffle.shuffle(order)
    after = structure.collect(built(nodes, "zz", order), 8)
    assert after["topology_sha256"] == before["topology_sha256"]
    driven = [
        sorted((one["key"], one["driven"], one["count"]) for one in found["selections"])
        for found in (before, after)
    ]
    assert driven[0] == driven[1]
    at = shuffle.randrange(len(nodes))
    op_type, read = nodes[at]
    changed = [*nodes[:at], (op_type, [1 if index == 0 else 0 for index in read[:1]] + read[1:]), *nodes[at + 1 :]]
    other = structure.collect(built(changed, "a", list(range(len(nodes)))), 8)
    assert other["topology_sha256"] != before["topology_sha256"]
