"""How holds of channels and releases are told: as one line, and as JSON data."""

from __future__ import annotations

from typing import Any

from acceptd.release.holds import Hold


def held_line(one: Hold) -> str:
    """Return a hold as one line, not yet escaped."""
    where = f"{one.model_id or 'all models'} {one.channel}"
    what = f" {one.digest[:12]}" if one.digest else ""
    by = f" by {one.by}" if one.by else ""
    return f"{where}{what} since {one.at}{by} (entry {one.seq}): {one.reason}"


def held_json(one: Hold) -> dict[str, Any]:
    """Return a hold as JSON data; ``model_id`` is null where a channel of all models is frozen."""
    found = {"channel": one.channel, "reason": one.reason, "by": one.by, "at": one.at, "entry": one.seq}
    return {"model_id": one.model_id or None, "bundle_digest": one.digest or None, **found}
