"""``work.json``: what runs and waits in the daemon now, for ``acceptd status``; worth nothing after a restart."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final

from acceptd.work.admission import Admission
from acceptd.work.meter import Meter

NAME: Final = "work.json"
MOST_LANES: Final = 50


def of(admission: Admission, recording: int, meter: Meter) -> dict[str, Any]:
    """Return the snapshot. Called under the workers' lock; ``recording`` work has no lease any more."""
    now = time.monotonic()
    leases = sorted(admission.leases.values(), key=lambda lease: lease.number)
    lanes = sorted(admission.queue.lanes().items(), key=lambda item: -item[1])
    return {
        "budget": {
            "cores": admission.budget.capacity.cores,
            "memory_bytes": admission.budget.capacity.memory,
            "cores_held": admission.budget.held.cores,
            "memory_bytes_held": admission.budget.held.memory,
        },
        "queue": {
            "waiting": len(admission.queue),
            "limit": admission.limit,
            "lanes": [
                {"profile": profile, "team": team, "waiting": waiting}
                for (profile, team), waiting in lanes[:MOST_LANES]
            ],
        },
        "leases": [
            {
                "submission": lease.submission,
                "team": lease.team,
                "profile": lease.profile,
                "state": lease.state,
                "reason": lease.reason,
                "cores": lease.whole.cores,
                "memory_bytes": lease.whole.memory,
                "extras": len(lease.extras),
                "since_s": round(now - lease.granted.monotonic, 3),
                "in_state_s": round(now - lease.entered[lease.state].monotonic, 3),
                "deadline_in_s": round(lease.deadline - now, 1),
            }
            for lease in leases
        ],
        "recording": recording,
        "meter": meter.figures(now, {lease.number: lease.whole for lease in leases}),
    }


def write(state: Path, shown: dict[str, Any]) -> None:
    """Replace the file, without an fsync: after a power cut it says nothing any more."""
    body = json.dumps({"pid": os.getpid(), "written_at": round(time.time(), 3), **shown}, ensure_ascii=True)
    temporary = state / f".{NAME}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(body.encode() + b"\n")
    temporary.replace(state / NAME)


def read(state: Path, pid: int) -> dict[str, Any] | None:
    """Return what the running daemon ``pid`` last wrote; None where it wrote nothing (yet)."""
    try:
        found = json.loads((state / NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("pid") == pid else None
