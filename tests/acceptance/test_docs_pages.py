"""A tutorial does what it says, command by command: the one that drops, loads, follows, revokes and replays.

The other tutorials and the how-tos take minutes, or need torch and others: `make docs-run` does all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import run_docs

pytestmark = [pytest.mark.acceptance, pytest.mark.any_uid]


def test_the_tutorial_of_the_loader_does_what_it_shows() -> None:
    page = run_docs.ROOT / "docs" / "tutorials" / "loader.md"
    assert run_docs.run_fresh(page, Path(sys.executable)) > 20
