"""Writes golden sets into a bundle as ONNX's own files, which a job makes: all of them or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from acceptd.bundling.inputs import vectors_job
from acceptd.bundling.listing import STAGING, busy
from acceptd.bundling.look import ending_of
from acceptd.bundling.write import placed
from acceptd.cell.blobs import Blob, closing_blob, lent
from acceptd.errors import InternalError
from acceptd.evidence import Named, VectorSet
from acceptd.local import Bench
from acceptd.values import TensorRef

_CHUNK: Final = 8 << 20


@contextmanager
def sets_written(
    place: Bench,
    root: Path,
    model: str,
    names: Sequence[str],
    sets: Sequence[VectorSet],
    inputs: Blob,
    expected: Blob,
) -> Iterator[None]:
    """Write the sets as ONNX's own files; take them away again where the block raises."""
    spec = {
        "make": "files",
        "model": model,
        "sets": [_refs(name, one) for name, one in zip(names, sets, strict=True)],
    }
    staging = root / STAGING
    try:
        staging.mkdir()
    except FileExistsError as error:
        raise busy() from error
    done: list[Path] = []
    try:
        with closing_blob(place.tools.temporary) as files:
            with lent(
                {"inputs": inputs.reader(), "expected": expected.reader(), "files": files.writer()}
            ) as blobs:
                record = vectors_job(place, {}, spec, blobs)
            if record.vectors is None or [one.name for one in record.vectors.sets] != list(names):
                raise InternalError(f"the golden files cannot be made: {ending_of(record)}")
            for one in record.vectors.sets:
                with placed(root / one.name):
                    _copied(files, one, staging / one.name)
        for name in names:
            os.rename(staging / name, root / name)
            done.append(root / name)
        yield
    except BaseException:
        for path in done:
            shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _refs(name: str, one: VectorSet) -> dict[str, Any]:
    def told(values: Sequence[Named]) -> list[dict[str, Any]]:
        return [value.model_dump(mode="json") for value in values]

    return {"name": name, "inputs": told(one.inputs), "expected": told(one.expected)}


def _copied(blob: Blob, one: VectorSet, target: Path) -> None:
    """Copy each file of a set out of the blob. The names are ours: ``input_0.pb``, ``output_0.pb`` and on."""
    target.mkdir()
    reader = blob.reader()
    try:
        for word, values in (("input", one.inputs), ("output", one.expected)):
            for number, named in enumerate(values):
                ref = named.value
                if not isinstance(ref, TensorRef) or ref.offset + ref.nbytes > blob.size:
                    raise InternalError("a golden file that is not there")
                with (target / f"{word}_{number}.pb").open("wb") as file:
                    left, offset = ref.nbytes, ref.offset
                    while left and (piece := os.pread(reader, min(left, _CHUNK), offset)):
                        file.write(piece)
                        left, offset = left - len(piece), offset + len(piece)
    finally:
        os.close(reader)
