"""Named places where a crash test kills this process, as a power cut or the kernel's OOM killer would.

``ACCEPTD_FAILPOINT=record.append.before-commit`` kills at that place; ``...@3`` at its third passing.
Where the variable is unset, a failpoint is one look into the environment (0.4 µs).
"""

from __future__ import annotations

import os
import re
from typing import Final

VARIABLE: Final = "ACCEPTD_FAILPOINT"
_GRAMMAR: Final = re.compile(r"(?P<name>[a-z0-9]+(?:[.-][a-z0-9]+)+)(?:@(?P<count>[1-9][0-9]{0,8}))?", re.ASCII)

_passed: dict[str, int] = {}


def parse(text: str) -> tuple[str, int] | None:
    """Return (name, which passing) of a setting, or None where it does not follow the grammar."""
    match = _GRAMMAR.fullmatch(text)
    return (match["name"], int(match["count"] or 1)) if match else None


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL if the environment names this place; do nothing otherwise."""
    wanted = os.environ.get(VARIABLE)
    if wanted is not None:
        _pass(name, wanted)


def _pass(name: str, wanted: str) -> None:
    setting = parse(wanted)
    if setting is None or setting[0] != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == setting[1]:
        import signal  # only here: production passes these places too, and its loader starts sooner without

        os.kill(os.getpid(), signal.SIGKILL)
