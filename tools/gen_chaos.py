"""Write ``docs/chaos.md`` from the runs of ``make chaos`` that are kept below ``bench/chaos/``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

from tools.gen_hostile_report import table, text

ROOT: Final = Path(__file__).resolve().parents[1]
RUNS: Final = ROOT / "bench" / "chaos"
PAGE: Final = ROOT / "docs" / "chaos.md"
KILLS: Final = 1000
FAULTS: Final = 200
"""What has to be reached, with every promise holding each time."""
Run = dict[str, Any]


def runs(directory: Path = RUNS) -> list[Run]:
    """Return the kept runs, the earliest first."""
    found = [json.loads(path.read_text("utf-8")) for path in directory.glob("*.json")]
    return sorted(found, key=lambda run: (run["began"], run["seed"]))


def kinds(kept: Sequence[Run]) -> dict[str, Counter[str]]:
    """Return the counts of each kind over all runs."""
    found: dict[str, Counter[str]] = {}
    for run in kept:
        for name, kind in run["kinds"].items():
            counted = {one: kind[one] for one in ("count", "kills", "broken", "not_done")}
            found.setdefault(name, Counter()).update(counted)
    return dict(sorted(found.items()))


def _outcomes(kept: Sequence[Run]) -> list[str]:
    ends: dict[str, Counter[str]] = {}
    for run in kept:
        for name, kind in run["kinds"].items():
            for word, count in kind["outcomes"].items():
                if not name.startswith("kill -9") and not word.startswith("not done"):
                    end = "ended" if "ended with" in word else "went on"
                    ends.setdefault(name, Counter())[end] += count
    rows = [(text(name), count["went on"] or "", count["ended"] or "") for name, count in sorted(ends.items())]
    return table(("fault", "the daemon went on", "it ended, and another took up"), rows, "lcc")


def _found(kept: Sequence[Run]) -> list[str]:
    lines = [
        f"- {text(name)} (seed {run['seed']}): {text(words.splitlines()[0][:300])}"
        for run in kept
        for name, kind in run["kinds"].items()
        for words in kind["what_broke"]
    ]
    return ["## What did not hold", "", *lines] if lines else []


def _runs(kept: Sequence[Run]) -> list[str]:
    rows = [
        (
            run["seed"], f"{run['began'][:16].replace('T', ' ')} UTC", run["kills"], run["faults"], run["broken"],
            f"{run['seconds'] // 60} min", run["versions"]["commit"][:12],
        )
        for run in kept
    ]  # fmt: skip
    host, versions = kept[-1]["host"], kept[-1]["versions"]
    named = ", ".join(f"{name} {versions[name]}" for name in ("onnxruntime", "onnx", "numpy", "SQLAlchemy"))
    words = [
        f"{host['kernel']}, {host['cores']} cores, as {'root' if host['root'] else 'an ordinary user'}",
        f"Python {versions['python']}, SQLite {versions['sqlite']}, {named}",
        f"{versions['strace']}; {versions['bubblewrap']}; {host['compiler']}",
    ]
    head = ("seed", "began", "kills", "faults", "broken", "took", "commit")
    return [*table(head, rows, "lc"), "", *(f"- {text(word)}" for word in words)]


def _since(kept: Sequence[Run]) -> str:
    """Return what the runs after the last one that broke something came to."""
    last = max((number for number, run in enumerate(kept) if run["broken"]), default=-1)
    after = kept[last + 1 :]
    if last < 0 or not after:
        return ""
    kills, faults = (sum(run[one] for run in after) for one in ("kills", "faults"))
    seeds = ", ".join(str(run["seed"]) for run in after)
    measure = "" if kills < KILLS or faults < FAULTS else f" That is the measure: {KILLS:,} and {FAULTS}."
    return f"**Since then (seeds {seeds}): {kills:,} kills and {faults} faults, and all of it held.**{measure}"


def page(kept: Sequence[Run], promises: Sequence[str]) -> str:
    """Return the page."""
    counted = kinds(kept)
    total = sum(counted.values(), Counter[str]())
    rows = [
        (text(name), one["count"], one["kills"] or "", one["broken"], one["not_done"] or "")
        for name, one in counted.items()
    ]
    broken = "**Each time all of it held.**" if total["broken"] == 0 else (
        f"**{total['broken']} times something did not hold; what it was stands below.**"
    )  # fmt: skip
    kills, faults = (sum(run[one] for run in kept) for one in ("kills", "faults"))
    short = (
        f"The measure is {KILLS:,} kills and {FAULTS} faults: **these runs fall short of it.**"
        if kills < KILLS or faults < FAULTS
        else ""
    )
    values = {
        "short": short,
        "since": _since(kept),
        "kills": f"{kills:,}",
        "faults": f"{faults:,}",
        "drops": f"{sum(run['drops'] for run in kept):,}",
        "broken": broken,
        "promises": "\n".join(f"- {one}." for one in promises),
        "table": "\n".join(table(("what", "times", "kills", "broken", "not done"), rows, "lc")),
        "outcomes": "\n".join(_outcomes(kept)),
        "found": "\n".join(_found(kept)),
        "runs": "\n".join(_runs(kept)),
    }
    made = Template((RUNS / "page.md").read_text("utf-8")).substitute(values)
    while "\n\n\n" in made:
        made = made.replace("\n\n\n", "\n\n")
    return made


def main() -> int:
    """Write the page."""
    from tests.crash.chaos.invariants import PROMISES

    PAGE.write_text(page(runs(), PROMISES), "utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
