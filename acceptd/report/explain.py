"""What is known about a finding code, for ``policy explain``: as data, and as lines for a terminal."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from acceptd.errors import UsageError
from acceptd.finding_examples import examples
from acceptd.judge.codes import CODES, changeable, group

_MAY: Final = {
    "any": "A policy may give it any severity, in [severity].",
    "not lowered": "A policy may raise it, never lower it.",
    "fixed": "No policy can change it.",
}


def near(code: str, most: int = 5) -> list[str]:
    """Return the codes that a misspelt one may mean: near spellings of it or of its last part, then its group."""
    tails = {name.partition("/")[2]: name for name in CODES}
    found = get_close_matches(code, CODES, n=most, cutoff=0.7)
    found += [tails[tail] for tail in get_close_matches(code.rpartition("/")[2], tails, n=most, cutoff=0.7)]
    found += [name for name in sorted(CODES) if group(name) == group(code)]
    return list(dict.fromkeys(found))[:most]


def known_code(code: str) -> str:
    """Return a finding code as it is; raise UsageError, with what was perhaps meant, where it is none."""
    if code not in CODES:
        found = near(code)
        hint = f"did you mean {', '.join(found)}?" if found else "acceptd policy explain --all lists every code"
        raise UsageError(f"there is no finding code {code!r:.80}", remedy=hint)
    return code


def explained(code: str) -> dict[str, Any]:
    """Return everything that is known about ``code`` as JSON data. Raises KeyError for an unknown one."""
    known, example = CODES[code], examples()[code]
    return {
        "code": code,
        "severity": known.severity,
        "audience": known.audience,
        "policy_may_change": changeable(code),
        "meaning": known.meaning,
        "reason": known.reason,
        "remedy": known.remedy,
        "example": {"where": example.where, "message": example.message},
        "references": [{"id": one.id, "title": one.title, "url": one.url} for one in known.references],
    }


def print_explained(console: Console, code: str, configured: str = "") -> None:
    """Print one code; ``configured`` is the severity that the chosen policy gives it, where it gives one."""
    facts = explained(code)
    head = Text.assemble((code, "bold"), f"  {facts['severity']}, for the {facts['audience']}")
    console.print(head)
    may = _MAY[facts["policy_may_change"]]
    if configured:
        may = f"The policy gives it {configured}. {may}"
    for name, words in (
        ("", facts["meaning"]),
        ("Why", facts["reason"]),
        ("Remedy", facts["remedy"]),
        ("Example", examples()[code].line()),
        ("Severity", may),
    ):
        text = Text.assemble((f"{name}: ", "bold"), words) if name else Text(words)
        console.print(Padding(text, (0, 0, 0, 2), expand=False))
    if facts["references"]:
        console.print(Padding(Text("References:", "bold"), (0, 0, 0, 2), expand=False))
    for one in facts["references"]:
        console.print(Padding(Text(f"{one['id']}: {one['title']}"), (0, 0, 0, 4), expand=False))
        console.print(Padding(Text(one["url"], "dim"), (0, 0, 0, 6), expand=False))
