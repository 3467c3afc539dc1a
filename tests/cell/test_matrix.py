"""Which wall stops which probe: each inner wall alone, and all of them but one.

``acceptd/cell/probes_walls.py`` declares every wall that stops a probe alone; here the kernel is asked.
The table is printed with ``-s``; docs/escape-probes.md shows it (``tools/gen_probes.py``, held by a unit test).
"""

from __future__ import annotations

import os

import pytest

from acceptd.cell import escape
from acceptd.cell.client import Cell
from acceptd.cell.probes import GROUPS, Probe
from acceptd.cell.probes_walls import OUTER, SWITCHED, walls_of
from tools.gen_probes import group_table

pytestmark = pytest.mark.cell

# A death by SIGSYS costs a warm parent: with seccomp on, these few stand for all that are killed by number.
SAMPLE = {"call ptrace", "call mount", "call unshare", "call execve"}


def credit(probe: Probe) -> tuple[str, ...]:
    """Return the walls declared for whoever started this."""
    return walls_of(probe, owner=os.getuid() != 0)


def run(cell: Cell, off: list[str]) -> dict[str, escape.Got]:
    """Run every probe with ``off`` switched off; fatal calls by sample where seccomp is on."""
    probes = [
        probe for probe in escape.PROBES if "seccomp" in off or probe.ending != "SIGSYS" or probe.name in SAMPLE
    ]
    return {got.probe.name: got for got in escape.run_all(cell, probes, escape.places_with(off), off)}


@pytest.fixture(scope="module")
def bare(cell: Cell) -> dict[str, escape.Got]:
    """Every probe with all inner walls off: what gets further here is stopped by an inner wall, or by nothing."""
    return run(cell, list(SWITCHED))


def has_control(probe: Probe) -> bool:
    """Whether the kernel itself lets an ordinary user's job get that far in its own namespaces."""
    return OUTER not in credit(probe)


def test_without_the_inner_walls_the_probes_get_further(bare: dict[str, escape.Got]) -> None:
    stopped = [got for got in bare.values() if has_control(got.probe) and got.got != "escaped"]
    assert not stopped, "a wall is credited with what something else stops"


def test_the_outer_walls_hold_alone(bare: dict[str, escape.Got]) -> None:
    escaped = {name for name, got in bare.items() if not has_control(got.probe) and got.got == "escaped"}
    assert not escaped


@pytest.mark.parametrize("wall", SWITCHED)
def test_each_wall_alone_stops_what_it_is_credited_with(
    wall: str, cell: Cell, bare: dict[str, escape.Got]
) -> None:
    seen = run(cell, [other for other in SWITCHED if other != wall])
    credited = {name for name, got in seen.items() if wall in credit(got.probe)}
    escaped = {name for name, got in seen.items() if got.got == "escaped"}
    assert credited, f"no probe proves the wall {wall}"
    assert not credited & escaped
    stops = {name for name in seen if bare[name].got == "escaped" and name not in escaped}
    if wall == "landlock":  # without the private root it lets a job read nothing at all, its own model neither
        stops = {name for name in stops if "os.open(spec['model']" not in escape.BY_NAME[name].source}
    assert stops == credited, "docs/escape-probes.md would leave something out"


@pytest.mark.parametrize("wall", SWITCHED)
def test_with_one_wall_off_the_others_hold_what_they_cover(wall: str, cell: Cell) -> None:
    seen = run(cell, [wall])
    escaped = {name for name, got in seen.items() if got.got == "escaped"}
    only = {probe.name for probe in escape.PROBES if credit(probe) == (wall,)}
    assert escaped <= only, "more than this wall's own share got through"
    if wall in {"root", "seccomp"}:
        assert escaped, "the wall is said to be needed and is not"
    groups = {escape.BY_NAME[name].group for name in escaped}
    print(
        f"\n{wall} off: {len(escaped)} of {len(seen)} get further; groups: {', '.join(sorted(groups)) or 'none'}"
    )


def test_every_group_is_in_the_table() -> None:
    table = group_table()
    print("\n" + table)
    assert all(f"| {group} |" in table for group in GROUPS)
