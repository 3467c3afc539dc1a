"""Survey of every scope of a model: main graph, training graphs, functions, and the subgraphs of all of them.

Iterative, each node visited once. The copy that it reads has no large values in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.inspect import trees
from sandbox.inspect.functions import Body, Key, normal
from sandbox.inspect.problems import Problems
from sandbox.messages import text_of
from sandbox.wire_places import join, short, step
from sandbox.wire_text import twins

MAX_OPERATORS: Final = 4096
_GRAPH_OPERATORS_WITH_SEED: Final = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
_SPECIAL: Final = _GRAPH_OPERATORS_WITH_SEED | trees.OPERATORS | {"Einsum", "BatchNormalization", "Dropout"}


@dataclass(slots=True)
class Scope:
    """One graph or function body. ``outer`` is the scope whose names it sees; ``body`` owns its nodes."""

    proto: Any
    place: str
    body: Body
    outer: Scope | None
    is_function: bool = False
    names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Survey:
    """What all scopes hold."""

    operators: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    """(domain, operator) to [count, first place]."""
    nodes: int = 0
    scopes: int = 0
    main: Body = field(default_factory=lambda: Body("graph"))
    functions: dict[Key, Body] = field(default_factory=dict)


def name_text(value: str | bytes) -> str:
    """Return a protobuf string as text: upb hands out ``bytes`` where it is not valid UTF-8."""
    return value if isinstance(value, str) else text_of(value)


def survey(model: Any, *, subgraphs: bool, problems: Problems) -> Survey:
    """Visit every scope of a ModelProto. Without ``subgraphs`` no attribute holds a graph (the walk counted)."""
    found = Survey()
    work = [Scope(model.graph, "graph", found.main, None)] if model.HasField("graph") else []
    for index, training in enumerate(model.training_info):
        for name in ("initialization", "algorithm"):
            if training.HasField(name):
                # Training graphs see the main graph's names by design, so nothing in them shadows.
                work.append(Scope(getattr(training, name), f"training_info[{index}]/{name}", found.main, None))
    for index, function in enumerate(model.functions):
        key = (normal(name_text(function.domain)), name_text(function.name), name_text(function.overload))
        place = step("Model", "functions", index, short(key[1]))
        if key in found.functions:
            problems.add("structure/duplicate-function", place, f"{key[0]}::{key[1][:80]} is defined twice")
        body = found.functions.setdefault(key, Body(place))
        work.append(Scope(function, place, body, None, is_function=True))
    work.reverse()
    einsum = _Einsum()
    while work:
        scope = work.pop()
        found.scopes += 1
        names = _names(scope, problems)
        children = _nodes(scope, found, names, subgraphs, einsum, problems)
        _shadowed(scope, names, problems)
        work += reversed(children)
    einsum.finish(problems)
    return found


def _names(scope: Scope, problems: Problems) -> Counter[str]:
    """Return the names that inputs and initializers define, with how often."""
    proto = scope.proto
    if scope.is_function:
        return Counter(name_text(name) for name in proto.input)
    inputs = Counter(name_text(value.name) for value in proto.input)
    weights = Counter(name_text(tensor.name) for tensor in proto.initializer)
    weights.update(name_text(sparse.values.name) for sparse in proto.sparse_initializer)
    for what, names in (("input", inputs), ("initializer", weights)):
        for name, count in names.items():
            if count > 1:
                problems.add("structure/duplicate-name", scope.place, f"{count} {what}s are named {name[:100]!r}")
    return Counter(dict.fromkeys([*inputs, *weights], 1))


def _nodes(
    scope: Scope, found: Survey, names: Counter[str], attributes: bool, einsum: _Einsum, problems: Problems
) -> list[Scope]:
    children: list[Scope] = []
    operators = found.operators
    body = scope.body
    produced: list[str] = []
    nodes = scope.proto.node
    for index, node in enumerate(nodes):
        key = (node.domain, node.op_type)
        known = operators.get(key)
        if known is None:
            operators[key] = [1, _place(scope, index, node)]
        else:
            known[0] += 1
        produced += node.output
        special = key[1] in _SPECIAL
        call: Key | None = None
        if found.functions:
            call = (normal(name_text(key[0])), name_text(key[1]), name_text(node.overload))
            if call in found.functions:
                body.calls[call] += 1
            else:
                call = None
        if special or attributes or call:
            place = _place(scope, index, node)
            if special:
                _special(node, scope, place, einsum, problems)
            for attribute in node.attribute:
                children += _graphs(attribute, place, scope)
                if call and attribute.s:
                    einsum.candidate(attribute.s, place)
    body.nodes += len(nodes)
    found.nodes += len(nodes)
    if scope.is_function:
        for index, attribute in enumerate(scope.proto.attribute_proto):
            children += _graphs(attribute, scope.place, scope)
            einsum.candidate(attribute.s, f"{scope.place}/attribute_proto[{index}]")
    outputs = Counter(map(name_text, produced))
    del outputs[""]
    if len(outputs) != len(produced) or names.keys() & outputs.keys():
        _duplicates(outputs, names, scope, problems)
    names.update(outputs)
    return children


def _duplicates(outputs: Counter[str], names: Counter[str], scope: Scope, problems: Problems) -> None:
    for name, count in outputs.items():
        if count + (name in names) > 1:
            problems.add("structure/duplicate-name", scope.place, f"{name[:100]!r} is produced more than once")


def _shadowed(scope: Scope, names: Counter[str], problems: Problems) -> None:
    scope.names = set(names)
    for name, other in twins(scope.names):
        problems.add("structure/look-alike-name", scope.place, f"{name[:100]!a} looks like {other[:100]!a}")
    outer = scope.outer
    while outer is not None:
        for name in sorted(scope.names & outer.names)[:16]:
            problems.add(
                "structure/shadowed-name", scope.place, f"{name[:100]!r} hides a value of {outer.place[:200]}"
            )
        outer = outer.outer


def _place(scope: Scope, index: int, node: Any) -> str:
    return join(scope.place, step("Graph", "node", index, short(node.op_type)))


def _graphs(attribute: Any, place: str, scope: Scope) -> list[Scope]:
    """Return the subgraphs of an attribute, whatever its ``type`` says it holds."""
    found = []
    if attribute.HasField("g"):
        found.append(Scope(attribute.g, join(place, short(attribute.name)), scope.body, scope))
    for index, graph in enumerate(attribute.graphs):
        found.append(Scope(graph, join(place, f"{short(attribute.name)}[{index}]"), scope.body, scope))
    return found


def _special(node: Any, scope: Scope, place: str, einsum: _Einsum, problems: Problems) -> None:
    """Look closer at operators that are known for trouble."""
    op_type = name_text(node.op_type)
    domain = normal(name_text(node.domain))
    attributes = {name_text(attribute.name): attribute for attribute in node.attribute}
    if op_type in trees.OPERATORS:
        if domain == "ai.onnx.ml":
            trees.examine(op_type, attributes, place, problems)
    elif domain != "ai.onnx":
        return
    elif op_type == "Einsum":
        einsum.node(attributes.get("equation"), place, problems)
    elif op_type == "BatchNormalization":
        if "training_mode" in attributes and attributes["training_mode"].i:
            problems.add("structure/training-mode", place, "training_mode is set")
    elif op_type == "Dropout":
        if len(node.input) > 2 and node.input[2] and _is_true(node.input[2], scope):
            problems.add("structure/training-mode", place, "training_mode is a constant true")
    elif "seed" not in attributes:
        problems.add("structure/unseeded-random", place, f"{op_type} has no seed")


def _is_true(name: str | bytes, scope: Scope) -> bool:
    """Whether a name stands for a constant true, as far as this scope alone tells."""
    tensors = [] if scope.is_function else [item for item in scope.proto.initializer if item.name == name]
    for node in scope.proto.node:
        if node.op_type == "Constant" and name in node.output:
            tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    return any(any(tensor.raw_data) or any(tensor.int32_data) for tensor in tensors)


class _Einsum:
    """Equations with two ellipses in one term: shape inference and the runtime never end on them (measured)."""

    def __init__(self) -> None:
        self._by_reference = False
        self._candidates: list[str] = []

    @staticmethod
    def _bad(equation: bytes) -> bool:
        return any(term.count(b"...") > 1 for term in equation.replace(b"->", b",").split(b","))

    def node(self, equation: Any, place: str, problems: Problems) -> None:
        if equation is None:
            return
        if equation.ref_attr_name:
            self._by_reference = True
        if self._bad(equation.s):
            problems.add("structure/einsum-ellipsis", place, f"equation {text_of(equation.s)[:100]!r}")

    def candidate(self, text: bytes, place: str) -> None:
        """Keep a text that a function hands to an Einsum by attribute reference."""
        if len(self._candidates) < 16 and self._bad(text):
            self._candidates.append(place)

    def finish(self, problems: Problems) -> None:
        if self._by_reference:
            for place in self._candidates:
                problems.add("structure/einsum-ellipsis", place, "an equation with two ellipses in one term")
