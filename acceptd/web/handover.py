"""Hands what a reviewer signed elsewhere to `acceptd review record`: the command decides, in a process of its own.

The console holds no key and cannot write to the ledger. The command verifies everything again, and does what it
does for whoever runs it by hand; what it prints is shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd.errors import LoaderError, UsageError
from acceptd.policy.reviewers import Reviewers
from acceptd.review import decision as decisions
from acceptd.review import revocation

SECONDS: Final = 120.0
WORDS: Final = ("approve", "reject")
"""What people decide by the console; the rest is for the command line alone."""


@dataclass(frozen=True)
class Outcome:
    """What the command said. ``code`` is its exit code; None: it did not end in time."""

    code: int | None
    said: str


def read(data: bytes) -> Any:
    """Return the envelope in an uploaded file. Raises UsageError where it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        remedy = "bring what `acceptd review sign` wrote"
        raise UsageError("this file is no signed decision", remedy=remedy) from error


@contextmanager
def meant() -> Iterator[None]:
    """Turn what is wrong with something signed, or to be signed, into a refusal with a remedy."""
    try:
        yield
    except LoaderError as error:
        raise UsageError(
            str(error), remedy="prepare it here, sign it with a reviewer's key, bring that file"
        ) from error


def expect_decision(envelope: Any, reviewers: Reviewers, submission: str) -> None:
    """Raise unless a reviewer has signed to approve or to reject exactly this submission.

    So that a page does what stands on it, and nothing else; the command looks again at all of it.
    """
    with meant():
        said, _ = decisions.opened(envelope, reviewers)
    if said.submission != submission:
        raise UsageError(
            f"it was signed about the submission {said.submission}", remedy="bring it to the page of that one"
        )
    if said.decision not in WORDS:
        raise UsageError(
            f"it was signed to {said.decision}, which this page does not do",
            remedy="run `acceptd review record` with it",
        )


def expect_revocation(envelope: Any, reviewers: Reviewers, digest: str) -> None:
    """Raise unless a reviewer has signed to revoke exactly this bundle."""
    with meant():
        said, _ = revocation.opened(envelope, reviewers)
    if said.bundle_digest != digest:
        raise UsageError(
            f"it was signed to revoke the bundle {said.bundle_digest}", remedy="bring it to the page of that one"
        )


def record(state: Path, data: bytes) -> Outcome:
    """Run `acceptd review record` on the bytes of a signed file."""
    command = [sys.executable, "-P", "-m", "acceptd", "review", "record", "/dev/stdin", "--state", str(state)]
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS,
            start_new_session=True,  # Ctrl-C in the console's terminal does not stop it half way
        )
    except subprocess.TimeoutExpired:
        return Outcome(
            None, f"the command did not end within {SECONDS:.0f} s; `acceptd review show` says what it did"
        )
    return Outcome(done.returncode, done.stdout.decode("utf-8", "backslashreplace").rstrip("\n"))
