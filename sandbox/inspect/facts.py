"""The ``facts`` frame: what a model holds and asks for, over every scope (see acceptd.evidence.Facts)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox import wire
from sandbox.inspect import contents, counts, external, functions, modules, operators, scopes
from sandbox.inspect.constants import Constants
from sandbox.inspect.external import Bundle
from sandbox.inspect.flow import Flow
from sandbox.inspect.looks import Looks
from sandbox.inspect.memory import uncollected
from sandbox.inspect.problems import Problems
from sandbox.inspect.scopes import Survey, name_text
from sandbox.inspect.weights import Weights
from sandbox.wire_places import places
from sandbox.wire_tensor import DTYPES, Buffer

MAX_DOMAINS: Final = 1024
MAX_VALUES: Final = 4096
MAX_RANK: Final = 256
NESTED: Final = frozenset(
    f"Attribute.{name}" for name in ("g", "graphs", "t", "tensors", "sparse_tensor", "sparse_tensors")
)
"""Where an attribute holds a graph or a tensor."""
METADATA_PER_NODE: Final = 16 << 10
"""Exporters write a stack trace into each node's metadata; beyond this a payload hides there."""
OVERRIDABLE_SINCE_IR: Final = 4
"""Before IR 4 each initializer had to be an input too, and runtimes take it for a constant."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The frame, its problems, and the tensors of the parsed copy whose values are elsewhere."""

    frame: dict[str, Any]
    problems: Problems
    hollow: list[Any]


def collect(
    model: Any, buf: Buffer, walk: wire.Walk, bundle: Bundle, root: Path, limits: dict[str, int]
) -> Collected:
    """Collect everything. ``model`` is parsed without large values, ``root`` has the bundle's files."""
    with uncollected():
        return _collect(model, buf, walk, bundle, root, limits)


def _collect(
    model: Any, buf: Buffer, walk: wire.Walk, bundle: Bundle, root: Path, limits: dict[str, int]
) -> Collected:
    problems = Problems()
    notes = [note for note in walk.notes if not note[0].startswith("wire/")]
    for item in wire.problems(buf, walk, notes):
        problems.add(item["code"], item["where"], item["message"])
    where = places(buf, walk.size, [record.start for record in walk.external[: external.MAX_RECORDS + 1]])
    last = where.get(walk.external[-1].start, "model") if walk.external else "model"
    for record in walk.external:
        where.setdefault(record.start, last)
    records = external.examine(walk.external, where, bundle, problems)
    weights = Weights()
    read_bytes = contents.examine(buf, root, bundle.model, walk, records, weights, problems)
    counted = counts.count(model)
    constants = Constants(weights, problems)
    found = scopes.survey(model, constants, nested=bool(NESTED & counted.keys()), problems=problems)
    numbers = weights.finish(buf, walk.size, problems)
    bodies, ending = functions.examine(found.main, found.bodies, limits["nodes"], problems)
    looks = Looks(problems, weights.integers)
    flow = Flow(model, found.functions, looks)
    cost = flow.costs.frame(flow.run()) if ending else None
    opsets, unused = _domains(model, found, problems)
    metadata = sum(
        len(name_text(item.key).encode()) + len(name_text(item.value).encode()) for item in model.metadata_props
    )
    if metadata > limits["metadata_bytes"]:
        problems.add("structure/metadata-too-large", "metadata_props", f"{metadata} bytes of metadata")
    elif walk.metadata_bytes > limits["metadata_bytes"] + METADATA_PER_NODE * found.nodes:
        problems.add(
            "structure/metadata-too-large", "model", f"{walk.metadata_bytes} bytes of metadata and documentation"
        )
    if not model.HasField("graph"):
        problems.add("structure/no-graph", "model", "the model has no graph")
    if len(model.training_info):
        problems.add("structure/training-info", "training_info[0]", "the model carries training information")
    ir_version = int(model.ir_version)
    inputs = _inputs(model.graph, ir_version, problems)
    frame = {
        "ir_version": ir_version,
        "opsets": opsets,
        "unused_domains": unused,
        "nodes": found.nodes,
        "scopes": found.scopes,
        "counts": counted,
        "subgraph_depth": found.depth,
        "most_node_inputs": found.most_inputs[0],
        "most_node_inputs_where": found.most_inputs[1],
        "operators": operators.frame(opsets, found, flow.uses, problems),
        "initializers": counted.get("Graph.initializer", 0) + counted.get("Graph.sparse_initializer", 0),
        "initializer_bytes": walk.initializer_bytes,
        "functions": [functions.written(key) for key in list(found.functions)[:MAX_VALUES]],
        "function_facts": bodies[:MAX_VALUES],
        "external": [record.frame() for record in records],
        "read_bytes": read_bytes,
        "external_count": walk.external_count,
        "metadata_bytes": metadata,
        "module_scopes": modules.count(model.graph.node) if "Node.metadata_props" in counted else None,
        "inputs": inputs,
        "outputs": _values(model.graph.output, frozenset(), "output", problems),
        "weights": numbers,
        "cost": cost,
        "quantisation": looks.quantised.frame() if ending else None,
        "problems": problems.frame(),
    }
    return Collected(frame, problems, constants.hollow)


def _domains(model: Any, found: Survey, problems: Problems) -> tuple[dict[str, int], list[str]]:
    opsets: dict[str, int] = {}
    for place, imports in [("opset_import", model.opset_import)] + [
        (f"functions[{index}]/opset_import", function.opset_import)
        for index, function in enumerate(model.functions)
    ]:
        seen: dict[str, tuple[str, int]] = {}
        for item in imports:
            written = name_text(item.domain)
            domain = functions.normal(written)
            before = seen.get(domain)
            if before == (written, item.version):
                # Changes nothing, and merging tools leave it behind in published models.
                problems.add("structure/repeated-domain", place, f"domain {written[:80]!r} is imported twice")
            elif before is not None:
                message = f"{written[:80]!r} version {item.version} after {before[0][:80]!r} version {before[1]}"
                problems.add("structure/duplicate-domain", place, message)
            seen[domain] = (written, item.version)
            if place == "opset_import" and len(opsets) < MAX_DOMAINS:
                opsets[domain] = item.version
    if len(model.opset_import) > MAX_DOMAINS:
        problems.add("structure/too-many-operators", "opset_import", f"{len(model.opset_import)} opset imports")
    bodies = (found.main, *found.bodies.values())
    used = {functions.normal(name_text(domain)) for body in bodies for domain, _ in body.operators}
    return opsets, sorted(set(opsets) - used)


def _inputs(graph: Any, ir_version: int, problems: Problems) -> list[dict[str, Any]]:
    weights = {name_text(tensor.name) for tensor in graph.initializer}
    weights |= {name_text(sparse.values.name) for sparse in graph.sparse_initializer}
    inputs = _values(graph.input, frozenset(weights), "input", problems)
    for value in inputs if ir_version >= OVERRIDABLE_SINCE_IR else ():
        if value["overridable"]:
            message = f"{value['name'][:100]!r} is an input too, so a caller may replace it"
            problems.add("structure/overridable-initializer", "graph/input", message)
    return inputs


def _values(values: Any, weights: frozenset[str], what: str, problems: Problems) -> list[dict[str, Any]]:
    described = [
        describe(value, weights, f"graph/{what}[{index}]", problems) for index, value in enumerate(values)
    ]
    if len(described) > MAX_VALUES:
        described = [value for value in described if not value["overridable"]]
    if len(described) > MAX_VALUES:
        message = f"{len(described)} {what}s; at most {MAX_VALUES} are read"
        problems.add("structure/too-many-inputs", f"graph/{what}", message)
    if what == "output":
        names = [value["name"] for value in described]
        for name in sorted(
            {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ()
        ):
            problems.add("structure/duplicate-name", "graph/output", f"two outputs are named {name[:100]!r}")
    return described[:MAX_VALUES]


def describe(value: Any, weights: frozenset[str], where: str, problems: Problems) -> dict[str, Any]:
    """Return a ValueInfo body. ``dtype`` and ``shape`` of a sequence or optional are those of its tensors.

    An input that is an initializer too is ``overridable``, in every IR version: a caller need not feed it.
    """
    name = name_text(value.name)
    kind, dtype, shape, detail = _type(value.type)
    if shape is not None and len(shape) > MAX_RANK:
        problems.add("structure/rank", where, f"{len(shape)} dimensions; at most {MAX_RANK} are read")
        shape = shape[:MAX_RANK]
    return {
        "name": name,
        "kind": kind,
        "dtype": dtype,
        "shape": shape,
        "overridable": name in weights,
        "detail": "" if kind == "tensor" else detail,
    }


def _type(proto: Any) -> tuple[str, str, list[int | str] | None, str]:
    """Return (kind, innermost dtype, shape of the innermost tensor, the type in words), from outside in."""
    kind = ""
    words: list[str] = []
    closing = 0
    while True:
        case = proto.WhichOneof("value")
        outer = (case or "unknown").removesuffix("_type")
        kind = kind or outer
        if outer in {"sequence", "optional"}:
            words.append(f"{outer}(")
            proto = getattr(proto, case).elem_type
        elif outer == "map":
            words.append(f"map({_dtype(proto.map_type.key_type)},")
            proto = proto.map_type.value_type
        else:
            break
        closing += 1
    if outer in {"tensor", "sparse_tensor"}:
        inner = getattr(proto, case)
        shape = [_dim(dim) for dim in inner.shape.dim] if inner.HasField("shape") else None
        dtype = _dtype(inner.elem_type)
        return kind, dtype, None if "map" in "".join(words) else shape, "".join(words) + dtype + ")" * closing
    return kind, "undefined", None, "".join(words) + outer + ")" * closing


def _dtype(number: int) -> str:
    return DTYPES[number] if 0 <= number < len(DTYPES) else f"type {number}"


def _dim(dim: Any) -> int | str:
    case = dim.WhichOneof("value")
    if case == "dim_value":
        return int(dim.dim_value)
    return name_text(dim.dim_param) or "?"
