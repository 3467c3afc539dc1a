"""Evidence statements in the record: workers insert them, the promoter reads them. Rows are hostile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, insert, select

from acceptd.fleet.envelope import MAX_BYTES
from acceptd.record.log import Ledger
from acceptd.record.tables import fleet_evidence

MOST_ROWS: Final = 1024
"""Of one submission that are looked at: profiles, times nodes."""


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One row. ``envelope`` is what it says, whoever wrote it, cut to one byte more than an envelope may have."""

    submission: str
    round: int
    profile: str
    node: str
    key_id: str
    envelope: str
    evidence_digest: str


def put(ledger: Ledger, row: EvidenceRow) -> bool:
    """Insert a row; False where this node gave one for the same submission, round and profile before."""
    key = (
        fleet_evidence.c.submission == row.submission,
        fleet_evidence.c.round == row.round,
        fleet_evidence.c.profile == row.profile,
        fleet_evidence.c.node == row.node,
    )
    with ledger.transaction(durable=False) as change:
        if change.connection.execute(select(fleet_evidence.c.round).where(*key)).first() is not None:
            return False
        values = {
            "submission": row.submission,
            "round": row.round,
            "profile": row.profile,
            "node": row.node,
            "key_id": row.key_id,
            "envelope": row.envelope,
            "evidence_digest": row.evidence_digest,
            "at": change.now(),
        }
        change.connection.execute(insert(fleet_evidence).values(values))
        return True


def given(ledger: Ledger, submission: str, round_: int, profile: str, node: str) -> bool:
    """Whether a node has given evidence already."""
    columns = fleet_evidence.c
    query = select(columns.round).where(
        columns.submission == submission, columns.round == round_, columns.profile == profile, columns.node == node
    )
    with ledger.reading() as connection:
        return connection.execute(query).first() is not None


def of(ledger: Ledger, submission: str, round_: int | None = None) -> list[EvidenceRow]:
    """Return the rows of a submission, or of one round of it, by round, profile and node.

    At most :data:`MOST_ROWS`: rows of other rounds, which anybody with a worker's login may write, hide none.
    """
    columns = fleet_evidence.c
    short = func.substr(columns.envelope, 1, MAX_BYTES + 1)
    query = (
        select(
            columns.submission, columns.round, columns.profile, columns.node, columns.key_id,
            short.label("envelope"), columns.evidence_digest,
        )
        .where(columns.submission == submission, *([] if round_ is None else [columns.round == round_]))
        .order_by(columns.round, columns.profile, columns.node)
        .limit(MOST_ROWS)
    )  # fmt: skip
    with ledger.reading() as connection:
        rows = connection.execute(query).all()
    return [
        EvidenceRow(
            row.submission, row.round, row.profile, row.node, row.key_id, row.envelope, row.evidence_digest
        )
        for row in rows
    ]
