"""A judgement for a person at a terminal: verdict, reason, remedy; no wider than 80 columns needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from acceptd.report import heldout, observed, promoted
from acceptd.report.difference import heading, terminal_lines
from acceptd.report.escape import line, milliseconds, size
from acceptd.report.golden import terminal_rows as golden_rows
from acceptd.report.oracle import oracle_rows
from acceptd.report.origin import terminal_rows
from acceptd.report.parity import terminal_rows as parity_rows
from acceptd.report.probed import probed_rows
from acceptd.report.profiles import profile_lines
from acceptd.report.regression import terminal_lines as regression_lines
from acceptd.report.runtime import runtime_rows
from acceptd.report.sources import source_lines
from acceptd.report.speed import speed_rows
from acceptd.report.ticket import ticket_rows

STYLES: Final = {
    "accepted": "bold green",
    "rejected": "bold red",
    "held": "bold yellow",
    "inconclusive": "bold magenta",
}
MARKS: Final = {"accepted": "✓", "rejected": "✗", "held": "⏸", "inconclusive": "?"}
_PLAIN_MARKS: Final = {"accepted": "+", "rejected": "x", "held": "=", "inconclusive": "?"}
_SEVERITY_STYLES: Final = {"reject": "red", "hold": "yellow", "warn": "yellow", "info": "dim"}
_SHOWN: Final = 6
_PLACES: Final = 3
_IN_TICKET: Final = ("bundle", "policy", "submission")
"""Rows that a ticket has too, or that say nothing of a check, which is on no record."""


def print_verdict(
    console: Console, report: Mapping[str, Any], *, every_finding: bool = False, ticket: bool = False
) -> None:
    """Print ``report`` (see :mod:`acceptd.report.document`): at most six codes of findings, or all of them.

    ``ticket``: the last lines are what one would paste elsewhere, in the place of the rows that say the same.
    """
    unicode = console.encoding.lower().startswith("utf")
    verdict = str(report["verdict"])
    style = STYLES.get(verdict, "bold")
    mark = (MARKS if unicode else _PLAIN_MARKS).get(verdict, "?")
    head = Text(f"{mark} {observed.headline(report).upper()}", style=style)
    name = report.get("bundle_id") or report.get("path") or report.get("submission")
    head.append(f"  {line(name, 140)}", style="bold not dim default")
    if report.get("bundle_version"):
        head.append(f" {line(report['bundle_version'], 64)}", style="default not bold")
    console.print(head, highlight=False)
    console.print(Padding(_text(report["reason"], unicode), (0, 0, 0, 2), expand=False), highlight=False)
    _print_findings(console, report, unicode, every_finding)
    if every_finding:
        _print_difference(console, report, unicode)
        for number, told in enumerate(heldout.lines(report)):
            if not number:
                console.print()
            console.print(Padding(_text(told, unicode, limit=2000), (0, 0, 0, 2), expand=False), highlight=False)
    console.print()
    facts = _facts(report, unicode, every_finding, without=_IN_TICKET if ticket else ())
    console.print(Padding(facts, (0, 0, 0, 2), expand=False), highlight=False)
    if ticket:
        last = _grid()
        for row, text in ticket_rows(report):
            last.add_row(row, _text(text if unicode else text.replace("→", "->"), unicode))
        console.print()
        console.print(Padding(last, (0, 0, 0, 2), expand=False), highlight=False)


def one_line(report: Mapping[str, Any]) -> str:
    """Return one line for a list: verdict, bundle, the code that decided, reason. Plain text, escaped."""
    findings = report["findings"]
    code = f" {line(findings[0]['code'], 64)}" if findings and report["verdict"] != "accepted" else ""
    name = report.get("path") or report.get("bundle_id") or report.get("submission")
    return f"{report['verdict']:<12} {line(name, 120)}{code}: {line(report['reason'], 200)}"


def _text(value: Any, unicode: bool, style: str = "", limit: int = 400) -> Text:
    """Return escaped text; as a Text object it is never read as rich's markup."""
    safe = line(value, limit)
    return Text(safe if unicode else safe.encode("ascii", "backslashreplace").decode(), style=style)


def _print_findings(console: Console, report: Mapping[str, Any], unicode: bool, every: bool) -> None:
    """Print the findings by code: at most six codes with three places each, unless all are wanted."""
    kinds: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for finding in report["findings"]:
        # What is only information is left for the full report.
        if every or finding["severity"] != "info":
            kinds.setdefault((finding["severity"], finding["code"]), []).append(finding)
    shown = 0
    for found in list(kinds.values())[: None if every else _SHOWN]:
        places = found if every else found[:_PLACES]
        shown += len(places)
        console.print()
        console.print(Padding(_kind(found, places, unicode), (0, 0, 0, 2), expand=False), highlight=False)
    withheld = int(report.get("withheld_findings", 0))
    hidden = len(report["findings"]) - shown + withheld
    if hidden:
        grave = sum(one["severity"] != "info" for one in report["findings"]) - shown + withheld
        local = str(report.get("submission", "")).startswith("check-")
        where = "--all shows every one" if local else f"acceptd report {line(report.get('submission', ''), 60)}"
        kind = "" if grave else ", for information"
        more = f"{hidden} more finding{'s' if hidden > 1 else ''}{kind}: {where}"
        console.print()
        console.print(Padding(Text(more, style="dim"), (0, 0, 0, 2), expand=False), highlight=False)


def _kind(found: Sequence[Mapping[str, Any]], places: Sequence[Mapping[str, Any]], unicode: bool) -> Table:
    """Return one code: where and what, place by place, then once why it matters and how to mend it."""
    first = found[0]
    table = Table.grid(padding=(0, 1))
    table.add_column(width=8)
    table.add_column(overflow="fold", ratio=1)
    title = _text(first["code"], unicode, "bold")
    count = sum(int(one.get("count", 1)) for one in found)
    if count > 1:
        title.append(f"  {'×' if unicode else 'x'}{count}", style="not bold dim")
    severity = str(first["severity"])
    table.add_row(Text(line(severity, 8), style=_SEVERITY_STYLES.get(severity, "")), title)
    for one in places:
        if one["where"]:
            table.add_row("", _text(one["where"], unicode, "cyan"))
        table.add_row("", _text(one["message"], unicode))
    if len(found) > len(places):
        table.add_row("", Text(f"and {len(found) - len(places)} more places", style="dim"))
    if first.get("reason") and severity in {"reject", "hold"}:
        why = _text(first["reason"], unicode, "dim")
        table.add_row("", Text.assemble(("why ", "dim"), why))
    if first.get("remedy"):
        arrow = "→" if unicode else "->"
        table.add_row("", Text.assemble((f"{arrow} ", "green"), _text(first["remedy"], unicode, "green")))
    return table


def _print_difference(console: Console, report: Mapping[str, Any], unicode: bool) -> None:
    """Print what differs from the current release and from independent exports as a table of three columns."""
    print_rows(console, (*terminal_lines(report), *regression_lines(report)), unicode)


def print_rows(console: Console, rows: Iterable[tuple[str, str, str]], unicode: bool) -> None:
    """Print (what, before, after), not yet escaped, as a table; with both empty ``what`` is a heading."""
    for what, before, after in rows:
        if not before and not after:
            console.print()
            console.print(Padding(_text(what, unicode, "bold"), (0, 0, 0, 2), expand=False), highlight=False)
            continue
        table = Table.grid(padding=(0, 2), expand=False)
        table.add_column(style="dim", width=28, overflow="fold")
        table.add_column(width=20, overflow="fold")
        table.add_column(overflow="fold", ratio=1)
        cells = (part if unicode else part.replace("→", "->") for part in (what, before, after))
        table.add_row(*(_text(cell, unicode) for cell in cells))
        console.print(Padding(table, (0, 0, 0, 4), expand=False), highlight=False)


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True, min_width=10)
    table.add_column(overflow="fold", ratio=1)
    return table


def _facts(report: Mapping[str, Any], unicode: bool, every: bool, without: Sequence[str] = ()) -> Table:
    table = _grid()
    policy = f"{report.get('policy', '')} {str(report['policy_digest'])[:16]}".strip()
    rows: list[tuple[str, Any]] = [("bundle", report.get("bundle_digest")), ("policy", policy)]
    walls = report.get("walls") or {}
    missing = [f"{name} {state}" for name, state in walls.items() if state != "enforced"]
    enforced = f"{len(walls) - len(missing)} enforced"
    rows.append(("walls", ", ".join([enforced, *missing]) if walls else "none: nothing was run"))
    timings, resources = report.get("timings_ms") or {}, report.get("resources") or {}
    total = timings.get("total", sum(timings.values()))
    memory = size(resources.get("peak_memory_bytes", 0))
    rows.append(("cost", f"{milliseconds(total)}, {memory} of memory at most"))
    rows += profile_lines(report)
    rows += source_lines(report)
    rows += golden_rows(report, every=every)
    rows += parity_rows(report, every=every) if every else []
    rows += speed_rows(report, every=every)
    rows += runtime_rows(report, every=every)
    rows += oracle_rows(report) if every else []
    rows += probed_rows(report, every=every) if every else []
    if report.get("difference"):
        told = heading(report["difference"])
        rows.append(("compared", told.removeprefix("Not compared: ").removeprefix("Compared ").rstrip(".")))
    rows.append(("mode", observed.MODE if report.get("observed") else ""))
    rows.append(("release", promoted.places(report)))
    rows += [("not promoted", text) for text in promoted.troubles(report)]
    if report.get("submission"):
        rows.append(("submission", report["submission"]))
        if every and report["verdict"] == "held":
            rows.append(("decide", f"acceptd review show {report['submission']}"))
    rows.append(("ledger", report.get("ledger", "unanchored")))
    declared = terminal_rows(report.get("declared"), every=every)
    for name, value in declared:
        table.add_row(name, _text(value, unicode))
    if declared:  # what follows is acceptd's own word
        table.add_row("", "")
    for name, value in rows:
        if value and name not in without:
            table.add_row(name, _text(value, unicode))
    return table
