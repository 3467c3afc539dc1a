"""Environments and runs for tests of runtimes: a second interpreter without a download, one model in the cell."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from acceptd.cell.blobs import closing_blob, lent
from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy
from acceptd.policy.profile import Profile
from acceptd.runtime.interpreter import examine
from sandbox import warm_models

NEEDED = ("numpy", "numpy.libs", "ml_dtypes", "onnxruntime")


def second_environment(home: Path) -> Path:
    """Make an environment that has what a run needs and nothing else (no onnx, no protobuf); return its python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = next(home.glob("lib/python3.*/site-packages"))
    for directory in map(Path, examine().directories):
        for name in NEEDED:
            if (directory / name).is_dir() and not (site / name).exists():
                shutil.copytree(directory / name, site / name, copy_function=_link)
    return home / "bin" / "python"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or another user's file
        shutil.copy2(source, target)


def lay_out(sealed: Path) -> None:
    """Write the built-in model where :func:`run_tiny` expects it."""
    place = sealed / "tiny"
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    (place / "model.onnx").write_bytes(warm_models.TINY)


def run_tiny(cell: Cell, profile: Profile | None, model: bytes = warm_models.TINY, **more: Any) -> JobRecord:
    """Load a model (by default one from float32 ``x`` to ``p``) under a profile, with probes and no golden set."""
    spec = {
        "model": "model.onnx",
        "sha256": hashlib.sha256(model).hexdigest(),
        "size": len(model),
        "declared": {},
        "inferred": True,
        "dims": {},
        "profile": (profile or Profile()).model_dump(mode="json", by_alias=True),
        "sets": [],
        "probes": False,
    }
    with (
        closing_blob(Path("/var/tmp")) as inputs,
        closing_blob(Path("/var/tmp")) as outputs,
        lent({"inputs": inputs.reader(), "outputs": outputs.writer()}) as blobs,
    ):
        return cell.run(
            "run",
            files={"model.onnx": more.get("place", "tiny/model.onnx")},
            spec=spec,
            limits=job_limits("run", LimitsTable()),
            required_walls=Policy().required_walls,
            blobs=blobs,
            profile=profile,
        )
