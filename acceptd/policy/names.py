"""The one grammar of team, model and channel names, of digests and of paths in a bundle (design, section 1)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final

from pydantic import AfterValidator, Field

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?", re.ASCII)
MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
RESERVED: Final = frozenset({"current"})


def valid_name(value: str) -> str:
    """Return ``value`` if it is a name; raise ValueError with the grammar otherwise."""
    if not NAME.fullmatch(value):
        raise ValueError(
            f"{value[:80]!r} is no name: 1 to 64 of a-z, 0-9, _ and -, beginning and ending with a letter or digit"
        )
    if value in RESERVED:
        raise ValueError(f"{value!r} is a reserved name")
    return value


def valid_model_id(value: str) -> str:
    """Return ``value`` if it is ``<team>/<name>``; raise ValueError otherwise."""
    team, slash, name = value.partition("/")
    if not slash:
        raise ValueError(f"{value[:140]!r} is no model id: <team>/<name> is needed")
    valid_name(team)
    valid_name(name)
    return value


def valid_sha256(value: str) -> str:
    """Return ``value`` if it is 64 lowercase hex digits; raise ValueError otherwise."""
    if not SHA256.fullmatch(value):
        raise ValueError("a SHA-256 digest is 64 lowercase hexadecimal digits")
    return value


def relative_path(value: str) -> str:
    """Return ``value`` if it is a path inside a bundle; raise ValueError otherwise."""
    parts = value.split("/")
    if (
        not value
        or value.startswith("/")
        or "\\" in value
        or "\0" in value
        or any(part in {"", ".", ".."} for part in parts)
    ):
        raise ValueError(f"{value[:200]!r} is no path inside the bundle")
    return value


def valid_moment(value: str) -> str:
    """Return ``value`` if it is a real moment, UTC, RFC 3339, to the second; raise ValueError otherwise."""
    try:
        if not MOMENT.fullmatch(value):
            raise ValueError(value)
        datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"{value[:40]!r} is no time of the form 2027-06-30T00:00:00Z (UTC)") from error
    return value


def seconds_until(moment: str, now: str) -> float:
    """Return the seconds from one moment to another, negative where it has passed."""
    return (datetime.fromisoformat(moment) - datetime.fromisoformat(now)).total_seconds()


Name = Annotated[str, Field(max_length=64), AfterValidator(valid_name)]
ModelId = Annotated[str, Field(max_length=129), AfterValidator(valid_model_id)]
Sha256 = Annotated[str, Field(max_length=64), AfterValidator(valid_sha256)]
Moment = Annotated[str, Field(max_length=20), AfterValidator(valid_moment)]
BundlePath = Annotated[str, Field(max_length=1024), AfterValidator(relative_path)]
