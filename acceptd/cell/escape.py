"""Runs the escape set in a cell: one job a probe, and what each got. Shared by ``tests/cell`` and ``selftest``."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.cell.client import Cell
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.cell.probes import PYTHON, Probe
from acceptd.cell.probes_calls import CALLS
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy
from acceptd.pool import Pool

PROBES: Final[tuple[Probe, ...]] = (*PYTHON, *CALLS) if platform.machine() == "x86_64" else PYTHON
BY_NAME: Final[Mapping[str, Probe]] = {probe.name: probe for probe in PROBES}

FILES: Final = {
    "mine/model.onnx": "my model",
    "mine/test_data_set_0/output_0.pb": "the expected output",
    "other/model.onnx": "another team's model",
}
"""Two submissions, one of which the attacker must not see."""

SIDE_BY_SIDE: Final = 12
"""So many that die by SIGSYS share one warm parent."""
MODULES: Final = "ctypes errno fcntl mmap os resource select signal socket struct threading time"

_LIMITS: Final = LimitsTable(
    run_cpu_seconds=1, wall_factor=20, memory_bytes=256 << 20, output_bytes=1 << 20, files=128, stderr_bytes=65_536
)


@dataclass(frozen=True, slots=True)
class Got:
    """What a probe met: an errno's name, ``SIGSYS``, a limit, or ``escaped``; ``held``: as it must be."""

    probe: Probe
    got: str
    held: bool


def lay_out(sealed: Path) -> None:
    """Write the two submissions below ``sealed``, readable as sealed files are."""
    sealed.chmod(0o755)
    for path, text in FILES.items():
        file = sealed / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.parent.chmod(0o755)
        file.write_text(text)
        file.chmod(0o644)


def places_outside(sealed: Path, scratch: Path) -> dict[str, str]:
    """Return the files as an attacker would name them on the host."""
    return {
        "model": str(sealed / "mine/model.onnx"),
        "other": str(sealed / "other/model.onnx"),
        "expected": str(sealed / "mine/test_data_set_0/output_0.pb"),
        "scratch": str(scratch),
    }


PLACES_INSIDE: Final = {
    "model": "/m/model.onnx",
    "other": "/sealed/other/model.onnx",
    "expected": "/sealed/mine/test_data_set_0/output_0.pb",
    "scratch": "/m",
}
"""As they would be named inside: the model in the job's root, the others where the warm parent has them."""

PLACES_STAGED: Final = {**PLACES_INSIDE, "model": "/sealed/mine/model.onnx", "scratch": "/tmp"}  # noqa: S108
"""As they are named where the wall ``root`` is off, so that the job stands in the warm parent's root."""


def places_with(walls_off: Sequence[str]) -> dict[str, str]:
    """Return the best names that an attacker has inside, with ``walls_off``."""
    return PLACES_STAGED if "root" in walls_off else PLACES_INSIDE


def program(source: str, places: Mapping[str, str]) -> str:
    """Return the whole program of a probe: it notes whether it escaped, and the refusal's name.

    Only an errno, or the memory and thread errors of the interpreter, count as a refusal: a probe that is
    wrong in itself ends as a job error, and that fails the test.
    """
    return "\n".join(
        [
            f"spec = {dict(places)!r}",
            "escaped = False; why = ''",
            "try:",
            textwrap.indent(source, "    "),
            "except OSError as error: why = errno.errorcode.get(error.errno, type(error).__name__)",
            "except (MemoryError, RuntimeError) as error: why = type(error).__name__",
            "note(escaped=escaped, why=why)",
        ]
    )


def limits() -> JobLimits:
    """Return the short limits under which a probe runs."""
    return job_limits("attack", _LIMITS)


def attack(cell: Cell, source: str, walls_off: Sequence[str] = ()) -> JobRecord:
    """Run attacker code in a job that may read its own model only."""
    return cell.run(
        "attack",
        files={"model.onnx": "mine/model.onnx"},
        spec={"source": source},
        limits=limits(),
        required_walls=[wall for wall in Policy().required_walls if wall not in walls_off],
        walls_off=walls_off,
    )


def run_probe(cell: Cell, probe: Probe, places: Mapping[str, str], walls_off: Sequence[str] = ()) -> Got:
    """Run one probe in a job, with walls off where a test wants that, and say what it got."""
    got = _met(attack(cell, program(probe.source, places), walls_off))
    held = got == probe.ending if probe.ending != "refused" else bool(got) and got.isalnum() and got != "escaped"
    return Got(probe, got, held)


def run_all(
    cell: Cell, probes: Iterable[Probe], places: Mapping[str, str], walls_off: Sequence[str] = ()
) -> Iterator[Got]:
    """Run ``probes`` side by side and yield what each got, as they end.

    Side by side because each death by SIGSYS costs the warm parent: jobs that run together share one.
    """
    with Pool(SIDE_BY_SIDE, "escape") as pool:
        futures = [pool.submit(run_probe, cell, probe, places, walls_off) for probe in probes]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _met(record: JobRecord) -> str:
    if any(note.facts.get("escaped") for note in record.notes):
        return "escaped"
    if record.ending == "done" and record.notes:
        return str(record.notes[0].facts.get("why", "")) or "no refusal"
    if record.ending in {"crash", "limit"}:
        return record.cause
    if record.refused is not None and record.refused.code == "resources/memory-limit":
        return "MemoryError"
    return f"{record.ending}: {record.cause or record.message}"
