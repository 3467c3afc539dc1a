"""Is an output the same whatever the input? Then its golden tests nothing."""

from __future__ import annotations

from typing import Final

from acceptd.compare import decode
from acceptd.compare.blob import Blob
from acceptd.compare.nested import Blobs, blob_of, identical
from acceptd.compare.task import Group, Sample, Slice
from acceptd.values import TensorRef

MAX_BYTES: Final = 4 << 20
"""A constant output of different batch sizes is only looked for up to this size."""


def insensitive(group: Group, blobs: Blobs) -> bool:
    """Say whether all samples have one output although their inputs differ. Raises MalformedError.

    Only what proves something counts: at least two samples whose inputs are known to differ, and
    every sample alike. Outputs of different batch sizes are alike where all rows of both are one row.
    """
    if not _inputs_differ(group.samples, blobs):
        return False
    first, *others = group.samples
    return _has_elements(first.output) and all(_alike(first.output, other.output, blobs) for other in others)


_DIFFERENT: Final = (frozenset({"probe:zeros", "probe:ones"}), frozenset({"probe:low", "probe:high"}))
"""Probes that differ by construction. Others may repeat one of these (low is zeros where a range begins at 0)."""


def _inputs_differ(samples: list[Sample], blobs: Blobs) -> bool:
    keys = {sample.key for sample in samples if sample.inputs is None}
    if any(pair <= keys for pair in _DIFFERENT):
        return True
    goldens = [sample.inputs for sample in samples if sample.inputs is not None]
    return any(not _same_inputs(goldens[0], other, blobs) for other in goldens[1:])


def _same_inputs(left: list[Slice], right: list[Slice], blobs: Blobs) -> bool:
    return len(left) == len(right) and all(
        identical(one.value, blob_of(one, blobs), other.value, blob_of(other, blobs))
        for one, other in zip(left, right, strict=True)
    )


def _has_elements(output: Slice) -> bool:
    return not isinstance(output.value, TensorRef) or 0 not in output.value.shape


def _alike(left: Slice, right: Slice, blobs: Blobs) -> bool:
    first, second = blob_of(left, blobs), blob_of(right, blobs)
    if identical(left.value, first, right.value, second):
        return True
    one, other = left.value, right.value
    if not (isinstance(one, TensorRef) and isinstance(other, TensorRef)) or one.dtype != other.dtype:
        return False
    if not one.shape or not other.shape or one.shape == other.shape or one.shape[1:] != other.shape[1:]:
        return False
    row = _single_row(one, first)
    return row is not None and row == _single_row(other, second)


def _single_row(ref: TensorRef, blob: Blob) -> bytes | None:
    """Return the one row that a tensor repeats along its first axis; None where rows differ or it is too large."""
    rows = ref.shape[0]
    total = decode.check(ref, blob)
    if not total or ref.nbytes > MAX_BYTES or ref.dtype == "string" or ref.nbytes % rows:
        return None
    raw = blob.read(ref.offset, ref.nbytes)
    row = raw[: ref.nbytes // rows]
    return row if row * rows == raw else None
