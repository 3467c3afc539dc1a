"""A contract with what it inherits now, as its file says it. Needs no ledger.

What inherits what is :mod:`acceptd.policy.defaults`'s to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acceptd.evidence import ContractStanding
from acceptd.policy import load
from acceptd.policy.contract import Contract
from acceptd.policy.defaults import Inherited, apply, inherited
from acceptd.policy.policy import Policy
from acceptd.policy.troubles import dotted
from acceptd.rules import Rules


@dataclass(frozen=True, slots=True)
class Agreed:
    """The contract in force, whole, with its digest and where it comes from. All empty: there is none."""

    contract: Contract | None = None
    digest: str = ""
    standing: ContractStanding | None = None


@dataclass(frozen=True, slots=True)
class Effective:
    """A contract as its author wrote it, what it inherits, and both together."""

    own: Contract
    values: tuple[Inherited, ...]
    whole: Contract

    @property
    def digest(self) -> str:
        """The digest of the whole: the one that verdicts bind."""
        return load.digest(self.whole)


def place_of(directory: Path, model: str) -> Path:
    """Return where the file of a model's contract lies below a policies directory."""
    return directory / "contracts" / f"{model}.toml"


def effective(own: Contract, directory: Path, policy: Policy) -> Effective:
    """Return a contract with what it inherits now. Raises ConfigError for defaults that are refused."""
    kinds = [output.kind for model in own.models for output in model.outputs]
    team, of_kinds = load.load_defaults(directory / "contracts", own.id.partition("/")[0], kinds)
    values = inherited(own, team, of_kinds, policy)
    whole = Contract.model_validate(apply(own.model_dump(mode="json", by_alias=True), values)) if values else own
    return Effective(own, tuple(values), whole)


def of_file(rules: Rules, own: Contract | None, standing: ContractStanding) -> Agreed:
    """Return what the file of a contract says, with the defaults; nothing where there is no file."""
    if own is None:
        return Agreed()
    found = effective(own, rules.directory, rules.policy)
    told = standing.model_copy(
        update={
            "place": str(place_of(rules.directory, own.id)),
            "version": own.version,
            "inherited": sources(found.values),
        }
    )
    return Agreed(found.whole, found.digest, told)


def without_ledger(rules: Rules, model: str) -> Agreed:
    """Return the contract that a local check judges by: the file's. Raises ConfigError for one that is refused."""
    own = load.load_contract(rules.directory / "contracts", model)
    return of_file(rules, own, ContractStanding(status="unchecked"))


def sources(values: Sequence[Inherited]) -> dict[str, str]:
    """Return what was inherited: key to where it comes from."""
    return {
        dotted(tuple(one.path)): one.source + (", cut to the policy's caps" if one.cut else "") for one in values
    }
