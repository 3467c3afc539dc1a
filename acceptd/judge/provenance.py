"""Where a model comes from and under which terms, as its manifest tells it: what a policy wants to be told. Pure.

Nothing here was measured: the export record is the submitter's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy import licenses
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy

_WANTED: Final = {
    "framework": "which framework it was trained in",
    "exporter": "which program exported it, in which version",
    "checkpoint": "which checkpoint it was exported from",
    "code_revision": "which revision of the code made it",
    "dataset_lineage": "which data it was made from",
    "parity": "how it was compared with its source",
    "tested_hardware": "on which hardware it was tested",
    "quality": "a quality result",
    "redistribution": "the terms of redistribution",
    "layers": "how many layers its source has",
}


def provenance(manifest: Manifest, policy: Policy) -> Iterator[Finding]:
    """Yield one finding per required field of ``[export]`` that says nothing, and what the licence lacks."""
    for field in manifest.export.missing(policy.export.required):
        code = f"export/{field.replace('_', '-')}-missing"
        yield make(code, "manifest", f"bundle.toml export.{field}", f"the bundle does not say {_WANTED[field]}")
    parity = manifest.export.parity
    if parity is not None and parity.result == "failed":
        message = f"the submitter's own comparison with the source failed: {parity.compared}"
        yield make("export/parity-failed", "manifest", "bundle.toml export.parity", message)
    yield from _license(manifest.bundle.license, policy.licenses.allowed)


def _license(written: str | None, allowed: list[str]) -> Iterator[Finding]:
    if not allowed:
        return
    where = "bundle.toml bundle.license"
    if written is None:
        yield make("license/missing", "manifest", where, "the bundle names no licence")
        return
    try:
        against = licenses.refused(written, allowed)
    except ValueError as error:
        yield make("license/not-allowed", "manifest", where, f"no SPDX expression: {error}")
        return
    if against:
        head = "" if [licenses.canonical(written)] == against else f"{written}: "
        message = f"{head}the policy does not allow {', '.join(against)}"
        yield make("license/not-allowed", "manifest", where, message, {"license": written, "against": against})
