"""Files that no model reads: each is named, and what the ``assets`` job found in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from acceptd.evidence import JobRecord, Sealed
from acceptd.judge.coverage import Owed, owed
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import SIGNATURE_FILE, Inventory
from acceptd.judge.jobs import Jobs
from acceptd.judge.words import from_job, make
from acceptd.policy.manifest import Manifest

MODEL_SUFFIXES: Final = (".onnx", ".ort", ".onnx.gz")


def undeclared(manifest: Manifest, sealed: Sealed, inventory: Inventory, task: Owed) -> Iterator[Finding]:
    """Yield one finding for each file that nothing in the bundle accounts for.

    A lock accounts for what it names, and [preprocessing] for its fixtures, but not for a model: only [[models]]
    has one inspected. Inputs without expected outputs are vectors too, if of little use.
    """
    raw = {one.raw for one in manifest.preprocessing.fixtures} if manifest.preprocessing is not None else set()
    locked = raw | set(manifest.files or {})
    sizes = {file.path: file for file in sealed.files}
    for path in task.files:
        if path == SIGNATURE_FILE:
            continue
        if path.lower().endswith(MODEL_SUFFIXES):
            shown = {"size": sizes[path].size, "sha256": sizes[path].sha256}
            message = f"{sizes[path].size} bytes named as a model, and no [[models]] table names it"
            yield make("manifest/undeclared-model", "manifest", path, message, shown)
        elif path not in locked and path.rpartition("/")[0] not in inventory.smoke:
            message = f"{sizes[path].size} bytes that no model reads and no lock names"
            evidence = {"size": sizes[path].size, "sha256": sizes[path].sha256}
            yield make("manifest/undeclared-file", "manifest", path, message, evidence)


def found(record: JobRecord | None) -> Iterator[Finding]:
    """Yield what the ``assets`` job found; a missing job is a missing stage, not a finding."""
    if record is not None and record.assets is not None:
        for problem in record.assets.problems:
            yield from_job(problem.code, "inspect", problem.where, problem.message)


def missing(manifest: Manifest, sealed: Sealed, inventory: Inventory, jobs: Jobs) -> list[str]:
    """Return what is missing of the ``assets`` stage: nothing, or one gap."""
    task = owed(manifest, jobs.facts(manifest), sealed, inventory)
    record = jobs.last("assets")
    if not task:
        return []
    if record is None:
        return ["assets: no job"]
    if record.assets is None or record.ending != "done":
        return [f"assets: ended by {record.ending}"]
    files, gaps = len(task.files), sum(map(len, task.gaps.values()))
    seen = record.assets
    if (seen.files, seen.gaps_read) == (files, gaps):
        return []
    return [f"assets: {seen.files} of {files} files and {seen.gaps_read} of {gaps} gaps were looked at"]
