"""The file that tells a team what becomes of its drops at this moment, as whoever waits reads it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME: Final = ".progress.json"
MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Now:
    """What is done with a drop: the stage, since when (Unix time); or its place among its team's that wait."""

    stage: str = ""
    since: float = 0.0
    position: int = 0
    waits: int = 0

    def words(self, team: str) -> str:
        """Return it in a few words."""
        if self.stage:
            return f"{self.stage} …"
        return f"waiting, number {self.position} of {self.waits} of team {team}"


def read(outbox: Path, team: str, drop: str) -> Now | None:
    """Return what the daemon last told of ``drop``; None where it tells nothing.

    The names in the file are the submitters'; nothing but one that equals ``drop`` comes out of here.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # what is no file makes nobody wait
    try:
        with os.fdopen(os.open(outbox / team / NAME, flags), "rb") as file:
            told = json.loads(file.read(MAX_BYTES) or b"")
        for one in told["working"]:
            if one["drop"] == drop:
                return Now(stage=str(one["stage"]), since=float(one["since"]))
        for one in told["waiting"]:
            if one["drop"] == drop:
                return Now(position=int(one["position"]), waits=int(told["waits"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return None


def elapsed(now: Now) -> float:
    """Return the seconds that the stage has taken so far."""
    return max(0.0, time.time() - now.since)
