"""Arrays beside a model are no alarm; whatever hides in their archive is."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sandbox import assets
from sandbox.inspect.contents import opened
from sandbox.inspect.problems import Problems

PROGRAM = Path(os.path.realpath("/bin/true")).read_bytes()


def _told(tmp_path: Path, data: bytes, name: str = "norm.npz") -> dict[str, str]:
    path = tmp_path / name
    path.write_bytes(data)
    problems = Problems()
    with opened(path, name) as source:
        assets._whole(name, source, problems)
    return {one["code"]: one["message"] for one in problems.frame()}


def _npz(*, compressed: bool = False, **arrays: object) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_plain_arrays_are_no_alarm(tmp_path: Path, compressed: bool) -> None:
    told = _told(tmp_path, _npz(compressed=compressed, mean=np.zeros(4, np.float32), std=np.ones((2, 2))))
    assert told == {}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_program_inside_an_array_is_told_with_its_member(tmp_path: Path, compressed: bool) -> None:
    told = _told(tmp_path, _npz(compressed=compressed, mean=np.frombuffer(PROGRAM, np.uint8)))
    assert "payload/executable" in told
    assert "payload/archive" not in told


def test_an_archive_inside_an_array_is_told(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("run.sh", "echo")
    told = _told(tmp_path, _npz(compressed=True, mean=np.frombuffer(inner.getvalue(), np.uint8)))
    assert "mean.npy" in told["payload/archive"]


def _with(name: str, data: bytes) -> bytes:
    file = io.BytesIO(_npz(mean=np.zeros(2)))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, data)
    return file.getvalue()


def _objects() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    return _with("x.npy", file.getvalue())


def _commented() -> bytes:
    file = io.BytesIO(_npz(mean=np.zeros(2)))
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"more"
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_with("tool.py", b"import os"), id="member-of-another-kind"),
        pytest.param(_with("x.npy", b"no array"), id="member-that-only-says-so"),
        pytest.param(_objects(), id="objects"),
        pytest.param(_commented(), id="comment"),
        pytest.param(b"\0" * 64 + _npz(mean=np.zeros(2)), id="bytes-before"),
        pytest.param(_npz(mean=np.zeros(2)) + pickle.dumps({"a": 1}), id="bytes-after"),
    ],
)
def test_an_npz_that_holds_anything_else_is_an_archive(tmp_path: Path, data: bytes) -> None:
    assert "payload/archive" in _told(tmp_path, data)


def test_the_name_alone_makes_no_arrays(tmp_path: Path) -> None:
    assert "payload/archive" in _told(tmp_path, _npz(mean=np.zeros(2)), "norm.zip")
