"""Sequences of tokens: exact, and where each row ends. Rows of both sides may differ in length."""

from __future__ import annotations

from typing import Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.decode import Array
from acceptd.compare.gauge import Rows
from acceptd.compare.task import How
from acceptd.kind_facts import Place, Sequence
from acceptd.values import Evidence, TensorRef

MAX_ROW: Final = 1 << 20
"""Tokens of one row; a longer one is no text."""
BLOCK: Final = 1 << 15


class Tokens(Rows):
    """Token rows of one output. Integers only; strings are compared as they are."""

    def __init__(self, how: How) -> None:
        super().__init__()
        self._end, self._ignore = how.end, how.ignore_after_end and how.end is not None
        self.may_differ = self._ignore
        """Rows of the two sides may be of different length."""
        self.rows = self.exact = self.tokens = self.unterminated = 0
        self.other = 0
        self._token: Place | None = None
        self._stop: Place | None = None

    def tensors(self, expected: TensorRef, first: Blob, got: TensorRef, second: Blob, prefix: list[int]) -> None:
        """Take two checked integer tensors of one type whose shapes differ in the last axis at most."""
        self.begin(expected.shape, expected.dtype, prefix)
        widths = [ref.shape[-1] if ref.shape else 1 for ref in (expected, got)]
        if max(widths) > MAX_ROW:
            raise MalformedError("a row of more tokens than can be compared")
        rows = decode.count(expected.shape[:-1])
        step = max(1, BLOCK // max(1, *widths))
        if not max(widths):
            self.rows += rows
            self.exact += rows
            return
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            sides = [
                decode.read(ref, blob, start * width, stop * width)[1].reshape(stop - start, width)
                for ref, blob, width in zip((expected, got), (first, second), widths, strict=True)
            ]
            self._block(sides[0], sides[1], start)

    def _block(self, expected: Array, got: Array, first: int) -> None:
        count, sides = expected.shape[0], (expected, got)
        self.rows += count
        ends = [self._ends(side) for side in sides]
        lengths = [
            np.minimum(end + 1, side.shape[1]) if self._ignore else np.full(count, side.shape[1])
            for side, end in zip(sides, ends, strict=True)
        ]
        short = min(expected.shape[1], got.shape[1])
        kept = np.arange(short) < np.minimum(lengths[0], lengths[1])[:, None]
        other = (expected[:, :short] != got[:, :short]) & kept
        longer = lengths[0] != lengths[1]
        at = np.where(other.any(axis=1), other.argmax(axis=1) if short else 0, np.minimum(lengths[0], lengths[1]))
        wrong = other.any(axis=1) | longer
        self.exact += int(np.count_nonzero(~wrong))
        self.tokens += int(np.maximum(lengths[0], lengths[1]).sum())
        self.other += int(other.sum()) + int(np.abs(lengths[0] - lengths[1]).sum())
        if wrong.any() and self._token is None:
            row = int(wrong.argmax())
            told = [_token(side[row], int(at[row]), int(n[row])) for side, n in zip(sides, lengths, strict=True)]
            self._token = self.place(first + row, told, int(at[row]))
        if self._end is not None:
            moved = ends[0] != ends[1]
            self.unterminated += int(np.count_nonzero(moved))
            if moved.any() and self._stop is None:
                row = int(moved.argmax())
                said = [_stop(int(end[row]), side.shape[1]) for end, side in zip(ends, sides, strict=True)]
                self._stop = self.place(first + row, said)

    def _ends(self, rows: Array) -> Array:
        """Return the column of the first end token of each row; the width where there is none."""
        width = rows.shape[1]
        if self._end is None or not width:
            return np.full(rows.shape[0], width)
        hit = rows == self._end
        found: Array = np.where(hit.any(axis=1), hit.argmax(axis=1), width)
        return found

    def figures(self) -> dict[str, Evidence]:
        """Return ``sequence``."""
        return {
            "sequence": Sequence(
                rows=self.rows,
                exact=self.exact,
                tokens=self.tokens,
                unterminated=self.unterminated,
                token_worst=self._token,
                end_worst=self._stop,
            )
        }


def _token(row: Array, at: int, length: int) -> str:
    return f"{int(row[at])}" if at < length else "no token"


def _stop(end: int, width: int) -> str:
    return f"the end at {end}" if end < width else "no end"
