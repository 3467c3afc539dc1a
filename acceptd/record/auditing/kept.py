"""What no entry can make anew: the queue, held against verdicts, and evidence, against its own digest."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from sqlalchemy import select

from acceptd.errors import LedgerError
from acceptd.record import tables
from acceptd.record.auditing.report import PAGE, Report
from acceptd.record.canonical import digest, parse
from acceptd.record.log import Ledger

_AFTERWARDS: Final = frozenset({"drop", "release", "promotion_trouble"})
"""What a report gains after its verdict."""


def check_queue(ledger: Ledger, report: Report) -> None:
    """A submission that is done has a verdict, and what the queue keeps of it is what that verdict says."""
    queue, judged = tables.submissions.c, tables.verdicts.c
    query = (
        select(queue.id, queue.state, queue.data, queue.bundle_digest, queue.team, queue.model)
        .add_columns(judged.verdict, judged.bundle_digest.label("judged_digest"), judged.seq)
        .add_columns(judged.team.label("judged_team"), judged.model.label("judged_model"))
        .join_from(tables.submissions, tables.verdicts, queue.id == judged.submission, isouter=True)
        .order_by(queue.id)
        .limit(PAGE)
    )
    after = ""
    while True:
        with ledger.reading() as connection:
            page = list(connection.execute(query.where(queue.id > after)))
        if not page:
            return
        for row in page:
            where, after = f"submission {row.id}", row.id
            if row.state == "done" and row.verdict is None:
                report.add("queue", where, "is done without a verdict")
            if row.judged_digest is not None and row.bundle_digest not in {None, row.judged_digest}:
                report.add("queue", where, f"holds bundle {row.bundle_digest!r:.80}, not the one that was judged")
            for key, kept, due in (("team", row.team, row.judged_team), ("model", row.model, row.judged_model)):
                if due is not None and kept not in {None, due}:
                    report.add("queue", where, f"is of the {key} {kept!r:.80}, its verdict says {due!r:.80}")
            try:
                data = parse(row.data.encode())
            except (LedgerError, AttributeError, UnicodeError) as error:
                report.add("queue", where, f"fields that cannot be read: {error}")
                continue
            if row.seq is not None and isinstance(data, dict):
                _kept(ledger, row.seq, data, where, report)


def _kept(ledger: Ledger, seq: int, data: dict[str, Any], where: str, found: Report) -> None:
    """What a promotion or a report takes from the queue must be what was judged."""
    try:
        body = ledger.entry(seq).body
    except LedgerError:
        return  # the entries' own check says it
    if data.get("verdict") not in {None, body.get("verdict")}:
        found.add("queue", where, f"holds the verdict {data['verdict']!r:.80}, its entry another")
    sealed, report = data.get("sealed"), data.get("document")
    if isinstance(sealed, dict) and sealed.get("digest") != body.get("bundle_digest"):
        found.add("queue", where, "holds the inventory of another bundle than was judged")
    if isinstance(report, dict) and "report_digest" in body:
        said = {key: value for key, value in report.items() if key not in _AFTERWARDS}
        if digest(said) != body["report_digest"]:
            found.add("queue", where, "holds another report than its verdict was recorded with")
    for what in ("manifest", "options", "profiles"):
        due = body.get(f"{what}_digest")
        if due is not None and data.get(what) is not None and digest(data[what]) != due:
            found.add("queue", where, f"holds another {what} than was judged")


def check_evidence(ledger: Ledger, report: Report) -> None:
    """Every blob is what its digest says; one at a time, for they may be large."""
    columns, after = tables.evidence.c, ""
    with ledger.reading() as connection:
        while True:
            query = select(columns.digest, columns.size, columns.data).where(columns.digest > after)
            row = connection.execute(query.order_by(columns.digest).limit(1)).first()
            if row is None:
                return
            data = row.data if isinstance(row.data, bytes) else b""
            if hashlib.sha256(data).hexdigest() != row.digest or len(data) != row.size:
                report.add("evidence", row.digest, "its bytes are not what its digest and size say")
            after = row.digest
