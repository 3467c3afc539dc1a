"""What the runs were forked from, against the profile's pins and against what the jobs said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from acceptd.evidence import JobRecord, Submission
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import RUNTIME_CAUSES, place
from acceptd.judge.words import make
from acceptd.policy.profile import Profile
from acceptd.runtime.facts import Library
from acceptd.runtime.identity import RuntimeRecord, identity
from acceptd.runtime.pins import differences

_BUILD: Final = 2000
"""Characters of the build information that are kept on the trusted side."""


def runtimes(submission: Submission, profile: Profile) -> Iterator[Finding]:
    """Yield what is wrong with the runtime of the submission's runs; nothing of it is the model's fault."""
    measured = {identity(one): one for one in submission.runtimes}
    if submission.runtime_problem:
        yield make("runtime/unmeasured", "run", profile.name, submission.runtime_problem)
    if len(measured) > 1:
        shows = {"identities": sorted(measured)}
        yield make("runtime/changed", "run", profile.name, f"{len(measured)} runtimes in one submission", shows)
    if not any(job.cause in RUNTIME_CAUSES for job in submission.jobs if job.ending == "unavailable"):
        for record in measured.values():
            yield from _pinned(record, profile)
    if len(measured) == 1:
        for job in submission.jobs:
            yield from _said(job, next(iter(measured.values())))


def _pinned(record: RuntimeRecord, profile: Profile) -> Iterator[Finding]:
    """Yield what differs from the profile's pins where the run was not refused for it (another profile judges)."""
    found = [Library(one.name, one.sha256, 0) for one in record.libraries]
    for one in differences(profile.libraries, found, profile.onnxruntime, record.onnxruntime):
        shows = {"name": one.name, "kind": one.kind, "pinned": one.pinned, "found": one.found}
        yield make(one.code, "run", f"{profile.name}: {one.name}", one.sentence(), shows)
    for listed in record.custom_operators:
        pins = [one.sha256 for one in profile.custom_operators if one.path.rpartition("/")[2] == listed.name]
        if pins and listed.sha256 not in pins:
            message = (
                f"{listed.name} has the SHA-256 {listed.sha256 or '(not mapped)'}, the profile gives {pins[0]}"
            )
            yield make("runtime/custom-operator-mismatch", "run", f"{profile.name}: {listed.name}", message)


def _said(job: JobRecord, record: RuntimeRecord) -> Iterator[Finding]:
    """Yield where a run says something else of its runtime than what it was forked from."""
    if job.kind != "run" or job.schema_ is None:
        return
    due = {
        "onnxruntime": record.onnxruntime,
        "numpy": record.numpy,
        "build": record.build[:_BUILD],
        "available_providers": ",".join(record.available_providers),
    }
    for key, value in due.items():
        said = job.schema_.runtime.get(key)
        if said is not None and said[: _BUILD if key == "build" else None] != value:
            shows = {"said": said, "measured": value}
            yield make(
                "runtime/said-otherwise", "run", place(job), f"{key} is {said!r}, forked from {value!r}", shows
            )
