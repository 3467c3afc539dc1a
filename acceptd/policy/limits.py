"""Limits of a bundle and of its jobs. Imports little: each sealer process reads them when it starts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.policy.table import Table

Seconds = Annotated[int, Field(ge=1, le=86_400)]
Bytes = Annotated[int, Field(ge=1, le=1 << 50)]
Number = Annotated[int, Field(ge=0, le=1 << 50)]


class LimitsTable(Table):
    """Counts, bytes and seconds that a bundle and each job may use."""

    files: Number = 2_000
    bundle_bytes: Bytes = 8 << 30
    file_bytes: Bytes = 8 << 30
    path_bytes: Number = 512
    path_depth: Number = 16
    seal_seconds: Seconds = 300
    archive_ratio: Number = 200
    manifest_bytes: Bytes = 64 << 10
    model_bytes: Bytes = 2 << 30
    metadata_bytes: Bytes = 1 << 20
    nodes: Number = 200_000
    expanded_nodes: Number = 200_000
    initializers: Number = 50_000
    scopes: Number = 20_000
    subgraph_depth: Number = 16
    node_inputs: Number = 16_384
    nodes_per_layer: Number = 500
    repetitions: Number = 1_000_000_000
    external_files: Number = 1_024
    external_bytes: Bytes = 8 << 30
    wire_depth: Number = 100
    manifest_cpu_seconds: Seconds = 5
    unpack_cpu_seconds: Seconds = 300
    inspect_cpu_seconds: Seconds = 30
    vectors_cpu_seconds: Seconds = 60
    run_cpu_seconds: Seconds = 60
    wall_factor: Annotated[int, Field(ge=1, le=100)] = 4
    """Wall-clock limit of a job = factor x its CPU limit."""
    memory_bytes: Bytes = 2 << 30
    inspect_memory_bytes: Bytes = 1 << 30
    output_bytes: Bytes = 1 << 30
    stderr_bytes: Bytes = 64 << 10
    threads: Annotated[int, Field(ge=1, le=256)] = 8
