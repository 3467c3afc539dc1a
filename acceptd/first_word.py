"""One line on a terminal before anything else is loaded, and away again when there is more to say.

Loading a command takes half a second on a small machine: whoever typed it should see at once that it was heard.
Imports nothing but what the interpreter has loaded anyway.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

SLOW = frozenset({"adopt", "bundle", "check", "contract", "doctor", "policy", "reaccept", "selftest", "submit"})
"""Commands that start a cell, or may wait for one."""
STAYS = frozenset({"bundle", "check"})
"""Of them, those whose own first word comes through a console, which takes the line away."""
ERASE = b"\r\x1b[K"
_said = False


def say(words: Sequence[str]) -> None:
    """Say that the command is being loaded; nothing where standard error is no terminal, or help is wanted."""
    global _said
    if not words or words[0] not in SLOW or "--help" in words or os.environ.get("TERM", "dumb") == "dumb":
        return
    if not os.isatty(2):
        return
    _said = True
    _write(f"acceptd {words[0]}: loading ...".encode("ascii"))


def loaded(words: Sequence[str]) -> None:
    """Take the line away where the command, which begins now, may write to standard output before it says more."""
    if not words or words[0] not in STAYS:
        unsay()


def unsay() -> None:
    """Take the line away, where it is still there."""
    global _said
    if _said:
        _said = False
        sys.stdout.flush()
        _write(ERASE)


def _write(data: bytes) -> None:
    try:
        os.write(2, data)
    except OSError:  # a terminal that went away
        return
