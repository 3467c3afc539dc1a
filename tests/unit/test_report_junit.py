"""JUnit XML: valid against the common schema, counts that add up, families that fail, well-formed always."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from acceptd.judge.codes import CODES, group
from acceptd.report import junit
from tests.report_world import HOSTILE, finding, report

xmlschema = pytest.importorskip("xmlschema", reason="pip install -r requirements.lock")
pytestmark = pytest.mark.unit

SCHEMA = xmlschema.XMLSchema10(Path(__file__).resolve().parents[1] / "vendor" / "junit-10.xsd")


def made(*reports: tuple[str, dict[str, Any]]) -> ElementTree.Element:
    data = junit.render(reports)
    root = ElementTree.fromstring(data)
    SCHEMA.validate(root)
    for suite in root:
        cases = suite.findall("testcase")
        for what, tag in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            count = len(cases) if tag is None else sum(1 for case in cases if case.find(tag) is not None)
            assert suite.get(what) == str(count), what
    for what in ("tests", "failures", "errors"):
        assert root.get(what) == str(sum(int(suite.get(what, "")) for suite in root))
    return root


def case(root: ElementTree.Element, name: str) -> ElementTree.Element:
    return next(one for one in root.iter("testcase") if one.get("name") == name)


def test_the_schema_refuses_what_is_no_junit() -> None:
    assert not SCHEMA.is_valid(ElementTree.fromstring("<testsuites><testcase/></testsuites>"))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_leaves_it_valid(kind: str) -> None:
    text = HOSTILE[kind]
    found = [finding(where=text, message=text, remedy=text), finding(severity="info", where=text, message=text)]
    root = made((text, report(text, findings=found, bundle_id=text, verdict="inconclusive")))
    assert root[0].get("name", "").isprintable()


def test_a_family_that_rejects_or_holds_fails_with_message_place_and_remedy() -> None:
    many = [
        finding(),
        finding(where="other", code="parity/class-changed", count=1),
        finding(code="structure/unsafe-name", severity="hold", stage="inspect", message="begins like a program"),
        finding(code="vectors/none", severity="warn", stage="vectors", message="no goldens"),
    ]
    root = made(("", report(findings=many)))
    failure = case(root, "parity").find("failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == (
        "parity/mismatch",
        "main: 2 of 6 elements exceed (and 1 more)",
    )
    assert "reject parity/mismatch at main ×2" in (failure.text or "")
    assert "remedy: Compare the exported model" in (failure.text or "")
    assert "parity/class-changed at other" in (failure.text or "")
    assert case(root, "structure").find("failure") is not None
    assert "no goldens" in (case(root, "vectors").findtext("system-out") or "")
    assert case(root, "verdict").find("failure") is None
    assert (case(root, "verdict").findtext("system-out") or "").startswith("rejected: ")
    assert root.get("failures") == "2"
    assert case(root, "parity").get("classname") == "acceptd.compare"


def test_a_verdict_that_no_shown_finding_explains_fails_by_itself() -> None:
    root = made(("", report(findings=[])))
    assert case(root, "verdict").find("failure") is not None
    assert root.get("failures") == "1"


def test_every_family_is_a_case_and_an_accepted_bundle_has_no_failure() -> None:
    jobs = [{"kind": kind} for kind in ("manifest", "inspect", "vectors", "run")]
    root = made(("", report(verdict="accepted", findings=[], resources={"jobs": jobs})))
    assert {one.get("name") for one in root.iter("testcase")} == {group(code) for code in CODES} | {"verdict"}
    assert (root.get("failures"), root.get("errors"), root[0].get("skipped")) == ("0", "0", "0")


def test_a_stage_that_was_never_reached_is_skipped_not_passed() -> None:
    root = made(("", report(findings=[finding(code="wire/empty", stage="inspect")], resources={"jobs": []})))
    assert case(root, "parity").find("skipped") is not None
    assert case(root, "wire").find("skipped") is None
    assert case(root, "seal").find("skipped") is None


def test_what_could_not_be_judged_is_an_error_not_a_failure() -> None:
    lost = finding(code="cell/lost", severity="hold", stage="cell")
    root = made(("", report(verdict="inconclusive", findings=[lost])))
    assert case(root, "cell").find("error") is not None
    assert case(root, "verdict").find("error") is not None
    broken = {"verdict": "inconclusive", "reason": "internal error", "findings": [], "error": "internal error"}
    root = made(("a/b", broken))
    assert root[0].get("name") == "a/b"
    assert case(root, "verdict").find("error") is not None
    assert case(root, "seal").find("skipped") is not None


def test_one_suite_per_bundle_with_its_time() -> None:
    root = made(("a", report(timings_ms={"total": 1234.5})), ("b", report(timings_ms={"seal": 1.0, "run": 2.0})))
    assert [(suite.get("name"), suite.get("time")) for suite in root] == [("a", "1.234"), ("b", "0.003")]
