"""The ledger: its entries under filters, and one entry with the proof that it is in the log."""

from __future__ import annotations

import json
from typing import Any, Final

from acceptd.errors import LedgerError
from acceptd.record.entry import Entry, model_of
from acceptd.record.proven import Proven, prove
from acceptd.report.escape import printable_data
from acceptd.web.asked import Asked
from acceptd.web.blocks import (
    Cell,
    Facts,
    Field,
    Form,
    Links,
    Page,
    Pager,
    Raw,
    Section,
    Table,
    Text,
    model_at,
    where,
)
from acceptd.web.house import House, NotHereError
from acceptd.web.queries import WantedEntries, kinds, newest_entries

_KEYS: Final = ("kind", "model", "since", "until", "text")
_MOST_JSON: Final = 200_000


def ledger(house: House, parameters: Any) -> Page:
    """Return the page of entries that pass the filters."""
    asked = Asked(parameters, (*_KEYS, "before"))
    there = kinds(house.ledger)
    wanted = WantedEntries(
        kind=asked.one_of("kind", there),
        model=asked.model(),
        since=asked.time("since"),
        until=asked.time("until"),
        text=asked.digest("text"),
    )
    found = newest_entries(house.ledger, wanted, asked.number("before"))
    given = {key: asked.text(key) for key in _KEYS}
    head = house.ledger.tree()
    older = where("ledger", before=found.older, **given) if found.older else ""
    return Page(
        "Ledger",
        [
            Facts([("Entries", head.size), ("Root", Cell(head.root.hex(), look="code"))]),
            Form("/ledger", "Filter", [
                Field("kind", "Type", given["kind"], [("", "any"), *((one, one) for one in there)]),
                Field("model", "Model", given["model"], hint="team/name", most=129),
                Field("since", "Since", given["since"], hint="30d, 12h, or 2026-11-29T15:17:00Z", most=20),
                Field("until", "Until", given["until"], hint="as since; not included", most=20),
                Field("text", "Digest", given["text"], hint="64 hex digits: entries that hold it", most=64),
            ]),
            _table(found.rows),
            Pager(older, where("ledger", **given) if asked.text("before") else "", found.note("entries")),
            Form("/ledger/entry", "Show and prove", [
                Field("entry", "Entry", hint="a number, or a submission with a verdict", most=128, required=True),
            ], title="Inclusion proof"),
        ],
        nav="Ledger",
    )  # fmt: skip


def _table(entries: list[Entry]) -> Table:
    rows = [
        (
            Cell(one.seq, where("ledger", one.seq)),
            one.type,
            one.at,
            Cell(model, model_at(model)) if (model := model_of(one.body)) and model.count("/") == 1 else "",
            _submission(one) or "",
            _word(one),
        )
        for one in entries
    ]
    head = ("Entry", "Type", "At", "Model", "Submission", "What")
    return Table("Entries, newest first", head, rows, empty="No entry passes the filter here.")


def _submission(entry: Entry) -> Cell | None:
    return Cell(entry.submission, where("submissions", entry.submission)) if entry.submission else None


def _word(entry: Entry) -> Any:
    body = entry.body
    if entry.type == "verdict":
        return Cell(body.get("verdict"), look=str(body.get("verdict")))
    parts = [body.get(key) for key in ("decision", "reviewer", "channel", "number", "name", "role", "what")]
    said = " ".join(str(one) for one in parts if isinstance(one, str | int))
    digest = next((body[key] for key in ("digest", "bundle_digest") if isinstance(body.get(key), str)), "")
    return f"{said} {digest[:12]}".strip()


def named(house: House, parameters: Any) -> str:
    """Return the address of the entry that a form names: by its number, or by the submission of a verdict."""
    wanted = Asked(parameters, ("entry",)).text("entry")
    if wanted.isascii() and wanted.isdecimal() and len(wanted) < 16:
        return where("ledger", int(wanted))
    row = house.submission(wanted)
    found = next(house.ledger.entries(kind="verdict", submission=row.id), None)
    if found is None:
        raise NotHereError(f"submission {row.id} has no verdict yet", remedy="name an entry by its number")
    return where("ledger", found.seq)


def entry(house: House, number: int, parameters: Any) -> Page:
    """Return the page of one entry: what it says, and the proof that the log holds it."""
    Asked(parameters, ())
    if number >= house.ledger.tree().size:
        raise NotHereError(f"there is no entry {number}", remedy=f"the last is {house.ledger.tree().size - 1}")
    found = house.ledger.entry(number)
    model = model_of(found.body)
    facts = [
        ("Type", found.type),
        ("At", found.at),
        ("Submission", _submission(found)),
        ("Model", Cell(model, model_at(model)) if model and model.count("/") == 1 else None),
        ("Leaf hash", Cell(found.leaf_hash.hex(), look="code")),
    ]
    text = json.dumps(printable_data(found.body), indent=1, ensure_ascii=False, sort_keys=True)
    said = [Raw("Body of the entry", text[:_MOST_JSON])]
    return Page(
        f"Entry {number}",
        [Facts(facts), Section("Inclusion proof", _proof(house, number)), Section("Body", said)],
        nav="Ledger",
        above="Ledger",
    )


def _proof(house: House, number: int) -> list[Any]:
    try:
        proven = prove(house.state, house.ledger, number)
    except LedgerError as error:
        return [Text(f"The proof does not hold: {error}", "bad")]
    proof = proven.proof
    path = "\n".join(step.hex() for step in proof.path) or "(no step: the log has one entry)"
    return [
        _verdict(proven),
        Facts(
            [
                ("Entry", f"{number} of {proof.size}"),
                ("Leaf hash", Cell(proof.leaf_hash.hex(), look="code")),
                ("Root", Cell(proof.root.hex(), look="code")),
                ("Log", Cell(proven.origin, look="code")),
            ]
        ),
        Raw("Audit path, from the leaf up", path),
        *([Raw("Signed checkpoint", proven.note.rstrip("\n"))] if proven.note else []),
        Links([("The proof as JSON, as `acceptd ledger proof` prints it", where("ledger", number, "proof.json"))]),
    ]


def _verdict(proven: Proven) -> Text:
    if not proven.proof.holds():
        return Text("The proof does NOT hold: the leaf, its hash and the path do not lead to the root.", "bad")
    if proven.signed is None:
        return Text(
            "The path leads to the root of the log as it is now; no signed checkpoint covers the entry yet."
        )
    if not proven.sealed:
        return Text("The path leads to a root that is NOT that of the signed checkpoint.", "bad")
    return Text(
        f"Verified: the leaf's hash leads by {len(proven.proof.path)} steps to the root of the checkpoint of "
        f"{proven.signed.size} entries, which this instance's ledger key has signed.",
        "good",
    )


def proof_json(house: House, number: int) -> str:
    """Return the proof of an entry as JSON text."""
    if number >= house.ledger.tree().size:
        raise NotHereError(f"there is no entry {number}", remedy=f"the last is {house.ledger.tree().size - 1}")
    return json.dumps(prove(house.state, house.ledger, number).as_json(), indent=2) + "\n"
