"""Facts of ``inspect`` about one model, over every scope: main graph, subgraphs, functions, attributes.

Part of :mod:`acceptd.evidence`; a job says it, so it is hostile and capped like all evidence. Bytes and
counts saturate at 2**62: what stands there is "at least".
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.values import Big, Count, Evidence, Problem, Text

SATURATED = 1 << 62


class TypeUse(Evidence):
    """One signature of element types that an operator is used with, and where it stands first.

    ``inputs`` and ``outputs`` are in the order of the node, at most 16 of each; empty text where an input is
    left out or its type cannot be told from the file. Types are spelt as in manifests (``float32``), nested ones
    as ``sequence(float32)``.
    """

    inputs: Annotated[list[Text], Field(max_length=16)]
    outputs: Annotated[list[Text], Field(max_length=16)]
    count: Count
    where: Text


class OpUse(Evidence):
    """How often one operator is used, and where it stands first.

    ``version`` is the opset of its domain as the graph or the function around it imports it; None where
    nobody imports it. One operator in two versions is two uses. ``types`` are the signatures that occur.
    """

    domain: Text
    op_type: Text
    count: Count
    where: Text
    version: Big | None = None
    types: Annotated[list[TypeUse], Field(max_length=64)] = []


class FunctionFact(Evidence):
    """One local function: its own nodes, its nodes after all calls are expanded, and how often it is called."""

    name: Text
    """``domain::name`` or ``domain::name:overload``."""
    where: Text
    nodes: Count
    expanded: Big
    """Saturates; 0 where functions call themselves."""
    calls: Count


class Allocation(Evidence):
    """The largest value, by the sizes that the file fixes; a dimension that is free counts as one."""

    bytes: Big
    op_type: Text
    where: Text


class Trip(Evidence):
    """A node that repeats. ``trips`` None: not known before it runs.

    ``certain``: nothing in the model can end it earlier (a Loop whose condition never changes, a Scan, an
    operator with a count in its attributes). A trip count alone says little: real models carry 2**63 - 1 and
    end by their condition. ``steps`` is trips times the nodes of one turn; ``bytes`` what one turn allocates.
    """

    op_type: Text
    where: Text
    trips: Big | None
    certain: bool
    steps: Big | None
    bytes: Big = 0


class Cost(Evidence):
    """An estimate by arithmetic over the shapes that the file fixes; nothing is evaluated.

    ``peak_bytes`` bounds what is alive at once when nodes run in the order of the file: constants that
    can be folded stay alive from the beginning, every other value until its last use. Values of
    ``unknown`` size (a dynamic dimension) are not in it, nor are the weights.
    """

    largest: Allocation | None = None
    peak_bytes: Big = 0
    known: Count = 0
    unknown: Count = 0
    """Values whose size is known, and not known."""
    steps: Big = 0
    """Nodes that run, with repetitions that are certain."""
    trips: Annotated[list[Trip], Field(max_length=256)] = []
    by_operator: Annotated[list[Allocation], Field(max_length=256)] = []
    """The largest value of each operator type."""


class Quantisation(Evidence):
    """What kind of quantisation the operators show.

    ``weight-only``: only weights are stored in few bits. ``dynamic``: scales of activations are computed as the
    model runs. ``static``: they are constants, from a calibration. ``mixed``: both.
    """

    method: Literal["none", "weight-only", "dynamic", "static", "mixed"] = "none"
    format: Literal["none", "qoperator", "qdq", "mixed"] = "none"
    per_channel: bool | None = None
    """Whether a weight has more than one scale; None where no scale is a constant."""
    weight_types: Annotated[list[Text], Field(max_length=32)] = []
    activation_types: Annotated[list[Text], Field(max_length=32)] = []
    nodes: Count = 0
    where: Text = ""
    """The first node that quantises."""


class ElementRange(Evidence):
    """Weights and constants of one element type, over all scopes and external files.

    ``least`` and ``greatest`` are over the finite elements, None where there are none or the type has no
    order. ``read`` of ``tensors`` were looked into; the rest says nothing about its numbers.
    """

    dtype: Text
    tensors: Count
    read: Count
    elements: Big
    least: float | None = None
    greatest: float | None = None
    nan: Big = 0
    infinite: Big = 0


class External(Evidence):
    """One tensor's external data record, as written. ``inside`` is the job's own reading of it."""

    tensor: Text
    location: Text
    offset: Big | None
    length: Big | None
    where: Text
    inside: bool


class ValueInfo(Evidence):
    """An input or output: ``shape`` has numbers, names or ``?``; None where the rank is unknown."""

    name: Text
    kind: Literal["tensor", "sequence", "optional", "map", "sparse_tensor", "opaque", "unknown"]
    dtype: Text
    shape: Annotated[list[Big | Text], Field(max_length=256)] | None
    overridable: bool = False
    detail: Text = ""
    """For nested kinds the whole type in words, for example ``sequence(map(int64,float32))``."""


class Facts(Evidence):
    """``inspect``, second phase: semantic facts over every scope."""

    ir_version: Big
    opsets: Annotated[dict[str, Big], Field(max_length=1024)]
    """Domain to version; the default domain is spelt ``ai.onnx``."""
    unused_domains: Annotated[list[Text], Field(max_length=1024)] = []
    nodes: Count
    scopes: Count
    counts: Annotated[dict[str, Count], Field(max_length=128)] = {}
    """Messages by the field that holds them, as protobuf parsed them: the wire form's second reading."""
    subgraph_depth: Count = 0
    """Graphs around the innermost node, the main graph or function not counted."""
    most_node_inputs: Count = 0
    """Inputs or outputs, of the node that has most."""
    most_node_inputs_where: Text = ""
    operators: Annotated[list[OpUse], Field(max_length=4096)]
    initializers: Count
    initializer_bytes: Big
    functions: Annotated[list[Text], Field(max_length=4096)] = []
    function_facts: Annotated[list[FunctionFact], Field(max_length=4096)] = []
    external: Annotated[list[External], Field(max_length=20000)] = []
    external_count: Count = 0
    read_bytes: Count = 0
    """What the content pass read of the model and its external data: each byte once."""
    metadata_bytes: Count = 0
    module_scopes: Count | None = None
    """Distinct modules that exporters name in the nodes' metadata; None where they name none."""
    inputs: Annotated[list[ValueInfo], Field(max_length=4096)]
    outputs: Annotated[list[ValueInfo], Field(max_length=4096)]
    weights: Annotated[list[ElementRange], Field(max_length=32)] = []
    cost: Cost | None = None
    """None where the functions of the model make it unsafe to count."""
    quantisation: Quantisation | None = None
    problems: Annotated[list[Problem], Field(max_length=1024)] = []
