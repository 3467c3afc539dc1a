"""The walls between the rooms, held by reading every import (design, section 2, rules 1 to 3)."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL_LIBRARIES = {"onnx", "onnxruntime", "google.protobuf", "google"}
NUMPY_ALLOWED = ("acceptd/compare/", "acceptd/loader")
JUDGE_ALLOWED = (
    "acceptd.judge", "acceptd.evidence", "acceptd.model_facts", "acceptd.values", "acceptd.policy",
    "acceptd.errors", "acceptd.runtime.facts", "acceptd.runtime.identity", "acceptd.runtime.pins",
)  # fmt: skip
JUDGE_FORBIDDEN = {
    "os", "io", "pathlib", "socket", "subprocess", "shutil", "tempfile", "time", "random", "secrets", "threading",
    "sqlite3", "sqlalchemy", "structlog", "logging", "asyncio", "urllib", "http", "sys", "ctypes", "mmap", "glob",
}  # fmt: skip


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"{folder} holds no code: the test would prove nothing"
    return found


def under(name: str, roots: set[str] | tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


def test_rule_1_nothing_trusted_imports_a_model_library() -> None:
    for path in files("acceptd"):
        place = path.relative_to(ROOT).as_posix()
        for name in imports(path):
            if place == "acceptd/loader_session.py" and under(name, {"onnxruntime"}):
                continue
            assert not under(name, MODEL_LIBRARIES), f"{place} imports {name}"
            if under(name, {"numpy"}):
                assert place.startswith(NUMPY_ALLOWED), f"{place} imports numpy"


def test_rule_2_the_sandbox_imports_nothing_of_acceptd() -> None:
    for path in files("sandbox"):
        for name in imports(path):
            assert not under(name, {"acceptd"}), f"{path} imports {name}"


def test_rule_2_the_messages_use_the_standard_library_only() -> None:
    allowed = set(sys.stdlib_module_names)
    for name in imports(ROOT / "sandbox/messages.py"):
        assert name.partition(".")[0] in allowed, name


def test_rule_3_the_judge_does_no_io() -> None:
    for path in files("acceptd/judge"):
        for name in imports(path):
            assert not under(name, JUDGE_FORBIDDEN), f"{path} imports {name}"
            if under(name, {"acceptd"}):
                assert under(name, JUDGE_ALLOWED) or is_evidence(name), f"{path} imports {name}"
                assert not under(name, {"acceptd.policy.load"}), f"{path} imports {name}"


def is_evidence(module: str) -> bool:
    """Say whether a module is one of evidence: models alone, in a file named ``*_facts.py``."""
    return module.startswith("acceptd.") and module.count(".") == 1 and module.endswith("_facts")


@pytest.mark.parametrize("path", sorted((ROOT / "acceptd").glob("*_facts.py")), ids=lambda path: path.name)
def test_evidence_is_models_alone(path: Path) -> None:
    for name in imports(path):
        assert name.partition(".")[0] not in JUDGE_FORBIDDEN, f"{path} imports {name}"
        if name.startswith("acceptd"):
            assert under(name, JUDGE_ALLOWED) or is_evidence(name), f"{path} imports {name}"


def imported_first(path: Path, modules: set[str]) -> set[str]:
    """Our own modules that a file imports as it is imported itself: not inside functions, not for types alone."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(ast.parse(path.read_text("utf-8")).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:  # a module of a package that is still being imported is no circle
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in modules else node.module)
        waiting += ast.iter_child_nodes(node)
    return names & modules


def import_graph(folders: tuple[str, ...]) -> dict[str, set[str]]:
    places = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for folder in folders
        for path in files(folder)
    }
    return {name: imported_first(path, set(places)) - {name} for name, path in places.items()}


@functools.cache
def both_packages() -> dict[str, set[str]]:
    return import_graph(("acceptd", "sandbox"))


@pytest.mark.parametrize("start", ["acceptd.compare.__main__", "acceptd.intake.sealer"])
def test_a_helper_process_loads_no_evidence_of_other_rooms(start: str) -> None:
    """Comparer and sealer start with every daemon and check: each class of evidence costs them a millisecond."""
    graph, loaded = both_packages(), {start}
    while more := {name for one in loaded for name in graph[one]} - loaded:
        loaded |= more
    assert len(loaded) > 5
    assert not {"acceptd.evidence", "acceptd.policy.policy", "acceptd.policy.manifest"} & loaded


def test_no_module_imports_itself_in_a_circle() -> None:
    """So every module of both packages can be imported first, in a fresh interpreter."""
    graph = both_packages()
    assert sum(map(len, graph.values())) > 500
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
    with pytest.raises(CycleError):
        TopologicalSorter(graph | {"acceptd.errors": {"acceptd.cli.main"}}).prepare()


def test_the_rule_tests_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    import onnx.helper\n    from google.protobuf import message\n")
    assert [name for name in imports(bad) if under(name, MODEL_LIBRARIES)] == ["onnx.helper", "google.protobuf"]
