"""The instance that the console shows: its ledger, opened for reading alone, its public keys, its rules.

No private key is opened here. What is signed by a reviewer is handed to the command line (`handover.py`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from acceptd.config import Paths, load_settings, policies_directory
from acceptd.errors import StateError, UsageError
from acceptd.policy.load import load_policy, load_reviewers
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewers
from acceptd.record.keystore import own_history
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.release.book import Book, read_book
from acceptd.release.signers import Auditor
from acceptd.review.desk import Desk
from acceptd.rules import policy_file


class NotHereError(UsageError):
    """What an address names is not on record."""


@dataclass(frozen=True)
class House:
    """One state directory. ``turn`` is held while a page is made: the fold of releases is not for two threads."""

    state: Path
    ledger: Ledger
    turn: threading.Lock = field(default_factory=threading.Lock)
    replaying: threading.Lock = field(default_factory=threading.Lock)
    acting: threading.Lock = field(default_factory=threading.Lock)
    """Held while the command line carries out what was signed: one at a time."""
    file: tuple[int, int] = (0, 0)
    """Which file the ledger was at the start: device and inode."""

    @classmethod
    def open(cls, state: Path) -> House:
        """Open the ledger of a state directory; raise as :meth:`Ledger.open` does."""
        before = _file(state)
        return cls(state, Ledger.open(state, create=False, read_only=True, busy_seconds=5.0), file=before)

    def still(self) -> None:
        """Raise StateError where the state's ledger is not the opened one any more.

        Some of its pages would then be of one file and some of the other, by which connection reads them.
        """
        if _file(self.state) != self.file:
            raise StateError(
                "the ledger was replaced, or is gone, since this console was started",
                remedy="end `acceptd web` and start it again",
            )

    @property
    def policies(self) -> Path:
        """The directory of policies, contracts and reviewers."""
        return policies_directory(load_settings(self.state))

    def policy(self) -> Policy:
        """Return the policy in use, as its file is now."""
        settings = load_settings(self.state)
        return load_policy(policy_file(policies_directory(settings), settings.policy))

    def reviewers(self) -> Reviewers:
        """Return who may decide."""
        return load_reviewers(self.policies)

    def desk(self) -> Desk:
        """Return where decisions are weighed."""
        return Desk(self.state, self.ledger, self.policy(), self.reviewers())

    def auditor(self) -> Auditor:
        """Return the public keys that this instance's keyring vouches for."""
        return Auditor.of(own_history(self.state, self.ledger))

    def book(self) -> Book:
        """Return what the ledger says about releases."""
        return read_book(self.ledger)

    def submission(self, wanted: str) -> Submission:
        """Return one submission; raise NotHereError."""
        found = Queue(self.ledger).get(wanted) if len(wanted) <= 128 else None
        if found is None:
            raise NotHereError(f"there is no submission {wanted!r:.140}", remedy="the queue lists them")
        return found


def _file(state: Path) -> tuple[int, int]:
    try:
        status = Paths(state).ledger.stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def model(value: str) -> str:
    """Return a model id that an address named; raise UsageError where it is none."""
    return _valid(value, valid_model_id)


def name(value: str) -> str:
    """Return the name of a team or a channel that an address named; raise UsageError where it is none."""
    return _valid(value, valid_name)


def _valid(value: str, check: object) -> str:
    assert callable(check)
    try:
        return str(check(value))
    except ValueError as error:
        raise UsageError(str(error), remedy="follow the console's own links, or mend the filter") from error
