"""How holds of channels and releases, and revocations, are told: in lines, and as JSON data."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from acceptd.release.holds import Hold
from acceptd.release.revoke import Revocation
from acceptd.report.escape import line


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


def print_revoked(out: Console, digest: str, done: Revocation) -> None:
    """Print what a revocation did."""
    out.print(f"revoked {digest[:12]}: the list is number {done.number} now", markup=False)
    for made in done.rollbacks:
        name = f"{made.model_id} {made.channel}"
        out.print(f"  {name} is now {made.number} ({made.bundle_digest[:12]})", markup=False)
    for model, channel in done.stranded:
        text = f"  {model} {channel} still names it: loaders refuse until another release is promoted"
        out.print(text, markup=False)
    for problem in done.problems:
        out.print(f"  problem: {line(problem)}", markup=False)
