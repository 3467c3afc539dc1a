"""What one model can be compared by with another: the ``structure`` frame of ``inspect``.

Part of :mod:`acceptd.evidence`; a job says it, so it is hostile and capped like all evidence.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.values import Big, Count, Evidence, Text

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$", max_length=64)]
Line = Annotated[str, Field(max_length=1024)]


class SelectionPlace(Evidence):
    """Where one selection stands. ``exact`` is the canonical hash of what decides it, without weights."""

    where: Line
    condition: Line
    exact: Hex


class SelectionShape(Evidence):
    """Selections that are made and decided in one way: Where, If, Loop, Compress, a mask, an index.

    ``key`` covers the selecting operator, whether an input decides, and the operators right before the condition;
    no names, and nothing further up. ``driven`` is ``unknown`` where names lead nowhere. ``path`` are the
    operators from the graph input ``input`` to the selection.
    """

    key: Hex
    op_type: Line
    driven: Literal["input", "none", "unknown"]
    input: Line
    path: Annotated[list[Line], Field(max_length=17)]
    count: Count
    places: Annotated[list[SelectionPlace], Field(max_length=16)]


class LastStep(Evidence):
    """One operator before an output, ``domain::op_type`` outside ONNX's own. ``axis``: None where not written."""

    op_type: Line
    axis: Annotated[int, Field(ge=-64, le=64)] | None = None


class Ending(Evidence):
    """The last operators before one output, the last one first, each with the first input that a node makes."""

    output: Line
    steps: Annotated[list[LastStep], Field(max_length=8)]


class Structure(Evidence):
    """The structure of one model over all scopes, training graphs not counted.

    ``topology_sha256`` is the canonical hash without values of tensors, ``graph_sha256`` the one with them, empty
    where the job was not told to read them or could not. ``initializers`` are ``name dtype[dims]``, sorted, the
    first 4,096; ``initializers_sha256`` covers all. ``selection_shapes`` counts what the list has no room for too.
    """

    topology_sha256: Hex
    graph_sha256: Hex
    parameters: Big
    initializers: Annotated[list[Line], Field(max_length=4096)]
    initializer_count: Count
    initializers_sha256: Hex
    selections: Annotated[list[SelectionShape], Field(max_length=256)]
    selection_shapes: Count
    notes: Annotated[list[Text], Field(max_length=16)] = []
    endings: Annotated[list[Ending], Field(max_length=256)] = []
    """Only where the order asked for it, as ``producer``: ``acceptd bundle init`` guesses from them."""
    producer: Annotated[list[Text], Field(max_length=2)] = []
    """Name and version of what wrote the file, by its own word."""
