"""Each code has an example, and it is a sentence that the source can really say."""

from __future__ import annotations

import json

import pytest

from acceptd.finding_examples import FILE, Example, examples
from acceptd.judge.codes import CODES
from acceptd.judge.words import make, printable
from tools import gen_examples
from tools.finding_templates import LEAST, letters, sentences

pytestmark = pytest.mark.unit

FOREIGN = {
    "behaviour/probe-error": "[ONNXRuntimeError] : ",
    "behaviour/probe-error-outside": "[ONNXRuntimeError] : ",
    "behaviour/relation-failed": "[ONNXRuntimeError] : ",
    "behaviour/unoptimised-failed": "load/failed: [ONNXRuntimeError] : ",
    "load/failed": "[ONNXRuntimeError] : ",
    "load/invalid-model": "[ONNXRuntimeError] : ",
    "load/options-refused": "Config value is longer than maximum length",
    "load/unsupported-operator": "[ONNXRuntimeError] : ",
    "manifest/not-toml": "(at line ",
    "run/failed": "ValueError: Required inputs (",
    "sandbox/job-error": "ValueError: ",
    "structure/checker-failed": "ValidationError: ",
    "structure/shape-inference-failed": "[ShapeInferenceError]",
}
"""Codes whose sentence is another program's (onnxruntime, onnx, tomllib, Python), and what shows that it is."""


def test_every_code_has_an_example_and_every_example_its_code() -> None:
    """A new code: run its tests with ``-p tools.finding_collector``, then ``python -m tools.gen_examples``."""
    assert set(examples()) == set(CODES)


def test_every_code_has_meaning_reason_and_remedy() -> None:
    for code, known in CODES.items():
        assert min(len(known.meaning), len(known.reason)) >= 15, code
        assert len(known.remedy) >= 8, code


def test_the_source_says_the_sentence_of_each_example() -> None:
    """A sentence that was reworded in the source is reworded here: no example is one that acceptd cannot say."""
    found = {code: one.message for code, one in examples().items() if code not in FOREIGN}
    assert {code: message for code, message in found.items() if letters(message) < LEAST} == {}
    for code, mark in FOREIGN.items():
        assert mark in examples()[code].message


def test_what_is_said_to_be_foreign_is_not_ours() -> None:
    assert [code for code in FOREIGN if letters(examples()[code].message) >= LEAST] == []


def test_a_sentence_that_nobody_says_is_seen() -> None:
    """The check above can fail: words that stand nowhere in the source fit no sentence."""
    assert letters("the moon is made of green cheese and never was anything else") == 0
    assert letters("12 nodes; the policy allows 3") >= LEAST


def test_every_code_is_said_somewhere() -> None:
    """A code that no room names is a promise in the documents that nothing keeps."""
    told = [one for one in sentences() if "/" in one.pattern.pattern]
    said = {code for code in CODES for one in told if one.longest in code and one.pattern.fullmatch(code)}
    assert set(CODES) - said == set()


def test_an_example_is_as_a_finding_prints_it() -> None:
    """Printable, one line, within the bounds of a finding: what ``make`` would leave as it is."""
    for code, one in examples().items():
        made = make(code, "judge", one.where, one.message)
        assert (made.where, made.message) == (one.where, one.message)
        assert printable(one.line(), 1000) == one.line()
        assert one.message.strip() == one.message != ""


def test_the_data_is_one_code_a_line_in_order() -> None:
    data = json.loads(FILE.read_text("utf-8"))
    assert list(data) == sorted(data)
    assert len(FILE.read_text("utf-8").splitlines()) == len(data) + 2


def test_the_tool_keeps_what_fits_and_prefers_what_a_person_can_read() -> None:
    fits = "model 'main' has no golden set"
    rows = [
        {"code": "vectors/none", "where": "models.main", "message": "model 'm\\x00' has no golden set"},
        {"code": "vectors/none", "where": "models.main", "message": fits},
        {"code": "vectors/none", "where": "models.main", "message": "no such sentence at all"},
        {"code": "no/code", "where": "models.main", "message": fits},
    ]
    assert gen_examples.choose(rows, {}) == {"vectors/none": ["models.main", fits]}
    old = {"vectors/none": ["models.other", "model 'other' has no golden set"], "gone/code": ["x", fits]}
    assert gen_examples.choose(rows, old) == {"vectors/none": old["vectors/none"]}
    stale = {"vectors/none": ["models.main", "a sentence that was reworded since, as nobody says it"]}
    assert gen_examples.choose(rows, stale) == {"vectors/none": ["models.main", fits]}


def test_a_line_without_a_place_is_the_sentence() -> None:
    assert Example("", "no place").line() == "no place"
    assert Example("a", "b").line() == "a: b"
