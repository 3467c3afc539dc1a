"""What nodes of a fleet sign: an intake what it sealed, a worker what it examined, where and within which walls.

Both are in-toto Statements in DSSE envelopes, by the node's own key. They bind; what they are about lies elsewhere
(the bundle and the evidence in the object store), by digest. ``docs/statements.md`` explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.statement.parts import Count, Digest, DigestOrNone, Line, Part, Stamp, Word

SEAL_TYPE = "https://acceptd.dev/fleet-seal/v1"
EVIDENCE_TYPE = "https://acceptd.dev/fleet-evidence/v1"

State = Literal["enforced", "unavailable", "failed"]


class Blob(Part):
    """Bytes in the object store."""

    sha256: Digest
    bytes: Count


class Node(Part):
    """The node that signed: its name in the fleet, its host's, and what runs there."""

    name: Word
    host: Word
    kernel: Word
    machine: Word
    acceptd: Word


class Standing(Part):
    """The walls around the jobs, the worst of each, and why one did not stand."""

    states: Annotated[dict[Word, State], Field(max_length=16)]
    notes: Annotated[dict[Word, Line], Field(max_length=16)]


class Runtime(Part):
    """The runtime that the model ran in; empty where nothing ran."""

    identity: Digest | None
    cpu_class: Word
    versions: Annotated[dict[Word, Word], Field(max_length=16)]


class EvidencePredicate(Part):
    """One examination of one bundle under one profile, for one order."""

    node: Node
    submission: Word
    team: Word
    round: Count
    order: Digest
    """Of the order's document: no other order's evidence stands for it."""
    heldout: Count
    """The number of the held-out evaluation; 0: an examination."""
    bundle_digest: Digest
    policy_digest: Digest
    contract_digest: DigestOrNone
    profile: Word
    profile_digest: Digest
    seed_digest: Digest
    """SHA-256 of the probes' seed, which is not told."""
    evidence: Blob
    walls: Standing
    runtime: Runtime
    started_at: Stamp
    ended_at: Stamp


class SealPredicate(Part):
    """One drop, sealed."""

    node: Node
    submission: Word
    team: Word
    drop: Line
    uid: Annotated[int, Field(ge=0, lt=2**53)] | None
    bundle_digest: Digest
    inventory_digest: Digest
    """Of the whole inventory: also what a file's first bytes make of it, and its holes."""
    files: Count
    total_bytes: Count
    jobs_digest: Digest
    """Of the records of the jobs that unpacked it and read its manifest."""
    model: Word
    """The id that its manifest gives; empty: none that counts."""
    sealed_at: Stamp
