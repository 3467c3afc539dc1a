"""Hostile text made safe to show: in a terminal, in a log line, in HTML.

A name in a model may hold escape sequences that drive a terminal, line breaks that forge a log
line, bidirectional controls that turn text around (CVE-2021-42574), or markup.
"""

from __future__ import annotations

import html
import re
from typing import Any, Final

from acceptd.intake.paths import shown

_QUOTED: Final = re.compile(r"`([^`]+)`")


def line(value: Any, limit: int = 400) -> str:
    r"""Return ``value`` as one printable line: controls, line breaks and invisible characters escaped."""
    return shown(value if isinstance(value, (str, bytes)) else str(value), limit)


def markup(value: Any, limit: int = 2000) -> str:
    """Return ``value`` as HTML text that is also safe inside a quoted attribute."""
    return html.escape(line(value, limit), quote=True)


def prose(value: Any, limit: int = 2000) -> str:
    """Return a sentence as HTML text like :func:`markup`, what stands between backticks as code."""
    return _QUOTED.sub(r"<code>\1</code>", markup(value, limit))


def printable_data(value: Any, limit: int = 4000) -> Any:
    """Return JSON data with every string, keys too, as one printable line."""
    if isinstance(value, str):
        return line(value, limit)
    if isinstance(value, dict):
        return {line(key, 400): printable_data(item, limit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable_data(item, limit) for item in value]
    return value


def size(count: int | str) -> str:
    """Return a number of bytes for people: ``309 B``, ``1.5 GiB``. Text is returned as it is."""
    if not isinstance(count, int):
        return line(count, 40)
    if count < 1024:
        return f"{count} B"
    value, unit = count / 1024, "KiB"
    for greater in ("MiB", "GiB"):
        if value >= 1024:
            value, unit = value / 1024, greater
    return f"{value:.1f} {unit}"


def milliseconds(value: float | str | None) -> str:
    """Return a duration for people: ``0.42 ms``, ``12 ms``, ``3.1 s``."""
    if not isinstance(value, (int, float)):
        return "" if value is None else line(value, 40)
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"


def shape(value: list[Any] | None) -> str:
    """Return a shape as ``[batch, 4]``; the shape of unknown rank is ``[...]``."""
    return "[...]" if value is None else f"[{', '.join(line(dim, 80) for dim in value)}]"
