"""Values in a file as a job leaves them, and pairs of them for the comparer, for the tests of its kinds."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from acceptd.compare.blob import Blob
from acceptd.compare.service import compare
from acceptd.compare.task import Companion, CompareTask, How, Pair, Slice
from acceptd.evidence import OutputStats, TensorRef

BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40], [100, 0, 130, 20], [0, 0, 10, 10]], np.float32)


class Values:
    """One file that grows; ``rows`` compares arrays of several sets, ``one`` those of a single one."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the fixture
        self._size = 0

    def close(self) -> None:
        self._file.close()

    def put(self, array: Any, dtype: str | None = None) -> Slice:
        array = np.asarray(array)
        raw = array.tobytes()
        self._file.write(raw)
        self._file.flush()
        self._size += len(raw)
        named = dtype or array.dtype.name
        ref = TensorRef(dtype=named, shape=list(array.shape), offset=self._size - len(raw), nbytes=len(raw))
        return Slice(file="f", value=ref)

    def companion(self, name: str, expected: Any, got: Any, **changes: Any) -> Companion:
        return Companion(output=name, expected=self.put(expected), got=self.put(got), **changes)

    def pair(self, expected: Any, got: Any, kind: str, name: str = "s", **changes: Any) -> Pair:
        how = How.model_validate(changes.pop("how", {}))
        fields: dict[str, Any] = {"set": name, "model": "main", "output": "y", "against": "golden", "kind": kind}
        fields |= {"rtol": 0.0, "atol": 0.0, "how": how}
        fields |= {
            "expected": expected if isinstance(expected, Slice) else self.put(expected),
            "got": got if isinstance(got, Slice) else self.put(got),
        }
        return Pair.model_validate(fields | changes)

    def rows(self, *pairs: Pair) -> list[OutputStats]:
        task = CompareTask(pairs=list(pairs))
        # as it travels: through JSON, where what is no number would not survive
        return compare(CompareTask.model_validate(task.model_dump()), {"f": Blob(self._file.fileno())}).outputs

    def one(self, expected: Any, got: Any, kind: str, **changes: Any) -> OutputStats:
        return self.rows(self.pair(expected, got, kind, **changes))[0]
