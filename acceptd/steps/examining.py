"""The second step: a sealed bundle is examined in the cell, and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from acceptd.acceptance import Acceptance, Outcome
from acceptd.config import Paths
from acceptd.errors import ConfigError, StateError
from acceptd.evidence import JobRecord, Prior, Sealed
from acceptd.heldout.stage import Keeper
from acceptd.kept import KeptOutputs
from acceptd.ordering import Shelf
from acceptd.record.queue import Submission as Row
from acceptd.release.store import verify_some
from acceptd.rules import Rules
from acceptd.steps.ends import CONTRACT_REFUSED, COPY_LOST, End
from acceptd.steps.lookups import Lookups
from acceptd.steps.sealing import drop_of
from acceptd.tools import Tools
from acceptd.work.hold import Hold

log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class Examining:
    """Examines and judges where cell and ledger are on one machine."""

    paths: Paths
    tools: Tools
    lookups: Lookups
    on_stage: Callable[[Row, str], None] = lambda _row, _stage: None

    def examine(self, row: Row, rules: Rules, hold: Hold) -> Outcome | End:
        """Take a sealed bundle through all stages, or say why it has no evidence.

        Raises GivenUpError when the work is cancelled.
        """
        if self._lost(row):
            return COPY_LOST
        acceptance = self._acceptance(row, rules, hold)
        acceptance.jobs += [JobRecord.model_validate(record) for record in row.data.get("unpack", ())]
        acceptance.timings_ms["seal"] = float(row.data.get("seal_ms", 0.0))
        try:
            outcome = acceptance.run(Sealed.model_validate(row.data["sealed"]))
        except ConfigError as error:  # a broken contract is not a missing one: nothing is judged without it
            log.error("not judged: the contract is refused", reason=str(error))  # noqa: TRY400 - the place is in it
            model = acceptance.manifest.bundle.id if acceptance.manifest else row.name
            return CONTRACT_REFUSED.of(model)
        hold.finish()
        if self._lost(row):  # whatever jobs said of files that somebody took away
            return COPY_LOST
        return outcome

    def _lost(self, row: Row) -> bool:
        """Whether the sealed copy is gone: sealed/ was removed or made anew."""
        if (self.paths.sealed / row.id / "bundle").is_dir():
            return False
        if not self.paths.sealed.is_dir():
            raise StateError(f"{self.paths.sealed} is gone", remedy=f"acceptd init --state {self.paths.state}")
        return True

    def _acceptance(self, row: Row, rules: Rules, hold: Hold) -> Acceptance:
        lookups = self.lookups

        def shelf(prior: Prior) -> Shelf | None:
            digest = prior.bundle_digest
            verify = partial(verify_some, self.paths.state, digest)
            return Shelf("store", digest, verify) if digest else None

        keeper = Keeper(self.paths.heldout, partial(lookups.spend, rules, row.id))
        return Acceptance(
            drop_of(row), rules, self.tools, hold, progress=partial(self.on_stage, row),
            find_prior=partial(lookups.prior, rules), find_shelf=shelf, find_advisories=lookups.advisories,
            find_contract=lookups.contract, keeper=keeper, keep=KeptOutputs(self.paths.outputs).keep,
        )  # fmt: skip
