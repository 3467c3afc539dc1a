"""Submitted bytes and released ones never meet in one job: what each sees of the other's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptd.cell.client import Cell
from acceptd.cell.launcher import Area
from acceptd.cell.limits import job_limits
from acceptd.policy.policy import LimitsTable, Policy
from tests.cell.conftest import Attack

pytestmark = pytest.mark.cell

LOOK = """
seen = {}
for path in spec["paths"]:
    try:
        with open(path) as file:
            seen[path] = file.read(100)
    except OSError as error:
        seen[path] = errno.errorcode[error.errno]
try:
    seen["/"] = ",".join(sorted(os.listdir("/")))
except OSError as error:
    seen["/"] = errno.errorcode[error.errno]
note(**seen)
"""


def look(cell: Cell, area: Area, source: str, *paths: str) -> dict[str, object]:
    record = cell.run(
        "attack",
        files={"model.onnx": source},
        area=area,
        spec={"source": LOOK, "paths": list(paths)},
        limits=job_limits("attack", LimitsTable(run_cpu_seconds=2, memory_bytes=256 << 20)),
        required_walls=Policy().required_walls,
    )
    assert record.ending == "done", record
    return record.notes[0].facts


def test_a_job_on_a_submission_finds_no_release(cell: Cell, attack: Attack, store: Path) -> None:
    del attack
    released = [f"/store/{'a' * 64}/model.onnx", str(store / ("a" * 64) / "model.onnx")]
    seen = look(cell, "sealed", "mine/model.onnx", "/m/model.onnx", *released)
    assert seen["/m/model.onnx"] == "my model"
    assert {seen[path] for path in released} <= {"ENOENT", "EACCES"}
    assert "store" not in str(seen["/"])


def test_a_job_on_a_release_finds_its_named_files_and_no_submission(cell: Cell, sealed: Path) -> None:
    one, other = "a" * 64, "b" * 64
    others = [f"/store/{one}/bundle.toml", f"/store/{other}/model.onnx", "/m/bundle.toml"]
    submitted = ["/sealed/mine/model.onnx", str(sealed / "mine" / "model.onnx")]
    seen = look(cell, "store", f"{one}/model.onnx", "/m/model.onnx", *others, *submitted)
    assert seen["/m/model.onnx"] == "release aaaa"
    assert {seen[path] for path in (*others, *submitted)} <= {"ENOENT", "EACCES"}
