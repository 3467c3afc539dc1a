"""The rooms of this host, attacked: the escape set and a small hostile set (``acceptd selftest``)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd import local
from acceptd.cell import escape
from acceptd.cell.client import Cell
from acceptd.cell.place import temporary_place
from acceptd.policy import load
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from acceptd.selftest_bundles import BUNDLES, Shipped, write

OVERRIDES: Final = (
    "limits.run_cpu_seconds=2",
    "limits.inspect_cpu_seconds=10",
    "limits.memory_bytes=402653184",
    "limits.wall_factor=20",
)
"""Short limits, so that the endless end soon; a busy host is given time."""
CONTROL: Final = "read its own model (must work)"
TOTAL: Final = 1 + len(escape.PROBES) + len(BUNDLES)


@dataclass(frozen=True, slots=True)
class Row:
    """One thing tried: ``held`` says whether ``got`` is as it must be."""

    group: str
    probe: str
    expected: str
    got: str
    held: bool


def attack() -> Iterator[Row]:
    """Try everything and yield a row for each as it ends. Raises CellUnavailableError where no cell starts."""
    yield from _escapes()
    yield from _hostile()


def _escapes() -> Iterator[Row]:
    with temporary_place("acceptd-selftest-") as home:
        sealed = home / "sealed"
        sealed.mkdir()
        escape.lay_out(sealed)
        with Cell(sealed, spare=True, testing=True) as cell:
            record = escape.attack(cell, "note(text=open('/m/model.onnx').read())")
            text = record.notes[0].facts.get("text") if record.notes else record.cause or record.message
            works = record.ending == "done" and text == escape.FILES["mine/model.onnx"]
            yield Row("control", CONTROL, "read", "read" if works else str(text), works)
            for got in escape.run_all(cell, escape.PROBES, escape.PLACES_INSIDE):
                yield Row(got.probe.group, got.probe.name, got.probe.ending, got.got, got.held)


def rules() -> Rules:
    """Return acceptd's built-in policy with the short limits; no file of this host has a part in it."""
    policy = load.with_overrides(Policy(), OVERRIDES)
    profile = Profile()
    return Rules(policy, load.digest(policy), profile, load.digest(profile), Path("/nonexistent"))


def _hostile() -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="acceptd-selftest-") as name,
        local.bench(rules(), cores=1, suite=True) as bench,
    ):
        for bundle in BUNDLES:
            yield _judged(bench, bundle, Path(name))


def _judged(bench: local.Bench, bundle: Shipped, directory: Path) -> Row:
    report = local.check_one(bench, write(bundle, directory))
    verdict = str(report["verdict"])
    grave = [str(one["code"]) for one in report["findings"] if one["severity"] in {"reject", "hold"}]
    named = next((code for code in grave if code in bundle.codes), grave[0] if grave else "")
    wanted = "rejected" if bundle.codes else "accepted"
    held = verdict == wanted and (not bundle.codes or named in bundle.codes)
    expected = f"{wanted}: {' or '.join(bundle.codes)}" if bundle.codes else wanted
    return Row("hostile models", bundle.name, expected, f"{verdict}: {named}" if named else verdict, held)
