"""Who needs whom of the packages that the wheel needs at run time, as JSON: ``python -m tools.wheel_needs``.

Runs in ``.venv``, whose interpreter and platform decide the markers. An extra counts only where somebody asks for
it: a graph that follows every extra that happens to be installed would put pip and pytest into the wheel's SBOM.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parents[1]


def _wanted(texts: Iterable[str], extras: Iterable[str]) -> list[Requirement]:
    """Return the requirements that hold here, for a package that is asked for with ``extras``."""
    found = map(Requirement, texts)
    asked = ["", *extras]
    return [one for one in found if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in asked)]


def graph(root: str, needs: Iterable[str], requires: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """Return canonical names to the canonical names that each needs; ``requires`` gives Requires-Dist."""
    found: dict[str, set[str]] = {root: set()}
    done: set[tuple[str, str]] = set()
    pending = [(root, one) for one in _wanted(needs, ())]
    while pending:
        parent, one = pending.pop()
        name = canonicalize_name(one.name)
        found[parent].add(name)
        found.setdefault(name, set())
        for extra in ("", *one.extras):
            if (name, extra) not in done:
                done.add((name, extra))
                pending += [(name, further) for further in _wanted(requires(name), [extra])]
    return {name: sorted(found[name]) for name in sorted(found)}


def main() -> int:
    """Print the graph."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]
    json.dump(
        graph(project["name"], project["dependencies"], lambda name: distribution(name).requires or []), sys.stdout
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
