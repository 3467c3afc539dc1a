"""Load what the operator wrote: policies, contracts, profiles.

These are TOML files of the acceptor, read by the trusted side, and only if nobody else can write
them; a submitter's TOML is only ever read in the cell.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import rfc8785
from pydantic import BaseModel

from acceptd.errors import ConfigError, UsageError
from acceptd.judge.codes import CODES, may_override
from acceptd.judge.finding import SEVERITY_ORDER
from acceptd.policy import tomlfile
from acceptd.policy.contract import Contract
from acceptd.policy.defaults import ContractDefaults
from acceptd.policy.lines import Place
from acceptd.policy.manifest import Table
from acceptd.policy.names import valid_model_id
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import Reduced, parse_reduced
from acceptd.policy.reviewers import Reviewers
from acceptd.policy.troubles import Trouble, dotted, first, read, validated
from acceptd.policy.troubles import all_keys as all_keys
from acceptd.policy.troubles import keys_of as keys_of
from acceptd.policy.trusted import check_file, check_interpreter, check_owner, read_trusted

MAX_BYTES: Final = 1 << 20
T = TypeVar("T", bound=Table)


def digest(table: Table) -> str:
    """Return the SHA-256 (64 lowercase hex digits) of the RFC 8785 form of a validated table.

    Defaults are filled in first: two files that mean the same have one digest.
    """
    return hashlib.sha256(rfc8785.dumps(table.model_dump(mode="json", by_alias=True))).hexdigest()


def load_policy(path: Path) -> Policy:
    """Return the policy of a file. Raises ConfigError: unreadable, writable by others, or not a policy."""
    return _load(path, Policy)


def load_profile(path: Path) -> Profile:
    """Return the profile of a file, with everything that it names looked at.

    Raises ConfigError: the file itself, or an interpreter, a custom-operator library or a
    required-operators file that is missing or that somebody else can write. Digests are not compared here.
    """
    profile = _load(path, Profile)
    if profile.interpreter:
        check_interpreter(f"{path}: interpreter", Path(profile.interpreter))
    for index, one in enumerate(profile.custom_operators):
        check_file(f"{path}: custom_operators[{index}].path", Path(one.path))
    if profile.reduced_build is not None:
        check_file(f"{path}: reduced_build.config", Path(profile.reduced_build.config))
    return profile


def named_profile(path: Path) -> Profile:
    """Return the profile of ``<name>.toml``; one of another name is a ConfigError, as whatever is refused."""
    profile = load_profile(path)
    if profile.name != path.stem:
        message = f"{path}: name: is {profile.name!r}, the file is that of {path.stem!r}"
        raise ConfigError(message, remedy="correct the name or rename the file")
    return profile


def load_reduced(profile: Profile, origin: str, source: bytes | None = None) -> Reduced | None:
    """Return what the profile's reduced build offers, None for a whole build.

    ``source`` is the file's content where it was read before (:func:`reduced_source`, which raises the same).
    """
    if profile.reduced_build is None:
        return None
    content = reduced_source(profile, origin) if source is None else source
    return parse_reduced(content, profile.reduced_build.config)


def reduced_source(profile: Profile, origin: str) -> bytes:
    """Return the required-operators file of a profile's reduced build, empty for a whole build.

    Raises ConfigError: the file is refused, is not the one whose digest the profile gives, or cannot be read.
    """
    if profile.reduced_build is None:
        return b""
    path = Path(profile.reduced_build.config)
    content = read_trusted(path, MAX_BYTES, "a required-operators file")
    found = hashlib.sha256(content).hexdigest()
    if found != profile.reduced_build.sha256:
        raise ConfigError(
            f"{origin}: reduced_build.sha256: {path} has the digest {found}",
            remedy="give the digest of the file that the build was made with",
        )
    return content


def load_contract(directory: Path, model_id: str) -> Contract | None:
    """Return the contract ``<directory>/<team>/<model>.toml``, or None where there is none.

    Raises ConfigError for a file that is refused or that is a contract for another model. A
    missing file means no contract; one that cannot be read never does.
    """
    team, _, name = valid_model_id(model_id).partition("/")
    path = directory / team / f"{name}.toml"
    for place in (directory, path.parent):  # who may write there may take a contract away
        with contextlib.suppress(FileNotFoundError):
            check_owner(place, os.stat(place))
    if not os.path.lexists(path):
        return None
    contract = _load(path, Contract)
    if contract.id != model_id:
        raise ConfigError(
            f"{path}: id: the file is for {contract.id}, its place is that of {model_id}",
            remedy=f"move it to {directory / (contract.id + '.toml')} or correct id",
        )
    return contract


def load_file(path: Path) -> Contract:
    """Return the contract of a file that lies anywhere. Raises ConfigError where it is refused."""
    return _load(path, Contract)


def load_defaults(
    directory: Path, team: str, kinds: Iterable[str]
) -> tuple[ContractDefaults | None, dict[str, ContractDefaults]]:
    """Return what contracts of a team, and of these kinds of output, inherit: ``<directory>/defaults/…``.

    Raises ConfigError for a file that is refused; a missing one gives nothing.
    """
    home = directory / "defaults"
    for place in (home, home / "teams", home / "kinds"):
        with contextlib.suppress(FileNotFoundError):
            check_owner(place, os.stat(place))
    of_team = load_default(home / "teams" / f"{team}.toml")
    of_kinds = {kind: load_default(home / "kinds" / f"{kind}.toml") for kind in sorted(set(kinds))}
    return of_team, {kind: table for kind, table in of_kinds.items() if table is not None}


def load_default(path: Path) -> ContractDefaults | None:
    """Return one file of defaults, None where there is none. Raises ConfigError where it is refused."""
    if not os.path.lexists(path):
        return None
    found = _load(path, ContractDefaults)
    for other in found.tolerance:
        if path.parent.name == "kinds" and other != path.stem:
            raise ConfigError(
                f"{path}: tolerance.{other}: the file is for outputs of kind {path.stem}",
                remedy=f"move it to kinds/{other}.toml",
            )
    return found


def load_reviewers(directory: Path) -> Reviewers:
    """Return the reviewers of ``<directory>/reviewers.toml``; nobody where there is no such file.

    Raises ConfigError for a file that is refused.
    """
    path = directory / "reviewers.toml"
    with contextlib.suppress(FileNotFoundError):
        check_owner(directory, os.stat(directory))
    return _load(path, Reviewers) if os.path.lexists(path) else Reviewers()


@dataclass(frozen=True, slots=True)
class Loaded:
    """One policy directory, whole: the policy, its first profile, and where its contracts lie."""

    policy: Policy
    profile: Profile
    contracts: Path


def load_all(policy_file: Path) -> Loaded:
    """Return a policy with the profile that it names (``profiles/<name>.toml`` beside it).

    A missing profile file is an error unless the name is ``cpu``, which is built in.
    """
    policy = load_policy(policy_file)
    path = policy_file.parent / "profiles" / f"{policy.profile}.toml"
    if path.exists() or policy.profile != "cpu":
        profile = named_profile(path)
    else:
        profile = Profile()
    return Loaded(policy, profile, policy_file.parent / "contracts")


def _load(path: Path, kind: type[T]) -> T:
    table, troubles = read_table(path, kind)
    if table is None or troubles:
        first = troubles[0]
        more = f" (and {len(troubles) - 1} more: acceptd policy check {path})" if len(troubles) > 1 else ""
        raise ConfigError(f"{first.text(path)}{more}", remedy=first.remedy)
    return table


def read_table(path: Path, kind: type[T]) -> tuple[T | None, list[Trouble]]:
    """Return the table of a file and what is wrong with it. Raises ConfigError: unreadable, or not trusted."""
    source = read(read_trusted(path, MAX_BYTES, "a TOML file"))
    if isinstance(source, Trouble):
        return None, [source]
    example = "policies/profiles/cpu.toml" if kind is Profile else "policies/default.toml"
    if kind is Contract:
        example = "policies/contracts/mosaic/evidence-disposition.toml.example"
    if kind is ContractDefaults:
        example = "policies/contracts/defaults/teams/mosaic.toml.example"
    if kind is Reviewers:
        example = "policies/reviewers.toml.example"
    table = validated(source, kind, f"correct the key; {example} explains each")
    wished = source.document.get("severity") if kind is Policy else None
    found = _severities(wished) if isinstance(wished, dict) else []
    if kind is Policy and {"profile", "profiles"} <= source.document.keys():
        found.append((("profiles",), "profile is given too", "keep one of them: profile is a list of one"))
    troubles = [source.trouble(place, message, remedy) for place, message, remedy in found]
    if isinstance(table, list):
        return None, sorted({*table, *troubles})
    return table, sorted(troubles)


def _severities(wished: Mapping[str, Any]) -> list[tuple[Place, str, str]]:
    """Return place, message and remedy of what ``[severity]`` may not say; unknown severities are passed by."""
    found: list[tuple[Place, str, str]] = []
    for code, severity in sorted(wished.items()):
        if code not in CODES:
            close = get_close_matches(code, CODES, n=1, cutoff=0.7)
            remedy = f"did you mean {close[0]}?" if close else "docs/findings.md lists all codes"
            found.append((("severity", code), "no finding has this code", remedy))
        elif severity in tuple(SEVERITY_ORDER) and not may_override(code, severity):
            words = f"may not be {severity}, it is {CODES[code].severity} by itself"
            found.append((("severity", code), words, "remove the line"))
    return found


def _check_severities(policy: Policy, origin: str) -> None:
    for place, message, remedy in _severities(policy.severity):
        raise ConfigError(f"{origin}: {dotted(place)}: {message}", remedy=remedy)


def with_overrides(policy: Policy, pairs: Sequence[str]) -> Policy:
    """Return the policy with ``key=value`` pairs applied (``--set``), keys dotted, values TOML or plain words.

    Raises UsageError that names the pair: no ``=``, an unknown key, a table, or a value of a wrong type.
    """
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(
                f"--set {pair!r}: not of the form key=value", remedy="for example --set vectors.required=false"
            )
        policy = _with_override(policy, key, text.strip(), pair)
    return policy


def _with_override(policy: Policy, key: str, text: str, pair: str) -> Policy:
    parts = _split(policy, key, pair)
    document = policy.model_dump(mode="python", by_alias=True)
    table = document
    for part in parts[:-1]:
        table = table[part]
    table[parts[-1]] = _value(text)
    if key in {"profile", "profiles"}:  # one is short for the other, and what is set last counts
        del document["profiles" if key == "profile" else "profile"]
    changed = first(document, Policy)
    if isinstance(changed, Trouble):
        remedy = "policies/default.toml explains each key"
        if "a list in [ ] is needed" in changed.message:
            remedy = f"write a TOML list: --set '{key}=[\"{text}\"]'"
        raise UsageError(f"--set {pair!r}: {changed.message}", remedy=remedy)
    try:
        _check_severities(changed, f"--set {pair!r}")
    except ConfigError as error:
        raise UsageError(error.message, remedy=error.remedy) from error
    return changed


def _split(policy: Policy, key: str, pair: str) -> list[str]:
    """Return the parts of a dotted key that exists and is no table; ``severity.<code>`` takes any code."""
    if key.startswith("severity."):
        return ["severity", key.removeprefix("severity.")]
    parts = key.split(".")
    model: BaseModel | None = policy
    known: list[str] = []
    for index, part in enumerate(parts):
        known = keys_of(type(model)) if model is not None else []
        if part not in known:
            near = f"; {'.'.join(parts[:index]) or 'a policy'} has {', '.join(known)}" if known else ""
            raise UsageError(f"--set {pair!r}: unknown key {key!r}{near}")
        value = getattr(model, "schema_" if part == "schema" else part)
        model = value if isinstance(value, BaseModel) else None
    if model is not None:
        raise UsageError(
            f"--set {pair!r}: {key!r} is a table; name one of its keys: {', '.join(keys_of(type(model)))}"
        )
    return parts


def _value(text: str) -> Any:
    """Return the TOML value of ``text``; text that is no TOML value is a plain word (``any``, ``hold``)."""
    try:
        document = tomlfile.document(f"value = {text}\n")
    except ValueError:
        return text
    return document["value"] if list(document) == ["value"] else text
