"""Which execution provider took which nodes, and in which order they ran: frozen models with caps, and their sum.

All of it is the job's word. It may reject or hold, and it informs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from acceptd.performance_facts import Milliseconds, Share
from acceptd.values import Count, Evidence, Text

CPU = "CPUExecutionProvider"
MAX_SEGMENTS = 1024
MAX_OPERATORS = 1024
MAX_PROVIDERS = 64
MAX_NODES = 512


class PlacedNode(Evidence):
    """How many nodes of one operator a provider took."""

    provider: Text
    domain: Text
    op_type: Text
    count: Count


class Placement(Evidence):
    """``run``: nodes by provider. What was asked for and what was taken is empty in evidence of older versions."""

    nodes: Annotated[list[PlacedNode], Field(max_length=8192)]
    available: bool = True
    note: Text = ""
    requested_provider: Text = ""
    selected_provider: Text = ""
    used_cpu_fallback: bool | None = None


class Segment(Evidence):
    """Nodes of one provider that ran one after another; ``first`` and ``last`` are operators."""

    provider: Text
    nodes: Count
    first: Text
    last: Text


class OperatorTime(Evidence):
    """What the nodes of one operator on one provider took in one inference, on average, in ms."""

    provider: Text
    op_type: Text
    nodes: Count
    ms: Milliseconds
    median_ms: Milliseconds | None = None
    """None in evidence of older versions."""


class NodeTime(Evidence):
    """What one node of the optimised graph took in one inference, the median, in ms. ``name`` is the runtime's."""

    name: Text
    op_type: Text
    provider: Text
    ms: Milliseconds


class Profiled(Evidence):
    """``run`` under onnxruntime's profiler: ``runs`` inferences, parsed in the job.

    ``segments`` are those of one inference, in the order of execution, and ``segment_count`` all of them.
    ``ms`` is the own time of a provider's nodes in one inference, on average. ``memcpy`` are nodes that copy
    between devices. ``named`` are the nodes that took most time, where the order asked for them. ``note`` says
    what is missing, and why.
    """

    runs: Count = 0
    segments: Annotated[list[Segment], Field(max_length=MAX_SEGMENTS)] = []
    segment_count: Count = 0
    ms: Annotated[dict[Text, Milliseconds], Field(max_length=MAX_PROVIDERS)] = {}
    memcpy: Count = 0
    operators: Annotated[list[OperatorTime], Field(max_length=MAX_OPERATORS)] = []
    named: Annotated[list[NodeTime], Field(max_length=MAX_NODES)] = []
    loading_ms: Milliseconds | None = None
    initialising_ms: Milliseconds | None = None
    note: Text = ""


class Boundary(Evidence):
    """Where the execution passes from one provider to another: the operators on both sides, and how often."""

    before: Text
    operator: Text
    after: Text
    next_operator: Text
    count: Count


class PlacementSummary(Evidence):
    """What one model's placement comes to. What is not known is None, and ``note`` says why.

    ``partitions`` are runs of nodes of one provider in the order of execution, ``cpu_islands`` those of them on
    the CPU where the profile asks for another provider. ``copies`` are nodes that copy between devices, ``shares``
    the parts of the run time.
    """

    requested_provider: Text
    selected_provider: Text | None = None
    used_cpu_fallback: bool = False
    nodes: Annotated[dict[Text, Count], Field(max_length=MAX_PROVIDERS)] = {}
    cpu_operators: Annotated[dict[Text, Count], Field(max_length=8192)] = {}
    """Operators on the CPU as ``domain::OpType``, where the profile asks for another provider."""
    partitions: Count | None = None
    cpu_islands: Count | None = None
    copies: Count | None = None
    shares: Annotated[dict[Text, Share], Field(max_length=MAX_PROVIDERS)] | None = None
    boundaries: Annotated[list[Boundary], Field(max_length=256)] = []
    profiled_runs: Count = 0
    note: Text = ""


class ProfilePlacement(Evidence):
    """The placement of one model under one profile."""

    profile: Text
    summary: PlacementSummary


def several_providers(placement: Placement | None) -> bool:
    """Say whether more than one provider holds nodes, so that shares and partitions have to be measured."""
    return placement is not None and len({node.provider for node in placement.nodes if node.count}) > 1


def summary(
    placement: Placement, profiled: Profiled | None, requested: Sequence[str], session: Sequence[str]
) -> PlacementSummary:
    """Return what a placement comes to; ``requested`` are the profile's providers, ``session`` the session's."""
    nodes: dict[str, int] = {}
    for node in placement.nodes:
        if node.count:
            nodes[node.provider] = nodes.get(node.provider, 0) + node.count
    wanted = requested[0] if requested else CPU
    beside: dict[str, int] = {}
    for node in placement.nodes:
        if node.provider == CPU != wanted and node.count:
            name = f"{node.domain or 'ai.onnx'}::{node.op_type}"
            beside[name] = beside.get(name, 0) + node.count
    selected = next((name for name in session if nodes.get(name)), session[0] if session else None)
    told = PlacementSummary(
        requested_provider=wanted,
        selected_provider=selected,
        used_cpu_fallback=bool(nodes.get(CPU)) and wanted != CPU,
        nodes=dict(sorted(nodes.items())[:MAX_PROVIDERS]),
        cpu_operators=dict(sorted(beside.items())),
    )
    if not placement.available:
        return told.model_copy(update={"note": placement.note or "the runtime did not say who took which node"})
    if len(nodes) < 2:
        update = {
            "partitions": len(nodes),
            "cpu_islands": int(CPU in nodes and wanted != CPU),
            "copies": 0,
            "shares": dict.fromkeys(nodes, 1.0),
            "note": "by definition: one provider holds every node" if nodes else "by definition: no node is left",
        }
        return told.model_copy(update=update)
    if profiled is None or not profiled.runs:
        note = profiled.note if profiled is not None and profiled.note else "no profiled run came to its end"
        return told.model_copy(update={"note": note})
    return told.model_copy(update=_measured(profiled, wanted))


def _measured(profiled: Profiled, wanted: str) -> dict[str, object]:
    whole = len(profiled.segments) == profiled.segment_count
    total = sum(profiled.ms.values())
    counts: dict[tuple[str, str, str, str], int] = {}
    for one, other in zip(profiled.segments, profiled.segments[1:], strict=False):
        key = (one.provider, one.last, other.provider, other.first)
        counts[key] = counts.get(key, 0) + 1
    islands = sum(one.provider == CPU for one in profiled.segments) if wanted != CPU else 0
    return {
        "partitions": profiled.segment_count,
        "cpu_islands": islands if whole or wanted == CPU else None,
        "copies": profiled.memcpy,
        "shares": {name: round(ms / total, 6) for name, ms in sorted(profiled.ms.items())} if total else None,
        "boundaries": [
            Boundary(before=key[0], operator=key[1], after=key[2], next_operator=key[3], count=count)
            for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:256]
        ],
        "profiled_runs": profiled.runs,
        "note": profiled.note,
    }
