"""The predicate of a verdict, ``https://acceptd.dev/verdict/v2``: what was judged, by which rules, in which walls.

``docs/statements.md`` explains every field. Three names say whose word a field is: what stands under ``declared``
is the submitter's, under ``told_by_cell`` a job's (a model that took its process over may have lied), everything
else was measured or decided by acceptd itself. Nothing here is for reviewers alone: the team gets this file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.runtime.identity import RuntimeRecord
from acceptd.statement.bundle import Declared, Goldens, IndependentExport
from acceptd.statement.parts import (
    MAX_MODELS,
    MAX_RUNS,
    MAX_VALUES,
    Count,
    Digest,
    DigestOrNone,
    Line,
    Milliseconds,
    Part,
    Place,
    Stamp,
    Verdict,
    Whole,
    Word,
)

State = Literal["enforced", "unavailable", "failed"]


class FindingRow(Part):
    """One finding that the team may see."""

    code: Annotated[str, Field(pattern=r"^[a-z-]+/[a-z0-9-]+$")]
    severity: Literal["reject", "hold", "warn", "info"]
    audience: Literal["team"]
    stage: Word
    where: Line
    message: Line
    count: Count
    profile: Word = ""


class Withheld(Part):
    """Findings for reviewers: how many, and the SHA-256 of the RFC 8785 array of them."""

    count: Count
    digest: Digest


class ProfileRow(Part):
    """The verdict under one profile."""

    profile: Word
    digest: DigestOrNone
    required: bool
    verdict: Verdict
    runtime_identity: Digest | None


class NodeRow(Part):
    """Whose evidence a profile rests on: the node's name, its host's, its key, and its statement by SHA-256."""

    profile: Word
    node: Word
    host: Word
    key_id: Digest
    statement: Digest


class PriorRelease(Part):
    """The release of the same model and channel that was current; number 0 where that could not be read."""

    channel: Word
    number: Count
    bundle_digest: DigestOrNone
    version: Word


class StageTime(Part):
    """One stage and how long it took, by acceptd's own clock."""

    stage: Word
    ms: Milliseconds


class JobBounds(Part):
    """What one job of a kind may use. Beyond it the job is ended."""

    cpu_seconds: Count
    wall_seconds: Count
    memory_bytes: Count
    output_bytes: Count
    stderr_bytes: Count
    open_files: Count
    threads: Count


class Enforced(Part):
    """Which walls had to stand, and limits: the policy's own numbers, and those of each kind of job that ran."""

    required_walls: Annotated[list[Word], Field(max_length=16)]
    policy: Annotated[dict[Word, Count], Field(max_length=256)]
    jobs: Annotated[dict[Word, JobBounds], Field(max_length=16)]


class Preprocessing(Part):
    """Identity of the preprocessing, by the submitter's word; the bundle digest binds it."""

    version: Word
    sha256: Digest


class LabelSchema(Part):
    """Identity of the label schema, by the submitter's word; the order of labels is with each output."""

    schema_version: Word


class Labels(Part):
    """Labels of one output, in order: how many, and the SHA-256 of the RFC 8785 array of them."""

    count: Count
    sha256: Digest


class Value(Part):
    """One input or output. ``shape`` has numbers, names or ``?``; None where the rank is not known."""

    name: Word
    type: Word
    dtype: Word
    shape: Annotated[list[Count | Word], Field(max_length=256)] | None
    labels: Labels | None = None


class Interface(Part):
    """Inputs or outputs in order: how many, SHA-256 of the RFC 8785 array of all, and the first 64 of them."""

    count: Count
    sha256: Digest
    values: Annotated[list[Value], Field(max_length=MAX_VALUES)]


class Shape(Part):
    """IR, opsets by domain, and interface of one model, as somebody tells them; None where they did not."""

    ir_version: Whole | None
    opsets: Annotated[dict[Word, Whole], Field(max_length=64)] | None
    inputs: Interface
    outputs: Interface


class SeenShape(Shape):
    """The same as a job of the cell tells it, by ``runtime`` (a loaded session) or ``inspection`` (the file)."""

    by: Literal["runtime", "inspection"]
    nodes: Whole | None


class Signature(Part):
    """Which of the policy's signers signed exactly these files: its name there, SHA-256 of its key's PEM text."""

    signer: Word
    key: Digest


class ModelRow(Part):
    """One model of the bundle."""

    name: Word
    file: Line | None
    sha256: Digest | None
    declared: Shape | None
    """By the submitter."""
    told_by_cell: SeenShape | None


class Requested(Part):
    """What one profile asks of onnxruntime."""

    providers: Annotated[list[Word], Field(max_length=16)]
    provider_options: Annotated[
        dict[Word, Annotated[dict[Word, Line], Field(max_length=64)]], Field(max_length=16)
    ]
    allow_cpu_fallback: bool


class Session(Part):
    """How each session of a profile is made, by acceptd's own code, before it reads a submitted byte."""

    optimisation: Literal["disable", "basic", "extended", "all"]
    intra_op_threads: Count
    inter_op_threads: Count
    arena: Literal[False]
    memory_pattern: Literal[False]
    spinning: Literal[False]
    entries: Annotated[dict[Word, Line], Field(max_length=128)]


class ProfileOptions(Part):
    """Requested provider and session options of one profile."""

    profile: Word
    requested: Requested
    session: Session


class SeenRun(Part):
    """How acceptd saw one run from outside. Memory is above the warm parent's; times are by acceptd's clock."""

    ending: Word
    cause: Word
    attempts: Count
    wall_ms: Milliseconds
    cpu_ms: Milliseconds
    peak_memory_bytes: Count


class WarmUp(Part):
    """The first inference of a golden set in a fresh session: whether it ended well, and how long it took."""

    set: Line
    ok: bool
    error: Line
    ms: Milliseconds | None


class ToldRun(Part):
    """What the job said of its run. It may inform and reject; nothing passes by it."""

    load_ms: Milliseconds | None
    selected_provider: Word | None
    providers: Annotated[list[Word], Field(max_length=64)]
    used_cpu_fallback: bool | None
    nodes: Annotated[dict[Word, Whole], Field(max_length=64)]
    """By provider."""
    warm_up: WarmUp | None


class Run(Part):
    """One run of one model under one profile, with goldens and probes."""

    profile: Word
    model: Word
    seen: SeenRun
    told_by_cell: ToldRun | None


class VerdictPredicate(Part):
    """The whole predicate. Digests are SHA-256 in lowercase hex; those of documents are over RFC 8785 bytes."""

    acceptd: Word
    submission: Word
    entry: Place
    """The entry that holds this statement."""
    team: Word
    drop: Line
    uid: Annotated[int, Field(ge=0, lt=2**53)] | None
    verdict: Verdict
    reason: Line
    judged_at: Stamp
    observed: bool = False
    """Whether the policy only observed it: then nothing is promoted by this verdict."""
    bundle_digest: Digest | None
    manifest_digest: Digest | None
    policy: Word
    policy_digest: DigestOrNone
    contract_digest: Digest | None
    profile: Word
    profile_digest: DigestOrNone
    profiles: Annotated[list[ProfileRow], Field(max_length=16)]
    profiles_digest: Digest
    options_digest: Digest
    evidence_digest: Digest
    report_digest: Digest
    runtime_identity: Digest | None
    runtimes: Annotated[list[RuntimeRecord], Field(max_length=64)]
    models: Annotated[list[ModelRow], Field(max_length=MAX_MODELS)]
    preprocessing: Preprocessing | None
    labels: LabelSchema | None
    signature: Signature | None
    """The model signature that came with the bundle, where acceptd verified it."""
    session_options: Annotated[list[ProfileOptions], Field(max_length=16)]
    runs: Annotated[list[Run], Field(max_length=MAX_RUNS)]
    walls: Annotated[dict[Word, State], Field(max_length=16)]
    limits: Enforced
    stages: Annotated[list[StageTime], Field(max_length=64)]
    findings: Annotated[list[FindingRow], Field(max_length=100_000)]
    findings_digest: Digest
    reviewer_findings: Withheld
    declared: Declared | None
    """The export record is in it."""
    inferred: Annotated[list[Line], Field(max_length=256)]
    goldens: Goldens
    independent_exports: Annotated[list[IndependentExport], Field(max_length=MAX_MODELS)]
    compared_with: PriorRelease | None
    """The prior release."""
    ledger: Line
    nodes: Annotated[list[NodeRow], Field(max_length=64)] = []
    """In a fleet: whose evidence each profile rests on. Left out where one machine did all of it."""
