"""The operator's TOML as a document, in bounded time and memory, with one kind of error for what is none. Pure.

``tomllib`` is quadratic in the parts of a dotted key, in time and in memory (4,000 parts: 65 MB), raises
RecursionError for brackets in brackets, and lets ``int()`` refuse a number of more than 4,300 digits as a plain
ValueError (all measured). A submitter's text is only ever read in the cell (``sandbox/manifest.py``), which has
rules of its own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

MAX_DEPTH: Final = 64
"""Tables in tables and lists in them. A dotted key makes a table of each of its parts."""
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_MANY_PARTS: Final = re.compile(f"(?<![A-Za-z0-9_-])(?:{_PART}){{{MAX_DEPTH}}}")


def document(text: str) -> dict[str, Any]:
    """Return a TOML text as a document.

    Raises tomllib.TOMLDecodeError, with the place, and ValueError for what is TOML and no document of ours.
    """
    if _MANY_PARTS.search(text):
        raise ValueError(f"nested too deeply: a key has more than {MAX_DEPTH} parts")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError("a number of thousands of digits") from error
    if _is_deep(found):
        raise ValueError(f"nested too deeply: more than {MAX_DEPTH} tables and lists in one another")
    return found


def _is_deep(found: Mapping[str, Any]) -> bool:
    """Say whether a document is nested deeper than :data:`MAX_DEPTH`, without a call for each level."""
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        inside = (part for item in level for part in (item.values() if isinstance(item, dict) else item))
        level = [part for part in inside if isinstance(part, dict | list)]
        if not level:
            return False
    return True
