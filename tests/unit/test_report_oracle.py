"""The report's section on onnx's own evaluator: what was proved, in all three forms, hostile names escaped."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.report.oracle import oracle_rows, oracle_section

pytestmark = pytest.mark.unit


def proof(**changes: Any) -> dict[str, Any]:
    output = {
        "output": "probabilities", "inputs": 11, "elements": 300, "max_abs": 5.96e-08, "top1_total": 99,
        "top1_mismatches": 0, "differing": 0, "unlike": "",
    }  # fmt: skip
    outputs = [output | changes.pop("output", {})]
    whole = {"model": "main", "reason": "", "sets": 2, "of_sets": 2, "draws": 9, "of_draws": 9, "outputs": outputs}
    return whole | changes


def test_what_was_proved_is_said_in_one_line_and_one_table() -> None:
    report = {"reference": [proof()]}
    ((name, words),) = oracle_rows(report)
    assert name == "reference"
    assert words == (
        "main: 2 of 2 golden sets and 9 of 9 probes evaluated, 1 of 1 outputs, at most 5.96e-08 apart"
    )
    page = oracle_section(report)
    assert all(
        word in page for word in ("2 of 2 golden sets", "5.96e-08", "0 of 99", "<code>probabilities</code>")
    )
    assert 'class="right bad"' not in page


def test_a_disagreement_is_marked() -> None:
    report = {"reference": [proof(output={"differing": 3, "max_abs": "inf", "top1_mismatches": 2})]}
    assert oracle_rows(report)[0][1].endswith("at most inf apart; probabilities disagree")
    assert 'class="right bad">3<' in oracle_section(report)


def test_what_was_not_evaluated_says_why_and_its_words_are_escaped() -> None:
    said = "load: <script>alert(1)</script>\x1b[2J"
    report = {"reference": [proof(output={"inputs": 0, "unlike": "shape"}, reason=said, model="<b>m")]}
    page = oracle_section(report)
    assert not [one for one in ("<script>", "\x1b", "<b>m") if one in page]
    assert "not evaluated: load:" in oracle_rows(report)[0][1]


def test_one_output_of_another_shape_is_told_beside_those_that_were_compared() -> None:
    two = proof()["outputs"][0]
    page = oracle_section({"reference": [proof(outputs=[two, two | {"inputs": 0, "unlike": "shape"}])]})
    assert "none: another shape" in page


def test_nothing_is_said_where_nobody_was_asked() -> None:
    assert oracle_rows({}) == [] == oracle_rows({"reference": []})
    assert oracle_section({}) == ""
