"""SARIF 2.1.0: valid against the schema, one result per finding, places in files, fingerprints that stay."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from acceptd.judge.codes import CODES
from acceptd.report import sarif
from tests.report_world import HOSTILE, finding, report

jsonschema = pytest.importorskip("jsonschema", reason="pip install -r requirements.lock")
pytestmark = pytest.mark.unit

VENDOR = Path(__file__).resolve().parents[1] / "vendor"
SCHEMA = jsonschema.Draft4Validator(
    json.loads((VENDOR / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")),
    format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER,
)
FILES = [
    {"path": "bundle.toml", "sha256": "ab" * 32, "size": 300},
    {"path": "models/a b#1.onnx", "sha256": "cd" * 32, "size": 309},
]
MODELS = [{"name": "main", "file": "models/a b#1.onnx"}]


def made(*findings: dict[str, Any], place: str = "", **changes: Any) -> dict[str, Any]:
    one = report(findings=list(findings), files=FILES, models=MODELS, **changes)
    log = sarif.render([(place, one)])
    problems = [f"{list(error.absolute_path)}: {error.message[:200]}" for error in SCHEMA.iter_errors(log)]
    assert problems == []
    return log


def result(log: dict[str, Any], number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = log["runs"][0]["results"][number]
    return found


def test_the_schema_refuses_what_is_no_sarif() -> None:
    assert not SCHEMA.is_valid({"version": "2.1.0", "runs": [{"results": []}]})
    log = made(finding())
    log["runs"][0]["results"][0]["level"] = "reject"
    assert not SCHEMA.is_valid(log)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_leaves_it_valid(kind: str) -> None:
    text = HOSTILE[kind]
    one = report(text, findings=[finding(where=f"{text}: {text}", message=text, stage="inspect")], models=[])
    assert SCHEMA.is_valid(sarif.render([(text, one), ("other", one)]))


def test_every_rule_is_valid_and_has_its_help() -> None:
    log = sarif.render([("", report(findings=[finding()]))], whole=True)
    assert SCHEMA.is_valid(log)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(CODES)
    for rule in rules:
        assert CODES[rule["id"]].remedy in rule["help"]["text"]
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", rule["name"])
        assert rule["defaultConfiguration"]["level"] == sarif.LEVELS[CODES[rule["id"]].severity]


@pytest.mark.parametrize(
    ("severity", "level", "rank"),
    [("reject", "error", 100.0), ("hold", "warning", 75.0), ("warn", "warning", 50.0), ("info", "note", 10.0)],
)
def test_levels_come_from_severities_and_hold_is_told_from_warn(severity: str, level: str, rank: float) -> None:
    found = result(made(finding(severity=severity)))
    assert (found["level"], found["rank"], found["properties"]["severity"]) == (level, rank, severity)


@pytest.mark.parametrize(
    ("where", "stage", "uri", "inner"),
    [
        ("models/a b#1.onnx", "inspect", "models/a%20b%231.onnx", None),
        ("models/a b#1.onnx: graph/node conv[3]", "inspect", "models/a%20b%231.onnx", "graph/node conv[3]"),
        ("bundle.version", "manifest", "bundle.toml", "bundle.version"),
        ("set 0, output y", "compare", "models/a%20b%231.onnx", "set 0, output y"),
        ("", "judge", "models/a%20b%231.onnx", None),
    ],
)
def test_a_result_names_the_file_and_the_place_in_it(where: str, stage: str, uri: str, inner: str | None) -> None:
    log = made(finding(where=where, stage=stage))
    place = result(log)["locations"][0]
    artifact = place["physicalLocation"]["artifactLocation"]
    assert artifact["uri"] == uri
    assert log["runs"][0]["artifacts"][artifact["index"]]["location"]["uri"] == uri
    logical = place.get("logicalLocations", [{}])[0].get("fullyQualifiedName", "")
    assert logical.endswith(inner or "")
    assert bool(logical) == bool(inner)


@pytest.mark.parametrize(
    ("code", "stage", "where", "uri", "inner"),
    [
        (
            "schema/opset-mismatch",
            "judge",
            "models.main.opsets.ai.onnx",
            "bundle.toml",
            "models.main.opsets.ai.onnx",
        ),
        ("schema/dtype-changed", "judge", "models.main: features", "bundle.toml", "models.main: features"),
        ("contract/none", "judge", "a/b", "bundle.toml", "a/b"),
        ("license/missing", "manifest", "bundle.toml bundle.license", "bundle.toml", "bundle.license"),
        ("vectors/missing", "vectors", "models.main", "bundle.toml", "models.main"),
        ("parity/mismatch", "compare", "main: golden/set_0: y", "golden/set_0/", "y"),
        ("parity/mismatch", "compare", "main: g: odd.npz: y", "g%3A%20odd.npz", "y"),
        ("vectors/smoke-only", "vectors", "golden/set_0", "golden/set_0/", None),
        ("load/refused", "run", "models.main", "model.onnx", "models.main"),
        ("parity/mismatch", "compare", "main: unknown: y", "model.onnx", "main: unknown: y"),
    ],
)
def test_a_finding_stands_at_the_file_that_it_is_about(
    code: str, stage: str, where: str, uri: str, inner: str | None
) -> None:
    names = ("bundle.toml", "model.onnx", "golden/set_0/input_0.pb", "g: odd.npz")
    files = [{"path": name, "size": 1, "sha256": "ab" * 32} for name in names]
    one = report(files=files, models=[{"name": "main", "file": "model.onnx"}])
    found, place = sarif.locate(one, finding(code=code, stage=stage, where=where))
    assert (quote(found, safe="/"), place or None) == (uri, inner)
    assert SCHEMA.is_valid(
        sarif.render([("", one | {"findings": [finding(code=code, stage=stage, where=where)]})])
    )


def test_a_file_of_a_suite_is_named_from_the_suite_with_its_digest() -> None:
    log = made(finding(where="bundle.toml", stage="manifest"), place="team/one")
    artifact = log["runs"][0]["artifacts"][0]
    assert artifact["location"]["uri"] == "team/one/bundle.toml"
    assert artifact["hashes"] == {"sha-256": "ab" * 32}
    assert log["runs"][0]["properties"]["bundles"][0]["place"] == "team/one"


def test_what_has_no_file_stands_at_the_bundle() -> None:
    one = report(findings=[finding(where="../etc", stage="seal", code="seal/path-escape")], files=[], models=[])
    log = sarif.render([("", one)])
    assert SCHEMA.is_valid(log)
    assert result(log)["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "."


def test_a_fingerprint_stays_when_numbers_change_and_differs_by_place() -> None:
    def prints(**changes: Any) -> str:
        place = changes.pop("place", "")
        found: str = result(made(finding(**changes), place=place))["partialFingerprints"]["acceptdFinding/v1"]
        return found

    first = prints(message="off by 0.11")
    assert prints(message="off by 0.12", severity="warn") == first
    assert len({first, prints(where="other"), prints(code="parity/drift"), prints(place="b")}) == 4


def test_links_and_placeholders_of_a_name_are_no_links_and_placeholders() -> None:
    text = result(made(finding(where="[x](y)", message="[click](http://evil.example) {0} \\")))["message"]["text"]
    assert text.endswith("(at \\[x\\](y)) (\u00d72)")
    assert text.startswith("\\[click\\](http://evil.example) {{0}} \\\\")
    assert "markdown" not in json.dumps(result(made(finding())))


def test_an_inconclusive_check_did_not_succeed() -> None:
    run = made(verdict="inconclusive", reason="no sandbox")["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "no sandbox"
    assert made()["runs"][0]["invocations"][0] == {"executionSuccessful": True}


def test_a_case_that_broke_off_is_told() -> None:
    broken = {"verdict": "inconclusive", "reason": "internal error", "findings": [], "error": "internal error"}
    log = sarif.render([("a", broken), ("b", report(findings=[finding()]))])
    assert SCHEMA.is_valid(log)
    assert log["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith("a: ")


def test_weaknesses_of_a_rule_are_taxa_of_cwe() -> None:
    log = made(finding(code="external-data/path-escape", stage="inspect"))
    run = log["runs"][0]
    targets = [one["target"]["id"] for one in run["tool"]["driver"]["rules"][0].get("relationships", [])]
    assert "22" in targets
    assert {one["id"] for one in run["taxonomies"][0]["taxa"]} >= set(targets)


def test_the_same_reports_give_the_same_bytes() -> None:
    log = [json.dumps(made(finding(), finding(where="b")), sort_keys=True) for _ in range(2)]
    assert log[0] == log[1]
