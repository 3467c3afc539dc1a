"""Values as they cross between rooms: tensors, sequences, optionals and maps that lie in blob files.

The base of all evidence stands here too: a job is hostile, so every model is frozen, strict and closed.
Numbers that may pass 2**53 arrive as decimal strings (:data:`Big`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=0)]


def _big(value: object) -> int:
    if isinstance(value, bool):
        raise ValueError("a number, not a boolean")  # noqa: TRY004 - pydantic turns ValueError into its own
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) <= 64 and value.lstrip("-").isdecimal() and value.isascii():
        return int(value)
    raise ValueError("an integer, or a decimal string")


Big = Annotated[int, BeforeValidator(_big)]
"""An integer that may lie beyond 2**53 (then a decimal string on the wire)."""


def _figure(value: str) -> str:
    if value != value.strip() or "_" in value or not value.isascii():
        raise ValueError("not a number")
    float(value)  # ValueError says what it is not
    return value


Figure = float | Annotated[str, Field(max_length=40), AfterValidator(_figure)]
"""A number that was measured; as text where no JSON number can be it (``inf``, ``-inf``, ``nan``)."""


class Evidence(BaseModel):
    """Base: frozen, strict, closed."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Problem(Evidence):
    """One fact that a job states as a problem; the judge decides what it weighs."""

    code: Annotated[str, Field(pattern=r"^[a-z-]+/[a-z0-9-]+$", max_length=64)]
    where: Text
    message: Text


class TensorRef(Evidence):
    """A tensor in a blob file: ``nbytes`` raw little-endian C-order bytes from ``offset``.

    ``dtype`` is ONNX's own name in lower case. A ``string`` tensor's bytes are, for each element, a
    little-endian uint32 length and that many UTF-8 bytes.
    """

    kind: Literal["tensor"] = "tensor"
    dtype: Annotated[str, Field(pattern=r"^[a-z0-9]{1,20}$")]
    shape: Annotated[list[Count], Field(max_length=64)]
    offset: Count
    nbytes: Count


class SequenceRef(Evidence):
    """A sequence of values."""

    kind: Literal["sequence"] = "sequence"
    items: Annotated[list[ValueRef], Field(max_length=16384)]


class OptionalRef(Evidence):
    """An optional value; ``value`` None when absent."""

    kind: Literal["optional"] = "optional"
    value: ValueRef | None


class MapRef(Evidence):
    """A map: two tensors of rank 1 and equal length."""

    kind: Literal["map"] = "map"
    keys: TensorRef
    values: TensorRef


ValueRef = Annotated[TensorRef | SequenceRef | OptionalRef | MapRef, Field(discriminator="kind")]
SequenceRef.model_rebuild()
OptionalRef.model_rebuild()


class Named(Evidence):
    """A value and the name it goes by; empty when the file names none (then position counts)."""

    name: Text
    value: ValueRef
