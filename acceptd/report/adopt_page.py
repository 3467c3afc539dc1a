"""What an adoption came to, as one HTML file: no script, nothing loaded, every submitted character escaped."""

from __future__ import annotations

from collections.abc import Sequence

from acceptd.adopt.rows import PROVES, Row, summary
from acceptd.report.escape import markup
from acceptd.report.observed import would
from acceptd.report.observed_list import refusals
from acceptd.report.observed_page import document, refusal, section
from acceptd.report.tables import BAD, code, table, whole_table


def page(rows: Sequence[Row], policy: str, policy_digest: str, made_at: str, *, observe: bool) -> str:
    """Return the page. ``observe``: verdicts are what would be."""
    there = [row for row in rows if row.state not in {"failed", "skipped"}]
    found = refusals([row.seen(policy, policy_digest) for row in there if row.verdict])
    tone = "accepted" if all(row.verdict == "accepted" for row in there) else "held"
    mode = "judged as in observe mode: nothing is recorded, blocked or promoted · " if observe else ""
    head = (
        f'<header><p class="verdict">Adoption</p><h1>{len(there)} bundles proposed</h1>'
        f"<p>{markup(summary(rows))}</p>"
        f'<p class="soft">{mode}policy {markup(policy)} {code(policy_digest[:12])} · made {markup(made_at)}</p>'
        "</header>\n"
    )
    body = [
        head,
        section(
            "What would be refused, by finding" if observe else "What is refused, by finding",
            "".join(map(refusal, found)),
        ),
        section("Not adopted", _left([row for row in rows if row.state in {"failed", "skipped"}])),
        section("Models", _models(there, observe=observe)),
        section("What needs a person", "".join(map(_todo, there))),
        section("What golden sets prove", _proves()),
    ]
    return document("Adoption", tone, body)


def _models(rows: Sequence[Row], *, observe: bool) -> str:
    cells = [
        (
            f"{code(row.name)}<br>{markup(row.path, 300)}",
            markup(row.state + (f", {len(row.edited)} edited" if row.edited else "")),
            f"{markup(row.proves)}<br>{markup(row.said, 300)}",
            markup(would(row.verdict) if observe else row.verdict),
            "<br>".join(code(each) for each, _, _ in row.decisive[:4]),
            "proposed" if row.contract else "",
            str(len(row.needs)),
        )
        for row in rows
    ]
    head = ("bundle", "", "golden sets", "check", "for", "contract", "to do")
    return whole_table(head, cells, right=(6,))


def _left(rows: Sequence[Row]) -> str:
    cells = [
        (code(row.path), f"{BAD if row.state == 'failed' else ''}{row.state}", markup(row.reason)) for row in rows
    ]
    return whole_table(("file", "", "why"), cells)


def _todo(row: Row) -> str:
    if not row.needs:
        return ""
    items = "".join(f"<p>{markup(text)}</p>" for text in row.needs)
    reason = "" if row.verdict in {"", "accepted"} else f'<p class="soft">{markup(row.reason)}</p>'
    model = f' <span class="soft">{markup(row.model, 140)}</span>' if row.model else ""
    return f"<h3>{code(row.name)}{model}</h3>{reason}{items}"


def _proves() -> str:
    return table(("shown", "what it proves"), [(markup(word), markup(text)) for word, text in PROVES.items()])
