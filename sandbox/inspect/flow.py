"""One pass over all that can run: types, shapes, constants and origins of values, in every scope and call.

Nothing is evaluated. A function is looked at once for each way in which it is called (types, small
constants, attributes), up to a bound, and once with nothing known if nobody calls it; so the work
is in proportion to the file, however far its functions expand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sandbox.inspect import control, dtypes, shapes, tally
from sandbox.inspect.control import Outcome
from sandbox.inspect.env import Body, Env
from sandbox.inspect.functions import Key, normal
from sandbox.inspect.known import (
    DATA,
    DIRECT,
    NOTHING,
    SATURATED,
    UNKNOWN,
    Attributes,
    Known,
    of_constant,
    of_numbers,
    of_tensor,
)
from sandbox.inspect.look import Look
from sandbox.inspect.looks import Looks
from sandbox.inspect.scope import Function
from sandbox.inspect.scopes import name_text, node_place
from sandbox.inspect.tally import Costs, Life, Tally
from sandbox.wire_places import join, short
from sandbox.wire_tensor import DTYPES

MAX_WAYS: Final = 32
"""Ways in which one function is called that are looked at one by one."""
MAX_AGAIN: Final = 400_000
"""Nodes that are looked at a second time or more, because a function is called in another way."""
MAX_DEPTH: Final = 64
"""Calls within calls; what lies deeper is looked at as if nobody called it."""
SMALL: Final = 64
"""Elements of a constant that count as another way to call a function."""

_RANDOM: Final = frozenset(
    {
        "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial",
    }
)  # fmt: skip


class Flow:
    """The pass. ``looks`` sees every node; ``costs`` and ``uses`` hold what it found."""

    def __init__(self, model: Any, functions: Mapping[Key, Function], looks: Looks) -> None:
        self.costs = Costs()
        self.uses: dict[tuple[str, str, int | None, tuple[str, ...], tuple[str, ...]], list[Any]] = {}
        """(domain, operator, version, input types, output types) to [count, first place]."""
        self._model = model
        self._functions = functions
        self._looks = looks
        self._ways: dict[Key, dict[Any, Outcome]] = {}
        self._again = MAX_AGAIN
        self._opsets = {normal(name_text(one.domain)): one.version for one in model.opset_import}

    def run(self) -> Tally:
        """Look at the whole model; return the cost of running its main graph once."""
        whole = Tally()
        if self._model.HasField("graph"):
            graph = self._model.graph
            fed = [self._declared(value) for value in graph.input]
            whole = self._graph(graph, None, fed, Body(self._opsets, {}, "graph"))[1]
        for index, training in enumerate(self._model.training_info):
            for name in ("initialization", "algorithm"):
                if training.HasField(name):
                    place = f"training_info[{index}]/{name}"
                    self._graph(getattr(training, name), None, None, Body(self._opsets, {}, place))
        for key, function in self._functions.items():
            if key not in self._ways:
                self._call(key, function, [UNKNOWN] * len(function.proto.input), {}, 0)
        return whole

    def _declared(self, value: Any) -> Known:
        kind = value.type.WhichOneof("value")
        if kind not in {"tensor_type", "sparse_tensor_type"}:
            return Known(_nested(value.type), None, None, DATA | DIRECT)
        inner = getattr(value.type, kind)
        number = inner.elem_type
        dtype = DTYPES[number] if 0 < number < len(DTYPES) else ""
        shape = None
        if inner.HasField("shape") and len(inner.shape.dim) <= 256:
            dims = inner.shape.dim
            shape = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims)
        return Known(dtype, shape, None, DATA | DIRECT)

    # -- scopes -------------------------------------------------------------------------------------

    def _graph(self, proto: Any, outer: Env | None, inputs: Sequence[Known] | None, body: Body) -> Outcome:
        env = Env(outer)
        for index, value in enumerate(proto.input):
            given = inputs[index] if inputs is not None and index < len(inputs) else self._declared(value)
            env.values[value.name] = given
        for tensor in proto.initializer:
            # One that is an input too may be replaced: only its type and shape hold.
            known = of_tensor(tensor)
            if tensor.name in env.values:
                known = Known(known.dtype, known.shape, None, DATA)
            env.values[tensor.name] = known
        for sparse in proto.sparse_initializer:
            known = of_tensor(sparse.values)
            env.values[sparse.values.name] = Known(known.dtype, tuple(sparse.dims), constant=True)
        spent = self._nodes(proto.node, env, body)
        env.now = len(proto.node)
        outputs = [env.get(value.name) for value in proto.output]
        return outputs, self._finish(spent, env)

    def _nodes(self, nodes: Any, env: Env, body: Body) -> tuple[Tally, Life]:
        total, life = Tally(), Life()
        for index, node in enumerate(nodes):
            env.now = life.now = index
            inputs = [env.get(name) for name in node.input]
            outputs, inner = self._node(index, node, inputs, env, body)
            total.steps = min(total.steps + 1 + inner.steps, SATURATED)
            total.folded = min(total.folded + inner.folded, SATURATED)
            if inner.peak:
                life.inner[index] = inner.peak
            for name, value in zip(node.output, outputs, strict=True):
                if not name:
                    continue
                env.values[name] = value
                self._size(value, name, node, body, total, life)
        return total, life

    def _size(self, value: Known, name: Any, node: Any, body: Body, total: Tally, life: Life) -> None:
        """Count what one output takes. The largest counts from its known sizes alone, unless it may be empty."""
        size = value.bytes()
        if size is None:
            self.costs.unknown += 1
            size = value.bytes(free=1) or 0
        else:
            self.costs.known += 1
            if value.constant:
                total.folded = min(total.folded + size, SATURATED)
            elif size:
                life.born.append((life.now, name, size))
        # What a function or a branch hands out was counted at the node inside that makes it.
        if size > self.costs.of(node.op_type) and node.op_type != "If" and _key(node) not in self._functions:
            self.costs.allocation(size, node.op_type, node_place(body.place, life.now, node))

    def _finish(self, spent: tuple[Tally, Life], env: Env) -> Tally:
        total, life = spent
        total.peak = life.peak(env.last, env.now)
        return total

    def _call(
        self, key: Key, function: Function, inputs: Sequence[Known], binding: Mapping[str, Any], calls: int
    ) -> Outcome:
        """Look at a function as it is called here, or take what an equal call gave before."""
        proto = function.proto
        count = len(proto.output)
        given = [_small(value) for value in inputs[: len(proto.input)]]
        given += [NOTHING] * (len(proto.input) - len(given))
        bound = {attribute.name: attribute for attribute in proto.attribute_proto} | dict(binding)
        way = (
            tuple((value.dtype, value.shape, value.origin, value.constant, value.numbers) for value in given),
            tuple(sorted((str(name), attribute.SerializeToString()) for name, attribute in bound.items())),
        )
        known = self._ways.setdefault(key, {})
        found = known.get(way)
        if found is not None:
            return found
        if known:
            self._again -= len(proto.node) + 1
            if len(known) >= MAX_WAYS or self._again < 0:
                return [Known(origin=DATA)] * count, next(iter(known.values()))[1]
        if calls >= MAX_DEPTH:
            del self._ways[key]
            return [Known(origin=DATA)] * count, Tally()
        known[way] = [UNKNOWN] * count, Tally()  # functions that call themselves were refused before
        env = Env(None)
        env.values.update(zip(proto.input, given, strict=True))
        spent = self._nodes(proto.node, env, Body(function.opsets, bound, function.place, calls + 1))
        env.now = len(proto.node)
        outputs = [env.get(name) for name in proto.output]
        known[way] = outputs, self._finish(spent, env)
        return known[way]

    # -- nodes --------------------------------------------------------------------------------------

    def _node(self, index: int, node: Any, inputs: list[Known], env: Env, body: Body) -> Outcome:
        domain, op_type = normal(name_text(node.domain)), name_text(node.op_type)
        count = len(node.output)
        attributes = Attributes(node, body.binding)
        version = body.opsets.get(domain)
        inner = Tally()
        function = self._functions.get((domain, op_type, name_text(node.overload))) if self._functions else None
        if function is not None:
            key = (domain, op_type, name_text(node.overload))
            found, inner = self._call(key, function, inputs, attributes.all(), body.calls)
            outputs = (found + [UNKNOWN] * count)[:count]
        elif (domain, op_type) == ("ai.onnx", "Constant"):
            outputs = [of_constant(attributes)] * count
        elif (domain, op_type) == ("ai.onnx", "Identity") and inputs:
            outputs = [inputs[0]] * count
        else:
            outputs, inner = self._subgraphs(index, node, op_type, attributes, inputs, env, body)
            if not outputs:
                outputs = self._plain(domain, op_type, version, attributes, inputs, count)
        self._use((domain, op_type, version), index, node, inputs, outputs, body)
        if domain == "ai.onnx" and op_type in tally.REPEATS:
            trips = tally.inside(op_type, attributes, inputs, outputs)
            if trips >= tally.TOLD_FROM:
                where = node_place(body.place, index, node)
                self.costs.trip(op_type, where, trips, certain=True, steps=1, size=0)
                inner.steps = min(inner.steps + trips, SATURATED)
        if self._looks.wants(domain, op_type):
            look = Look(domain, op_type, version, attributes, inputs, outputs, node, body.place, index)
            self._looks.node(look)
        return outputs, inner

    def _use(
        self, key: tuple[str, str, int | None], index: int, node: Any, inputs: list[Known], outputs: list[Known],
        body: Body,
    ) -> None:  # fmt: skip
        signature = (*key, tuple([value.dtype for value in inputs[:16]]), tuple([v.dtype for v in outputs[:16]]))
        use = self.uses.get(signature)
        if use is None:
            self.uses[signature] = [1, node_place(body.place, index, node)]
        else:
            use[0] += 1

    def _plain(
        self,
        domain: str,
        op_type: str,
        version: int | None,
        attributes: Attributes,
        inputs: list[Known],
        count: int,
    ) -> list[Known]:
        types = dtypes.outputs((domain, op_type), version, attributes, inputs, count)
        default = domain == "ai.onnx"
        sizes = shapes.outputs(op_type, attributes, inputs, count) if default else [None] * count
        origin = 0
        constant = True
        for value in inputs:
            origin |= value.origin
            constant = constant and (value.constant or value is NOTHING)
        origin &= ~DIRECT
        if default and op_type in {"Shape", "Size"}:
            origin = 0
            constant = False
        constant = constant and op_type not in _RANDOM
        out = [Known(dtype, shape, None, origin, constant) for dtype, shape in zip(types, sizes, strict=True)]
        if (
            default
            and count == 1
            and (numbers := shapes.constant(op_type, attributes, types[0], inputs)) is not None
        ):
            out[0] = of_numbers(
                types[0], (len(numbers),) if out[0].shape is None else out[0].shape, numbers, origin
            )
        return out

    def _subgraphs(
        self,
        index: int,
        node: Any,
        op_type: str,
        attributes: Attributes,
        inputs: list[Known],
        env: Env,
        body: Body,
    ) -> Outcome:
        """Look at the graphs in a node's attributes; outputs are empty unless it is an If, Loop or Scan."""
        graphs = []
        for attribute in node.attribute:
            if attribute.HasField("g"):
                graphs.append((name_text(attribute.name), short(attribute.name), attribute.g))
            if attribute.graphs:
                graphs += [
                    ("", f"{short(attribute.name)}[{at}]", graph) for at, graph in enumerate(attribute.graphs)
                ]
        if not graphs:
            return [], Tally()
        place = node_place(body.place, index, node)
        count = len(node.output)

        def within(step: str, graph: Any, fed: Sequence[Known] | None) -> Outcome:
            return self._graph(graph, env, fed, Body(body.opsets, body.binding, join(place, step), body.calls))

        found: list[Known] = []
        spent = Tally()
        for name, step, graph in graphs:
            if op_type == "Loop" and name == "body":
                found, inner = control.loop(self.costs, inputs, place, count, partial(within, step, graph))
            elif op_type == "Scan" and name == "body":
                takes, look = len(graph.input), partial(within, step, graph)
                old = 0 < (body.opsets.get("ai.onnx") or 9) < 9
                found, inner = control.scan(self.costs, takes, old, attributes, inputs, place, count, look)
            else:
                results, inner = within(step, graph, None if op_type != "If" else [])
                if op_type == "If":
                    found = control.joined(found, results, inputs, count)
            spent.steps = max(spent.steps, inner.steps) if op_type == "If" else spent.steps + inner.steps
            spent.folded = min(spent.folded + inner.folded, SATURATED)
            spent.peak = max(spent.peak, inner.peak)
        return found, spent


def _key(node: Any) -> Key:
    return normal(name_text(node.domain)), name_text(node.op_type), name_text(node.overload)


def _nested(kind: Any) -> str:
    """Return a nested type in words, from outside in."""
    words = ""
    closing = ""
    for _ in range(32):
        case = kind.WhichOneof("value")
        if case in {"sequence_type", "optional_type"}:
            words += f"{case.removesuffix('_type')}("
            closing += ")"
            kind = getattr(kind, case).elem_type
        elif case in {"tensor_type", "sparse_tensor_type"}:
            number = getattr(kind, case).elem_type
            return words + (DTYPES[number] if 0 < number < len(DTYPES) else "") + closing
        else:
            break
    return ""


def _small(value: Known) -> Known:
    """Return the value as a function sees it: large constants by type and shape alone."""
    numbers = value.numbers
    if value.tensor is None and numbers is None:
        return value
    if numbers is not None and len(numbers) <= SMALL:
        return of_numbers(value.dtype, value.shape or (), numbers, value.origin)
    return Known(value.dtype, value.shape, None, value.origin, value.constant)
