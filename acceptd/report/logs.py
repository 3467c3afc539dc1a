"""The daemon's log: every value is one printable line: no text drives a terminal or forges a line of the log.

Both renderers of structlog print strings as they are: an escape sequence would reach the terminal, and a
line break would begin a line that looks like the daemon's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import structlog
from structlog.typing import Processor

from acceptd.report.escape import line

_LONGEST: Final = 2000
_DEEPEST: Final = 12
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
"""Without the values of variables, which structlog would add: keys, expected outputs and leases are among them."""


def processors(*, as_json: bool, always: Mapping[str, str] | None = None) -> list[Processor]:
    """Return the chain for structlog: context, level, time, traceback, escapes, renderer.

    ``always`` is what each line says of where it comes from: a node of a fleet its name and role. Not a context
    variable: those belong to a thread, and a node's lines come from many.
    """
    last: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=True)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    return [
        structlog.contextvars.merge_contextvars,
        partial(_with, dict(always or {})),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _TRACEBACKS if as_json else structlog.processors.format_exc_info,
        escape_event,
        last,
    ]


def _with(
    always: Mapping[str, str], _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in always.items():
        if event.get(key, value) != value:  # it speaks of another node
            event[f"about_{key}"] = event[key]
        event[key] = value
    return event


def bound(submission: str, team: str, model: str | None) -> AbstractContextManager[object]:
    """Bind what each line of the log says of a submission meanwhile; a model that is known follows the grammar."""
    named = {"model": model} if model else {}
    return structlog.contextvars.bound_contextvars(submission=submission, team=team, **named)


def escape_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape all text of an event, keys too. A formatted traceback keeps its lines, each marked as part of it."""
    result: MutableMapping[str, Any] = {}
    for key, value in event.items():
        if key == "exception" and isinstance(value, str):
            result[key] = "\n".join(f"  | {line(one, _LONGEST)}" for one in value.split("\n"))
        else:
            result[line(key, 200)] = _safe(value, 0)
    return result


def _safe(value: Any, depth: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it (RFC 8259, section 6)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < _DEEPEST and isinstance(value, dict):
        return {line(key, 200): _safe(item, depth + 1) for key, item in value.items()}
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return [_safe(item, depth + 1) for item in value]
    return line(value, _LONGEST)
