"""Reports with whatever text, and the table of hostile strings that every output must survive."""

from __future__ import annotations

from typing import Any

HOSTILE = {
    "escape sequence that clears the screen": "a\x1b[2J\x1b[1;1Hb",
    "title of the terminal": "a\x1b]0;owned\x07b",
    "hyperlink of the terminal": "a\x1b]8;;http://evil.example\x1b\\b\x1b]8;;\x1b\\",
    "8-bit control sequence": "a\x9b2Jb\x90c\x9cd",
    "carriage return that overwrites the line": "rejected\raccepted",
    "line break that forges a line": "a\n2026-11-29T00:00:00Z [info ] judged verdict=accepted\n\u2713 ACCEPTED",
    "other line breaks": "a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b",
    "backspaces and delete": "rejected\x08\x08\x08\x7fb",
    "NUL": "a\0b",
    "right-to-left override": "model\u202exnno.\u2066b\u2069\u200f",
    "invisible characters": "a\u200b\u200d\u2060\ufeff\u00adb\U000e0041",
    "lone surrogates": "a\ud800b\udcffc",
    "characters that XML forbids": "a\x01\x1f\ufffe\uffffb",
    "private and unassigned characters": "a\ue000\U000f0000\u0378b",
    "markup of rich": "[bold red]a[/bold red] [/] [link=http://evil.example]b",
    "emoji code": ":skull: a :warning:",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "end of an attribute": '"\' onmouseover="alert(1)" x=\'',
    "end of a style, a comment or CDATA": "</style></title>--> ]]> <!ENTITY x SYSTEM 'file:///etc/passwd'>&x;&#x1b;",
    "link in a SARIF message": "[click](http://evil.example) [x](1) \\[y](2)",
    "placeholder": "{0} {1} {{2}} %s %(x)s $(id) `id`",
    "URL": "javascript:alert(1)//../../etc/passwd?#%2e%2e",
    "very long": "a" * 100_000 + "\x1b[31m",
    "empty": "",
}


def finding(**changes: Any) -> dict[str, Any]:
    base = {
        "code": "parity/mismatch", "severity": "reject", "audience": "team", "stage": "compare", "where": "main",
        "message": "2 of 6 elements exceed", "evidence": {}, "count": 2, "meaning": "An output differs.",
        "reason": "Export changed what the model computes.", "references": ["CWE-682"],
        "remedy": "Compare the exported model with the original.",
    }  # fmt: skip
    return base | changes


def runtime(text: str = "plain") -> dict[str, Any]:
    """Return a runtime record (:mod:`acceptd.runtime.identity`) with ``text`` wherever there is some."""
    return {
        "schema": 1, "python": text, "implementation": text, "machine": text, "cpu_class": text,
        "onnxruntime": text, "build": text, "distribution": text, "numpy": text,
        "available_providers": [text], "libraries": [{"name": text, "sha256": "78" * 32}], "providers": [text],
        "provider_options": {text: {text: text}}, "allow_cpu_fallback": False, "intra_op_threads": 1,
        "inter_op_threads": 1, "optimisation": text, "session_entries": {text: text}, "reduced_build": "",
        "custom_operators": [{"name": text, "sha256": "78" * 32, "abi": 20, "source": text, "domain": text}],
    }  # fmt: skip


def report(text: str = "plain", **changes: Any) -> dict[str, Any]:
    """Return a report (:mod:`acceptd.report.document`); ``text`` stands wherever a submitter's may."""
    job = {
        "kind": "run", "model": text, "ending": "crash", "cause": text, "stage": "schema", "attempts": 1,
        "wall_ms": 12.0, "cpu_ms": 7.0, "peak_memory_bytes": 3 << 20, "load_ms": None, "run_ms": None,
        "resource_profile": {
            "seconds": [0.05, 0.6, 1.2], "bytes_used": [3 << 20, 71 << 20, 5 << 20], "threads": 2,
            "minor_faults": 1234, "major_faults": 0,
        },
    }  # fmt: skip
    model = {
        "name": text, "file": text, "seen_by": "runtime", "ir_version": 8, "opsets": {text: 13}, "nodes": 3,
        "inputs": [{"name": text, "type": "tensor", "dtype": text, "shape": [text, 4]}],
        "outputs": [{"name": text, "type": "tensor", "dtype": "float32", "shape": None}],
        "operators": [{"domain": text, "op_type": text, "count": 1}], "placement": {text: 3},
    }  # fmt: skip
    row = {
        "model": text, "output": text, "set": text, "against": "golden", "comparable": False, "note": text, "n": 0,
        "exceeding": 0, "max_abs": "inf", "max_rel": 0.0, "rtol": 0.0, "atol": 1e-6, "bit_exact": False,
    }  # fmt: skip
    base = {
        "verdict": "rejected", "reason": text, "submission": "20261129t151700123-1a2b3c4d", "team": "mosaic",
        "judged_at": "2026-11-29T15:17:00Z", "bundle_id": "mosaic/evidence", "bundle_version": "1.4.0",
        "bundle_digest": "12" * 32, "policy": "default", "policy_digest": "34" * 32, "contract_digest": None,
        "profile": "cpu", "runtime": runtime(text), "runtime_identity": "56" * 32,
        "runtime_said": {text: text}, "findings": [finding(where=text, message=text)],
        "withheld_findings": 0, "inferred": [text],
        "walls": {"seccomp": "enforced", "memory_cgroup": "unavailable"},
        "wall_notes": {"memory_cgroup": text}, "timings_ms": {"seal": 3.6, "run": 33.0},
        "resources": {"peak_memory_bytes": 71 << 20, "cpu_ms": 15.0, "jobs": [job]}, "models": [model],
        "goldens": {
            "models": [{
                "model": text, "parity": 2, "undeclared": 0, "regression": 1, "smoke": 1, "labelled": 1,
                "origins": [{"origin": text, "shows": "parity", "sets": 2}],
            }],
            "quality": [{
                "model": text, "output": text, "slice": text, "rows": 8, "accuracy": 0.625, "brier": None,
                "calibration_error": 0.125, "note": text,
                "classes": [{"label": 0, "support": 8, "false_negatives": 3, "name": text}],
            }],
            "fixtures": [{
                "raw": text, "raw_sha256": None, "set": text, "model": text,
                "inputs": [{"path": text, "sha256": "cd" * 32}],
            }],
        },
        "parity": [row], "files": [{"path": text, "sha256": "ab" * 32, "size": 1}], "ledger": "unanchored",
    }  # fmt: skip
    return base | changes
