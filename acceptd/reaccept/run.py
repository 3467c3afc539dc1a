"""Runs promoted bundles again: sealed anew from the store, through every stage that a submission goes through.

Nothing is recorded. The contract is the one in force by the ledger. Held-out vectors are not evaluated: each
evaluation tells a bit of them, and is counted for submissions. Probes have a seed of their own for each run.
"""

from __future__ import annotations

import queue
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from acceptd.acceptance import Acceptance, Drop
from acceptd.advisories import register
from acceptd.contracts.force import in_force
from acceptd.errors import AcceptdError
from acceptd.evidence import Prior
from acceptd.intake import files
from acceptd.local import Bench
from acceptd.reaccept import result
from acceptd.reaccept.result import Reaccepted
from acceptd.reaccept.standing import Standing
from acceptd.record.log import Ledger
from acceptd.release import store
from acceptd.release.layout import store_lock
from acceptd.runtime.identity import identity
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold

_SAME = "it is compared with nothing: it is the release itself"


def run_again(
    place: Bench,
    state: Path,
    ledger: Ledger,
    standings: Sequence[Standing],
    *,
    progress: Callable[[Standing, str], None] = lambda _standing, _stage: None,
    done: Callable[[Reaccepted], None],
) -> None:
    """Run every one of ``standings`` side by side, as the bench allows; ``done`` is called from this thread."""
    ended: queue.SimpleQueue[Reaccepted | BaseException] = queue.SimpleQueue()
    for standing in standings:
        name = f"reaccept-{secrets.token_hex(6)}"

        def run(hold: Hold, standing: Standing = standing, name: str = name) -> None:
            try:
                ended.put(_one(place, state, ledger, standing, name, hold, progress))
            except (AcceptdError, OSError) as error:
                ended.put(result.lost(standing, f"{type(error).__name__}: {error}"[:400]))
            except BaseException as error:  # noqa: BLE001 - it comes out where the results are waited for
                ended.put(error)
            finally:
                files.remove_tree(place.tools.sealed, name)

        profile = place.rules.profile.name
        team = standing.model_id.partition("/")[0]
        place.workers.offer(Task(name, team, profile, place.share, float("inf"), run=run))
    for _ in standings:
        one = ended.get()
        if isinstance(one, BaseException):
            raise one
        done(one)


def _one(
    place: Bench,
    state: Path,
    ledger: Ledger,
    standing: Standing,
    name: str,
    hold: Hold,
    progress: Callable[[Standing, str], None],
) -> Reaccepted:
    team, _, model = standing.model_id.partition("/")
    source = store.path(state, standing.bundle_digest)
    drop = Drop(id=name, team=team, name=model, source=source, kind="directory")
    same = Prior(status="same", reason=_SAME, bundle_digest=standing.bundle_digest)
    acceptance = Acceptance(drop, place.rules, place.tools, hold, progress=lambda stage: progress(standing, stage))
    acceptance.find_prior = lambda _model_id, _digest: same
    acceptance.find_contract = lambda rules, model_id: in_force(rules, model_id, ledger)
    acceptance.find_advisories = partial(register.standing, ledger)
    progress(standing, "seal")
    with store_lock(state, shared=True):  # retention takes nothing away meanwhile
        sealed, failure = acceptance.seal()
    if sealed is None or failure is not None:
        return result.lost(standing, f"it cannot be sealed: {failure.message if failure else 'no copy'}"[:400])
    if sealed.digest != standing.bundle_digest:  # nothing is run that was not promoted
        words = f"the store does not hold the bundle that was promoted: it seals to {sealed.digest}"
        return result.lost(standing, words)
    outcome = acceptance.run(sealed)
    held_out = outcome.submission.heldout is not None
    runtimes = [identity(one) for one in outcome.submission.every_runtime()]
    return result.of(standing, outcome.judgement, sealed.digest, runtimes, heldout=held_out)
