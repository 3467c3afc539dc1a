"""On whose evidence a fleet's verdict rests: shown to reviewers as the signed verdict says, to no team."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acceptd.report.document import for_team
from acceptd.report.html import render
from acceptd.report.outbox import write_outbox
from acceptd.report.sources import sources
from acceptd.report.terminal import print_verdict
from tests.report_world import HOSTILE, report

pytestmark = pytest.mark.unit

ROW = {"profile": "cpu", "node": "w1", "host": "build-7", "key_id": "ab" * 32, "statement": "cd" * 32}
OTHER = {"profile": "cuda", "node": "w2", "host": "build-8", "key_id": "ef" * 32, "statement": "01" * 32}


def envelope(predicate: Any) -> dict[str, Any]:
    payload = base64.b64encode(json.dumps({"predicate": predicate}).encode()).decode()
    signatures = [{"keyid": "k", "sig": base64.b64encode(b"s" * 64).decode()}]
    return {"payloadType": "application/vnd.in-toto+json", "payload": payload, "signatures": signatures}


def terminal(made: dict[str, Any], width: int = 80) -> str:
    out = io.StringIO()
    print_verdict(Console(file=out, width=width, color_system=None), made, every_finding=True)
    return out.getvalue()


def test_each_profile_names_node_host_and_key_of_whom_it_rests_on() -> None:
    told = sources(envelope({"verdict": "accepted", "nodes": [ROW, OTHER]}))
    assert told == [ROW, OTHER]
    made = report(sources=told)
    lines = [line.rstrip() for line in terminal(made).splitlines()]
    (first,) = [number for number, line in enumerate(lines) if line.lstrip().startswith("evidence")]
    assert lines[first].split(None, 1)[1] == "cpu by w1 on build-7, key abababababababab"
    assert lines[first + 1].strip() == "cuda by w2 on build-8, key efefefefefefefef"
    page = render(made)
    assert "<h2>Whose evidence</h2>" in page
    for value in (*ROW.values(), *OTHER.values()):
        assert value in page


NOTHING = [
    None, {}, [], "text",
    *(envelope(said) for said in ({}, None, {"nodes": [{}]}, {"nodes": [7]}, {"nodes": "w1"}, {"nodes": []})),
]  # fmt: skip


@pytest.mark.parametrize("nothing", NOTHING)
def test_where_the_verdict_names_nobody_nobody_is_shown(nothing: object) -> None:
    assert sources(nothing) == []
    made = report(sources=sources(nothing))
    assert "Whose evidence" not in render(made)
    assert "evidence  " not in terminal(made)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_node_calls_itself_is_text_and_nothing_else(name: str) -> None:
    text = HOSTILE[name]
    made = report(sources=[dict.fromkeys(ROW, text)])
    shown = terminal(made)
    assert all(char == "\n" or char.isprintable() for char in shown)
    page = render(made)
    assert "<script" not in page
    assert "<img" not in page


def test_no_team_is_told_of_the_machines(tmp_path: Path) -> None:
    made = report(sources=[ROW])
    assert "sources" not in for_team({**made, "declared": {}})
    write_outbox(tmp_path, "mosaic", "s-1", {**made, "declared": {}}, None)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert written
    assert b"build-7" not in written
