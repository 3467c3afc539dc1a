"""A pytest plugin that notes every finding that the tests make: ``pytest -p tools.finding_collector``.

``ACCEPTD_FINDINGS_TO`` names the file: one JSON line for each new (code, where, message) of one process. Noted are
findings, what the sealer and a job refuse, and what an inspection notes; of the last three the judge words the
place a little differently. ``tools.gen_examples`` chooses the examples of the documents among them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from acceptd.errors import SealError
from acceptd.judge.finding import Finding
from sandbox.inspect.problems import Problems
from sandbox.messages import RefusedError

_TARGET = Path(os.environ.get("ACCEPTD_FINDINGS_TO", ".cache/findings.jsonl"))
_SEEN: set[tuple[str, str, str]] = set()
_FINDING, _SEAL, _REFUSED, _ADD = Finding.__init__, SealError.__init__, RefusedError.__init__, Problems.add


def _note(code: str, where: str, message: str) -> None:
    if (code, where, message) in _SEEN:
        return
    _SEEN.add((code, where, message))
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    row = {"code": code, "where": where, "message": message, "test": test}
    with _TARGET.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _finding(self: Finding, /, **data: Any) -> None:
    _FINDING(self, **data)
    _note(self.code, self.where, self.message)


def _seal(self: SealError, code: str, where: str, message: str, **more: Any) -> None:
    _SEAL(self, code, where, message, **more)
    _note(code, where, message)


def _refused(self: RefusedError, code: str, where: str, message: str, **more: Any) -> None:
    _REFUSED(self, code, where, message, **more)
    _note(code, where, message)


def _add(self: Problems, code: str, where: str, message: str) -> None:
    _ADD(self, code, where, message)
    _note(code, where, message)


Finding.__init__ = _finding  # type: ignore[method-assign]
SealError.__init__ = _seal  # type: ignore[method-assign]
RefusedError.__init__ = _refused  # type: ignore[method-assign]
Problems.add = _add  # type: ignore[method-assign]
_TARGET.parent.mkdir(parents=True, exist_ok=True)
