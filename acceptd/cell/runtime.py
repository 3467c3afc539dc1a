"""The runtimes of this host for ``acceptd doctor``: acceptd's own, and that of each profile in use."""

from __future__ import annotations

from collections.abc import Sequence

from acceptd.cell.check import Check
from acceptd.cell.client import Cell
from acceptd.cell.supply import CPU, Kind, kind_of
from acceptd.errors import AcceptdError
from acceptd.policy.profile import Profile
from acceptd.runtime import cpu, pins


def checks(cell: Cell, profiles: Sequence[Profile]) -> list[Check]:
    """Return what acceptd's own warm parent and the profiles' are; never raises for one that is missing."""
    found = [*_quiet(cell)]
    for profile in profiles:
        try:
            found.append(_runtime(cell, profile))
        except AcceptdError as error:
            meaning = f"the runtime of profile {profile.name} can be used here"
            remedy = getattr(error, "remedy", "") or "correct the profile or its environment"
            found.append(Check(f"runtime {profile.name}", "failed", meaning, str(error), remedy))
    return found


def _quiet(cell: Cell) -> list[Check]:
    told = cell.told()
    quiet, one = told.telemetry == "1", told.threads == 1
    versions = ", ".join(f"{name} {version}" for name, version in sorted(told.versions().items()))
    return [
        Check(
            "telemetry",
            "enforced" if quiet else "failed",
            "onnxruntime sends nothing: it is on by default in the Linux wheel",
            "ORT_DISABLE_TELEMETRY=1 in the cell" if quiet else "on",
            "" if quiet else "report it",
        ),
        Check(
            "threads",
            "enforced" if one else "failed",
            "the warm parent has one thread, so that forking it is safe",
            f"{told.threads} thread; {versions}",
            "" if one else "report it",
        ),
    ]


def providers_used(profile: Profile, available: Sequence[str]) -> str:
    """Say which providers a run uses, and which the build merely has."""
    names = [*profile.providers, *([CPU] if profile.allow_cpu_fallback and CPU not in profile.providers else [])]
    used = [name for name in names if name in available]
    spare = [name for name in available if name not in used]
    words = f"uses {', '.join(used) or 'no provider'}"
    return f"{words} (in the build, not used: {', '.join(spare)})" if spare else words


def _runtime(cell: Cell, profile: Profile) -> Check:
    told, facts = cell.told(profile), cell.facts(profile)
    differences = pins.differences(profile.libraries, facts.libraries, profile.onnxruntime, facts.onnxruntime)
    wrong = [one.sentence() for one in differences]
    absent = [name for name in profile.providers if name not in facts.available_providers]
    if absent and not profile.allow_cpu_fallback:
        wrong.append(f"{', '.join(absent)} is not in this build")
    if told.threads != 1 or told.telemetry != "1":
        wrong.append(f"{told.threads} threads, telemetry {'off' if told.telemetry == '1' else 'on'}")
    whose = "its own interpreter" if kind_of(profile) != Kind() else "acceptd's interpreter"
    seen = [
        f"onnxruntime {facts.onnxruntime} of {facts.distribution or 'no known distribution'} in {whose}",
        providers_used(profile, facts.available_providers),
        f"{told.threads} thread, telemetry off" if told.telemetry == "1" else "telemetry on",
        f"{len(facts.libraries)} mapped files, {'pinned' if profile.libraries else 'not pinned'}",
        f"processor {cpu.host()}",
    ]
    return Check(
        f"runtime {profile.name}",
        "failed" if wrong else "enforced",
        f"runs under profile {profile.name} use this and nothing else",
        "; ".join([*wrong, *seen]),
        "`acceptd profile pin` prints the pins as they are now; restore what was changed" if wrong else "",
    )
