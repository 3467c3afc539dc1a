"""No text of a submitter drives a terminal, forges a line, or becomes markup, in any output of acceptd."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from acceptd.cli.outputs import CHANNELS, Channel
from acceptd.intake.paths import shown
from acceptd.report import logs
from tests.report_world import HOSTILE, finding, report

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PRINTING = {
    "print", "print_json", "print_verdict", "echo", "write_text", "write_bytes", "writelines", "replace_file",
    "add_row",
}  # fmt: skip
SILENT = {
    "acceptd.cli.backup": "prints paths, sizes and what a backup says of itself, each through `line`",
    "acceptd.cli.advisory": "prints what reviewers wrote, ids and digests, each through `line`",
    "acceptd.cli.sealing": "prints why nothing was signed now: paths and words of acceptd",
    "acceptd.cli.review": "prints digests, ids, codes and what reviewers wrote, each through `line`",
    "acceptd.cli.contract": "prints a proposal, whose TOML escapes every name, and what differs, through `line`",
    "acceptd.cli.contract_office": "prints what differs between contracts, through `line`",
    "acceptd.cli.contract_show": "prints contracts, each value through `line`; their TOML escapes every name",
    "acceptd.cli.contract_sign": "prints ids, digests and what reviewers wrote, through `line`",
    "acceptd.cli.fleet": "prints names of nodes that the operator gave, through `line`",
    "acceptd.cli.fleet_words": "prints what nodes say of themselves, each through `line`",
    "acceptd.cli.ledger_move": "prints places of the operator and counts, through `line`",
    "acceptd.cli.ledger_roles": "prints names of roles and tables, through `line`",
    "acceptd.cli.gc": "prints ids, sizes and reasons of what goes, each through `line`",
    "acceptd.cli.key": "prints roles, key ids and public keys",
    "acceptd.cli.release_canary": "prints figures, and outputs' names of a manifest, each through `line`",
    "acceptd.cli.release_export": "prints ids, paths and problems, each through `line`",
    "acceptd.cli.reaccept": "prints ids, codes and reasons, each through `line`",
    "acceptd.cli.loader": "prints ids, paths, outputs and labels of a release, each through `line`",
    "acceptd.cli.config": "prints settings of the operator and where they come from, through `line`",
    "acceptd.cli.web": "prints its own address",
    "acceptd.cli.review_office": "prints ids, channels, digests and reasons of reviewers, through `line`",
    "acceptd.cli.release_words": "prints releases and revocations by ids, channels and digests, through `line`",
    "acceptd.cli.release_holds": "prints ids, channels and reasons of operators, through `line`",
    "acceptd.cli.release_sign": "prints ids, digests and paths, each through `line`",
    "acceptd.cli.bundle": "prints paths, counts and names of a model and its files, each through `line`",
    "acceptd.cli.bundle_desk": "prints what the commands of a bundle give it, each through `line`",
    "acceptd.cli.bundle_vectors": "prints names of acceptd's own making, an origin and inputs through `line`",
    "acceptd.cli.stages": "prints team, drop and stage, each through `line`",
    "acceptd.cli.setup": "prints paths of the operator alone",
    "acceptd.cli.heldout": "prints what the operator put there",
    "acceptd.cli.policy": "prints what the operator wrote and what acceptd knows",
    "acceptd.cli.profile": "prints what the operator wrote and facts of the host",
    "acceptd.report.explain": "prints what acceptd knows of its own codes",
    "acceptd.cli.selftest": "prints the names of its own attacks",
    "acceptd.cli.changed": "prints names of directories through `line`, and verdicts as `check` does",
    "acceptd.cli.schema": "prints what the code itself says",
}
"""Modules that print, and no text of a submitter."""


def hostile_report(text: str) -> dict[str, Any]:
    many = [
        finding(
            where=text,
            message=text,
            meaning=text,
            reason=text,
            references=[text],
            remedy=text,
            evidence={text: text},
        ),
        finding(where=f"models.{text}: {text}", code="structure/unsafe-name", stage="inspect", severity="hold"),
        finding(where=f"{text}: {text}", code="wire/empty", stage="inspect", severity="info"),
        finding(where=text, code="cell/lost", stage="cell", severity="hold"),
    ]
    return report(text, findings=many, bundle_id=text, bundle_version=text, path=text, verdict="inconclusive")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.text += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _html(data: bytes) -> _Tags:
    reader = _Tags()
    reader.feed(data.decode("utf-8"))
    reader.close()
    return reader


def check(channel: Channel, data: bytes) -> None:
    text = data.decode("utf-8")
    if channel.form == "line":
        assert text.endswith("\n")
        assert text[:-1].isprintable()
        return
    assert all(char.isprintable() for char in text.replace("\n", ""))
    if channel.form in {"json", "record"}:
        assert text.count("\n") == 1
        assert text.endswith("\n")
        value = json.loads(text)
        if channel.form == "record":
            for run in value.get("runs", ()) if isinstance(value, dict) else ():
                del run["tool"]  # acceptd's own rules: paragraphs, from the registry of codes alone
            assert all(one.isprintable() for one in strings(value))
    elif channel.form == "xml":
        for element in ElementTree.fromstring(data).iter():
            for one in (element.text or "", *element.attrib.values()):
                assert all(char.isprintable() for char in one.replace("\n", ""))
    elif channel.form == "html":
        harmless = _html(channel.render(hostile_report("plain")))
        found = _html(data)
        assert found.tags == harmless.tags
        assert found.attributes == harmless.attributes
        assert not any("javascript:" in one for one in found.attributes)


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_hostile_text_is_only_text(channel: Channel, kind: str) -> None:
    check(channel, channel.render(hostile_report(HOSTILE[kind])))


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_what_is_harmless_is_shown_as_it_is(channel: Channel) -> None:
    data = channel.render(hostile_report("caf\u00e9:[0] {x} <y>")).decode("utf-8")
    assert any(word in data for word in ("caf\u00e9", "caf\\u00e9", "caf\\xe9"))


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_a_line_break_in_a_name_makes_no_line(channel: Channel) -> None:
    """As many lines as for a name of the same length once it is escaped."""
    forged = "a\nb"
    lines = channel.render(hostile_report(forged)).count(b"\n")
    assert lines == channel.render(hostile_report("a" + "-" * (len(shown(forged)) - 2) + "b")).count(b"\n")


def _prints(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in PRINTING:
                return True
    return False


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_every_module_that_prints_is_in_the_table() -> None:
    printing = {
        _module(path)
        for folder in ("cli", "report")
        for path in (ROOT / "acceptd" / folder).glob("*.py")
        if _prints(path) and path.name != "outputs.py"  # the table itself
    }
    known = {module for channel in CHANNELS for module in channel.modules}
    assert printing - known - set(SILENT) == set()


def test_every_renderer_of_a_report_is_in_the_table() -> None:
    known = {module for channel in CHANNELS for module in channel.modules}
    for path in (ROOT / "acceptd" / "report").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if names & {"render", "print_verdict", "processors", "write_outbox"}:
            assert _module(path) in known


def test_only_one_place_sets_up_a_console_and_none_reads_markup() -> None:
    for path in (ROOT / "acceptd").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "rich" not in text:  # another thing of that name
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Console":
                given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
                assert (given.get("markup"), given.get("emoji")) == (False, False), _module(path)


def test_a_traceback_in_the_text_log_cannot_look_like_a_line_of_the_log() -> None:
    event = {"event": "x", "exception": "Traceback:\n2026-11-29 [info ] promoted\n\x1b[2J"}
    made = logs.escape_event(None, "error", event)["exception"]
    assert all(one.startswith("  | ") and one.isprintable() for one in made.split("\n"))
