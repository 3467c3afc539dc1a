"""Canonical hashes of a model: what it computes, whatever its values, nodes and files are called.

A Merkle hash over the network: a value's hash covers the operator that makes it (domain, operator, opset,
attributes, subgraphs, the body of a local function in place of its name) and the hashes of its inputs; a graph's
covers types of inputs and outputs, the outputs, and every node, also those that lead nowhere. Names, the
order of nodes, documentation, metadata, intermediate types and quantization annotations do not count; names of
dimensions count only as far as they tell which dimensions are the same.
"""

from __future__ import annotations

import contextlib
import graphlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from sandbox.inspect.functions import Key
from sandbox.inspect.network import ABSENT, Network, Node, Scope
from sandbox.inspect.scopes import name_text
from sandbox.wire_tensor import BITS

TensorKey = Callable[[Any], bytes]
_MISSING: Final = b"\0" * 32
"""In place of the hash of a value that nothing makes."""
_LEFT_OUT: Final = b"\1" * 32
_NOTHING: Final = b"\2" * 32
_KEPT: Final = 1 << 14
_SHORT: Final = 1 << 10
"""So many hashes of attributes are kept, of at most so many bytes each."""
_TYPED: Final = {1: "<f4", 14: "<f4", 11: "<f8", 15: "<f8", 7: "<i8", 13: "<u8", 12: "<u4"}


def _hash(*parts: bytes) -> bytes:
    """Return BLAKE2b-256 of the parts, each with its length before it."""
    framed = b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "little"), part)])
    return hashlib.blake2b(framed, digest_size=32).digest()


def _all(hashes: list[bytes]) -> bytes:
    """Return the hash of a multiset."""
    return _hash(*sorted(hashes)) if hashes else _NOTHING


def form(tensor: Any) -> bytes:
    """Return type and shape of a tensor alone: the key that makes a hash of the structure without its weights."""
    return _hash(b"tensor", bytes([tensor.data_type & 0xFF]), np.array(tensor.dims, "<i8").tobytes())


def values(tensor: Any) -> bytes:
    """Return the values of a tensor in ONNX's raw form (little-endian, packed), whichever field holds them."""
    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    kind = tensor.data_type
    if kind == 8:
        return b"".join(len(text).to_bytes(8, "little") + text for text in tensor.string_data)
    source = {1: "float_data", 14: "float_data", 11: "double_data", 15: "double_data", 7: "int64_data"}.get(
        kind, "uint64_data" if kind in {12, 13} else "int32_data"
    )
    given = getattr(tensor, source)
    if kind in _TYPED:
        return np.array(given, _TYPED[kind]).tobytes()
    bits = BITS.get(kind) or 8
    width = max(1, bits // 8)  # types of less than a byte lie packed in int32_data
    return np.array(given, "<i4").astype(f"<u{width}").tobytes()  # the lowest bytes, as a cast in C takes them


class Hasher:
    """Hashes one network. ``tensor_key`` says what of a tensor counts."""

    def __init__(self, net: Network, tensor_key: TensorKey) -> None:
        self._net = net
        self._tensor = tensor_key
        self._functions: dict[Key, bytes] = {}
        self._scopes: dict[int, bytes] = {}
        self._operators: dict[tuple[str, str, int], bytes] = {}
        self._plain: dict[tuple[bytes, ...], bytes] = {}
        self.values: dict[int, bytes] = {}
        """Hash of each value that was reached."""

    def run(self) -> bytes:
        """Return the hash of the whole model."""
        net = self._net
        for key in _callees_first(net):
            self._functions[key] = self._function(net.functions[key])
        dims: dict[str, int] = {}
        main = net.main
        types = [_type(value.type, dims) for value in (*main.proto.input, *main.proto.output)]
        for at, value in enumerate(main.inputs):
            self.values[value] = _hash(b"input", at.to_bytes(4, "little"), types[at])
        return _hash(b"model", *types, self._graph(main), _all([*self._functions.values()]))

    def _function(self, scope: Scope) -> bytes:
        proto = scope.proto
        names = _all([name_text(name).encode("utf-8", "surrogatepass") for name in proto.attribute])
        defaults = _all([self._attribute(attribute, ()) for attribute in proto.attribute_proto])
        for at, value in enumerate(scope.inputs):
            self.values[value] = _hash(b"formal", at.to_bytes(4, "little"))
        return _hash(b"function", len(scope.inputs).to_bytes(4, "little"), names, defaults, self._graph(scope))

    def _graph(self, scope: Scope) -> bytes:
        """Hash the nodes of a scope, inner scopes first where a node needs them. Inputs are hashed already."""
        hashes = self.values
        weights = []
        for value, tensor in scope.weights:
            key = _hash(b"weight", self._any_tensor(tensor))
            weights.append(key)
            # An initializer that is an input too is both: a caller may replace it.
            hashes[value] = _hash(key, hashes[value]) if value in hashes else key
        nodes = []
        waiting: list[Node] = []
        for node in scope.nodes:
            if all(value == ABSENT or value in hashes for value in _needs(node)):
                nodes.append(self._node(node))
            else:
                waiting.append(node)
        if waiting:
            nodes += self._unsorted(waiting)
        outputs = [hashes.get(value, _MISSING) for value in scope.outputs]
        return _hash(b"graph", len(scope.inputs).to_bytes(4, "little"), _all(weights), _all(nodes), *outputs)

    def _unsorted(self, nodes: list[Node]) -> list[bytes]:
        """Hash nodes that stand before what they read; what hangs on a cycle or on nothing is hashed last."""
        made = {value for node in nodes for value in node.outputs if value != ABSENT}
        lacks: dict[int, int] = {}
        users: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            needs = {value for value in _needs(node) if value in made and value not in self.values}
            lacks[at] = len(needs)
            for value in needs:
                users.setdefault(value, []).append(at)
        ready = [at for at, count in lacks.items() if not count]
        found = []
        for at in ready:
            found.append(self._node(nodes[at]))
            for value in nodes[at].outputs:
                for user in users.get(value, ()):
                    lacks[user] -= 1
                    if not lacks[user]:
                        ready.append(user)
        done = set(ready)
        return found + [self._node(node) for at, node in enumerate(nodes) if at not in done]

    def _node(self, node: Node) -> bytes:
        hashes = self.values
        children = tuple((name, self._subgraph(child)) for name, child in node.children)
        attributes = self._attributes(node, children)
        present = bytes([value != ABSENT for value in node.outputs])
        inputs = [hashes.get(value, _MISSING) if value != ABSENT else _LEFT_OUT for value in node.inputs]
        # Parts of fixed size but for one, whose length stands before it: nothing can be read two ways.
        head = (self._operator(node), attributes, len(present).to_bytes(4, "little"), present)
        whole = hashlib.blake2b(b"".join((*head, *inputs)), digest_size=32).digest()
        for at, value in enumerate(node.outputs):
            if value != ABSENT:
                hashes[value] = whole if at == 0 else _hash(whole, at.to_bytes(4, "little"))
        return whole

    def _subgraph(self, scope: Scope) -> bytes:
        for at, value in enumerate(scope.inputs):
            self.values[value] = _hash(b"inner", scope.depth.to_bytes(4, "little"), at.to_bytes(4, "little"))
        return self._graph(scope)

    def _operator(self, node: Node) -> bytes:
        if node.key is not None:
            body = self._functions.get(node.key)
            return _hash(b"call", body) if body else _hash(b"cycle", node.op_type.encode("utf-8", "surrogatepass"))
        key = (node.domain, node.op_type, node.scope.opsets.get(node.domain, 0))
        known = self._operators.get(key)
        if known is None:
            texts = (f"{node.domain}", node.op_type, str(key[2]), name_text(node.proto.overload))
            known = _hash(b"operator", *(text.encode("utf-8", "surrogatepass") for text in texts))
            self._operators[key] = known
        return known

    def _attributes(self, node: Node, children: tuple[tuple[str, bytes], ...]) -> bytes:
        """Return the hash of a node's attributes; those that many nodes share are hashed once."""
        found = node.proto.attribute
        if not found:
            return _NOTHING
        if not all(map(_plain, found)):
            return _all([self._attribute(attribute, children) for attribute in found])
        written = tuple([attribute.SerializeToString(deterministic=True) for attribute in found])
        known = self._plain.get(written)
        if known is None:
            known = _all([_hash(one) for one in written])
            if len(self._plain) < _KEPT and sum(map(len, written)) <= _SHORT:
                self._plain[written] = known
        return known

    def _attribute(self, attribute: Any, children: tuple[tuple[str, bytes], ...]) -> bytes:
        if _plain(attribute):
            return _hash(attribute.SerializeToString(deterministic=True))
        name = name_text(attribute.name)
        parts = [attribute.t] if attribute.HasField("t") else []
        parts += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        tensors = [self._any_tensor(one) for one in (*parts, *attribute.tensors, *attribute.sparse_tensors)]
        graphs = [digest for label, digest in children if label.rpartition("[")[0] == name]
        return _hash(*_scalars(attribute), b"tensors", *tensors, b"graphs", *graphs)

    def _any_tensor(self, tensor: Any) -> bytes:
        if hasattr(tensor, "raw_data"):
            return self._tensor(tensor)
        dims = np.array(tensor.dims, "<i8").tobytes()
        return _hash(b"sparse", dims, self._tensor(tensor.values), self._tensor(tensor.indices))


def _plain(attribute: Any) -> bool:
    """Whether it holds numbers and texts alone, and no words about itself."""
    return not (
        attribute.HasField("t") or attribute.HasField("g") or attribute.HasField("sparse_tensor")
    ) and not (attribute.tensors or attribute.graphs or attribute.sparse_tensors or attribute.doc_string)


def _scalars(attribute: Any) -> list[bytes]:
    """Return what an attribute holds beside tensors and graphs, each part under its own mark."""
    texts = (name_text(attribute.name), name_text(attribute.ref_attr_name))
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    parts.append(int(attribute.type).to_bytes(8, "little", signed=True))
    for mark, pattern, field in ((b"f", "<f4", "f"), (b"i", "<i8", "i")):
        if attribute.HasField(field):
            parts += [mark, np.array(getattr(attribute, field), pattern).tobytes()]
    parts += [b"s", attribute.s] if attribute.HasField("s") else []
    parts += [b"tp", attribute.tp.SerializeToString(deterministic=True)] if attribute.HasField("tp") else []
    parts += [b"floats", np.array(attribute.floats, "<f4").tobytes(), np.array(attribute.ints, "<i8").tobytes()]
    parts += [b"strings", *attribute.strings, b"types"]
    return parts + [one.SerializeToString(deterministic=True) for one in attribute.type_protos]


def _callees_first(net: Network) -> Iterator[Key]:
    """Yield every local function, callees before callers; those in or before a cycle last."""
    calls = {key: {node.key for node in _inner(scope) if node.key} for key, scope in net.functions.items()}
    sorter = graphlib.TopologicalSorter(calls)
    with contextlib.suppress(graphlib.CycleError):
        sorter.prepare()
    left = dict.fromkeys(calls)
    while sorter.is_active() and (ready := sorter.get_ready()):
        for key in ready:
            yield key
            del left[key]
        sorter.done(*ready)
    yield from left


def _inner(scope: Scope) -> list[Node]:
    """Return the nodes of a scope and of all subgraphs in it."""
    found: list[Node] = []
    work = [scope]
    while work:
        one = work.pop()
        found += one.nodes
        work += [child for node in one.nodes for _, child in node.children]
    return found


def _needs(node: Node) -> list[int]:
    """Return the values that a node reads, those that its subgraphs take from outside included."""
    if not node.children:
        return node.inputs
    needed = list(node.inputs)
    work = [child for _, child in node.children]
    own: set[int] = set()
    while work:
        scope = work.pop()
        own.update(scope.inputs, (value for value, _ in scope.weights))
        for inner in scope.nodes:
            own.update(inner.outputs)
            needed += inner.inputs
            work += [child for _, child in inner.children]
        needed += scope.outputs
    return [value for value in needed if value not in own]


def _type(proto: Any, dims: dict[str, int]) -> bytes:
    """Return a type with its dimensions; a named one as the number of its first appearance in the interface."""
    parts: list[bytes] = []
    while True:
        case = proto.WhichOneof("value")
        if case is None:
            return _hash(*parts, b"none")
        inner = getattr(proto, case)
        parts.append(case.encode())
        if case in {"sequence_type", "optional_type"}:
            proto = inner.elem_type
        elif case == "map_type":
            parts.append(str(inner.key_type).encode())
            proto = inner.value_type
        elif case in {"tensor_type", "sparse_tensor_type"}:
            parts.append(str(inner.elem_type).encode())
            parts += [_dim(dim, dims) for dim in inner.shape.dim] if inner.HasField("shape") else [b"rank unknown"]
            return _hash(*parts)
        else:
            return _hash(*parts, inner.SerializeToString(deterministic=True))


def _dim(dim: Any, dims: dict[str, int]) -> bytes:
    case = dim.WhichOneof("value")
    if case == "dim_value":
        return str(dim.dim_value).encode()
    name = name_text(dim.dim_param) if case else ""
    return f"#{dims.setdefault(name, len(dims))}".encode() if name else b"?"
