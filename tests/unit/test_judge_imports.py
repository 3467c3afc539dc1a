"""Rule 3: the judge imports nothing that does input or output; and the trusted side of compare no numpy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
JUDGE = sorted((ROOT / "acceptd" / "judge").glob("**/*.py"))
PURE_STANDARD = {
    "__future__", "collections", "collections.abc", "dataclasses", "enum", "fnmatch", "functools", "itertools",
    "bisect", "json", "math", "re", "string", "types", "typing", "unicodedata",
}  # fmt: skip
PURE_OURS = {
    "acceptd.evidence", "acceptd.policy.manifest", "acceptd.policy.policy", "acceptd.policy.contract",
    "acceptd.policy.profile", "acceptd.policy.names", "acceptd.policy.reduced", "acceptd.runtime.facts",
    "acceptd.runtime.identity", "acceptd.runtime.pins", "acceptd.policy.licenses", "acceptd.model_facts",
    "acceptd.policy.quantization", "acceptd.policy.operators", "acceptd.policy.tolerance", "acceptd.kind_facts",
    "acceptd.policy.golden", "acceptd.policy.quality", "acceptd.policy.reference",
    "acceptd.policy.regression", "acceptd.placement_facts", "acceptd.policy.model_signature",
    "acceptd.policy.signatures",
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Every module that a file imports, at any depth of its code."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            assert node.module is not None
            whole = node.module in {"acceptd", "acceptd.judge", "acceptd.policy"}
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if whole else {node.module}
    return names


@pytest.mark.parametrize("path", JUDGE, ids=lambda path: path.name)
def test_the_judge_imports_no_module_that_does_io(path: Path) -> None:
    for name in imported(path):
        fine = (
            name in PURE_STANDARD | PURE_OURS
            or name.startswith("acceptd.judge.")
            or name.partition(".")[0] == "pydantic"
        )
        assert fine, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", JUDGE, ids=lambda path: path.name)
def test_the_judge_calls_nothing_that_does_io_or_knows_the_time(path: Path) -> None:
    called = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called.isdisjoint({"open", "print", "input", "exec", "eval", "compile", "__import__", "id", "hash"})


def test_the_walk_sees_a_forbidden_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    import os\n    from acceptd import work\n")
    assert imported(bad) == {"os", "acceptd.work"}


def test_judge_and_the_trusted_side_of_compare_load_no_numpy() -> None:
    code = (
        "import sys, acceptd.judge.verdict, acceptd.judge.infer, acceptd.compare.client, acceptd.compare.pairing, "
        "acceptd.policy.load; "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'onnx', 'onnxruntime', 'google.protobuf')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("tool", ["gen_findings", "gen_schema"])
def test_the_generated_pages_are_up_to_date(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tools.{tool}", "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
