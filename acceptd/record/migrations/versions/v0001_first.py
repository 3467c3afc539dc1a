"""The schema as it was before there were migrations: version 1. Databases of then are stamped with this revision.

The table ``given_up_leases`` is none of it: a daemon makes it at its start, and it may be lost.
"""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0001"
down_revision: Final = None

_SCHEMA: Final = (
    """
    CREATE TABLE meta (
        "key" VARCHAR NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY ("key")
    )
    """,
    """
    CREATE TABLE entries (
        seq INTEGER NOT NULL,
        type VARCHAR NOT NULL,
        submission VARCHAR,
        unique_key VARCHAR,
        leaf BLOB NOT NULL,
        leaf_hash BLOB NOT NULL,
        recorded_at VARCHAR NOT NULL,
        PRIMARY KEY (seq),
        CONSTRAINT entries_unique_key UNIQUE (unique_key),
        CONSTRAINT entries_seq CHECK (seq >= 0),
        CONSTRAINT entries_leaf_hash CHECK (length(leaf_hash) = 32)
    )
    """,
    """
    CREATE INDEX entries_submission ON entries (submission, seq)
    """,
    """
    CREATE INDEX entries_type ON entries (type, seq)
    """,
    """
    CREATE TABLE nodes (
        level INTEGER NOT NULL,
        idx INTEGER NOT NULL,
        hash BLOB NOT NULL,
        PRIMARY KEY (level, idx),
        CONSTRAINT nodes_form CHECK (level > 0 AND length(hash) = 32)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE submissions (
        id VARCHAR NOT NULL,
        team VARCHAR NOT NULL,
        name VARCHAR NOT NULL,
        path VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        uid INTEGER,
        state VARCHAR NOT NULL,
        working VARCHAR,
        received_at VARCHAR NOT NULL,
        updated_at VARCHAR NOT NULL,
        bundle_digest VARCHAR,
        model VARCHAR,
        data TEXT NOT NULL,
        PRIMARY KEY (id),
        CONSTRAINT submissions_state CHECK (state IN (
            'claimed', 'sealed', 'examined', 'judged', 'promoted', 'done', 'quarantined'
        ))
    )
    """,
    """
    CREATE INDEX submissions_state ON submissions (state, received_at)
    """,
    """
    CREATE TABLE verdicts (
        submission VARCHAR NOT NULL,
        seq INTEGER NOT NULL,
        verdict VARCHAR NOT NULL,
        team VARCHAR,
        model VARCHAR,
        bundle_digest VARCHAR,
        policy_digest VARCHAR,
        judged_at VARCHAR NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (submission)
    )
    """,
    """
    CREATE INDEX verdicts_model ON verdicts (model)
    """,
    """
    CREATE INDEX verdicts_bundle_digest ON verdicts (bundle_digest)
    """,
    """
    CREATE TABLE findings (
        submission VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        code VARCHAR NOT NULL,
        severity VARCHAR NOT NULL,
        audience VARCHAR NOT NULL,
        stage VARCHAR NOT NULL,
        place TEXT NOT NULL,
        message TEXT NOT NULL,
        evidence TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (submission, position)
    )
    """,
    """
    CREATE INDEX findings_code ON findings (code)
    """,
    """
    CREATE TABLE releases (
        model VARCHAR NOT NULL,
        channel VARCHAR NOT NULL,
        number INTEGER NOT NULL,
        digest VARCHAR NOT NULL,
        state VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        reason TEXT NOT NULL,
        verdict_seq INTEGER,
        intent_seq INTEGER NOT NULL,
        intent_at VARCHAR NOT NULL,
        activated_seq INTEGER,
        activated_at VARCHAR,
        PRIMARY KEY (model, channel, number)
    )
    """,
    """
    CREATE INDEX releases_digest ON releases (digest)
    """,
    """
    CREATE TABLE revocations (
        digest VARCHAR NOT NULL,
        seq INTEGER NOT NULL,
        revoked_at VARCHAR NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (digest)
    )
    """,
    """
    CREATE TABLE evidence (
        digest VARCHAR NOT NULL,
        size INTEGER NOT NULL,
        data BLOB NOT NULL,
        stored_at VARCHAR NOT NULL,
        PRIMARY KEY (digest)
    )
    """,
    """
    CREATE TABLE deaths (
        submission VARCHAR NOT NULL,
        state VARCHAR NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (submission, state),
        FOREIGN KEY(submission) REFERENCES submissions (id) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    """
    CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END
    """,
    """
    CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END
    """,
    """
    CREATE TRIGGER nodes_no_update BEFORE UPDATE ON nodes
        BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END
    """,
    """
    CREATE TRIGGER nodes_no_delete BEFORE DELETE ON nodes
        BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END
    """,
    """
    CREATE TRIGGER evidence_no_update BEFORE UPDATE ON evidence
        BEGIN SELECT RAISE(ABORT, 'evidence is never edited'); END
    """,
    """
    CREATE TRIGGER entries_next BEFORE INSERT ON entries
        WHEN NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 0) FROM entries)
        BEGIN SELECT RAISE(ABORT, 'entries are numbered without gaps'); END
    """,
    """
    CREATE TRIGGER entries_once BEFORE INSERT ON entries
        WHEN EXISTS (SELECT 1 FROM entries WHERE unique_key = NEW.unique_key)
        BEGIN SELECT RAISE(ABORT, 'entries_unique_key'); END
    """,
    """
    CREATE TRIGGER nodes_once BEFORE INSERT ON nodes
        WHEN EXISTS (SELECT 1 FROM nodes WHERE level = NEW.level AND idx = NEW.idx)
        BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END
    """,
)


def upgrade() -> None:
    """Make tables, indices and triggers in an empty database."""
    for statement in _SCHEMA:
        op.execute(statement)


def downgrade() -> None:
    """There is none."""
    raise NotImplementedError("restore the backup that was made before the migration")
