"""The console's extra lies in an environment of its own (`make test-web`); elsewhere these tests are left out."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator

import pytest

from tests.release_world import memory_directory
from tests.web_world import Visit, WebWorld, make, visit

EXTRA = ("starlette", "uvicorn", "jinja2", "httpx2", "playwright")
MISSING = [name for name in EXTRA if importlib.util.find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str:
    """Say why nothing is run here."""
    return f"tests/web: left out, without {', '.join(MISSING)}: run `make test-web`" if MISSING else ""


@pytest.fixture(scope="module")
def world() -> Iterator[WebWorld]:
    root = memory_directory()
    made = make(root)
    yield made
    made.world.close()
    shutil.rmtree(root)


@pytest.fixture
def inside(world: WebWorld) -> Iterator[Visit]:
    """Somebody with a session."""
    with visit(world) as one:
        one.enter()
        yield one
