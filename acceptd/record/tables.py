"""The tables of ``ledger.sqlite3``, and the triggers that make its truth append-only.

``entries`` is the truth and ``nodes`` its tree. ``verdicts``, ``findings``, ``releases`` and
``revocations`` are projections and can be rebuilt from it. ``submissions`` with ``deaths`` is the work
queue, and ``evidence`` holds blobs by digest; these cannot be rebuilt (an entry binds the digest).
SQLAlchemy Core, so that PostgreSQL can carry the same tables later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
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
)

SCHEMA_VERSION: Final = 1
"""Raised with each change of the tables, which needs a revision in ``migrations``; a higher number is refused."""


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
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
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
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String, nullable=False),
    Column("submission", String),
    # What may be in the log only once: a submission's verdict, a channel's release number.
    Column("unique_key", String),
    Column("leaf", LargeBinary, nullable=False),
    Column("leaf_hash", LargeBinary, nullable=False),
    Column("recorded_at", String, nullable=False),
    UniqueConstraint("unique_key", name="entries_unique_key"),
    CheckConstraint("seq >= 0", name="entries_seq"),
    CheckConstraint("length(leaf_hash) = 32", name="entries_leaf_hash"),
    Index("entries_type", "type", "seq"),
    Index("entries_submission", "submission", "seq"),
)

nodes: Final = Table(
    "nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    CheckConstraint("level > 0 AND length(hash) = 32", name="nodes_form"),
    sqlite_with_rowid=False,
)

submissions: Final = Table(
    "submissions",
    metadata,
    Column("id", String, primary_key=True),
    Column("team", String, nullable=False),
    Column("name", String, nullable=False),
    Column("path", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("uid", Integer),
    Column("state", String, nullable=False),
    # The state whose work has begun and has not ended: after a restart, where the daemon died.
    Column("working", String),
    Column("received_at", String, nullable=False),
    Column("updated_at", String, nullable=False),
    Column("bundle_digest", String),
    Column("model", String),
    Column("data", Text, nullable=False),
    CheckConstraint("state IN (" + ", ".join(f"'{state}'" for state in STATES) + ")", name="submissions_state"),
    Index("submissions_state", "state", "received_at"),
)

deaths: Final = Table(
    "deaths",
    metadata,
    Column("submission", String, ForeignKey("submissions.id", ondelete="CASCADE"), primary_key=True),
    Column("state", String, primary_key=True),
    Column("count", Integer, nullable=False),
    sqlite_with_rowid=False,
)

verdicts: Final = Table(
    "verdicts",
    metadata,
    Column("submission", String, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("verdict", String, nullable=False),
    Column("team", String),
    Column("model", String),
    Column("bundle_digest", String),
    Column("policy_digest", String),
    Column("judged_at", String, nullable=False),
    Column("reason", Text, nullable=False),
    Index("verdicts_bundle_digest", "bundle_digest"),
    Index("verdicts_model", "model"),
)

findings: Final = Table(
    "findings",
    metadata,
    Column("submission", String, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("code", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("audience", String, nullable=False),
    Column("stage", String, nullable=False),
    Column("place", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Index("findings_code", "code"),
)

releases: Final = Table(
    "releases",
    metadata,
    Column("model", String, primary_key=True),
    Column("channel", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", String, nullable=False),
    # intent, active, superseded (was active), abandoned (the number is burnt)
    Column("state", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("verdict_seq", Integer),
    Column("intent_seq", Integer, nullable=False),
    Column("intent_at", String, nullable=False),
    Column("activated_seq", Integer),
    Column("activated_at", String),
    Index("releases_digest", "digest"),
)

revocations: Final = Table(
    "revocations",
    metadata,
    Column("digest", String, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("revoked_at", String, nullable=False),
    Column("reason", Text, nullable=False),
)

evidence: Final = Table(
    "evidence",
    metadata,
    Column("digest", String, primary_key=True),
    Column("size", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("stored_at", String, nullable=False),
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
