"""Survey of every scope of a model: main graph, training graphs, functions, and the subgraphs of all of them.

Iterative, each node visited once, whatever an attribute's ``type`` says that it holds. The copy that it
reads has no large values in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.inspect import names
from sandbox.inspect.constants import Constants
from sandbox.inspect.functions import Body, Key, normal
from sandbox.inspect.problems import Problems
from sandbox.inspect.scope import Function, Scope
from sandbox.messages import text_of
from sandbox.wire_places import join, short, step

MAX_OPERATORS: Final = 4096


@dataclass(slots=True)
class Survey:
    """What all scopes hold."""

    nodes: int = 0
    scopes: int = 0
    depth: int = 0
    most_inputs: tuple[int, str] = (0, "")
    """The most inputs or outputs that one node has, and where."""
    main: Body = field(default_factory=lambda: Body("graph"))
    bodies: dict[Key, Body] = field(default_factory=dict)
    functions: dict[Key, Function] = field(default_factory=dict)
    einsum: Einsum = field(default_factory=lambda: Einsum())  # noqa: PLW0108 - it is defined below


def name_text(value: str | bytes) -> str:
    """Return a protobuf string as text: upb hands out ``bytes`` where it is not valid UTF-8."""
    return value if isinstance(value, str) else text_of(value)


def node_place(place: str, index: int, node: Any) -> str:
    """Return the place of a node in a scope."""
    return join(place, step("Graph", "node", index, short(node.op_type)))


def survey(model: Any, constants: Constants, *, nested: bool, problems: Problems) -> Survey:
    """Visit every scope of a ModelProto. Unless ``nested``, no attribute holds a graph or tensor."""
    found = Survey()
    work = [Scope(model.graph, "graph", found.main, None)] if model.HasField("graph") else []
    for index, training in enumerate(model.training_info):
        for name in ("initialization", "algorithm"):
            if training.HasField(name):
                # Training graphs see the main graph's names by design, so nothing in them shadows.
                place = f"training_info[{index}]/{name}"
                work.append(Scope(getattr(training, name), place, found.main, None, is_training=True))
    for index, function in enumerate(model.functions):
        key = (normal(name_text(function.domain)), name_text(function.name), name_text(function.overload))
        place = step("Model", "functions", index, short(key[1]))
        if key in found.functions:
            problems.add("structure/duplicate-function", place, f"{key[0]}::{key[1][:80]} is defined twice")
        if not key[1]:
            problems.add("structure/empty-name", place, "a function without a name")
        body = found.bodies.setdefault(key, Body(place))
        opsets = {normal(name_text(one.domain)): one.version for one in function.opset_import}
        found.functions.setdefault(key, Function(function, opsets, place))
        work.append(Scope(function, place, body, None, is_function=True))
    work.reverse()
    while work:
        scope = work.pop()
        found.scopes += 1
        found.depth = max(found.depth, scope.depth)
        scope.names = names.given(scope, problems)
        if not scope.is_function:
            constants.graph(scope.proto, scope.place)
        children = _nodes(scope, found, constants if nested else None, problems)
        names.finish(scope, problems)
        work += reversed(children)
    found.einsum.finish(problems)
    return found


def _nodes(scope: Scope, found: Survey, constants: Constants | None, problems: Problems) -> list[Scope]:
    children: list[Scope] = []
    body = scope.body
    operators = body.operators
    functions = found.functions
    defined = scope.names
    inputs = not scope.is_training
    nodes = scope.proto.node
    for index, node in enumerate(nodes):
        key = (node.domain, node.op_type)
        known = operators.get(key)
        if known is None:
            operators[key] = [1, node_place(scope.place, index, node)]
            if not key[1]:
                problems.add("structure/empty-name", operators[key][1], "a node without an operator")
        else:
            known[0] += 1
        if inputs:
            for name in node.input:
                if name and name not in defined:
                    names.missing(scope, index, node, name, problems)
        for name in node.output:
            if name:
                if name in defined:
                    names.again(scope, name, problems)
                else:
                    defined[name] = index
        wide = max(len(node.input), len(node.output))
        if wide > found.most_inputs[0]:
            found.most_inputs = wide, node_place(scope.place, index, node)
        call: Key | None = None
        if functions:
            call = (normal(name_text(key[0])), name_text(key[1]), name_text(node.overload))
            if call in functions:
                body.calls[call] += 1
            else:
                call = None
        einsum = key[1] == "Einsum"
        if constants or call or einsum:
            for attribute in node.attribute:
                if constants and _holds(attribute):
                    place = node_place(scope.place, index, node)
                    children += _graphs(attribute, place, scope, index)
                    constants.attribute(attribute, place)
                if einsum and attribute.name == "equation":
                    found.einsum.node(attribute, node_place(scope.place, index, node), problems)
                if call and attribute.s:
                    found.einsum.candidate(attribute.s, node_place(scope.place, index, node))
    body.nodes += len(nodes)
    found.nodes += len(nodes)
    if scope.is_function:
        for index, attribute in enumerate(scope.proto.attribute_proto):
            children += _graphs(attribute, scope.place, scope, 0)
            if constants:
                constants.attribute(attribute, f"{scope.place}/attribute_proto[{index}]")
            found.einsum.candidate(attribute.s, f"{scope.place}/attribute_proto[{index}]")
    return children


def _holds(attribute: Any) -> bool:
    """Whether an attribute holds a graph or a tensor, whatever its ``type`` says."""
    return bool(
        attribute.HasField("t")
        or attribute.HasField("g")
        or attribute.graphs
        or attribute.tensors
        or attribute.HasField("sparse_tensor")
        or attribute.sparse_tensors
    )


def _graphs(attribute: Any, place: str, scope: Scope, at: int) -> list[Scope]:
    """Return the subgraphs of an attribute, whatever its ``type`` says it holds."""
    found = []
    depth = scope.depth + 1
    if attribute.HasField("g"):
        inner = join(place, short(attribute.name))
        found.append(Scope(attribute.g, inner, scope.body, scope, at, depth, is_training=scope.is_training))
    for index, graph in enumerate(attribute.graphs):
        inner = join(place, f"{short(attribute.name)}[{index}]")
        found.append(Scope(graph, inner, scope.body, scope, at, depth, is_training=scope.is_training))
    return found


class Einsum:
    """Equations with two ellipses in one term: shape inference and the runtime never end on them (measured)."""

    def __init__(self) -> None:
        self._by_reference = False
        self._candidates: list[str] = []

    @staticmethod
    def _bad(equation: bytes) -> bool:
        return any(term.count(b"...") > 1 for term in equation.replace(b"->", b",").split(b","))

    def node(self, equation: Any, place: str, problems: Problems) -> None:
        """Look at the equation of one Einsum node."""
        if equation.ref_attr_name:
            self._by_reference = True
        if self._bad(equation.s):
            problems.add("structure/einsum-ellipsis", place, f"equation {text_of(equation.s)[:100]!r}")

    def candidate(self, text: bytes, place: str) -> None:
        """Keep a text that a function hands to an Einsum by attribute reference."""
        if len(self._candidates) < 16 and self._bad(text):
            self._candidates.append(place)

    def finish(self, problems: Problems) -> None:
        """Tell the candidates where any Einsum takes its equation by reference."""
        if self._by_reference:
            for place in self._candidates:
                problems.add("structure/einsum-ellipsis", place, "an equation with two ellipses in one term")
