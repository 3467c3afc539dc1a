"""The report's object: its keys, who may see what, and plain JSON whatever the facts hold."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import rfc8785

from acceptd.evidence import (
    BundleFile,
    Case,
    Facts,
    JobRecord,
    OpUse,
    OutputStats,
    PlacedNode,
    Placement,
    ResourceProfile,
    Schema,
    Sealed,
    Statistics,
    Submission,
    ValueInfo,
)  # fmt: skip
from acceptd.judge.codes import CODES
from acceptd.judge.finding import Finding, Judgement
from acceptd.policy.manifest import Manifest, validate
from acceptd.report.document import brief, document, for_team

pytestmark = pytest.mark.unit
FEATURES = ValueInfo(name="features", kind="tensor", dtype="float32", shape=["batch", 4])
PROBABILITIES = ValueInfo(name="probabilities", kind="tensor", dtype="float32", shape=["batch", 3])


def manifest() -> Manifest:
    return validate(
        {
            "schema": 1,
            "bundle": {"id": "mosaic/evidence", "version": "1.4.0"},
            "dims": {"batch": {"min": 1, "max": 32}},
            "models": [
                {
                    "name": "main",
                    "file": "model.onnx",
                    "inputs": [{"name": "features", "dtype": "float32", "shape": ["batch", 4]}],
                    "outputs": [{"name": "probabilities", "dtype": "float32", "shape": ["batch", 3]}],
                }
            ],
        }
    )


def submission(*more: JobRecord) -> Submission:
    facts = Facts(
        ir_version=2**62,
        opsets={"ai.onnx": 13},
        nodes=3,
        scopes=1,
        operators=[OpUse(domain="ai.onnx", op_type="MatMul", count=3, where="n0")],
        initializers=0,
        initializer_bytes=0,
        inputs=[FEATURES],
        outputs=[PROBABILITIES],
    )
    schema = Schema(
        inputs=[FEATURES],
        outputs=[PROBABILITIES],
        providers=["CPU"],
        load_ms=1.9,
        runtime={"onnxruntime": "1.32.0"},
    )
    placed = PlacedNode(provider="CPU", domain="", op_type="MatMul", count=3)
    jobs = [
        JobRecord(kind="inspect", model="main", ending="done", facts=facts, cpu_s=0.008, peak_rss_bytes=9),
        JobRecord(
            kind="run", model="main", ending="done", schema_=schema, placement=Placement(nodes=[placed]),
            cases=[Case(set="s", repeat=0, wall_ms=0.25)], wall_s=0.0117, cpu_s=0.007, peak_rss_bytes=71,
        ),
        *more,
    ]  # fmt: skip
    row = OutputStats(
        set="s", model="main", output="probabilities", against="golden", comparable=True, n=3, max_abs=float("inf")
    )
    return Submission(
        id="20261129t151700123-1a2b3c4d",
        team="mosaic",
        sealed=Sealed(digest="12" * 32, files=[BundleFile(path="a", sha256="ab" * 32, size=1)], total_bytes=1),
        jobs=jobs,
        statistics=Statistics(outputs=[row]),
        walls={"seccomp": "enforced", "landlock": "enforced", "memory_cgroup": "unavailable"},
    )


def finding(code: str, severity: Any, audience: Any = "team", where: str = "main") -> Finding:
    return Finding(
        code=code, severity=severity, audience=audience, stage="compare", where=where, message="message"
    )


def judged(verdict: Any, *findings: Finding) -> Judgement:
    return Judgement(
        verdict=verdict, findings=findings, judged_at="2026-11-29T15:17:00Z", reason="the worst is 0.031 at [1]"
    )


def report(judgement: Judgement, *more: JobRecord, **options: Any) -> dict[str, Any]:
    return document(
        submission(*more), judgement, manifest(), policy_digest="34" * 32,
        timings_ms={"seal": 3.6123456, "run": 12.0}, **options,
    )  # fmt: skip


def test_a_brief_report_says_of_verdict_and_findings_what_the_whole_one_says() -> None:
    judgement = judged("rejected", finding("seal/symlink", "reject"), finding("graph/node-count", "warn"))
    whole = report(judgement)
    assert brief(judgement) == {key: whole[key] for key in ("verdict", "reason", "findings")}


def test_the_documented_keys_are_there() -> None:
    made = report(judged("accepted"), profile="cpu", policy_name="default", release={"number": 42})
    expected = {
        "verdict", "bundle_digest", "bundle_id", "policy_digest", "findings", "walls", "timings_ms", "resources",
        "submission", "team", "judged_at", "reason", "profile", "runtime", "files", "release", "ledger",
    }  # fmt: skip
    assert expected <= set(made)
    assert made["bundle_digest"] == "12" * 32
    assert made["bundle_id"] == "mosaic/evidence"
    assert made["ledger"] == "unanchored"
    assert made["runtime_said"] == {"onnxruntime": "1.32.0"}  # the job's word, and marked as such
    assert (made["runtime"], made["runtime_identity"]) == ({}, None)  # nothing was measured
    assert made["timings_ms"] == {"seal": 3.612, "run": 12.0}
    assert made["resources"]["peak_memory_bytes"] == 71
    assert made["resources"]["cpu_ms"] == 15.0
    assert made["models"][0]["seen_by"] == "runtime"
    assert made["models"][0]["placement"] == {"CPU": 3}
    assert "release" not in report(judged("accepted"))


PROFILE = ResourceProfile(seconds=[0.05, 0.1], bytes_used=[7, 135791], minor_faults=246, major_faults=1, threads=3)


def test_a_job_shows_its_resource_profile_but_not_one_that_saw_held_out_vectors() -> None:
    shown = JobRecord(kind="run", model="main", ending="done", resource_profile=PROFILE)
    held = JobRecord(kind="held-out", model="main", ending="done", resource_profile=PROFILE)
    jobs = report(judged("accepted"), shown, held)["resources"]["jobs"]
    assert jobs[0]["resource_profile"] is None  # nothing was sampled
    assert jobs[2]["resource_profile"] == {
        "seconds": [0.05, 0.1], "bytes_used": [7, 135791], "minor_faults": 246, "major_faults": 1, "threads": 3,
    }  # fmt: skip
    assert jobs[3]["kind"] == "held-out"
    assert jobs[3]["resource_profile"] is None
    assert "135791" not in json.dumps(for_team(report(judged("accepted"), held)))


def test_it_is_canonical_json_whatever_the_numbers_are() -> None:
    made = report(judged("accepted"))
    assert made["models"][0]["ir_version"] == str(2**62)
    assert made["parity"][0]["max_abs"] == "inf"
    assert json.loads(rfc8785.dumps(made)) == made


def test_a_finding_carries_its_meaning_and_remedy() -> None:
    made = report(judged("rejected", finding("parity/mismatch", "reject")))["findings"][0]
    assert made["remedy"] == CODES["parity/mismatch"].remedy
    assert made["meaning"] == CODES["parity/mismatch"].meaning
    unknown = report(judged("rejected", finding("parity/unheard-of", "reject")))["findings"][0]
    assert unknown["remedy"] == ""


def test_what_was_never_sealed_still_has_a_report() -> None:
    bare = Submission(id="i", team="mosaic", sealed=None)
    made = document(bare, judged("rejected", finding("seal/symlink", "reject")), None, policy_digest="34" * 32)
    assert made["bundle_digest"] is None
    assert made["bundle_id"] is None
    assert made["files"] == made["models"] == made["parity"] == []


class TestForTheTeam:
    def test_reviewers_findings_are_counted_and_not_shown(self) -> None:
        whole = report(
            judged(
                "rejected",
                finding("parity/mismatch", "reject"),
                finding("vectors/insensitive", "warn", "reviewer"),
            )
        )
        before = copy.deepcopy(whole)
        seen = for_team(whole)
        assert [item["code"] for item in seen["findings"]] == ["parity/mismatch"]
        assert seen["withheld_findings"] == 1
        assert seen["reason"] == whole["reason"]
        assert whole == before

    def test_the_reason_of_a_withheld_finding_is_withheld(self) -> None:
        whole = report(
            judged("held", finding("parity/mismatch", "hold", "reviewer"), finding("vectors/insensitive", "warn"))
        )
        seen = for_team(whole)
        assert "0.031" not in json.dumps(seen)
        assert seen["verdict"] == "held"

    def test_resources_of_jobs_that_saw_held_out_vectors_are_withheld(self) -> None:
        held = JobRecord(kind="held-out", model="main", ending="done", cpu_s=9.0, peak_rss_bytes=987654321)
        whole = report(judged("accepted"), held)
        whole["timings_ms"] |= {"held-out": 777.0, "total": 800.0}
        seen = for_team(whole)
        text = json.dumps(seen)
        assert "987654321" not in text
        assert "777" not in text
        assert "800" not in text
        assert seen["resources"]["peak_memory_bytes"] == 71
        assert seen["resources"]["cpu_ms"] == 15.0
        assert seen["timings_ms"]["seal"] == 3.612

    def test_of_two_that_weigh_the_same_the_team_is_told_the_one_that_it_may_see(self) -> None:
        """Sorted by code, the reviewer's comes first and is the reason: the severity alone does not say so."""
        for prefix in ("", "under profile cpu: "):
            both = (finding("parity/mismatch", "reject", "reviewer"), finding("vectors/insensitive", "reject"))
            judgement = judged("rejected", *both)
            line = f"{both[0].code} at {both[0].where}: {both[0].message}"
            whole = report(judgement.model_copy(update={"reason": prefix + line}))
            seen = for_team(whole)
            assert seen["reason"].startswith("vectors/insensitive")
            assert "parity/mismatch" not in json.dumps(seen)
