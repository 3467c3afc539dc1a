"""One submission from claimed to done, each step durable before the next (design, sections 5 to 8).

States: ``claimed`` (ours, nothing read yet) -> ``sealed`` -> ``judged`` (the verdict entry is in the
ledger, exactly one) -> ``promoted`` -> ``done``. A kill at any point leaves a state from which the
same code goes on; two daemon deaths in one state end in quarantine with an ``inconclusive`` verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from acceptd.config import Paths
from acceptd.errors import InternalError
from acceptd.evidence import Sealed
from acceptd.intake.claims import Claim
from acceptd.known_rules import KnownRules
from acceptd.metrics.counting import Counting
from acceptd.promotions import Promotions
from acceptd.record.failpoint import failpoint
from acceptd.record.key_command import PROBE
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.release.signers import ReleaseKeys
from acceptd.report.logs import bound
from acceptd.rules import Rules
from acceptd.steps.ends import DIED, EXPIRED, GIVEN_UP, MAX_DEATHS, End
from acceptd.steps.examining import Examining
from acceptd.steps.finishing import Finishing
from acceptd.steps.lookups import Lookups
from acceptd.steps.promoting import Promoting
from acceptd.steps.recording import Recording
from acceptd.steps.sealing import NotSealed, Sealing
from acceptd.tools import Tools
from acceptd.work.budget import Share
from acceptd.work.lease import Reason
from acceptd.work.need import need
from acceptd.work.workers import Hold

EXAMINED = frozenset({"claimed", "sealed"})
"""The states whose work needs the machine; all later ones only record."""
log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Works submissions; shared by all worker threads."""

    paths: Paths
    ledger: Ledger
    queue: Queue
    tools: Tools
    capacity: Share
    """Of the machine, for all submissions."""
    rules: Callable[[], Rules]
    ledger_signer: Signer
    release_keys: ReleaseKeys
    on_verdict: Callable[[], None] = lambda: None
    count: Counting = field(default_factory=Counting)
    standing: Callable[[], str] = lambda: "unanchored"
    """Whether a place outside the state keeps the ledger's checkpoints; each verdict says so."""
    discard: Callable[[Claim], list[str]] = lambda _claim: []
    on_stage: Callable[[Row, str], None] = lambda _row, _stage: None
    """Told which stage of a submission begins."""
    promotions: Promotions = field(init=False)
    sealing: Sealing = field(init=False)
    examining: Examining = field(init=False)
    recording: Recording = field(init=False)
    promoting: Promoting = field(init=False)
    finishing: Finishing = field(init=False)
    _known: KnownRules = field(init=False)

    def __post_init__(self) -> None:
        made = Promotions(self.paths.state, self.ledger, self.release_keys, self.rules)
        known = KnownRules(self.ledger)
        parts = {
            "promotions": made,
            "_known": known,
            "sealing": Sealing(self.paths, self.queue, self.tools, self.on_stage),
            "examining": Examining(
                self.paths, self.tools, Lookups(self.ledger, self.release_keys, known), self.on_stage
            ),
            "recording": Recording(
                self.ledger, self.queue, self.ledger_signer, known, self.standing, self.on_verdict, self.count
            ),
            "promoting": Promoting(self.paths, self.queue, made, self.on_stage, self.count),
            "finishing": Finishing(self.paths, self.ledger, self.queue, self.discard),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def claim(self, claim: Claim) -> None:
        """Make a claimed drop durable in the queue; an id that is known already is left as it is."""
        self.sealing.claim(claim)

    def process(self, submission: str, hold: Hold | None = None) -> Share | None:
        """Work one submission until it is final. Safe to call again after a kill at any point.

        ``hold`` is the lease; without one only what needs no examination is done. Returns None when it is
        final, or the lease that it needs to go on where that does not fit now. Raises GivenUpError when
        the work is cancelled: :meth:`given_up` says what becomes of it.
        """
        row = self._row(submission)
        with bound(row.id, row.team, row.model):
            while not row.final:
                rules = self.rules()
                if row.state not in EXAMINED:
                    if hold is not None:
                        hold.finish()
                elif hold is None:
                    raise InternalError(f"submission {submission} cannot be examined without a lease")
                elif not hold.fit(wanted := self._need(row, rules)):
                    return wanted
                with bound(row.id, row.team, row.model):  # the model as soon as one is known
                    lost = self.queue.note_start(submission, row.state) >= MAX_DEATHS
                    self._quarantine(row) if lost else self._step(row, rules, hold)
                row = self._row(submission)
        return None

    def given_up(self, submission: str, reason: Reason) -> None:
        """End a submission whose work was cancelled; after a stop it is taken up at the next start instead."""
        row = self._row(submission)
        with bound(row.id, row.team, row.model):
            if reason not in GIVEN_UP:
                self.queue.clear(submission)  # nobody's death
                log.info("put back", reason=reason, state=row.state)
                return
            self._end(row, GIVEN_UP[reason])
        self.process(submission)

    def expire(self, submission: str) -> None:
        """End a submission whose deadline passed before it was started: ``inconclusive``."""
        row = self._row(submission)
        with bound(row.id, row.team, row.model):
            self._end(row, EXPIRED)
        self.process(submission)

    def _end(self, row: Row, end: End) -> None:
        if row.state in EXAMINED:
            self.recording.end(row, self.rules(), end)

    def _row(self, submission: str) -> Row:
        row = self.queue.get(submission)
        assert row is not None, submission
        return row

    def _need(self, row: Row, rules: Rules) -> Share:
        """Return the lease for the next step: from sealing on the bundle's size bounds what a run may map."""
        mapped = Sealed.model_validate(row.data["sealed"]).total_bytes if row.data.get("sealed") else 0
        return need(rules, mapped=mapped, capacity=self.capacity)

    def _step(self, row: Row, rules: Rules, hold: Hold | None) -> None:
        failpoint(f"lifecycle.{row.state}.begin")
        if row.state in EXAMINED:
            self._known.enter(rules)
        if row.state == "claimed":
            assert hold is not None
            self._seal(row, rules, hold)
        elif row.state == "sealed":
            assert hold is not None
            self._judge(row, rules, hold)
        elif row.state == "judged":
            self.promoting.promote(row)
        else:
            self.finishing.finish(row)

    def _seal(self, row: Row, rules: Rules, hold: Hold) -> None:
        found = self.sealing.seal(row, rules, hold)
        if isinstance(found, NotSealed):
            self.recording.record(row, rules, found.outcome(rules, row.id, row.team))
        else:
            self.queue.advance(row.id, "sealed", **found.kept())

    def _judge(self, row: Row, rules: Rules, hold: Hold) -> None:
        self.ledger_signer.sign(PROBE)  # nothing is examined while nobody could sign what comes of it
        found = self.examining.examine(row, rules, hold)
        if isinstance(found, End):
            self.recording.end(row, self.rules(), found)
            return
        failpoint("lifecycle.sealed.before-record")
        self.recording.record(row, rules, found)

    def _quarantine(self, row: Row) -> None:
        """Two daemon deaths in one state: keep the bytes aside, say ``inconclusive``, go on with the others."""
        log.error("quarantined", state=row.state)
        died = DIED.of(row.state)
        self.finishing.set_aside(row)
        if row.state in EXAMINED:
            self.recording.end(row, self.rules(), died, "quarantined")
        else:
            self.queue.advance(row.id, "quarantined", trouble=died.message)
        self.finishing.quarantined(self._row(row.id))
