"""One warm cell for the whole layer, and a helper that runs attacker code inside it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy

# The comparer starts an isolated interpreter: tools/as_user.sh may have lent the libraries by PYTHONPATH only.
whole_interpreter = pytest.mark.skipif(
    subprocess.run([sys.executable, "-I", "-c", "import pydantic"], capture_output=True, check=False).returncode
    != 0,
    reason="the interpreter has no libraries of its own: the comparer cannot start",
)
Attack = Callable[..., JobRecord]


@pytest.fixture(scope="session")
def sealed() -> Iterator[Path]:
    """A sealed area with two submissions, one of which the attacker must not see."""
    with tempfile.TemporaryDirectory(prefix="acceptd-cell-", dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        for path, text in {
            "mine/model.onnx": "my model",
            "mine/test_data_set_0/output_0.pb": "the expected output",
            "other/model.onnx": "another team's model",
        }.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        yield root


@pytest.fixture(scope="session")
def store() -> Iterator[Path]:
    """A store of approved bundles, as a daemon has one."""
    with tempfile.TemporaryDirectory(prefix="acceptd-store-", dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        for digest in ("a" * 64, "b" * 64):
            (root / digest).mkdir(mode=0o755)
            (root / digest / "model.onnx").write_text(f"release {digest[:4]}")
            (root / digest / "bundle.toml").write_text("its manifest")
        yield root


@pytest.fixture(scope="session")
def cell(sealed: Path, store: Path) -> Iterator[Cell]:
    """A cell started for testing: it knows the ``attack`` job."""
    with Cell(sealed, spare=True, testing=True, store=store) as started:
        yield started


@pytest.fixture(scope="session")
def attack(cell: Cell) -> Attack:
    """Run attacker code in a job that may read ``model.onnx`` of its own submission only."""

    def run(source: str, *, cpu: int = 2, wall: int = 2, memory: int = 256 << 20, **more: Any) -> JobRecord:
        limits = LimitsTable(run_cpu_seconds=cpu, memory_bytes=memory, wall_factor=wall, output_bytes=1 << 20)
        off = more.get("walls_off", ())
        return cell.run(
            "attack",
            files={"model.onnx": "mine/model.onnx"},
            spec={"source": source},
            limits=job_limits("attack", limits),
            required_walls=[wall for wall in Policy().required_walls if wall not in off],
            **more,
        )

    return run
