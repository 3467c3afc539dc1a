"""What is known against the runtimes that a submission ran under. Pure.

Nothing of it is the model's fault: the operator changes the runtime, or a person decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Submission
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.policy import Policy
from acceptd.runtime.identity import identity


def findings(submission: Submission, policy: Policy, judged_at: str) -> Iterator[Finding]:
    """Yield each advisory about a runtime of the submission, and that the list itself does not count."""
    known = submission.advisories
    if known is None:
        return
    place, table = "advisories", policy.advisories
    if known.status == "unverified":
        message = f"the list {known.number} on record (entry {known.entry}) does not verify: {known.reason}"
        yield _of(make("runtime/advisories-stale", "run", place, message), table.stale)
    elif known.expires_at <= judged_at:
        message = f"the list {known.number} expired at {known.expires_at}: newer advisories may be withheld"
        yield _of(make("runtime/advisories-stale", "run", place, message), table.stale)
    mine = {identity(one) for one in submission.runtimes}
    for hit in known.hits:
        if hit.runtime in mine:
            shows = {"url": hit.url, "runtime_identity": hit.runtime, "list": known.number, "entry": known.entry}
            message = f"{hit.because}: {hit.summary}"
            yield _of(make("runtime/advisory", "run", hit.id, message, shows), table.affected)


def _of(finding: Finding, severity: str) -> Finding:
    return finding.model_copy(update={"severity": severity})
