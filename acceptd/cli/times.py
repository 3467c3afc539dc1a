"""Times as people write them on a command line: ``30d`` back from now, or a moment in UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from acceptd.errors import UsageError
from acceptd.record.entry import Filter

_SPAN: Final = re.compile(r"([1-9][0-9]{0,4})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str, now: float | None = None, *, option: str = "--since") -> str:
    """Return the time that ``--since`` means, a span back from now or a time: RFC 3339, UTC. Raises UsageError."""
    span = _SPAN.fullmatch(text)
    if span is not None:
        seconds = (time.time() if now is None else now) - int(span[1]) * _SECONDS[span[2]]
        return datetime.fromtimestamp(max(0.0, seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        Filter(since=text or "nothing")
    except UsageError as error:
        message = f"{option} {text!r:.60}: {error.message}"
        raise UsageError(message, remedy="write 30d, 12h or a UTC time") from error
    return text


def span(text: str, *, option: str) -> int:
    """Return the seconds of a span such as ``30d`` or ``12h``. Raises UsageError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"{option} {text!r:.60}: no span of time", remedy="write 30d, 12h or 8w")
    return int(found[1]) * _SECONDS[found[2]]
