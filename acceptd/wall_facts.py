"""Which walls stood around the jobs of a submission: the worst state of each, on the host and in any job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from acceptd.evidence import JobRecord


def standing(
    states: Mapping[str, str], notes: Mapping[str, str], jobs: Iterable[JobRecord]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return states and notes of all walls; ``states`` and ``notes`` are the host's own."""
    worst, why = dict(states), dict(notes)
    for record in jobs:
        walls = record.walls
        for name, state in (walls.states if walls else {}).items():
            if worst.get(name, "enforced") == "enforced":
                worst[name] = state
                if walls is not None and name in walls.notes:
                    why[name] = walls.notes[name]
    return worst, why
