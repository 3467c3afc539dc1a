"""The settings as they hold for one state directory: each key with its value and where that comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from acceptd.config import FILE, INSTALLED_STATE, NUMBERS, TEXTS, flat, load_with_sources

DEFAULT: Final = "default"
_BEYOND_KEYS: Final = ("ACCEPTD_STATE", "ACCEPTD_TRACEBACK", "ACCEPTD_FAILPOINT")
VARIABLES: Final = (*(f"ACCEPTD_{key.upper()}" for key in (*TEXTS, *NUMBERS)), *_BEYOND_KEYS)
"""Every variable that acceptd reads for itself."""


@dataclass(frozen=True, slots=True)
class Effective:
    """One key: its dotted name, its value as TOML and JSON know it, and its source.

    ``source`` is ``default``, ``acceptd.toml`` or the name of a variable.
    """

    key: str
    value: Any
    source: str


def settings_of(state: Path) -> list[Effective]:
    """Return every key of ``acceptd.toml`` as it holds for ``state``; ConfigError where one is refused."""
    settings, sources = load_with_sources(state)
    values = flat(settings.model_dump(mode="json"))
    return [Effective(key, value, sources.get(key, DEFAULT)) for key, value in values.items()]


def state_source(named: bool) -> str:
    """Return where the state directory's name comes from; ``named``: a command line named it."""
    if named:
        return "--state"
    if os.environ.get("ACCEPTD_STATE"):
        return "ACCEPTD_STATE"
    return f"{DEFAULT}: a checkout's var/, else {INSTALLED_STATE}"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like one of ours and that nothing reads: a slip, usually."""
    lines = []
    for name in sorted(environment):
        if name.startswith("ACCEPTD_") and name not in VARIABLES:
            near = get_close_matches(name, VARIABLES, n=1)
            lines.append(f"{name} is no variable of acceptd" + (f": {near[0]} is meant?" if near else ""))
    return lines


def as_toml(value: Any) -> str:
    """Return a value as one would write it in ``acceptd.toml``; whoever prints it escapes controls."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(as_toml(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {as_toml(one)}" for key, one in value.items()) + " }"
    return str(value)


__all__ = ["FILE", "Effective", "as_toml", "settings_of", "state_source", "unknown_variables"]
