"""One submission: verdict, findings, models, digests, decisions; and its report, in a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.errors import ConfigError
from acceptd.record.entry import Entry
from acceptd.record.queue import Submission
from acceptd.report import promoted
from acceptd.report.escape import shape, size
from acceptd.report.html import render
from acceptd.report.observed import MODE, would
from acceptd.web.asked import Asked
from acceptd.web.blocks import Cell, Facts, Finding, Links, Page, Section, Table, Text, model_at, where
from acceptd.web.house import House, NotHereError

_MOST: Final = 200
_DIGESTS: Final = (
    ("Bundle", "bundle_digest"),
    ("Manifest", "manifest_digest"),
    ("Policy", "policy_digest"),
    ("Contract", "contract_digest"),
    ("Profile", "profile_digest"),
    ("Profiles", "profiles_digest"),
    ("Evidence", "evidence_digest"),
    ("Runtime identity", "runtime_identity"),
)


def submission(house: House, wanted: str, parameters: Any) -> Page:
    """Return the page of one submission."""
    Asked(parameters, ())
    row = house.submission(wanted)
    entry = verdict_of(house, row)
    document: Mapping[str, Any] = row.data.get("document") or {}
    facts = Facts(
        [
            ("Model", Cell(row.model, model_at(row.model)) if row.model else None),
            ("Version", document.get("bundle_version")),
            ("Team", Cell(row.team, where("", team=row.team))),
            ("Drop", row.name),
            ("State", row.state),
            ("Mode", MODE if entry and entry.body.get("observed") else None),
            ("Received", row.received_at),
            ("Judged", document.get("judged_at") or (entry.body.get("judged_at") if entry else None)),
            ("Release", promoted.places(row.data)),
            ("Not promoted", "; ".join(promoted.troubles(row.data))),
            ("Ledger entry", Cell(entry.seq, where("ledger", entry.seq)) if entry else None),
        ]
    )
    verdict = str(entry.body.get("verdict")) if entry else ""
    reason = str(entry.body.get("reason")) if entry else f"It is {row.state}: there is no verdict yet."
    blocks: list[Any] = [Text(reason), facts]
    if document:
        blocks.append(Links([("The whole report", where("submissions", row.id, "report"))]))
    if entry is not None:
        blocks.append(Section("Findings", _findings(document, entry)))
        blocks.append(Section("Decisions", _decisions(house, row, entry)))
        blocks.append(Section("Models", _models(document)))
        blocks.append(Section("Digests", [_digests(house, entry)]))
        blocks.append(Section("Files", [_files(document)]))
    observed = entry is not None and bool(entry.body.get("observed"))
    said = f"observed, {would(verdict)}" if observed else verdict or row.state
    return Page(f"{said}: {row.id}", blocks, nav="Queue", look=verdict, above="Submission")


def report(house: House, wanted: str) -> str:
    """Return the report of one submission as the outbox has it, made anew from its document."""
    document = house.submission(wanted).data.get("document")
    if not document:
        raise NotHereError(f"there is no report of {wanted!r:.140}", remedy="it has no verdict yet")
    return render(document)


def verdict_of(house: House, row: Submission) -> Entry | None:
    """Return the entry of a submission's verdict, None where it has none yet."""
    return next(house.ledger.entries(kind="verdict", submission=row.id), None)


def _findings(document: Mapping[str, Any], entry: Entry) -> list[Any]:
    rows = document.get("findings", entry.body.get("findings", ()))
    blocks: list[Any] = [Finding(one) for one in rows[:_MOST]]
    if len(rows) > _MOST:
        blocks.append(Text(f"and {len(rows) - _MOST} more: see the whole report", "soft"))
    return blocks or [Text("None.", "soft")]


def _decisions(house: House, row: Submission, entry: Entry) -> list[Any]:
    try:
        desk = house.desk()
        channel = desk.policy.release.channel
        standing = desk.weigh(entry, channel)
        given = desk.given(entry)
    except ConfigError as error:
        return [Text(f"Decisions cannot be weighed now: {error}", "bad")]
    head = ("Entry", "Decision", "Reviewer", "Team", "Channel", "Until", "Reason")
    lines = [
        (
            Cell(one.seq, where("ledger", one.seq)),
            " ".join([one.decision.decision, *one.decision.codes, *one.decision.attestations]),
            one.reviewer.name,
            one.reviewer.team,
            one.decision.channel,
            one.decision.expires_at,
            one.decision.reason,
        )
        for one in given[-_MOST:]
    ]
    blocks: list[Any] = [
        Text(f"For {channel}: {standing.reason}."),
        Table("Decisions on record", head, lines, empty="Nobody has decided about it."),
    ]
    if entry.body.get("verdict") in {"accepted", "held"} and not entry.body.get("observed"):
        blocks.append(Links([("Approve or reject it", where("submissions", row.id, "decide"))]))
    return blocks


def _models(document: Mapping[str, Any]) -> list[Any]:
    blocks: list[Any] = []
    for one in document.get("models", ())[:_MOST]:
        rows = [
            (way, Cell(value["name"], look="code"), value["dtype"], Cell(shape(value["shape"]), look="code"))
            for way, key in (("input", "inputs"), ("output", "outputs"))
            for value in one.get(key, ())[:_MOST]
        ]
        caption = f"{one['name']} in {one['file']}" if one.get("file") else str(one["name"])
        blocks.append(
            Table(caption, ("Way", "Name", "Type", "Shape"), rows, empty=f"{caption}: no interface is known.")
        )
    return blocks or [Text("None was looked at.", "soft")]


def _digests(house: House, entry: Entry) -> Facts:
    rows: list[tuple[str, Any]] = [
        (name, Cell(entry.body[key], where("ledger", text=entry.body[key]), "code"))
        for name, key in _DIGESTS
        if entry.body.get(key)
    ]
    kept = entry.body.get("evidence_digest")
    if isinstance(kept, str):
        held = house.ledger.holds_evidence(kept)
        rows.append(("Evidence is", "kept" if held else "not kept any more"))
    return Facts([*rows, ("Leaf hash", Cell(entry.leaf_hash.hex(), where("ledger", entry.seq), "code"))])


def _files(document: Mapping[str, Any]) -> Table:
    files = document.get("files", ())
    rows = [
        (Cell(one["path"], look="code"), Cell(size(one["size"]), look="number"), Cell(one["sha256"], look="code"))
        for one in files[:_MOST]
    ]
    return Table(
        f"{len(rows)} of {len(files)} files", ("Path", "Size", "SHA-256"), rows, empty="Nothing was sealed."
    )
