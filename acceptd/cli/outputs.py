"""Every way in which text of a submitter leaves acceptd, in one table, so that one test can go through them all.

A command or report that prints such text has its entry here; a test compares this table with the modules that
print or write, so that a new output cannot be forgotten.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rich.console import Console

from acceptd.adopt.rows import Row
from acceptd.cli import (
    adopt,
    check,
    common,
    observe,
    portfolio,
    reaccept,
    release_diff,
    release_history,
    replay,
    status,
    tables,
    verify,
)
from acceptd.portfolio.facts import Facts, Judged, ProfileWord
from acceptd.portfolio.rows import Portfolio, assemble
from acceptd.reaccept.result import Reaccepted
from acceptd.reaccept.standing import Standing
from acceptd.record.canonical import canonical, plain
from acceptd.record.queue import Submission
from acceptd.release.book import Book
from acceptd.release.difference import Change, Difference, Side
from acceptd.release.history import HistoryLine
from acceptd.replay.again import Replayed
from acceptd.report import adopt_page, html, junit, observed_list, observed_page, sarif, terminal
from acceptd.report.document import for_team
from acceptd.report.escape import line
from acceptd.report.logs import processors
from acceptd.verdicts import recorded_findings

Report = Mapping[str, Any]
Form = Literal["line", "lines", "json", "record", "xml", "html"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One output: ``render`` makes its bytes from a report whose every text may be hostile.

    ``form`` says how the result is read: in a ``json`` the bytes are printable, and names stand as they are
    once it is decoded; in a ``record`` they are printable then too. ``modules`` print or write through it.
    """

    name: str
    form: Form
    render: Callable[[Report], bytes]
    modules: tuple[str, ...]


def _screen(draw: Callable[[Console], None], width: int = 80) -> bytes:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="utf-8", errors="strict", write_through=True) as stream:
        draw(Console(file=stream, width=width, color_system=None, highlight=False, markup=False, emoji=False))
        return raw.getvalue()


def _log(report: Report, *, as_json: bool) -> bytes:
    finding = report["findings"][0] if report["findings"] else {}
    event: Any = {"event": "judged", "reason": report["reason"], "finding": dict(finding), "level": "info"}
    for processor in processors(as_json=as_json)[-2:]:  # what comes before adds the time and the context
        event = processor(None, "info", event)
    return str(event).encode("ascii", "backslashreplace") + b"\n"


def _row(report: Report) -> Submission:
    return Submission(
        id=str(report["submission"]),
        team=str(report["team"]),
        name=str(report["reason"]),
        path="",
        kind="directory",
        uid=None,
        state="judged",
        working=None,
        received_at="",
        updated_at="",
        bundle_digest=None,
        model=None,
        data={"verdict": report["verdict"]},
    )


def _said(report: Report) -> dict[str, Any]:
    text = str(report["reason"])
    return {"kind": text, "verdict": text, "reason": text, "subjects": [{"name": text, "sha256": text}]}


def _replayed(report: Report) -> Replayed:
    text = str(report["reason"])
    return Replayed(
        submission=str(report["submission"]),
        team=text,
        model=text,
        judged_at="",
        status="changed",
        old="accepted",
        new="rejected",
        reason=text,
        added={text: 2},
        removed={text: 1},
    )


def _portfolio(report: Report) -> Portfolio:
    text = str(report["reason"])
    word = ProfileWord(text, text)
    judged = Judged(1, text, "accepted", text, "2026-11-29T15:17:00Z", text, text, text, text, text, (word,))
    newest = replace(judged, seq=2, verdict="rejected")
    facts = Facts(Book(), newest={text: newest}, accepted={text: judged}, troubles=(text,))
    return assemble(facts, at="2026-11-30T00:00:00Z", within_seconds=60)


def _differing(report: Report) -> Difference:
    text = str(report["reason"])
    one = Side("", text, 1, "promote", "", "", text, "", "", ())
    return Difference(one, one, (Change("manifest", text, text, text),))


def _adopted(report: Report) -> list[Row]:
    text = str(report["reason"])
    told = {"model": text, "version": text, "reason": text, "said": text, "needs": [text], "edited": [text]}
    made = Row(path=text, kind="model", state="made", name=text, verdict="rejected", **told)  # type: ignore[arg-type]
    decisive = [(text, "hold", text), ("parity/mismatch", "reject", text)]
    return [made.model_copy(update={"decisive": decisive}), made.model_copy(update={"state": "failed"})]


def _observed(report: Report) -> list[observed_list.Seen]:
    text = str(report["reason"])
    decisive = tuple((code, "reject", text) for code in (text, "parity/mismatch"))
    plain_ = dict.fromkeys(("version", "reason", "judged_at", "submission", "policy", "policy_digest"), text)
    return [
        observed_list.Seen(name=text, team=text, verdict=word, decisive=decisive, **plain_)
        for word in observed_list.VERDICTS
    ]


def _reaccepted(report: Report) -> Reaccepted:
    text = str(report["reason"])
    standing = Standing(text, text, ((text, 1),), text, 1, text, frozenset(), (text,), revoked=True)
    return Reaccepted(standing, "rejected", text, (text,), (text,), (text,), heldout=True)


def _released(report: Mapping[str, Any]) -> HistoryLine:
    text = str(report["reason"])
    return HistoryLine(
        number=1,
        kind="promote",
        state="active",
        bundle_digest="",
        version=text,
        reason=text,
        at="",
        verdict_seq=0,
        intent_seq=0,
        revoked=text,
        profiles=(text,),
        by=text,
        decided=(text,),
    )


CHANNELS: Final = (
    Channel(
        "terminal: a verdict",
        "lines",
        lambda report: _screen(lambda out: terminal.print_verdict(out, report, every_finding=True, ticket=True)),
        ("acceptd.report.terminal", "acceptd.cli.check", "acceptd.cli.report", "acceptd.cli.submit"),
    ),
    Channel(
        "terminal: one line of a suite",
        "line",
        lambda report: terminal.one_line(report).encode() + b"\n",
        ("acceptd.report.terminal", "acceptd.cli.check"),
    ),
    Channel(
        "terminal: the queue",
        "lines",
        lambda report: _screen(lambda out: out.print(status.submissions([_row(report)]))),
        ("acceptd.cli.status",),
    ),
    Channel(
        "terminal: the portfolio",
        "lines",
        lambda report: _screen(lambda out: portfolio.print_portfolio(out, _portfolio(report), every=True)),
        ("acceptd.cli.portfolio",),
    ),
    Channel(
        "terminal: an error",
        "line",
        lambda report: common.one_line(str(report["reason"])).encode() + b"\n",
        ("acceptd.cli.common", "acceptd.cli.main"),
    ),
    Channel(
        "terminal: ledger and releases",
        "line",
        lambda report: line(report["reason"]).encode() + b"\n",
        ("acceptd.cli.ledger", "acceptd.cli.release", "acceptd.cli.doctor"),
    ),
    Channel(
        "terminal: a table, and its blocks of lines",
        "lines",
        lambda report: _screen(
            lambda out: tables.print_table(
                out, ("model", "reason"), [(report["reason"], report["reason"])], empty="none"
            )
        ),
        (
            "acceptd.cli.tables",
            "acceptd.cli.review",
            "acceptd.cli.key",
            "acceptd.cli.contract_show",
            "acceptd.cli.release_export",
        ),
    ),
    Channel(
        "terminal: the history of a channel",
        "lines",
        lambda report: _screen(lambda out: release_history.print_history(out, [_released(report)])),
        ("acceptd.cli.release_history",),
    ),
    Channel(
        "terminal: what differs between two releases",
        "lines",
        lambda report: _screen(lambda out: release_diff.print_difference(out, _differing(report))),
        ("acceptd.cli.release_diff",),
    ),
    Channel(
        "terminal: a replay",
        "lines",
        lambda report: _screen(lambda out: replay.print_replayed(out, [_replayed(report)])),
        ("acceptd.cli.replay",),
    ),
    Channel(
        "terminal: a re-acceptance",
        "lines",
        lambda report: _screen(lambda out: reaccept.print_reaccepted(out, [_reaccepted(report)], "under cpu")),
        ("acceptd.cli.reaccept",),
    ),
    Channel(
        "terminal: what would be refused",
        "lines",
        lambda report: _screen(lambda out: observe.print_observed(out, _observed(report), report["reason"])),
        ("acceptd.cli.observe",),
    ),
    Channel(
        "HTML: what would be refused",
        "html",
        lambda report: observed_page.page(_observed(report), report["reason"], report["reason"]).encode(),
        ("acceptd.cli.observe",),
    ),
    Channel(
        "terminal: an adoption",
        "lines",
        lambda report: _screen(
            lambda out: adopt.print_rows(out, _adopted(report), report["reason"], observe=True)
        ),
        ("acceptd.cli.adopt",),
    ),
    Channel(
        "HTML: an adoption",
        "html",
        lambda report: adopt_page.page(
            _adopted(report), report["reason"], report["reason"], report["reason"], observe=True
        ).encode(),
        ("acceptd.cli.adopt",),
    ),
    Channel(
        "terminal: a verified file",
        "lines",
        lambda report: _screen(lambda out: verify.print_verified(out, _said(report))),
        ("acceptd.cli.verify",),
    ),
    Channel(
        "log: text",
        "line",
        lambda report: _log(report, as_json=False),
        ("acceptd.report.logs", "acceptd.cli.daemon"),
    ),
    Channel("log: JSON", "record", lambda report: _log(report, as_json=True), ("acceptd.report.logs",)),
    Channel("check --json, --jsonl", "json", check.json_line, ("acceptd.cli.check", "acceptd.cli.report")),
    Channel(
        "outbox: verdict.json",
        "json",
        lambda report: check.json_line(for_team(report)),
        ("acceptd.report.outbox", "acceptd.cli.submit"),
    ),
    Channel(
        "outbox: report.html",
        "html",
        lambda report: html.render(report).encode(),
        ("acceptd.report.html", "acceptd.report.outbox", "acceptd.cli.report"),
    ),
    Channel(
        "SARIF",
        "record",
        lambda report: check.json_line(sarif.render([(str(report["reason"]), report)])),
        ("acceptd.report.sarif", "acceptd.cli.check", "acceptd.cli.report"),
    ),
    Channel(
        "JUnit",
        "xml",
        lambda report: junit.render([(str(report["reason"]), report)]),
        ("acceptd.report.junit", "acceptd.cli.check", "acceptd.cli.report"),
    ),
    Channel(
        "ledger: findings of a verdict",
        "record",
        lambda report: canonical(plain(recorded_findings(report))) + b"\n",
        ("acceptd.verdicts", "acceptd.cli.ledger"),
    ),
)
"""All of them."""
