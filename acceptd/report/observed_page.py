"""What would be refused, as one HTML file: no script, nothing loaded, every submitted character escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from acceptd.report.escape import markup, prose
from acceptd.report.observed import would
from acceptd.report.observed_list import Refusal, Seen, refusals, summary
from acceptd.report.style import CONTENT_POLICY, CSS
from acceptd.report.tables import code, whole_table

_NAMED: Final = 40
_TONES: Final = ("inconclusive", "rejected", "held", "accepted")


def page(seen: Sequence[Seen], observes: str, made_at: str) -> str:
    """Return the page. ``observes`` says what the policy observes now, ``made_at`` when the page was made."""
    found = refusals(seen)
    lost = [one for one in seen if one.verdict == "inconclusive"]
    tone = next((word for word in _TONES if any(one.verdict == word for one in seen)), "accepted")
    head = (
        f'<header><p class="verdict">Observe mode</p><h1>What would be refused</h1><p>{markup(summary(seen))}</p>'
        f'<p class="soft">observed now: {markup(observes)} · made {markup(made_at)}</p></header>\n'
    )
    body = [
        head,
        section("Not judged: the host is at fault", "".join(map(_lost, lost))),
        section("By finding", "".join(map(refusal, found)) or "<p>Nothing would be refused or held.</p>"),
        section("Models", _models(seen)),
    ]
    return document("Observe mode: what would be refused", tone, body)


def document(title: str, tone: str, body: Sequence[str]) -> str:
    """Return the whole page; ``title`` and ``tone`` are our own words, ``body`` is markup already."""
    # The style element's content is hashed by the content policy, so it stands exactly as it is.
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n"
        f'<body>\n<main class="{tone}">\n{"".join(body)}</main>\n</body>\n</html>\n'
    )


def section(title: str, content: str) -> str:
    """Return a section of the page; nothing where it has no content."""
    return f"<section><h2>{title}</h2>{content}</section>\n" if content else ""


def refusal(one: Refusal) -> str:
    """Return the block of one finding code."""
    severity = markup(one.severity)
    many = f"{len(one.models)} model{'s' if len(one.models) > 1 else ''} of {', '.join(one.teams)}"
    names = ", ".join(f"<code>{markup(model.name, 140)}</code>" for model in one.models[:_NAMED])
    more = f" and {len(one.models) - _NAMED} more" if len(one.models) > _NAMED else ""
    parts = [
        f'<div class="finding {severity}"><p><span class="tag">{severity}</span><code>{markup(one.code)}</code>',
        f' <span class="soft">{markup(many)}</span></p><p>{names}{more}</p>',
        f'<p class="soft">{markup(one.meaning)}</p>' if one.meaning else "",
        f"<p>for example {markup(one.models[0].name, 140)}: {markup(one.example())}</p>",
        f'<p class="remedy"><b>Remedy</b> {prose(one.remedy)}</p>' if one.remedy else "",
        "</div>",
    ]
    return "".join(parts)


def _lost(one: Seen) -> str:
    return (
        f'<div class="finding inconclusive"><p><code>{markup(one.name, 140)}</code> '
        f'<span class="soft">submission {markup(one.submission)}</span></p><p>{markup(one.reason)}</p></div>'
    )


def _models(seen: Sequence[Seen]) -> str:
    rows = [
        (
            f"{code(one.name)} {markup(one.version, 64)}",
            markup(would(one.verdict)),
            "<br>".join(code(each) for each in one.codes[:6]),
            markup(one.judged_at),
            code(one.submission),
            f"{markup(one.policy)} {code(one.policy_digest[:12])}",
        )
        for one in sorted(seen, key=lambda one: (_TONES.index(one.verdict), one.name))
    ]
    head = ("model", "", "for", "judged", "submission", "policy")
    return whole_table(head, rows)
