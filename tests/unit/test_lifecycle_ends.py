"""A submission that is not examined to its end has one verdict all the same, and its submitter is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from acceptd.config import Paths
from acceptd.embedded import Embedded
from acceptd.errors import (
    GivenUpError,
    InternalError,
    LedgerError,
    ReleaseError,
    SealError,
    SigningError,
    StateError,
)
from acceptd.evidence import JobRecord, Refused, SealFailure, Walls
from acceptd.intake.claims import Claim
from acceptd.lifecycle import Lifecycle
from acceptd.outcomes import not_unpacked, without_evidence
from acceptd.policy.load import digest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record.keys import load_signer
from acceptd.record.queue import Queue
from acceptd.release.model import SessionOptions
from acceptd.rules import Rules
from acceptd.steps.ends import EXPIRED
from acceptd.steps.sealing import NotSealed
from acceptd.unpack import unpack_archive
from acceptd.verdicts import entry_body
from acceptd.work.budget import Share
from tests import judge_world
from tests.release_world import World, memory_directory
from tests.report_world import report

pytestmark = pytest.mark.unit
RULES = Rules(Policy(), digest(Policy()), Profile(), digest(Profile()), Path("/nonexistent"))
TEAM = "mosaic"


class Life:
    """A daemon's lifecycle without cell, sealer or comparer: whoever asks for one fails."""

    def __init__(self, root: Path) -> None:
        self.world = World(root)
        self.paths = Paths(self.world.state)
        for path, mode in self.paths.directories():
            path.mkdir(mode=mode, parents=True, exist_ok=True)
        self.drop = self.paths.inbox / TEAM / "drop"
        self.drop.mkdir(parents=True)
        self.queue = Queue(self.world.ledger)
        self.discarded: list[str] = []
        self.lifecycle = Lifecycle(
            self.paths, self.world.ledger, self.queue, cast("Any", SimpleNamespace()), Share(4, 1 << 33),
            lambda: RULES, load_signer(self.world.state, "ledger"), self.world.keys, discard=self._discard,
        )  # fmt: skip

    def _discard(self, claim: Claim) -> list[str]:
        self.discarded.append(claim.id)
        shutil.rmtree(claim.path)
        return []

    def claim(self, **changes: Any) -> None:
        self.lifecycle.claim(Claim(TEAM, "drop", self.drop, "s-1", "directory", 0, **changes))

    def sealed(self) -> Path:
        """Let the submission be sealed, as the step before does it; return its copy."""
        place, sealed = self.world.sealed({"model.onnx": b"model" * 50})
        copy = self.paths.sealed / "s-1" / "bundle"
        copy.parent.mkdir()
        place.rename(copy)
        self.queue.advance("s-1", "sealed", sealed=sealed.model_dump(mode="json"))
        return copy

    @property
    def state(self) -> str:
        row = self.queue.get("s-1")
        assert row is not None
        return str(row.state)

    def verdict(self) -> tuple[str, list[str]]:
        """Return the one verdict on record, which is what the outbox says too, and the findings' codes."""
        (entry,) = self.world.ledger.entries(kind="verdict", submission="s-1")
        told = json.loads((self.paths.outbox / TEAM / "s-1" / "verdict.json").read_bytes())
        assert (told["verdict"], told["drop"]) == (entry.body["verdict"], "drop")
        return str(entry.body["verdict"]), [one["code"] for one in entry.body["findings"]]


@pytest.fixture
def life() -> Iterator[Life]:
    made = Life(memory_directory())
    yield made
    made.world.close()
    shutil.rmtree(made.world.root)


class Hold:
    """A lease that always fits."""

    def fit(self, _wanted: Share) -> bool:
        return True

    def finish(self) -> None:
        """The machine is given back."""


HOLD = cast("Any", Hold())


def test_a_drop_whose_time_passed_in_the_queue_is_inconclusive(life: Life) -> None:
    life.claim()
    life.lifecycle.expire("s-1")
    assert (life.verdict(), life.state) == (("inconclusive", ["cell/deadline"]), "done")
    assert not life.drop.exists()


def test_what_is_only_observed_and_was_not_judged_is_an_error_of_this_host(
    life: Life,
) -> None:
    policy = Policy.model_validate({"observe": {"everything": True}})
    observing = Rules(policy, digest(policy), Profile(), digest(Profile()), Path("/nonexistent"))
    object.__setattr__(life.lifecycle, "rules", lambda: observing)
    life.claim()
    with capture_logs() as logs:
        life.lifecycle.expire("s-1")
    (told,) = [one for one in logs if one["log_level"] == "error"]
    assert told["event"] == "observed without a judgement: see to this host"
    assert life.verdict() == ("inconclusive", ["cell/deadline"])


@pytest.mark.parametrize(("reason", "code"), [("deadline", "cell/deadline"), ("withdrawn", "cell/withdrawn")])
def test_work_that_was_given_up_ends_inconclusive_with_its_reason(life: Life, reason: Any, code: str) -> None:
    life.claim()
    copy = life.sealed()
    life.lifecycle.given_up("s-1", reason)
    assert (life.verdict(), life.state) == (("inconclusive", [code]), "done")
    assert not copy.exists()


def test_work_that_a_stop_cut_off_is_put_back_and_counts_as_nobodys_death(life: Life) -> None:
    life.claim()
    life.queue.note_start("s-1", "claimed")
    life.lifecycle.given_up("s-1", "stop")
    assert (life.state, list(life.world.ledger.entries(kind="verdict"))) == ("claimed", [])
    assert life.queue.recover() == []


def test_what_was_judged_already_keeps_its_verdict_whatever_runs_out_afterwards(life: Life) -> None:
    life.claim()
    life.lifecycle.expire("s-1")
    life.lifecycle.expire("s-1")
    life.lifecycle.given_up("s-1", "withdrawn")
    assert life.verdict() == ("inconclusive", ["cell/deadline"])


def test_nothing_is_examined_without_a_lease_and_nothing_beyond_one(life: Life) -> None:
    life.claim()
    with pytest.raises(InternalError, match="submission s-1 cannot be examined without a lease"):
        life.lifecycle.process("s-1")
    small = SimpleNamespace(fit=lambda _wanted: False)
    wanted = life.lifecycle.process("s-1", cast("Any", small))
    assert wanted is not None
    assert wanted.cores >= 1
    assert life.state == "claimed"


def test_a_drop_that_was_refused_when_it_was_claimed_is_rejected_without_being_read(life: Life) -> None:
    life.claim(refusal=SealFailure(code="seal/drop-name", where="drop", message="no name of a drop"))
    life.claim()  # known already: it is left as it is
    assert life.lifecycle.process("s-1", HOLD) is None
    verdict, codes = life.verdict()
    assert (verdict, codes) == ("rejected", ["seal/drop-name"])


def test_a_sealed_copy_that_was_taken_away_is_never_judged(life: Life) -> None:
    life.claim()
    shutil.rmtree(life.sealed().parent)
    assert life.lifecycle.process("s-1", HOLD) is None
    assert life.verdict() == ("inconclusive", ["cell/copy-lost"])


def test_without_its_directory_of_sealed_copies_a_daemon_says_so_and_judges_nothing(life: Life) -> None:
    life.claim()
    life.sealed()
    shutil.rmtree(life.paths.sealed)
    with pytest.raises(StateError, match="is gone") as caught:
        life.lifecycle.process("s-1", HOLD)
    assert caught.value.remedy == f"acceptd init --state {life.paths.state}"
    assert list(life.world.ledger.entries(kind="verdict")) == []


@pytest.mark.parametrize("sealed", [True, False])
def test_what_two_daemons_died_over_is_put_aside_and_told(life: Life, sealed: bool) -> None:
    life.claim()
    if sealed:
        life.sealed()
    state = life.state
    for _ in range(2):
        life.queue.note_start("s-1", state)
        life.queue.recover()
    with capture_logs() as logs:
        assert life.lifecycle.process("s-1", HOLD) is None
    assert (life.verdict(), life.state) == (("inconclusive", ["cell/daemon-died"]), "quarantined")
    assert (life.paths.quarantine / "s-1" / "bundle").is_dir() == sealed
    assert life.drop.exists() != sealed  # where nothing was sealed, the drop is all there is
    assert ("left in the inbox: nothing of it was sealed, so it is all there is" in [
        one["event"] for one in logs
    ]) != sealed  # fmt: skip


def test_what_daemons_died_over_after_its_verdict_keeps_that_verdict(life: Life) -> None:
    life.claim()
    row = life.queue.get("s-1")
    assert row is not None
    life.lifecycle._end(row, EXPIRED)
    for _ in range(2):
        life.queue.note_start("s-1", "judged")
        life.queue.recover()
    life.lifecycle.process("s-1")
    assert (life.verdict(), life.state) == (("inconclusive", ["cell/deadline"]), "quarantined")


def test_an_accepted_bundle_that_cannot_be_promoted_keeps_its_verdict_and_says_why(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise ReleaseError("the disk of releases is full")

    life.claim()
    life.sealed()
    life.queue.advance(
        "s-1", "judged", verdict="accepted", document=report(verdict="accepted"), profiles=[],
        options=SessionOptions().model_dump(mode="json"), manifest={},
    )  # fmt: skip
    monkeypatch.setattr(type(life.lifecycle.promotions), "accepted", refuse)
    assert life.lifecycle.process("s-1") is None
    told = json.loads((life.paths.outbox / TEAM / "s-1" / "verdict.json").read_bytes())
    assert (life.state, told["verdict"]) == ("done", "accepted")
    assert told["promotion_trouble"] == "the disk of releases is full"


def test_an_archive_whose_job_ended_badly_is_judged_by_that_record() -> None:
    walls = Walls.model_validate({"states": judge_world.WALLS, "notes": {}})
    record = JobRecord(kind="unpack", ending="limit", cause="memory", message="too much", walls=walls)
    found = NotSealed(None, (record,), {"memory_cgroup": "enforced"}).outcome(RULES, "s-1", TEAM)
    assert found.judgement.verdict == "rejected", found.judgement
    assert found.submission.walls["memory_cgroup"] == "enforced"
    gone = not_unpacked(RULES, "s-1", TEAM, [record.model_copy(update={"walls": None})], {})
    assert gone.judgement.verdict == "inconclusive", "a wall that nobody proved"


def test_a_lease_that_was_taken_away_reaches_who_works(life: Life) -> None:
    class Taken(Hold):
        def fit(self, _wanted: Share) -> bool:
            raise GivenUpError("withdrawn")

    life.claim()
    with pytest.raises(GivenUpError):
        life.lifecycle.process("s-1", cast("Any", Taken()))
    assert life.state == "claimed"


def test_a_statement_that_is_not_what_its_schema_says_is_not_signed(life: Life) -> None:
    outcome = without_evidence("s-1", TEAM, None, "cell/deadline", "drop", "too late")
    signed: list[bytes] = []
    signer: Any = SimpleNamespace(role="ledger", key_id="k", sign=signed.append)
    prepared = entry_body(TEAM, "drop", RULES, outcome, signer, "unanchored", 0)
    with pytest.raises(InternalError, match="the statement of submission s-1: "):
        prepared.body(life.world.ledger.origin, -1)
    assert signed == []


# -- archives


class Cells:
    """A cell whose unpack job ends as it is told."""

    def __init__(self, record: JobRecord) -> None:
        self.record = record

    def at(self, _slot: Any) -> Cells:
        return self

    def run(self, _kind: str, **_more: Any) -> JobRecord:
        return self.record


@pytest.mark.parametrize("code", ["archive/bomb", "seal/duplicate-path", "run/crash", "cell/lost", "policy/any"])
def test_an_unpack_job_blames_its_archive_and_nothing_else(code: str, tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir()
    raw = SimpleNamespace(path=tmp_path / "b.zip", size=1)
    refused = Refused(code=code, where="b.zip", message="it says so")
    record = JobRecord(kind="unpack", ending="refused", refused=refused)
    sealer = SimpleNamespace(copy_archive=lambda *_, **__: raw)
    tools: Any = SimpleNamespace(sealer=sealer, cells=Cells(record))
    hold: Any = SimpleNamespace(slot=0, kill_due=lambda: False, check=lambda: None)
    words: Any = (tmp_path / "b.zip", "zip", tmp_path / "sealed", "s-1", RULES, tools, hold)
    if code.startswith(("archive/", "seal/")):
        with pytest.raises(SealError) as caught:
            unpack_archive(*words)
        assert (caught.value.code, caught.value.where) == (code, "b.zip")
    else:  # a hostile job speaks neither for the host nor for another stage
        assert unpack_archive(*words) == (record, None)


# -- work that raised


class Failing:
    """What of an embedded daemon counts a failure."""

    def __init__(self, life: Life, seconds: int) -> None:
        self._helm = SimpleNamespace(count=SimpleNamespace(failed=lambda: None))
        self._rooms = SimpleNamespace(queue=life.queue)
        self._settings = SimpleNamespace(submission_seconds=seconds)


@pytest.mark.parametrize(
    ("error", "seconds", "deaths"),
    [
        (LedgerError("the ledger is busy"), 3600, 0),
        (OSError(28, "No space left on device"), 3600, 0),
        (StateError("sealed/ is gone"), 3600, 0),
        (LedgerError("the ledger is busy"), 0, 1),
        (SigningError("the key's command does not answer"), 0, 0),
        (InternalError("a broken promise"), 3600, 1),
        (KeyError("ours"), 3600, 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_only_what_says_something_of_a_submission_counts_as_its_death(
    life: Life, error: Exception, seconds: int, deaths: int
) -> None:
    life.claim()
    life.queue.note_start("s-1", "claimed")
    with capture_logs() as logs:
        Embedded._failed(cast("Any", Failing(life, seconds)), cast("Any", SimpleNamespace(id="s-1")), error)
    assert (logs[0]["event"], logs[0]["error"]) == ("submission failed", f"{type(error).__name__}: {error}")
    assert bool(logs[0]["exc_info"]) == (not isinstance(error, StateError | LedgerError | OSError))
    assert life.queue.note_start("s-1", "claimed") == deaths


def test_a_failure_that_cannot_be_counted_does_not_end_who_works(life: Life) -> None:
    def broken(_id: str) -> Any:
        raise LedgerError("the ledger is gone")

    failing = Failing(life, 1)
    failing._rooms = SimpleNamespace(queue=SimpleNamespace(get=broken))
    with capture_logs() as logs:
        Embedded._failed(cast("Any", failing), cast("Any", SimpleNamespace(id="s-1")), KeyError("x"))
    assert [(one["event"], one.get("submission")) for one in logs] == [
        ("submission failed", "s-1"), ("cannot count it", "s-1")
    ]  # fmt: skip
