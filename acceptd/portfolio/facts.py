"""What a portfolio is assembled from: verdicts, people's words and contracts, as far as it shows them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from acceptd.release.book import Book

PromiseKind = Literal["approve", "reject", "waive", "attest", "break-glass"]
ContractStatus = Literal["signed", "edited", "unsigned", "unverified", "unchecked", "refused"]


@dataclass(frozen=True, slots=True)
class ProfileWord:
    """The verdict under one profile. ``required`` is false where the policy lets it fail."""

    profile: str
    verdict: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict as its ledger entry ``seq`` has it. Times are UTC, RFC 3339; digests SHA-256 in hex."""

    seq: int
    submission: str
    verdict: str
    reason: str
    judged_at: str
    bundle_digest: str
    version: str
    """The bundle's own; empty where it declared none."""
    policy: str
    policy_digest: str
    contract_digest: str
    """Empty: it was judged without a contract."""
    profiles: tuple[ProfileWord, ...]
    observed: bool = False
    """Whether it was given in observe mode: it blocks nothing, and nothing is promoted by it."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One signed word of a person about one verdict, which verifies, and how long it counts."""

    kind: PromiseKind
    model_id: str
    channel: str
    reviewer: str
    codes: tuple[str, ...]
    """What a waiver waives, or an attestation attests."""
    expires_at: str
    submission: str
    verdict_seq: int
    entry: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The contract in force of one model. ``version`` 0: none could be read, ``reason`` says why."""

    status: ContractStatus
    version: int = 0
    digest: str = ""
    valid_until: str = ""
    """UTC, RFC 3339; empty: it has no end."""
    entry: int | None = None
    """The ledger entry with its signatures."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules of now: the policy's name and digest, the main channel, and those that promote by themselves."""

    policy: str
    policy_digest: str
    channel: str
    automatic: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that :func:`acceptd.portfolio.rows.assemble` asks.

    ``newest`` and ``accepted`` hold each model's newest verdict and newest acceptance, ``resting`` the verdicts
    that current releases rest on, by their entry.
    """

    book: Book
    newest: Mapping[str, Judged] = field(default_factory=dict)
    accepted: Mapping[str, Judged] = field(default_factory=dict)
    resting: Mapping[int, Judged] = field(default_factory=dict)
    promises: tuple[Promise, ...] = ()
    contracts: Mapping[str, Agreement] = field(default_factory=dict)
    rules: InForce | None = None
    troubles: tuple[str, ...] = ()
    """What could not be read, and so is not shown: a line each."""
