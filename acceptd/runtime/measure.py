"""One profile as it really is: validated, its parent started in the cell and measured, its pins compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acceptd.cell.client import Cell
from acceptd.errors import CellUnavailableError, ConfigError
from acceptd.policy.load import load_reduced, named_profile
from acceptd.policy.profile import Profile, is_library_name
from acceptd.runtime import cpu, operators
from acceptd.runtime.identity import RuntimeRecord, identity, record_of
from acceptd.runtime.interpreter import examine
from acceptd.runtime.pins import Difference, basename, differences


@dataclass(frozen=True, slots=True)
class Measured:
    """One profile: what it asks for, and what its warm parent is; without a record, why there is none."""

    profile: Profile
    record: RuntimeRecord | None = None
    problem: str = ""
    different: tuple[Difference, ...] = ()
    refused: bool = False
    """The profile's file itself is refused: ``profile`` then has its name and nothing else."""

    @property
    def identity(self) -> str:
        """The runtime identity, empty without a record."""
        return identity(self.record) if self.record is not None else ""


def validated(path: Path) -> Profile:
    """Return the profile of a file, with everything compared that needs no process of the cell.

    Raises ConfigError: beside what loading refuses, a digest that differs, an interpreter that does not start
    or lacks a module, two distributions that provide onnxruntime, or another version than the named one.
    """
    profile = named_profile(path)
    load_reduced(profile, str(path))
    try:
        operators.check([operators.Listed(one.path, one.sha256) for one in profile.custom_operators])
        interpreter = examine(profile.interpreter)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", remedy=error.remedy) from error
    found = interpreter.onnxruntime
    if profile.onnxruntime and found and found != profile.onnxruntime:
        raise ConfigError(
            f"{path}: onnxruntime: {interpreter.path} has {found}, the profile names {profile.onnxruntime}",
            remedy=f"install onnxruntime=={profile.onnxruntime} there, or name {found}",
        )
    return profile


def measure(cell: Cell, profiles: Sequence[Profile]) -> Iterator[Measured]:
    """Yield each profile as its own warm parent in ``cell`` is; one that cannot be started does not end it."""
    for profile in profiles:
        try:
            facts = cell.facts(profile)
        except (CellUnavailableError, ConfigError) as error:
            yield Measured(profile, problem=str(error))
            continue
        record = record_of(facts, profile, cpu.host())
        found = differences(profile.libraries, facts.libraries, profile.onnxruntime, facts.onnxruntime)
        yield Measured(profile, record, "", found)


def pin_table(measured: Measured) -> str:
    """Return the TOML table ``[libraries]`` of the profile as its parent is.

    Raises ConfigError: the parent cannot be measured, or two of its libraries share a name that TOML has once.
    """
    record, profile = measured.record, measured.profile
    if record is None:
        raise ConfigError(f"profile {profile.name}: {measured.problem}")
    table: dict[str, str] = {}
    for one in record.libraries:
        if not is_library_name(one.name) or table.setdefault(basename(one.name), one.sha256) != one.sha256:
            raise ConfigError(
                f"profile {profile.name}: the library name {one.name!r} cannot be pinned: it is mapped twice with "
                "different bytes, or is no plain file name",
                remedy="find out who maps it, with /proc/PID/maps of the warm parent",
            )
    head = f"# {profile.name} as it is: onnxruntime {record.onnxruntime}, Python {record.python}, {record.machine}"
    lines = [f"{json.dumps(name)} = {json.dumps(sha256)}" for name, sha256 in sorted(table.items())]
    return "\n".join([head, "[libraries]", *lines, ""])
