"""Which operators may stand in a model, how many, how large, in which versions: ``[operators]``, ``[opsets]``."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.manifest import Table
from acceptd.policy.names import Name

_OPERATOR: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}::([A-Za-z_][A-Za-z0-9_]{0,127})", re.ASCII)
_DENIED: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}::([A-Za-z_][A-Za-z0-9_]{0,127}|\*)", re.ASCII)
_DOMAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


def _matching(pattern: re.Pattern[str], value: str, form: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"{value[:120]!r} is not of the form {form}; the default domain is spelt ai.onnx")
    return value


def _operator(value: str) -> str:
    return _matching(_OPERATOR, value, "domain::OpType")


def _denied(value: str) -> str:
    return _matching(_DENIED, value, "domain::OpType or domain::*")


def _domain(value: str) -> str:
    return _matching(_DOMAIN, value, "a domain")


Operator = Annotated[str, Field(max_length=260), AfterValidator(_operator)]
Denied = Annotated[str, Field(max_length=260), AfterValidator(_denied)]
Domain = Annotated[str, Field(max_length=128), AfterValidator(_domain)]
Many = Annotated[int, Field(ge=0, le=1 << 50)]
Version = Annotated[int, Field(ge=0, le=10_000)]


class OperatorLimit(Table):
    """Bounds of one operator. What is left out is not bounded; what the file does not fix is not known."""

    nodes: Many | None = None
    """Nodes of one model, over all scopes."""
    trips: Many | None = None
    """Repetitions of one node that nothing in the model can end earlier."""
    output_bytes: Many | None = None
    """Bytes of one output whose size the file fixes."""


class OperatorsTable(Table):
    """Which operators may stand in a model. ``listed``: only these domains; ``any``: whatever loads."""

    mode: Literal["listed", "any"] = "listed"
    domains: Annotated[list[Domain], Field(max_length=256)] = ["ai.onnx", "ai.onnx.ml", "com.microsoft"]
    allowed: Annotated[list[Operator], Field(max_length=4096)] = []
    """In mode ``listed``: only these, as ``domain::OpType``; empty: every operator of the domains."""
    denied: Annotated[list[Denied], Field(max_length=4096)] = []
    """Denied in every mode, as ``domain::OpType``; ``domain::*`` denies the domain."""
    limits: Annotated[dict[Operator, OperatorLimit], Field(max_length=1024)] = {}
    """By operator, in every mode."""

    @model_validator(mode="after")
    def _meant(self) -> OperatorsTable:
        for name in self.allowed:
            if name.partition("::")[0] not in self.domains:
                raise ValueError(f"operators.allowed: operators.domains does not list the domain of {name}")
            if name in self.denied:
                raise ValueError(f"operators.allowed: {name} stands in operators.denied too")
        return self


class VersionRange(Table):
    """Versions of an operator set, both ends included."""

    min: Version = 1
    """Least version."""
    max: Version = 10_000
    """Greatest version."""

    @model_validator(mode="after")
    def _ordered(self) -> VersionRange:
        if self.min > self.max:
            raise ValueError("min is larger than max")
        return self


class ProfileVersions(Table):
    """What one profile takes instead; what is left out stays as for all."""

    ir_min: Version | None = None
    """Least IR version."""
    ir_max: Version | None = None
    """Greatest IR version."""
    min: Version | None = None
    """Least version of the default domain."""
    max: Version | None = None
    """Greatest version of the default domain."""
    domains: Annotated[dict[Domain, VersionRange], Field(max_length=256)] = {}


class OpsetTable(Table):
    """Ranges of IR version and of operator sets, both ends included."""

    ir_min: Version = 3
    ir_max: Version = 14
    min: Version = 1
    max: Version = 28
    domains: Annotated[dict[Domain, VersionRange], Field(max_length=256)] = {}
    """Of other domains than the default one; a domain that is not here may have any version."""
    profiles: Annotated[dict[Name, ProfileVersions], Field(max_length=64)] = {}
    """By profile: a target with an older runtime takes less."""

    @model_validator(mode="after")
    def _ordered(self) -> OpsetTable:
        for name, one in (("opsets", self), *((f"opsets.profiles.{key}", self.of(key)) for key in self.profiles)):
            if one.ir_min > one.ir_max:
                raise ValueError(f"{name}.ir_min: is larger than ir_max")
            if one.min > one.max:
                raise ValueError(f"{name}.min: is larger than max")
        if "ai.onnx" in self.domains:
            raise ValueError("opsets.domains: the default domain's range is opsets.min and opsets.max")
        return self

    def of(self, profile: str) -> OpsetTable:
        """Return the ranges that hold for a profile."""
        own = self.profiles.get(profile)
        if own is None:
            return self
        given = {key: value for key, value in own.model_dump(exclude={"domains"}).items() if value is not None}
        return self.model_copy(update={**given, "domains": {**self.domains, **own.domains}, "profiles": {}})

    def range(self, domain: str) -> tuple[int, int] | None:
        """Return the range of one domain (``ai.onnx`` is the default one), None where any version goes."""
        if domain in {"", "ai.onnx"}:
            return self.min, self.max
        found = self.domains.get(domain)
        return (found.min, found.max) if found is not None else None
