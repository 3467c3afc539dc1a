"""A pytest plugin that notes every finding that the tests make: ``pytest -p tools.finding_collector``.

``ACCEPTD_FINDINGS_TO`` names the file: one JSON line for each new (code, where, message) of one process.
``tools.gen_examples`` chooses the examples of the documents among them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from acceptd.judge.finding import Finding

_TARGET = Path(os.environ.get("ACCEPTD_FINDINGS_TO", ".cache/findings.jsonl"))
_SEEN: set[tuple[str, str, str]] = set()
_MAKE = Finding.__init__


def _noting(self: Finding, /, **data: Any) -> None:
    _MAKE(self, **data)
    key = (self.code, self.where, self.message)
    if key in _SEEN:
        return
    _SEEN.add(key)
    row = {"code": self.code, "where": self.where, "message": self.message, "test": _test()}
    with _TARGET.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _test() -> str:
    """Return the test's name without its process's part, as pytest says it."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]


Finding.__init__ = _noting  # type: ignore[method-assign]
_TARGET.parent.mkdir(parents=True, exist_ok=True)
