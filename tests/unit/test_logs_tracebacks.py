"""The daemon's log as JSON: each line is JSON, and a traceback does not carry what the variables held."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog

from acceptd.report.logs import processors

pytestmark = pytest.mark.unit


def logged(work: Any, **more: Any) -> str:
    out: list[str] = []
    logger = structlog.wrap_logger(_Kept(out), processors=processors(as_json=True))
    try:
        work()
    except ValueError:
        logger.exception("stage_failed", **more)
    return out[0]


class _Kept:
    def __init__(self, out: list[str]) -> None:
        self.error = out.append


@pytest.mark.parametrize(
    "secret", ["-----BEGIN PRIVATE KEY-----", b"0123456789-seed", {"expected": [0.71828]}, [7172]]
)
def test_a_traceback_names_no_value_of_a_variable(secret: Any) -> None:
    def work() -> None:
        held_out = secret
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError(f"broken: {type(held_out)}") from error

    said = logged(work)
    document = json.loads(said)
    assert [one["exc_type"] for one in document["exception"]] == ["ValueError", "KeyError"]
    assert document["exception"][0]["frames"][-1]["name"] == "work"
    assert "held_out" not in said
    assert all(text not in said for text in ("PRIVATE", "-seed", "0.71828", "7172"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"x": float("nan")}])
def test_a_number_that_json_has_no_word_for_is_text(value: Any) -> None:
    def work() -> None:
        raise ValueError("broken")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(logged(work, worst=value), parse_constant=refuse)
