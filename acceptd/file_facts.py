"""What jobs say of files before a model is understood: wire form, checker, bytes that no model reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.values import Big, Count, Evidence, Problem, Text


class OpsetImport(Evidence):
    """One operator set that a model or a function imports, as written, and where it stands first."""

    domain: Text
    version: Big
    where: Text


class Wire(Evidence):
    """``inspect``, first phase: facts of the protobuf wire form, before protobuf is touched.

    ``counts`` are messages by the field that holds them (``Graph.node``), over the whole file.
    """

    bytes: Count
    fields: Count
    messages: Count = 0
    depth: Count
    ir_version: Big | None = None
    graphs: Count = 0
    nodes: Count = 0
    initializers: Count = 0
    functions: Count = 0
    counts: Annotated[dict[str, Count], Field(max_length=128)] = {}
    opsets: Annotated[list[OpsetImport], Field(max_length=1024)] = []
    unknown_fields: Count = 0
    unknown_bytes: Count = 0
    metadata_bytes: Count = 0
    problems: Annotated[list[Problem], Field(max_length=256)] = []


class Check(Evidence):
    """``inspect``, third and fourth phase: onnx.checker, then shape inference."""

    ok: bool
    message: Text = ""
    seconds: float = 0.0
    skipped: Text = ""
    """Why the phase did not run (for example: the model has too many nodes); then ``ok`` is false."""


class GapBytes(Evidence):
    """Bytes ``start`` to ``stop`` of an external data file that no tensor covers and that are not all zero.

    ``at`` is the first that is not, ``head`` the bytes from there in hex.
    """

    path: Text
    start: Count
    stop: Count
    at: Count
    head: Text


class Assets(Evidence):
    """``assets``: what lies in files that no model reads, and between the tensors of external data."""

    files: Count
    gaps_read: Count
    read_bytes: Count = 0
    gaps: Annotated[list[GapBytes], Field(max_length=256)] = []
    problems: Annotated[list[Problem], Field(max_length=1024)] = []
