"""The base of every table that people write, and the bounded texts in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=4096)]
Short = Annotated[str, Field(min_length=1, max_length=256)]


class Table(BaseModel):
    """Base: frozen, strict, unknown keys refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
