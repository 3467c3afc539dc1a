"""The log: one JSON object a line, in ASCII, whatever a drop was called; no call builds its event from data."""

from __future__ import annotations

import ast
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from acceptd.report.logs import bound, processors

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = 'x\n{"event": "ready"}\r\x1b]0;owned\x07\u202e\u2028\x85\x00\udc80'
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def rendered(*, as_json: bool, event: str = "judged", always: dict[str, str] | None = None, **values: Any) -> str:
    message: Any = {"event": event, **values}
    for one in processors(as_json=as_json, always=always):
        message = one(None, "info", message)
    assert isinstance(message, str)
    return message


@pytest.mark.parametrize(
    "value",
    [
        HOSTILE,
        [HOSTILE],
        {HOSTILE: HOSTILE},
        HOSTILE.encode("utf-8", "replace"),
        Path(HOSTILE),
        ValueError(HOSTILE),
    ],
)
def test_a_hostile_value_is_one_line_of_json(value: Any) -> None:
    with structlog.contextvars.bound_contextvars(submission=HOSTILE):
        text = rendered(as_json=True, event=HOSTILE, name=value)
    assert text.isascii()
    assert text.isprintable()
    document = json.loads(text)
    assert document["level"] == "info"
    assert "\n" not in document["name"] if isinstance(document["name"], str) else True
    shown = rendered(as_json=False, name=value)
    assert shown.replace("\n", "") == shown
    assert shown.isprintable()


def test_submission_team_and_model_are_in_each_line_meanwhile_and_no_longer() -> None:
    with bound("s1", "mosaic", None), bound("s1", "mosaic", "mosaic/m"):
        assert json.loads(rendered(as_json=True)).items() >= {"submission": "s1", "model": "mosaic/m"}.items()
    with bound("s2", "mosaic", None):
        assert "model" not in json.loads(rendered(as_json=True))
    assert "submission" not in json.loads(rendered(as_json=True))


def test_a_node_of_a_fleet_says_which_it_is_in_each_line_of_each_thread() -> None:
    always = {"node": f"w1{HOSTILE}", "role": "worker"}
    lines: list[str] = []
    for values in ({}, {"node": "w2"}, {"node": always["node"]}):
        told: dict[str, Any] = {"as_json": True, "always": always, **values}
        thread = threading.Thread(target=lambda told=told: lines.append(rendered(**told)))
        thread.start()
        thread.join()
    found = [json.loads(line) for line in lines]
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    assert {one["role"] for one in found} == {"worker"}
    assert {one["node"][:2] for one in found} == {"w1"}
    assert [one.get("about_node") for one in found] == [None, "w2", None]


def test_a_traceback_is_one_line_too() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        text = rendered(as_json=True, exc_info=error)
    assert text.isprintable()
    assert json.loads(text)["event"] == "judged"


def calls() -> list[tuple[str, ast.Call]]:
    found = []
    for path in sorted((ROOT / "acceptd").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                owner = ast.unparse(node.func.value)
                if owner in {"log", "self._log"}:
                    found.append((f"{path.relative_to(ROOT)}:{node.lineno}", node))
    return found


def test_no_event_is_built_from_data_and_no_tensor_is_a_field() -> None:
    """An event is a fixed text that can be looked for. The inbox's is one of its own sentences, by code."""
    found = calls()
    assert len(found) > 40
    for place, call in found:
        first = call.args[0]
        assert isinstance(first, ast.Constant) or place.startswith("acceptd/intake/inbox.py"), place
        fields = {keyword.arg for keyword in call.keywords}
        assert not fields & {"value", "values", "tensor", "array", "outputs", "expected"}, place
