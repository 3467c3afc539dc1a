"""Where the bytes of a comparison are kept, as evidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.values import Count, Evidence


class KeptFile(Evidence):
    """One file of values that a comparison read, by content: ``sha256`` in lowercase hex, ``size`` in bytes."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Count
