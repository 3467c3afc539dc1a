"""A named runtime (``policies/profiles/*.toml``): where and how a model is run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.policy.manifest import Table
from acceptd.policy.names import Name


class Profile(Table):
    """A whole profile file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Name = "cpu"
    providers: Annotated[list[str], Field(min_length=1, max_length=16)] = ["CPUExecutionProvider"]
    allow_cpu_fallback: bool = False
    intra_op_threads: Annotated[int, Field(ge=1, le=256)] = 1
    inter_op_threads: Annotated[int, Field(ge=1, le=256)] = 1
    optimisation: Literal["disable", "basic", "extended", "all"] = "all"
    session_entries: Annotated[dict[str, str], Field(max_length=64)] = {}
