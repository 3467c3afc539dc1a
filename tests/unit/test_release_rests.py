"""What cannot be caught up with is tried again ever later: each try burns a number, or hashes a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ReleaseError, StateError
from acceptd.release import reconcile as reconcile_module
from acceptd.release import revoke as revoke_module
from acceptd.release.book import read_book
from acceptd.release.reconcile import Reconciled, catch_up
from acceptd.release.rests import Rests
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

LATER = [0.0, 60.0, 180.0, 420.0, 900.0, 1860.0, 3780.0]
"""When something is tried that fails each time, looked at every 15 s, in the first two hours (an hour at most)."""


class Daemon(World):
    """Looks every 15 s, as the housekeeping does."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.seconds = 0.0
        self.rests = Rests(lambda: self.seconds)

    def look(self) -> Reconciled:
        return catch_up(self.state, self.ledger, self.keys, terms=self.terms, rests=self.rests)

    def looks(self, count: int) -> list[str]:
        """Look so often; return every problem that was told."""
        told = []
        for _ in range(count):
            told += self.look().problems
            self.seconds += 15.0
        return told

    def owed(self, digest: str) -> None:
        """Enter a revocation with rollback that its command did not carry out: it was killed."""
        self.ledger.append("revoked", {"digest": digest, "reason": "leaked", "rollback": True})


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    made.released("1.0.0")
    yield made
    made.close()


def refusing(tries: list[float], daemon: Daemon, error: Exception) -> Any:
    def refused(*_: Any, **__: Any) -> None:
        tries.append(daemon.seconds)
        raise error

    return refused


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ReleaseError("its bundle is damaged")])
def test_a_rollback_that_fails_is_tried_again_ever_later_and_told_each_time_it_was(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries: list[float] = []
    daemon.owed(daemon.released("2.0.0").bundle_digest)
    with monkeypatch.context() as patch:
        patch.setattr(revoke_module, "rollback_locked", refusing(tries, daemon, error))
        told = daemon.looks(480)
    assert tries == LATER
    assert len(told) == len(tries)
    daemon.seconds += 3600.0
    assert daemon.look().problems == ()
    current = read_book(daemon.ledger).current(MODEL, "production")
    assert current is not None
    assert (current.number, current.kind) == (3, "rollback")


def test_a_revocation_that_comes_meanwhile_waits_for_nothing(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.owed(daemon.released("2.0.0").bundle_digest)
    tries: list[float] = []
    monkeypatch.setattr(revoke_module, "rollback_locked", refusing(tries, daemon, OSError(28, "full")))
    daemon.looks(4)
    assert tries == [0.0]
    daemon.owed("f" * 64)
    daemon.look()
    assert _listed(daemon, "f" * 64)
    assert tries == [0.0, 60.0]  # the other one with it


def _listed(daemon: Daemon, digest: str) -> bool:
    from acceptd.release import channel

    return digest in channel.read_revocations(daemon.state, daemon.keys).revoked


def test_a_promotion_that_cannot_be_settled_rests_and_holds_up_no_other_model(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = daemon.accepted("2.0.0")
    body = {
        "model": MODEL, "channel": "production", "number": 2, "digest": accepted.digest, "kind": "promote",
        "reason": "killed", "verdict_seq": accepted.verdict_seq,
    }  # fmt: skip
    daemon.ledger.append("intent", body)
    tries: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(reconcile_module, "settle", refusing(tries, daemon, OSError(5, "Input/output error")))
        told = daemon.looks(60)
    assert tries == LATER[:4]
    assert len(told) == len(tries)
    daemon.seconds += 3600.0
    assert daemon.look().done
    assert read_book(daemon.ledger).pending(MODEL, "production") == []


def test_what_ends_the_look_rests_too(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.owed(daemon.released("2.0.0").bundle_digest)
    tries: list[float] = []
    monkeypatch.setattr(reconcile_module, "carry_out", refusing(tries, daemon, StateError("no space left")))
    with pytest.raises(StateError):
        daemon.look()
    daemon.seconds += 15.0
    assert daemon.look() == Reconciled((), ())
    assert tries == [0.0]
