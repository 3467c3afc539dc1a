"""How ``acceptd fleet status`` is shown: a screen of eighty columns, or JSON. Node names are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from acceptd.cli.tables import print_pairs, print_table
from acceptd.fleet.nodes import Node
from acceptd.fleet.standing import Facts, policy_of, serving, short, span, troubles
from acceptd.record.tables import STATES
from acceptd.report.escape import line, printable_data

_ORDER = {"promoter": 0, "all": 1, "intake": 2, "worker": 3}
_NAME = 40


def print_standing(out: Console, facts: Facts) -> None:
    """Print nodes, queues, submissions, and what stands still with its remedy."""
    if not facts.nodes:
        out.print("no node has ever beaten in this record: acceptd daemon --role ROLE", markup=False)
    statuses = [_status(node) for node in facts.nodes]
    counts = ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(sorted(statuses)))
    policy = policy_of(facts)
    pairs = [
        ("nodes", f"{len(facts.nodes)}: {counts}" if facts.nodes else "none"),
        ("policy", f"{short(policy)} (the promoter's)" if policy else "not known: no promoter says one"),
        ("schema", f"{facts.schema}"),
        ("states", _states(facts) or "no submission yet"),
    ]
    print_pairs(out, pairs)
    if facts.nodes:
        out.print()
        rows = [_row(node) for node in sorted(facts.nodes, key=_place)]
        print_table(out, ("node", "role", "status", "seen", "runs", "queues", "version"), rows, empty="")
    if facts.queues:
        out.print()
        rows = [_queue(facts, name) for name in facts.queues]
        print_table(out, ("queue", "waits", "runs", "oldest", "taken by"), rows, empty="")
    found = troubles(facts)
    out.print()
    out.print("stands still or differs" if found else "nothing stands still", markup=False)
    for one in found:
        print_pairs(out, [(f"  {line(one.what, _NAME)}", one.says)])
        print_pairs(out, [("    →", one.remedy)])


def as_json(facts: Facts) -> dict[str, Any]:
    """Return it as JSON data, every text one printable line."""
    body = {
        "policy": policy_of(facts),
        "schema": facts.schema,
        "nodes": [_json(node) for node in facts.nodes],
        "queues": [
            {"queue": name, **asdict(depth), "taken_by": [node.name for node in serving(facts, name)]}
            for name, depth in facts.queues.items()
        ],
        "states": {
            state: {"count": count, "oldest_s": _finite(oldest)} for state, (count, oldest) in facts.states.items()
        },
        "troubles": [asdict(one) for one in troubles(facts)],
    }
    safe: dict[str, Any] = printable_data(body)
    return safe


def _json(node: Node) -> dict[str, Any]:
    told = asdict(node.told)
    return told | {
        "status": node.status,
        "version": node.version,
        "schema": node.schema,
        "started_at": node.started_at,
        "seen_at": node.seen_at,
        "age_s": _finite(node.age),
        "draining": node.draining,
        "stopped": node.stopped,
    }


def _finite(seconds: float) -> float | None:
    """Return the seconds, None where nobody knows: JSON has no word for infinity."""
    return None if seconds == float("inf") else seconds


def _place(node: Node) -> tuple[int, str]:
    return _ORDER.get(node.told.role, 9), node.name


def _status(node: Node) -> str:
    return "stopped" if node.stopped else node.status


def _row(node: Node) -> Sequence[Any]:
    told = node.told
    return (
        line(node.name, _NAME),
        line(told.role, 16),
        _status(node),
        span(node.age).replace(" ", ""),
        f"{told.running}/{told.slots}" if told.slots else f"{told.running}",
        line(", ".join(told.queues), 80),
        line(node.version, 24),
    )


def _queue(facts: Facts, name: str) -> Sequence[Any]:
    depth = facts.queues[name]
    oldest = "" if depth.oldest is None else span(depth.oldest).replace(" ", "")
    takers = ", ".join(node.name for node in serving(facts, name)) or "nobody"
    return line(name, _NAME), depth.waiting, depth.running, oldest, line(takers, 120)


def _states(facts: Facts) -> str:
    known = [state for state in STATES if facts.states.get(state, (0, 0.0))[0]]
    return ", ".join(f"{state} {facts.states[state][0]}" for state in known)
