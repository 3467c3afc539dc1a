"""``acceptd policy check``: what one file is, and everything that is wrong with it and with what it names."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from acceptd.errors import ConfigError
from acceptd.judge.operator_versions import VERSIONS
from acceptd.policy.contract import Contract
from acceptd.policy.defaults import ContractDefaults
from acceptd.policy.lines import Place, line_of
from acceptd.policy.load import (
    MAX_BYTES,
    load_contract,
    load_default,
    load_profile,
    load_reduced,
    named_profile,
    read_table,
)
from acceptd.policy.manifest import Table
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reviewers import Reviewers
from acceptd.policy.troubles import Source, Trouble, closest, read
from acceptd.policy.trusted import read_trusted

Kind = Literal["policy", "contract", "defaults", "profile", "reviewers"]
KINDS: Final[dict[Kind, type[Table]]] = {
    "policy": Policy,
    "contract": Contract,
    "defaults": ContractDefaults,
    "profile": Profile,
    "reviewers": Reviewers,
}


def examine(path: Path, kind: Kind | None = None) -> tuple[Kind, list[Trouble]]:
    """Return what a file is, and everything that is wrong with it. Raises ConfigError where it cannot be read.

    ``kind`` None: as its place says (``profiles/``, ``contracts/<team>/``), else as its keys say.
    """
    source = read(read_trusted(path, MAX_BYTES, "a TOML file"))
    kind = kind or _kind(path, source)
    if isinstance(source, Trouble):
        return kind, [source]
    table, troubles = read_table(path, KINDS[kind])
    if table is None or troubles:
        return kind, troubles
    try:
        if isinstance(table, Policy):
            if unknown := _operators(source, table):
                return kind, unknown
            _named(path, table)
        elif isinstance(table, Profile):
            placed = path.parent.name == "profiles" and path.suffix == ".toml"
            load_reduced((named_profile if placed else load_profile)(path), str(path))
        elif isinstance(table, Contract) and path.parent.parent.name == "contracts" and path.suffix == ".toml":
            load_contract(path.parent.parent, f"{path.parent.name}/{path.stem}")
        elif isinstance(table, ContractDefaults):
            load_default(path)
    except (ConfigError, ValueError) as error:
        words = error.message if isinstance(error, ConfigError) else str(error)
        key, _, message = words.removeprefix(f"{path}: ").partition(": ")
        remedy = error.remedy if isinstance(error, ConfigError) else ""
        place = source.place(key)
        at = line_of(source.lines, place)
        return kind, [Trouble(at, key if message else "", message or words, remedy)]
    return kind, []


def _named(path: Path, policy: Policy) -> None:
    """Raise ConfigError, with the key, where a profile of a policy in its directory is missing or refused."""
    for name in (*policy.profiles, *policy.optional_profiles):
        key = "profile" if len(policy.profiles) == 1 else "profiles"
        if name in policy.optional_profiles:
            key = "optional_profiles"
        profile = path.parent / "profiles" / f"{name}.toml"
        if profile.exists():
            try:
                named_profile(profile)
            except ConfigError as error:
                raise ConfigError(f"{path}: {key}: {error.message}", remedy=error.remedy) from error
        elif name != "cpu":
            remedy = "write it, or name another profile"
            raise ConfigError(f"{path}: {key}: there is no {profile}", remedy=remedy)


def _operators(source: Source, policy: Policy) -> list[Trouble]:
    """Return the named operators that ONNX never defined, in the domains whose operators are known."""
    named: list[tuple[Place, str]] = [
        (("operators", key, index), name)
        for key, names in (("allowed", policy.operators.allowed), ("denied", policy.operators.denied))
        for index, name in enumerate(names)
    ]
    named += [(("operators", "limits", name), name) for name in policy.operators.limits]
    found = []
    for place, name in named:
        domain, _, operator = name.partition("::")
        known = VERSIONS.get(domain)
        if known is None or operator in known or operator == "*":
            continue
        near = closest(operator, list(known))
        homes = [other for other, names in VERSIONS.items() if operator in names]
        hint = f"{homes[0]}::{operator}" if homes else f"{domain}::{near}" if near else ""
        remedy = f"did you mean {hint}?" if hint else "take it out, or name its own domain"
        found.append(source.trouble(place, f"ONNX has no operator {name}", remedy))
    return sorted(found)


def _kind(path: Path, source: Source | Trouble) -> Kind:
    if path.parent.name == "profiles":
        return "profile"
    if path.parent.parent.name == "defaults" and path.parent.parent.parent.name == "contracts":
        return "defaults"
    if path.parent.parent.name == "contracts" and not _of_policies(source):
        return "contract"
    if path.name == "reviewers.toml":
        return "reviewers"
    if isinstance(source, Source):
        if "id" in source.document and "models" in source.document:
            return "contract"
        if source.document.keys() & {"providers", "interpreter", "optimisation", "session_entries"}:
            return "profile"
        if "reviewers" in source.document:
            return "reviewers"
    return "policy"


def _of_policies(source: Source | Trouble) -> bool:
    """Say whether keys are those of a policy: a policy directory may itself lie in one named ``contracts``."""
    keys = {"required_walls", "limits", "profile", "profiles", "operators"}
    return isinstance(source, Source) and bool(source.document.keys() & keys)
