"""The tables of the ledger, on either engine, and the triggers that make its truth append-only.

``entries`` is the truth and ``nodes`` its tree. ``verdicts``, ``findings``, ``releases`` and
``revocations`` are projections and can be rebuilt from it. ``submissions`` with ``deaths`` is the work
queue, and ``evidence`` holds blobs by digest; these cannot be rebuilt (an entry binds the digest).
``fleet_evidence`` and ``fleet_nodes`` are what the machines of a fleet tell each other; no truth either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from acceptd.record.dialects import PlainText

SCHEMA_VERSION: Final = 2
"""Raised with each change of the tables, which needs a revision in ``migrations``."""
READABLE_FROM: Final = 2
"""The least schema version whose code may work on a database of ours; a revision that only adds leaves it."""

Whole: Final = BigInteger().with_variant(Integer(), "sqlite")
"""A whole number of 64 bits; SQLite has no other."""
Word: Final = String().with_variant(PlainText(), "postgresql")
Words: Final = Text().with_variant(PlainText(), "postgresql")
"""Text, compared byte by byte on either engine."""


def revision_of(version: int) -> str:
    """Return the id of the revision that makes a schema version: four digits."""
    return f"{version:04d}"


STATES: Final = ("claimed", "sealed", "examined", "judged", "promoted", "done", "quarantined")
"""States of a submission, in order; the last two are final."""

FINAL_STATES: Final = frozenset({"done", "quarantined"})

metadata: Final = MetaData()

meta: Final = Table(
    "meta",
    metadata,
    Column("key", Word, primary_key=True),
    Column("value", Words, nullable=False),
)

alembic_version: Final = Table(
    "alembic_version",
    metadata,
    # The revision that the schema is at, as alembic keeps it. Databases from before it have no such table.
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

entries: Final = Table(
    "entries",
    metadata,
    Column("seq", Whole, primary_key=True, autoincrement=False),
    Column("type", Word, nullable=False),
    Column("submission", Word),
    # What may be in the log only once: a submission's verdict, a channel's release number.
    Column("unique_key", Word),
    Column("leaf", LargeBinary, nullable=False),
    Column("leaf_hash", LargeBinary, nullable=False),
    Column("recorded_at", Word, nullable=False),
    UniqueConstraint("unique_key", name="entries_unique_key"),
    CheckConstraint("seq >= 0", name="entries_seq"),
    CheckConstraint("length(leaf_hash) = 32", name="entries_leaf_hash"),
    Index("entries_type", "type", "seq"),
    Index("entries_submission", "submission", "seq"),
)

nodes: Final = Table(
    "nodes",
    metadata,
    Column("level", Whole, primary_key=True, autoincrement=False),
    Column("idx", Whole, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    CheckConstraint("level > 0 AND length(hash) = 32", name="nodes_form"),
    sqlite_with_rowid=False,
)

submissions: Final = Table(
    "submissions",
    metadata,
    Column("id", Word, primary_key=True),
    Column("team", Word, nullable=False),
    Column("name", Word, nullable=False),
    Column("path", Word, nullable=False),
    Column("kind", Word, nullable=False),
    Column("uid", Whole),
    Column("state", Word, nullable=False),
    # The state whose work has begun and has not ended: after a restart, where the daemon died.
    Column("working", Word),
    Column("received_at", Word, nullable=False),
    Column("updated_at", Word, nullable=False),
    Column("bundle_digest", Word),
    Column("model", Word),
    Column("data", Words, nullable=False),
    # The intake whose inbox it came through; null where there is no fleet.
    Column("node", Word),
    CheckConstraint("state IN (" + ", ".join(f"'{state}'" for state in STATES) + ")", name="submissions_state"),
    Index("submissions_state", "state", "received_at"),
    Index("submissions_node", "node", "state", "received_at"),
)

deaths: Final = Table(
    "deaths",
    metadata,
    Column("submission", Word, ForeignKey("submissions.id", ondelete="CASCADE"), primary_key=True),
    Column("state", Word, primary_key=True),
    Column("count", Whole, nullable=False),
    sqlite_with_rowid=False,
)

verdicts: Final = Table(
    "verdicts",
    metadata,
    Column("submission", Word, primary_key=True),
    Column("seq", Whole, nullable=False),
    Column("verdict", Word, nullable=False),
    Column("team", Word),
    Column("model", Word),
    Column("bundle_digest", Word),
    Column("policy_digest", Word),
    Column("judged_at", Word, nullable=False),
    Column("reason", Words, nullable=False),
    Index("verdicts_bundle_digest", "bundle_digest"),
    Index("verdicts_model", "model"),
)

findings: Final = Table(
    "findings",
    metadata,
    Column("submission", Word, primary_key=True),
    Column("position", Whole, primary_key=True, autoincrement=False),
    Column("code", Word, nullable=False),
    Column("severity", Word, nullable=False),
    Column("audience", Word, nullable=False),
    Column("stage", Word, nullable=False),
    Column("place", Words, nullable=False),
    Column("message", Words, nullable=False),
    Column("evidence", Words, nullable=False),
    Column("count", Whole, nullable=False),
    Index("findings_code", "code"),
)

releases: Final = Table(
    "releases",
    metadata,
    Column("model", Word, primary_key=True),
    Column("channel", Word, primary_key=True),
    Column("number", Whole, primary_key=True, autoincrement=False),
    Column("digest", Word, nullable=False),
    # intent, active, superseded (was active), abandoned (the number is burnt)
    Column("state", Word, nullable=False),
    Column("kind", Word, nullable=False),
    Column("reason", Words, nullable=False),
    Column("verdict_seq", Whole),
    Column("intent_seq", Whole, nullable=False),
    Column("intent_at", Word, nullable=False),
    Column("activated_seq", Whole),
    Column("activated_at", Word),
    Index("releases_digest", "digest"),
)

revocations: Final = Table(
    "revocations",
    metadata,
    Column("digest", Word, primary_key=True),
    Column("seq", Whole, nullable=False),
    Column("revoked_at", Word, nullable=False),
    Column("reason", Words, nullable=False),
)

evidence: Final = Table(
    "evidence",
    metadata,
    Column("digest", Word, primary_key=True),
    Column("size", Whole, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("stored_at", Word, nullable=False),
)

fleet_evidence: Final = Table(
    "fleet_evidence",
    metadata,
    # What a worker signed about one profile of a submission, in one round. Hostile until it is verified.
    Column("submission", Word, primary_key=True),
    Column("round", Whole, primary_key=True, autoincrement=False),
    Column("profile", Word, primary_key=True),
    Column("node", Word, primary_key=True),
    Column("key_id", Word, nullable=False),
    Column("envelope", Words, nullable=False),
    Column("evidence_digest", Word, nullable=False),
    Column("at", Word, nullable=False),
    CheckConstraint("round > 0", name="fleet_evidence_round"),
    # As of nodes below: an envelope beyond acceptd.fleet.envelope.MAX_BYTES is nobody's.
    CheckConstraint(
        "length(submission) <= 128 AND length(profile) <= 64 AND length(node) <= 64 AND length(key_id) <= 64 "
        "AND length(envelope) <= 262144 AND length(evidence_digest) <= 64 AND length(at) <= 40",
        name="fleet_evidence_small",
    ),
)

fleet_nodes: Final = Table(
    "fleet_nodes",
    metadata,
    # Each node's own word about itself, as of its last heartbeat.
    Column("name", Word, primary_key=True),
    Column("role", Word, nullable=False),
    Column("host", Word, nullable=False),
    Column("version", Word, nullable=False),
    Column("schema", Whole, nullable=False),
    Column("key_id", Word, nullable=False),
    # JSON: a list of queues.
    Column("queues", Words, nullable=False),
    Column("slots", Whole, nullable=False),
    Column("running", Whole, nullable=False),
    # JSON: policy, profiles, whether it takes work (acceptd.fleet.nodes).
    Column("told", Words, nullable=False, server_default="{}"),
    Column("started_at", Word, nullable=False),
    Column("seen_at", Word, nullable=False),
    Column("draining", Boolean, nullable=False, server_default=false()),
    # What a hostile node writes is small before anybody reads it.
    CheckConstraint(
        "length(name) <= 64 AND length(role) <= 16 AND length(host) <= 255 AND length(version) <= 64 "
        "AND length(key_id) <= 64 AND length(queues) <= 16384 AND length(told) <= 16384 "
        "AND length(started_at) <= 40 AND length(seen_at) <= 40",
        name="fleet_nodes_small",
    ),
)


@dataclass(frozen=True, slots=True)
class Projection:
    """The four tables that entries project into; :data:`STORED`, or a fresh copy beside it for the audit."""

    verdicts: Table
    findings: Table
    releases: Table
    revocations: Table

    def all(self) -> tuple[Table, ...]:
        """Return the tables, always in the same order."""
        return (self.verdicts, self.findings, self.releases, self.revocations)


STORED: Final = Projection(verdicts, findings, releases, revocations)


def fresh_projection() -> tuple[MetaData, Projection]:
    """Return copies of the four tables in SQLite's ``temp`` schema, where a connection rebuilds them to compare.

    They have names of their own: an unqualified name would find the temporary table before the stored one.
    """
    beside = MetaData()
    copies = [table.to_metadata(beside, schema="temp", name=f"fresh_{table.name}") for table in STORED.all()]
    return beside, Projection(*copies)


def _frozen(table: str, word: str, *actions: str) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{word}'); END"
        for action in actions
    ]


def _refused(name: str, table: str, condition: str, word: str) -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE INSERT ON {table} WHEN {condition} BEGIN SELECT RAISE(ABORT, '{word}'); END"
    )


TRIGGERS: Final = (
    *_frozen("entries", "entries are append-only", "UPDATE", "DELETE"),
    *_frozen("nodes", "nodes are append-only", "UPDATE", "DELETE"),
    *_frozen("evidence", "evidence is never edited", "UPDATE"),
    # REPLACE deletes a conflicting row without firing delete triggers (SQLite, "ON CONFLICT"), hence these.
    _refused(
        "entries_next",
        "entries",
        "NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 0) FROM entries)",
        "entries are numbered without gaps",
    ),
    _refused(
        "entries_once",
        "entries",
        "EXISTS (SELECT 1 FROM entries WHERE unique_key = NEW.unique_key)",
        "entries_unique_key",
    ),
    _refused(
        "nodes_once",
        "nodes",
        "EXISTS (SELECT 1 FROM nodes WHERE level = NEW.level AND idx = NEW.idx)",
        "nodes are append-only",
    ),
)
"""Data definition of the triggers, for SQLite."""
