"""The model as one network of values: every scope, names resolved, so that it can be followed and hashed.

Built once from the copy without large values. Iterative; a value is a number, and a name that nothing defines
is a value of its own that nothing produces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.inspect.functions import Key, normal
from sandbox.inspect.scopes import name_text
from sandbox.messages import text_of
from sandbox.wire_places import join, short, step

ABSENT: Final = -1
"""An optional input or output that is left out."""


@dataclass(slots=True)
class Node:
    """One node. ``domain`` has the default one spelt ``ai.onnx``; ``key`` names the local function it calls."""

    proto: Any
    scope: Scope
    index: int
    domain: str
    op_type: str
    inputs: list[int]
    outputs: list[int]
    key: Key | None = None
    children: list[tuple[str, Scope]] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return join(self.scope.place, step("Graph", "node", self.index, short(self.op_type)))


@dataclass(slots=True)
class Scope:
    """One graph or function body. ``owner`` is the node around a subgraph."""

    proto: Any
    place: str
    outer: Scope | None
    owner: Node | None
    depth: int
    opsets: dict[str, int]
    names: dict[str | bytes, int] = field(default_factory=dict)
    """upb hands out ``bytes`` where a name is not valid UTF-8."""
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    weights: list[tuple[int, Any]] = field(default_factory=list)
    """Value and TensorProto or SparseTensorProto of each initializer."""
    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Network:
    """All scopes. ``texts[value]`` is the name of a value, ``producer[value]`` its node."""

    main: Scope
    scopes: list[Scope] = field(default_factory=list)
    functions: dict[Key, Scope] = field(default_factory=dict)
    texts: list[str | bytes] = field(default_factory=list)
    producer: list[Node | None] = field(default_factory=list)
    undefined: set[int] = field(default_factory=set)

    def value(self, name: str | bytes, node: Node | None = None) -> int:
        """Return a new value."""
        self.texts.append(name)
        self.producer.append(node)
        return len(self.texts) - 1

    def name(self, value: int) -> str:
        """Return a value's name as text; empty for one that is left out."""
        return text_of(self.texts[value])[:256] if value != ABSENT else ""

    def nodes(self) -> Iterator[Node]:
        """Yield every node of every scope."""
        for scope in self.scopes:
            yield from scope.nodes


def build(model: Any) -> Network:
    """Return the network of a ModelProto. Training graphs are not in it: nothing runs them."""
    opsets = {normal(name_text(item.domain)): item.version for item in model.opset_import}
    net = Network(Scope(model.graph, "graph", None, None, 0, opsets))
    for index, function in enumerate(model.functions):
        key = (normal(name_text(function.domain)), name_text(function.name), name_text(function.overload))
        own = {normal(name_text(item.domain)): item.version for item in function.opset_import}
        place = step("Model", "functions", index, short(key[1]))
        scope = Scope(function, place, None, None, 0, own)
        net.functions.setdefault(key, scope)
        net.scopes.append(scope)
    net.scopes.insert(0, net.main)
    # Names first, then what uses them: a node may stand before the one that it reads from.
    done = 0
    while done < len(net.scopes):
        scope = net.scopes[done]
        done += 1
        _define(scope, net)
    for scope in net.scopes:
        _resolve(scope, net)
    return net


def _define(scope: Scope, net: Network) -> None:
    proto, names = scope.proto, scope.names
    is_function = not hasattr(proto, "initializer")
    for given in proto.input:
        name = given if is_function else given.name
        scope.inputs.append(names.setdefault(name, net.value(name)))
    if not is_function:
        for tensor in (*proto.initializer, *proto.sparse_initializer):
            name = tensor.name if hasattr(tensor, "raw_data") else tensor.values.name
            known = names.get(name)
            scope.weights.append((known if known is not None else net.value(name), tensor))
            names.setdefault(name, scope.weights[-1][0])
    many = bool(net.functions)
    for index, proto_node in enumerate(proto.node):
        node = Node(
            proto_node, scope, index, normal(name_text(proto_node.domain)), name_text(proto_node.op_type), [], []
        )
        if many:
            key = (node.domain, node.op_type, name_text(proto_node.overload))
            node.key = key if key in net.functions else None
        for name in proto_node.output:
            node.outputs.append(net.value(name, node) if name else ABSENT)
            if name:
                names.setdefault(name, node.outputs[-1])
        for attribute in proto_node.attribute:
            _children(attribute, node, net)
        scope.nodes.append(node)


def _children(attribute: Any, node: Node, net: Network) -> None:
    """Enter the subgraphs of an attribute, whatever its ``type`` says it holds."""
    graphs = [attribute.g] if attribute.HasField("g") else []
    if not graphs and not attribute.graphs:
        return
    name = short(attribute.name)
    many = len(graphs)
    for index, graph in enumerate([*graphs, *attribute.graphs]):
        label = name if index < many else f"{name}[{index - many}]"
        scope = node.scope
        child = Scope(graph, join(node.place, label), scope, node, scope.depth + 1, scope.opsets)
        node.children.append((f"{name_text(attribute.name)}[{index}]", child))
        net.scopes.append(child)


def _resolve(scope: Scope, net: Network) -> None:
    names = scope.names
    for node in scope.nodes:
        for name in node.proto.input:
            if not name:
                node.inputs.append(ABSENT)
                continue
            found = names.get(name)
            node.inputs.append(_outside(scope, name, net) if found is None else found)
    for result in scope.proto.output:
        name = result if isinstance(result, str | bytes) else result.name
        found = names.get(name)
        scope.outputs.append(_outside(scope, name, net) if found is None else found)


def _outside(scope: Scope, name: str | bytes, net: Network) -> int:
    """Return the value that a name means in the scopes around; where there is none, a new undefined one."""
    outer = scope.outer
    while outer is not None:
        if name in outer.names:
            return outer.names[name]
        outer = outer.outer
    made = net.value(name)
    scope.names[name] = made
    net.undefined.add(made)
    return made
