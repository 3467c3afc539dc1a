"""The words of a judgement: finding, verdict, judgement."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["reject", "hold", "warn", "info"]
Audience = Literal["team", "reviewer"]
Verdict = Literal["accepted", "rejected", "held", "inconclusive"]
Stage = Literal["seal", "unpack", "manifest", "inspect", "vectors", "run", "compare", "judge", "cell", "heldout"]

STAGE_ORDER: Final = {stage: number for number, stage in enumerate(get_args(Stage))}
SEVERITY_ORDER: dict[str, int] = {"reject": 0, "hold": 1, "warn": 2, "info": 3}


class Finding(BaseModel):
    """One thing that the judge has to say.

    ``where`` is the place in the bundle or model (already escaped text); ``evidence`` small JSON
    data that shows it; ``count`` how many of the same family it stands for.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    code: Annotated[str, Field(pattern=r"^[a-z-]+/[a-z0-9-]+$")]
    severity: Severity
    audience: Audience = "team"
    stage: Stage
    where: str
    message: str
    evidence: dict[str, Any] = {}
    count: int = 1
    profile: str = ""
    """The profile under which it holds, where a policy has several and not all say the same."""


class ProfileVerdict(BaseModel):
    """The verdict under one profile. ``decided_by`` is the audience of the finding that decided, if one did."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    profile: str
    required: bool
    verdict: Verdict
    reason: str
    decided_by: str = ""


class Judgement(BaseModel):
    """The verdict with its findings, sorted by severity, then stage, code and place."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    verdict: Verdict
    findings: tuple[Finding, ...]
    judged_at: str
    """UTC, RFC 3339, to the second."""
    reason: str
    """One line: what decided."""
    profiles: tuple[ProfileVerdict, ...] = ()
    """One for each profile of the policy, in its order."""
