"""Each code says why it matters and names real references; documents and the command say the same."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from acceptd.finding_examples import examples
from acceptd.judge import catalogue
from acceptd.judge.catalogue.references import REFERENCES
from acceptd.judge.codes import CODES, REASONS, changeable, group, may_override
from acceptd.report.explain import explained, near
from tools.gen_findings import TARGET, render

pytestmark = pytest.mark.unit


def test_every_code_has_its_reason_and_every_reason_its_code() -> None:
    """A new code needs a line in acceptd/judge/catalogue/reasons_*.py: a sentence on the attack or accident."""
    assert [code for code in CODES if not CODES[code].reason] == []
    assert set(REASONS) - set(CODES) == set()


def test_no_code_has_a_second_reason_that_nobody_would_see() -> None:
    names = [one.name for one in pkgutil.iter_modules(catalogue.__path__)]
    modules = {name: importlib.import_module(f"{catalogue.__name__}.{name}") for name in names}
    tables = [
        one.TABLE if name.startswith("reasons_") else getattr(one, "REASONS", {}) for name, one in modules.items()
    ]
    assert sum(map(len, tables)) == len(REASONS)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_reason_is_a_sentence_of_its_own(code: str) -> None:
    reason = CODES[code].reason
    assert not reason[0].islower() or reason.startswith("onnx")
    assert reason.endswith(".")
    assert 20 <= len(reason) <= 200
    assert "  " not in reason
    assert reason not in {CODES[code].meaning, CODES[code].remedy}


def test_only_what_is_about_law_has_no_public_reference() -> None:
    assert {group(code) for code in CODES if not CODES[code].references} <= {"license", "export"}


def test_references_are_links_in_the_form_of_their_kind_and_all_are_used() -> None:
    used = {one.id for code in CODES.values() for one in code.references}
    assert set(REFERENCES) == used
    for name, one in REFERENCES.items():
        assert name == one.id
        assert one.title
        assert re.fullmatch(r"https://[a-z0-9.-]+/[A-Za-z0-9/._-]*", one.url)
    by_kind = {
        r"CWE-([0-9]+)": "https://cwe.mitre.org/data/definitions/{}.html",
        r"(CVE-[0-9]{4}-[0-9]{4,})": "https://nvd.nist.gov/vuln/detail/{}",
        r"RFC ([0-9]+)": "https://www.rfc-editor.org/rfc/rfc{}",
        r"arXiv:([0-9]{4}\.[0-9]{5})": "https://arxiv.org/abs/{}",
    }
    for pattern, url in by_kind.items():
        found = [(one, match) for name, one in REFERENCES.items() if (match := re.fullmatch(pattern, name))]
        assert found
        assert all(one.url == url.format(match[1]) for one, match in found)


def test_the_advisories_of_onnx_about_external_data_are_named() -> None:
    used = {one.id for code in CODES.values() for one in code.references}
    assert used >= {
        "CVE-2022-25882", "CVE-2024-27318", "CVE-2026-27489", "CVE-2026-34445", "CVE-2026-34446", "CVE-2026-34447",
    }  # fmt: skip


def test_what_a_policy_may_do_is_said_as_it_is_enforced() -> None:
    assert {changeable(code) for code in CODES} == {"any", "not lowered", "fixed"}
    assert (changeable("sandbox/unknown-code"), changeable("cell/lost"), changeable("vectors/none")) == (
        "not lowered",
        "fixed",
        "any",
    )
    for code in CODES:
        if changeable(code) == "fixed":
            assert not any(
                may_override(code, one)
                for one in ("reject", "hold", "warn", "info")
                if one != CODES[code].severity
            )


def test_docs_findings_is_up_to_date_and_has_reasons_and_links() -> None:
    text = TARGET.read_text(encoding="utf-8")
    assert text == render()
    for part in ("\nWhy: ", "\nRemedy: ", "\nExample: "):
        assert text.count(part) == len(CODES)
    assert "[CVE-2022-25882](https://nvd.nist.gov/vuln/detail/CVE-2022-25882)" in text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("external-data/path-escap", "external-data/path-escape"),
        ("externaldata/path-escape", "external-data/path-escape"),
        ("path-escape", "archive/path-escape"),
        ("run/chrash", "run/crash"),
        ("wire/nonsense", "wire/disagrees"),
    ],
)
def test_an_unknown_code_has_near_ones(typed: str, meant: str) -> None:
    assert meant in near(typed)
    assert len(near(typed)) <= 5


def test_nothing_is_near_to_nonsense() -> None:
    assert near("zzzzzzzzzz") == []


def test_explained_is_json_data_of_everything() -> None:
    facts = explained("external-data/path-escape")
    assert facts["references"][0]["id"] == "CWE-22"
    assert {"code", "severity", "audience", "policy_may_change", "meaning", "reason", "remedy"} < set(facts)
    assert facts["example"] == {
        "where": "model.onnx: graph/initializer[0] weight",
        "message": examples()["external-data/path-escape"].message,
    }
