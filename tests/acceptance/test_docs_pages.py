"""The tutorials do what they say, command by command. The how-tos need more than acceptd has: `make docs-run`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import run_docs

pytestmark = [pytest.mark.acceptance, pytest.mark.any_uid]

TUTORIALS = sorted((run_docs.ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_shows(page: Path) -> None:
    assert run_docs.run_fresh(page, Path(sys.executable)) > 10
