"""What no entry can make anew: the queue, held against verdicts, and evidence, against its own digest."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any, Final, NamedTuple

from acceptd.errors import LedgerError
from acceptd.record.auditing.report import Report
from acceptd.record.canonical import digest, parse
from acceptd.record.entry import decode

_AFTERWARDS: Final = frozenset({"drop", "entry", "release", "releases", "promotion_trouble"})
"""What a report gains after its verdict."""

_QUEUE: Final = (
    "SELECT q.id, q.state, q.data, q.uid, q.bundle_digest, q.team, q.model, "
    "v.verdict, v.bundle_digest, v.team, v.model, e.leaf FROM submissions q "
    "LEFT JOIN verdicts v ON v.submission = q.id LEFT JOIN entries e ON e.seq = v.seq "
    "WHERE q.rowid BETWEEN ? AND ? ORDER BY q.rowid"
)


class _Queued(NamedTuple):
    id: str
    state: str
    data: str
    uid: int | None
    bundle_digest: str | None
    team: str
    model: str | None
    verdict: str | None
    judged_digest: str | None
    judged_team: str | None
    judged_model: str | None
    leaf: bytes | None


def check_queue(raw: sqlite3.Connection, first: int, end: int, report: Report) -> None:
    """A submission that is done has a verdict, and what the queue keeps of it is what that verdict says."""
    for values in raw.execute(_QUEUE, (first, end - 1)):
        row = _Queued._make(values)
        where = f"submission {row.id}"
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
        if row.leaf is not None and isinstance(data, dict):
            _kept(row, data, where, report)


def _kept(row: _Queued, data: dict[str, Any], where: str, found: Report) -> None:
    """What a promotion or a report takes from the queue must be what was judged."""
    try:
        body = decode(row.leaf or b"", b"").body
    except LedgerError:
        return  # the entries' own check says it
    if data.get("verdict") not in (None, body.get("verdict")):  # either may be a list
        found.add("queue", where, f"holds the verdict {data['verdict']!r:.80}, its entry another")
    if body.get("uid", row.uid) != row.uid:
        found.add("queue", where, f"was dropped by uid {row.uid!r:.80}, its verdict says {body['uid']!r:.80}")
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


def check_evidence(raw: sqlite3.Connection, first: int, end: int, report: Report) -> None:
    """Every blob is what its digest says; one at a time, for they may be large."""
    query = "SELECT digest, size, data FROM evidence WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
    for name, size, blob in raw.execute(query, (first, end - 1)):
        data = blob if isinstance(blob, bytes) else b""
        if hashlib.sha256(data).hexdigest() != name or len(data) != size:
            report.add("evidence", str(name), "its bytes are not what its digest and size say")
