"""What contracts inherit: ``contracts/defaults/{teams/<team>,kinds/<kind>}.toml``. Pure.

A contract's own value goes before its team's, that before the one of the kinds of its outputs; what none of them
says is the policy's. An inherited tolerance is never looser than the policy's caps: a file that many models
inherit from is no place to agree on more for one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from acceptd.policy.contract import Ceilings, Contract
from acceptd.policy.policy import Policy
from acceptd.policy.table import Short, Table
from acceptd.policy.tolerance import OutputKind, Tolerance, foreign, stricter

SCALARS: Final = ("max_rtol", "max_atol")


class ContractDefaults(Table):
    """One file of defaults."""

    schema_: Annotated[int, Field(alias="schema", ge=1, le=1)] = 1
    max_rtol: Annotated[float, Field(ge=0, le=1)] | None = None
    max_atol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    ceilings: Ceilings = Ceilings()
    tolerance: Annotated[dict[OutputKind, Tolerance], Field(max_length=7)] = {}
    """By kind of output, for outputs to which the contract gives none."""

    @model_validator(mode="after")
    def _of_their_kinds(self) -> ContractDefaults:
        for kind, tolerance in self.tolerance.items():
            if wrong := foreign(kind, tolerance):
                raise ValueError(f"tolerance.{kind}.limits: {wrong}")
        return self


class Inherited(Table):
    """One value that a contract did not give itself. ``path`` leads to it through the contract's JSON form."""

    path: Annotated[list[str | Annotated[int, Field(ge=0, le=4096)]], Field(min_length=1, max_length=8)]
    value: Any
    source: Short
    """``team mosaic`` or ``kind logits``."""
    cut: bool = False
    """Whether the file says more than the policy's caps allow."""


def inherited(
    contract: Contract, team: ContractDefaults | None, kinds: Mapping[str, ContractDefaults], policy: Policy
) -> list[Inherited]:
    """Return every value that the contract takes from its team's defaults or from those of its outputs' kinds.

    Where several kinds give one ceiling, the lowest is taken.
    """
    own_team = contract.id.partition("/")[0]
    present = list(dict.fromkeys(output.kind for model in contract.models for output in model.outputs))
    sources: list[tuple[str, ContractDefaults]] = []
    if team is not None:
        sources.append((f"team {own_team}", team))
    of_kinds = [(f"kind {kind}", kinds[kind]) for kind in present if kind in kinds]
    found = [
        *_bounds(contract, sources, of_kinds),
        *_tolerances(contract, sources, dict(of_kinds), policy),
    ]
    return sorted(found, key=lambda one: [str(part) for part in one.path])


def _bounds(
    contract: Contract,
    teams: Sequence[tuple[str, ContractDefaults]],
    kinds: Sequence[tuple[str, ContractDefaults]],
) -> Iterator[Inherited]:
    ceilings = [["ceilings", name] for name in Ceilings.model_fields]
    for path in (*([name] for name in SCALARS), *ceilings):
        if _at(contract, path) is not None:
            continue
        for group in (teams, kinds):
            given = [(value, source) for source, table in group if (value := _at(table, path)) is not None]
            if given:
                value, source = min(given)
                yield Inherited(path=list(path), value=value, source=source)
                break


def _tolerances(
    contract: Contract,
    teams: Sequence[tuple[str, ContractDefaults]],
    kinds: Mapping[str, ContractDefaults],
    policy: Policy,
) -> Iterator[Inherited]:
    for number, model in enumerate(contract.models):
        for index, output in enumerate(model.outputs):
            if output.tolerance is not None:
                continue
            own = f"kind {output.kind}"
            for source, table in (*teams, *([(own, kinds[own])] if own in kinds else [])):
                said = table.tolerance.get(output.kind)
                if said is not None:
                    held = capped(said, policy)
                    path: list[str | int] = ["models", number, "outputs", index, "tolerance"]
                    yield Inherited(path=path, value=held.model_dump(mode="json"), source=source, cut=held != said)
                    break


def capped(tolerance: Tolerance, policy: Policy) -> Tolerance:
    """Return a tolerance cut to the policy's caps."""
    parity = policy.parity
    top1 = tolerance.top1
    limits = {name: stricter(name, bound, parity.caps.of(name)) for name, bound in tolerance.limits.items()}
    return Tolerance(
        rtol=min(tolerance.rtol, parity.max_rtol),
        atol=min(tolerance.atol, parity.max_atol),
        top1=None if top1 is None else max(top1, parity.min_top1),
        limits=limits,
    )


def apply(document: Mapping[str, Any], values: Sequence[Inherited]) -> dict[str, Any]:
    """Return a contract's JSON form with what it inherits filled in. Raises ValueError for a path to nowhere."""
    result: dict[str, Any] = copy.deepcopy(dict(document))
    for one in values:
        place: Any = result
        try:
            for part in one.path[:-1]:
                place = place[part]
            if place[one.path[-1]] is not None:
                raise ValueError(f"{one.path}: the contract gives it itself")
            place[one.path[-1]] = one.value
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{one.path}: is no place in the contract") from error
    return result


def _at(table: Table, path: Sequence[str]) -> Any:
    value: Any = table
    for part in path:
        value = getattr(value, part)
    return value
