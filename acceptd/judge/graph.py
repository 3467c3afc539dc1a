"""The graph against the policy's limits and against what the manifest says of its source. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Facts
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

LEAST_NODES = 1000
"""Below this nobody calls a graph blown up, whatever its source has."""


def graph(manifest: Manifest, model: ModelSpec, facts: Facts, policy: Policy) -> Iterator[Finding]:
    """Yield the findings of one model."""
    limits = policy.limits
    if facts.most_node_inputs > limits.node_inputs:
        message = f"a node has {facts.most_node_inputs} inputs or outputs, the policy allows {limits.node_inputs}"
        where = f"{model.file}: {facts.most_node_inputs_where}" if facts.most_node_inputs_where else model.file
        yield make("structure/too-many-node-inputs", "inspect", where, message)
    if facts.subgraph_depth > limits.subgraph_depth:
        message = f"subgraphs {facts.subgraph_depth} deep, the policy allows {limits.subgraph_depth}"
        yield make("structure/subgraph-depth", "inspect", model.file, message)
    layers, source = manifest.export.layers, "export.layers"
    if layers is None:
        layers, source = facts.module_scopes, "the nodes' metadata"
    if layers and facts.nodes > max(LEAST_NODES, layers * limits.nodes_per_layer):
        message = (
            f"{facts.nodes} nodes for {layers} layers (by {source}): {facts.nodes // layers} each, the policy "
        )
        message += f"expects at most {limits.nodes_per_layer}"
        shows = {"nodes": facts.nodes, "layers": layers, "source": source}
        yield make("structure/node-blow-up", "inspect", model.file, message, shows)
    for use in facts.operators:
        own = facts.opsets.get(use.domain or "ai.onnx")
        if use.version is not None and own is not None and use.version != own:
            message = f"{use.domain}::{use.op_type} of opset {use.version}, the model imports {own}"
            yield make("structure/function-opset", "inspect", f"{model.file}: {use.where}", message)
