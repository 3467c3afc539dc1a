"""Bytecode beside sources that only confined processes import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from acceptd.bytecode import compiled

pytestmark = pytest.mark.unit


def test_a_package_has_bytecode_where_it_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kept in (("kept", False), ("refused", True)):
        package = tmp_path / name
        (package / "inner").mkdir(parents=True)
        (package / "one.py").write_text("x = 1\n")
        (package / "inner" / "broken.py").write_text("x = (\n")
        monkeypatch.setattr(sys, "dont_write_bytecode", kept)
        compiled(package)  # a source that does not compile is whose who imports it
        assert bool(list(package.glob("__pycache__/one.*.pyc"))) is not kept
