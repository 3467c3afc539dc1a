"""What the machines of a fleet tell each other, and which versions of the code may work on a database.

A database on PostgreSQL begins with this version or a later one: what is below is for SQLite.
"""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

_SCHEMA: Final = (
    "ALTER TABLE submissions ADD COLUMN node VARCHAR",
    "CREATE INDEX submissions_node ON submissions (node, state, received_at)",
    """
    CREATE TABLE fleet_evidence (
        submission VARCHAR NOT NULL,
        round INTEGER NOT NULL,
        profile VARCHAR NOT NULL,
        node VARCHAR NOT NULL,
        key_id VARCHAR NOT NULL,
        envelope TEXT NOT NULL,
        evidence_digest VARCHAR NOT NULL,
        at VARCHAR NOT NULL,
        PRIMARY KEY (submission, round, profile, node),
        CONSTRAINT fleet_evidence_round CHECK (round > 0),
        CONSTRAINT fleet_evidence_small CHECK (
            length(submission) <= 128 AND length(profile) <= 64 AND length(node) <= 64 AND length(key_id) <= 64
            AND length(envelope) <= 262144 AND length(evidence_digest) <= 64 AND length(at) <= 40
        )
    )
    """,
    """
    CREATE TABLE fleet_nodes (
        name VARCHAR NOT NULL,
        role VARCHAR NOT NULL,
        host VARCHAR NOT NULL,
        version VARCHAR NOT NULL,
        schema INTEGER NOT NULL,
        key_id VARCHAR NOT NULL,
        queues TEXT NOT NULL,
        slots INTEGER NOT NULL,
        running INTEGER NOT NULL,
        told TEXT DEFAULT '{}' NOT NULL,
        started_at VARCHAR NOT NULL,
        seen_at VARCHAR NOT NULL,
        draining BOOLEAN DEFAULT 0 NOT NULL,
        PRIMARY KEY (name),
        CONSTRAINT fleet_nodes_small CHECK (
            length(name) <= 64 AND length(role) <= 16 AND length(host) <= 255 AND length(version) <= 64
            AND length(key_id) <= 64 AND length(queues) <= 16384 AND length(told) <= 16384
            AND length(started_at) <= 40 AND length(seen_at) <= 40
        )
    )
    """,
    # Code of version 1 does not know this row, and refuses what is newer than itself.
    "INSERT INTO meta (key, value) VALUES ('readable_from', '2')",
)


def upgrade() -> None:
    """Add two tables, a column and a row."""
    for statement in _SCHEMA:
        op.execute(statement)


def downgrade() -> None:
    """There is none."""
    raise NotImplementedError("restore the backup that was made before the migration")
