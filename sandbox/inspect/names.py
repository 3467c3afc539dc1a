"""Names of values: given twice, hidden, empty, alike to the eye, used before they are produced, or never produced.

onnxruntime sorts the nodes of a graph itself and so runs files that ONNX forbids; each reader may then
take another value for a name that stands twice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from sandbox.inspect.problems import Problems
from sandbox.inspect.scope import Names, Scope
from sandbox.messages import text_of
from sandbox.wire_places import join, short, step
from sandbox.wire_text import twins

GIVEN: Final = -1


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else text_of(name)


def given(scope: Scope, problems: Problems) -> Names:
    """Return the names that inputs and initializers define; add what is wrong with them."""
    proto = scope.proto
    if scope.is_function:
        inputs, weights = Counter(proto.input), Counter[Any]()
        for name, count in Counter(proto.output).items():
            if count > 1:
                _add(problems, "structure/duplicate-name", scope.place, name, "is an output more than once")
    else:
        inputs = Counter(value.name for value in proto.input)
        weights = Counter(tensor.name for tensor in proto.initializer)
        weights.update(sparse.values.name for sparse in proto.sparse_initializer)
    for what, names in (("input", inputs), ("initializer", weights)):
        for name, count in names.items():
            if count > 1:
                problems.add(
                    "structure/duplicate-name", scope.place, f"{count} {what}s are named {_text(name)[:100]!r}"
                )
        if "" in names:
            problems.add("structure/empty-name", scope.place, f"an {what} without a name")
    return dict.fromkeys([*inputs, *weights], GIVEN)


def again(scope: Scope, name: Any, problems: Problems) -> None:
    """Tell a name that a second node, or a node and an input, produce."""
    _add(problems, "structure/duplicate-name", scope.place, name, "is produced more than once")


def missing(scope: Scope, index: int, node: Any, name: Any, problems: Problems) -> None:
    """Tell a name that node ``index`` uses and that nothing before it produces, in this scope or around it."""
    if _outer(scope, name):
        return
    place = join(scope.place, step("Graph", "node", index, short(node.op_type)))
    if scope.produced is None:
        scope.produced = {output for one in scope.proto.node for output in one.output}
    if name in scope.produced:
        _add(problems, "structure/unsorted-nodes", place, name, "is used before it is produced")
    else:
        _add(problems, "structure/unproduced-name", place, name, "is produced by nothing before this node")


def _outer(scope: Scope, name: Any) -> bool:
    at, outer = scope.at, scope.outer
    while outer is not None:
        if outer.is_training or outer.names.get(name, at) < at:
            return True
        at, outer = outer.at, outer.outer
    return False


def finish(scope: Scope, problems: Problems) -> None:
    """Look at the outputs, and at all names of a scope whose nodes were seen."""
    proto, names = scope.proto, scope.names
    outputs = proto.output if scope.is_function else [value.name for value in proto.output]
    for index, name in enumerate(outputs):
        where = f"{scope.place}/output[{index}]"
        if not name:
            problems.add("structure/empty-name", where, "an output without a name")
        elif name not in names and not scope.is_training and not _outer(scope, name):
            _add(problems, "structure/unproduced-name", where, name, "is an output that nothing produces")
    for name, other in twins({_text(name) for name in names}):
        problems.add("structure/look-alike-name", scope.place, f"{name[:100]!a} looks like {other[:100]!a}")
    outer = scope.outer
    while outer is not None:
        for name in sorted(_text(one) for one in names.keys() & outer.names.keys() if one)[:16]:
            problems.add(
                "structure/shadowed-name", scope.place, f"{name[:100]!r} hides a value of {outer.place[:200]}"
            )
        outer = outer.outer


def _add(problems: Problems, code: str, place: str, name: Any, what: str) -> None:
    problems.add(code, place, f"{_text(name)[:100]!r} {what}")
