"""The export record and the licence: what a policy can demand of what a bundle tells of its origin."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acceptd.errors import ConfigError
from acceptd.judge.codes import CODES
from acceptd.policy.export import EXPORT_FIELDS
from acceptd.policy.licenses import refused, valid_entry
from acceptd.policy.load import load_policy
from acceptd.policy.manifest import validate
from acceptd.policy.policy import Policy
from acceptd.report.document import document, for_team
from acceptd.report.html import render
from acceptd.report.terminal import print_verdict
from examples import evidence_classifier
from tests.judge_world import a_manifest, codes, manifest_document, submission, verdict

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
FULL: dict[str, Any] = evidence_classifier.manifest()["export"]


def with_export(export: dict[str, Any], **bundle: Any) -> Any:
    def change(given: dict[str, Any]) -> None:
        given["export"] = export
        given["bundle"] |= bundle

    return a_manifest(change)


def wants(*fields: str, allowed: tuple[str, ...] = (), **severity: str) -> Policy:
    document = {"schema": 1, "export": {"required": list(fields)}, "licenses": {"allowed": list(allowed)}}
    return Policy.model_validate(document | {"severity": severity})


def test_the_example_carries_a_full_record() -> None:
    assert set(FULL) == set(EXPORT_FIELDS)
    judged = verdict(manifest=with_export(FULL), policy=wants(*EXPORT_FIELDS))
    assert judged.verdict == "accepted"
    assert not [code for code in codes(judged) if code.startswith("export/")]


@pytest.mark.parametrize("field", EXPORT_FIELDS)
def test_each_absence_is_a_finding_of_its_own(field: str) -> None:
    left = {key: value for key, value in FULL.items() if key != field}
    judged = verdict(manifest=with_export(left), policy=wants(*EXPORT_FIELDS))
    code = f"export/{field.replace('_', '-')}-missing"
    assert [one for one in codes(judged) if one.startswith("export/")] == [code]
    assert judged.verdict == "held"
    (finding,) = [one for one in judged.findings if one.code == code]
    assert field in finding.where
    # A list that is there and empty says as little.
    if isinstance(FULL[field], list):
        assert code in codes(verdict(manifest=with_export(FULL | {field: []}), policy=wants(field)))


def test_a_field_that_is_not_required_is_not_missed_and_the_policy_sets_the_severity() -> None:
    assert codes(verdict(manifest=with_export({}), policy=Policy()), "reject", "hold", "warn") == []
    policy = Policy.model_validate(
        {"export": {"required": ["framework", "layers"]}, "severity": {"export/framework-missing": "reject"}}
    )
    judged = verdict(manifest=with_export({}), policy=policy)
    assert codes(judged, "reject") == ["export/framework-missing"]
    assert codes(judged, "hold") == ["export/layers-missing"]
    assert {f"export/{name.replace('_', '-')}-missing" for name in EXPORT_FIELDS} <= set(CODES)


def test_a_failed_comparison_with_the_source_is_not_passed_over() -> None:
    parity = {"compared": "torch with onnxruntime", "result": "failed"}
    assert "export/parity-failed" in codes(verdict(manifest=with_export({"parity": parity})), "hold")


@pytest.mark.parametrize(
    "export",
    [
        {"training_secret": "x"},
        {"exporter": "torch 2"},
        {"exporter": {"name": "torch"}},
        {"checkpoint": {"sha256": "A" * 64}},
        {"quality": [{"metric": "accuracy", "value": float("nan"), "dataset": "d"}]},
        {"quality": [{"metric": "accuracy", "value": 1.0, "dataset": "d"}] * 257},
        {"dataset_lineage": "internal"},
        {"parity": {"compared": "a with b", "result": "mostly"}},
        {"tested_hardware": ["x" * 257]},
        {"layers": 0},
        {"layers": True},
    ],
    ids=lambda export: json.dumps(export)[:40],
)
def test_the_record_is_typed_and_bounded(export: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"bundle\.toml: export"):
        validate({**manifest_document(), "export": export})


@pytest.mark.parametrize(
    ("expression", "against"),
    [
        ("MIT", []),
        ("mit", []),
        ("GPL-3.0-only OR MIT", []),
        ("GPL-3.0-only OR AGPL-3.0-only", ["AGPL-3.0-only", "GPL-3.0-only"]),
        ("GPL-3.0-only AND MIT", ["GPL-3.0-only"]),
        # AND binds more tightly than OR, whichever stands first.
        ("MIT OR GPL-3.0-only AND AGPL-3.0-only", []),
        ("GPL-3.0-only AND AGPL-3.0-only OR MIT", []),
        ("GPL-3.0-only OR MIT AND AGPL-3.0-only", ["AGPL-3.0-only", "GPL-3.0-only"]),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", []),
        ("(MIT OR GPL-3.0-only) AND AGPL-3.0-only", ["AGPL-3.0-only"]),
        # An exception changes the licence: it counts as the pair.
        ("GPL-2.0-only WITH Classpath-exception-2.0", []),
        ("GPL-2.0-only", ["GPL-2.0-only"]),
        ("MIT WITH Classpath-exception-2.0", ["MIT WITH Classpath-exception-2.0"]),
        ("LicenseRef-Mosaic", []),
        ("LicenseRef-Other", ["LicenseRef-Other"]),
    ],
)
def test_a_licence_expression_is_read_as_spdx_means_it(expression: str, against: list[str]) -> None:
    allowed = ["MIT", "Apache-2.0", "GPL-2.0-only WITH Classpath-exception-2.0", "LicenseRef-Mosaic"]
    assert refused(expression, allowed) == against
    judged = verdict(manifest=with_export({}, license=expression), policy=wants(allowed=tuple(allowed)))
    assert ("license/not-allowed" in codes(judged, "hold")) == bool(against)


@pytest.mark.parametrize(
    "written", ["Apache 2", "MIT AND", "(((MIT", "MIT OR OR MIT", "Nobody-1.0", "(" * 256, "مجاني"]
)
def test_what_is_no_spdx_expression_is_not_allowed(written: str) -> None:
    judged = verdict(manifest=with_export({}, license=written), policy=wants(allowed=("MIT",)))
    assert codes(judged, "hold") == ["license/not-allowed"]
    assert codes(verdict(manifest=with_export({}, license=written)), "reject", "hold") == []


def test_a_licence_that_is_not_allowed_is_named_once() -> None:
    def words(written: str) -> list[str]:
        judged = verdict(manifest=with_export({}, license=written), policy=wants(allowed=("MIT",)))
        return [one.message for one in judged.findings if one.code == "license/not-allowed"]

    assert words("Apache-2.0") == ["the policy does not allow Apache-2.0"]
    assert words("MIT AND Apache-2.0") == ["MIT AND Apache-2.0: the policy does not allow Apache-2.0"]


def test_no_licence_where_some_are_demanded_is_missing() -> None:
    assert codes(verdict(policy=wants(allowed=("MIT",))), "hold") == ["license/missing"]


@pytest.mark.parametrize("entry", ["MIT OR Apache-2.0", "Nobody-1.0", ""])
def test_a_policy_lists_single_known_licences(tmp_path: Path, entry: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'[licenses]\nallowed = ["MIT", "{entry}"]\n')
    with pytest.raises(ConfigError, match=r"licenses\.allowed\[1\]"):
        load_policy(file)
    assert valid_entry("apache-2.0") == "Apache-2.0"


def test_the_strict_policy_demands_the_record_and_takes_the_example() -> None:
    strict = load_policy(ROOT / "policies" / "strict.toml")
    given = with_export(FULL, license=evidence_classifier.manifest()["bundle"]["license"])
    told = codes(verdict(manifest=given, policy=strict))
    assert not [code for code in told if code.startswith(("export/", "license/"))]
    assert "export/checkpoint-missing" in codes(verdict(policy=strict), "hold")
    assert "license/missing" in codes(verdict(policy=strict), "hold")


def test_the_report_shows_the_record_as_the_submitters_word() -> None:
    bad = "rm\u202e\x1b[31m<script>"
    export = FULL | {"framework": bad, "redistribution": "not outside the company"}
    manifest = with_export(export, license="Apache-2.0", prohibited_uses=["automated denial without review"])
    report = document(submission(), verdict(manifest=manifest), manifest, policy_digest="0" * 64)
    assert report["declared"]["by"] == "submitter"
    assert report["declared"]["export"]["checkpoint"] == FULL["checkpoint"]
    assert for_team(report)["declared"] == report["declared"]
    page = render(report)
    console = Console(record=True, width=100, force_terminal=False, file=io.StringIO())
    print_verdict(console, report, every_finding=True)
    shown = console.export_text()
    for text in (page, shown):
        assert "ubmitter" in text
        assert FULL["checkpoint"]["sha256"] in text.replace("\n", "").replace(" ", "")
        for word in ("not outside the company", "automated denial", "published points", "x86-64 CPU"):
            assert word in " ".join(text.split()), word
        assert "\u202e" not in text
        assert "\x1b[31m" not in text
        assert "<script>" not in page


def test_nothing_is_declared_for_a_bundle_without_a_manifest() -> None:
    report = document(submission(), verdict(), None, policy_digest="0" * 64)
    assert report["declared"] is None
    assert "Origin and terms" not in render(report)
