"""Write ``docs/load.md`` and its pictures from ``bench/results/load.json``, which ``make soak-load`` measures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

from tools.gen_hostile_report import table
from tools.performance_plots import LEFT, RIGHT, number, picture, word

ROOT: Final = Path(__file__).resolve().parents[1]
FIGURES: Final = ROOT / "bench" / "results" / "load.json"
TEMPLATE: Final = ROOT / "bench" / "load" / "page.md"
PAGE: Final = ROOT / "docs" / "load.md"
IMAGES: Final = ROOT / "docs" / "images"
MIB: Final = 1 << 20
MOST_GROWTH: Final = 24 * MIB
"""As tests/load/samples.py, which ends a run where it is more."""
FAMILIES: Final = {
    "valid": "good: a classifier of its own", "version": "good: a later version of one that there is",
    "models": "good: two models together", "external": "good: weights in a file beside the model, up to 8 MiB",
    "archive": "good: .zip, .tar, .tar.gz", "again": "good: bytes that were dropped before",
    "lone": "good: the team that drops one at a time", "goldens": "wrong golden values",
    "drift": "another interface than its manifest's", "hostile": "the hostile catalogue",
    "no-manifest": "without a manifest", "wrong-team": "another team's model id",
    "copied": "half copied", "changing": "changing while it is sealed",
}  # fmt: skip
PROMISES: Final = (
    "One verdict of each drop, the one that it deserves, and each team was told what is on record.",
    "Nothing hostile was accepted; nothing was accepted with other bytes than were meant.",
    "The user on record is the one who dropped it; the ledger verifies.",
    "Memory of the daemon and of each process that lasts is within its bound; so are queue and write-ahead log.",
    "Teams were served in turns, and within a team first come, first served.",
    "At rest there are no more descriptors, threads, processes, mounts and names in shared memory than before.",
    "Inboxes, sealed copies and temporary files are empty; in quarantine is what a person must decide, no more.",
    "Stopped in order, it left no process.",
)
_COLOURS: Final = """.drawn, .drawn.bar { fill: none; stroke-width: 1.5; } .drawn.bar { stroke: var(--bar); }
.ink { stroke: var(--ink); } .grey { stroke: var(--soft); } .green { stroke: var(--good); }
"""
Row = dict[str, Any]


def _mib(value: float) -> str:
    return f"{value / MIB:.1f}"


def _turns(found: Row) -> list[str]:
    names = {"flood": "the one that floods", "lone": "one at a time", "others": "all others"}
    rows = [
        [said, one["drops"], one["waiting_mean"], one["passed_mean"], one["passed_most"]]
        for name, said in names.items()
        if (one := found[name])
    ]
    head = ["team", "drops", "waited when it came, mean", "others' judged before it, mean", "most"]
    return table(head, rows, "lc")


def _memory(found: Row) -> list[str]:
    rows = [
        [one["role"], _mib(one["first"]), _mib(one["last"]), _mib(one["last"] - one["first"]), _mib(one["most"]),
         f"{one['slope']:.0f}"]
        for one in found["growth"]
    ]  # fmt: skip
    head = [
        "process",
        "second quarter, MiB",
        "last quarter, MiB",
        "growth",
        "most",
        "bytes a verdict, least squares",
    ]
    return table(head, rows, "lc")


def _each(counted: Row) -> str:
    return ", ".join(f"{number} {name}" for name, number in counted.items())


def _cost(found: Row) -> str:
    """Return what the drops cost, and how that was counted."""
    how = {
        "group": "counted by the kernel for a control group of its own, the dead too",
        "tree": "at least: without a control group, what died unwaited for is not counted",
    }[found["processor_by"]]
    return (
        f"All but the first dozen took {found['processor_s']:,.0f} s of processor time, cells and all ({how}): "
        f"**{found['per_processor_s']} drops a second of one core**."
    )


def page(found: Row) -> str:
    """Return the page for these figures."""
    kept = found["state_bytes"]
    host = found["host"]
    whole = found["drops"] == found["wanted"]
    values = {
        "drops": f"{found['drops']:,}", "wanted": f"{found['wanted']:,}",
        "short": "" if whole else "; the time that it was given was over before the rest came",
        "teams": found["teams"], "users": found["users"], "parts": found["parts"],
        "backlog": found["backlog"], "queue": found["queue_limit"], "lanes": found["lanes"],
        "load": host["load"],
        "host": f"{host['date']}, {host['cores']} cores, Linux {host['kernel']}, Python {host['python']},"
                f" seed {found['seed']}.",
        "families": "\n".join(table(
            ["drops", "what"], ([found["families"][name], said] for name, said in FAMILIES.items()
                                if found["families"].get(name)), "cl")),
        "verdicts": "Verdicts: " + _each(found["verdicts"]) + ".",
        "unwhole": _each(found["unwhole"]) or "none",
        "promises": "\n".join(f"- {one}" for one in PROMISES),
        "turns": "\n".join(_turns(found)), "index": found["index"], "claimed": found["claimed_after_most"],
        "memory": "\n".join(_memory(found)), "most_growth": MOST_GROWTH // MIB,
        "together": f"{found['together_most'] / MIB:,.0f}",
        "descriptors": found["descriptors_most"], "threads": found["threads_most"],
        "processes": sum(found["processes_most"].values()),
        "sealed": found["sealed_most"], "log": _mib(found["log_most"]),
        "ledger": found["ledger_bytes_each"] // 1000, "outbox": kept["outbox"] // found["drops"] // 1000,
        "cost": _cost(found), "harness": f"{found['harness_s']:,.0f}",
    }  # fmt: skip
    return Template(TEMPLATE.read_text("utf-8")).substitute(values)


def _line(points: Sequence[tuple[float, float]], across: Callable[[float], float], up: Callable[[float], float],
          kind: str) -> str:  # fmt: skip
    path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in points)
    return f'<path class="drawn {kind}" d="M{path}"/>'


def _chart(title: str, unit: str, lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Return one chart of lines over the verdicts, each named at its end, below one another."""
    top, height = 52.0, 150.0
    far = max(x for _, points in lines for x, _ in points) or 1.0
    high = max(y for _, points in lines for _, y in points) or 1.0
    drawn = [word(LEFT, 18, title, "head"), word(LEFT, 36, f"{unit}, up to {number(high)}", "soft")]

    def across(x: float) -> float:
        return LEFT + x / far * (RIGHT - LEFT)

    def up(y: float) -> float:
        return top + height - y / high * height

    for share in (0.0, 0.5, 1.0):
        drawn.append(f'<path class="rule" d="M{LEFT} {up(high * share):.1f}H{RIGHT}"/>')
    marks = ("ink", "bar", "green", "grey")
    for (_, points), kind in zip(lines, marks, strict=False):
        drawn.append(_line(points, across, up, kind))
    y = top + height + 16
    drawn += [word(LEFT, y, "0 verdicts", "soft"), word(RIGHT, y, f"{far:,.0f}", "end", "soft")]
    for (name, points), kind in zip(lines, marks, strict=False):
        y += 17
        drawn.append(f'<path class="drawn {kind}" d="M{LEFT} {y - 4:.1f}H{LEFT + 14}"/>')
        drawn.append(word(LEFT + 20, y, name))
        drawn.append(word(RIGHT, y, f"{number(max(value for _, value in points))} at most", "end", "soft"))
    return picture(title, y + 12, drawn).replace("</style>", f"{_COLOURS}</style>")


def pictures(found: Row) -> dict[str, str]:
    """Return each picture by its name."""
    series = found["series"]
    roles = [one["role"] for one in found["growth"]]
    memory = [
        (role, [(one["verdicts"], one["held"][role] / MIB) for one in series if role in one["held"]])
        for role in roles
    ]
    queue = [
        ("all that wait for a verdict", [(one["verdicts"], one["waiting"]) for one in series]),
        ("of those in the daemon's memory", [(one["verdicts"], one["queue"]) for one in series]),
    ]
    return {
        "load-memory.svg": _chart("Memory of its own of each process that lasts", "MiB", memory),
        "load-queue.svg": _chart("Drops that wait", "drops", queue),
    }


def main() -> int:
    """Write the page and its pictures."""
    found = json.loads(FIGURES.read_text("utf-8"))
    PAGE.write_text(page(found), "utf-8")
    for name, drawn in pictures(found).items():
        (IMAGES / name).write_text(drawn, "utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
