"""What importing the record pulls in: no numpy, no onnx, no alembic yet; for a loader not even SQLAlchemy."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

ALL = (
    "attest",
    "audit",
    "backup",
    "canonical",
    "checkpoint",
    "database",
    "entry",
    "failpoint",
    "keys",
    "log",
    "merkle",
    "migrate",
    "projections",
    "queue",
    "tables",
)
LOADER = ("attest", "canonical", "keys", "merkle", "failpoint")


def loaded(modules: tuple[str, ...]) -> set[str]:
    code = "import sys\n" + "".join(f"import acceptd.record.{name}\n" for name in modules)
    code += "print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(made.stdout.split())


def test_the_record_imports_no_numpy_and_nothing_of_onnx() -> None:
    names = loaded(ALL)
    assert "sqlalchemy" in names
    assert not names & {"numpy", "onnx", "onnxruntime", "google", "sandbox", "alembic", "mako"}


def test_what_a_loader_needs_imports_no_database() -> None:
    names = loaded(LOADER)
    assert "cryptography" in names
    assert not names & {"sqlalchemy", "sqlite3", "pydantic", "numpy", "orjson", "nacl"}
