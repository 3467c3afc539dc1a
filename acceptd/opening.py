"""How the rooms of a daemon are opened; whoever needs a room opens it alike, embedded or in a fleet."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import structlog

from acceptd import key_rotation
from acceptd.cell import selfcheck
from acceptd.config import Paths
from acceptd.daemon_lock import acquire
from acceptd.export.service import Following
from acceptd.intake.claims import Claim
from acceptd.intake.files import remove_tree
from acceptd.intake.inbox import Inbox, InboxSettings, Notice
from acceptd.judge.profiles import Target
from acceptd.record.anchor import open_anchor
from acceptd.record.keys import Signer
from acceptd.record.keystore import in_force, open_signer, own_history
from acceptd.record.leases import Leases
from acceptd.record.log import Ledger
from acceptd.record.migrate import migrate
from acceptd.record.notary import Notary
from acceptd.release.signers import ReleaseKeys
from acceptd.rules import Rules
from acceptd.site import Helm
from acceptd.tools import Tools
from acceptd.work.admission import Admission
from acceptd.work.budget import Share
from acceptd.work.journal import Journal
from acceptd.work.rotation import Task
from acceptd.work.workers import Workers

log = structlog.get_logger("acceptd.daemon")


def own(paths: Paths, stack: ExitStack) -> None:
    """Keep every other daemon out of this state. Raises StateError where one works here."""
    stack.callback(os.close, acquire(paths.lock))


def record(helm: Helm, stack: ExitStack) -> Ledger:
    """Bring the record to this version's schema and open it."""
    if done := migrate(helm.paths.state):
        log.info("migrated", version=done.after, before=done.before, backup=str(done.backup))
    ledger = stack.enter_context(Ledger.open(helm.paths.state, create=False))
    ledger.settle(helm.end)
    return ledger


def keys(helm: Helm, ledger: Ledger) -> tuple[ReleaseKeys, Signer]:
    """Return the keys of releases and the ledger's; a rotation that was interrupted is finished first."""
    for line in key_rotation.resume(helm.paths.state, ledger):
        log.warning("a rotation of a key was interrupted", what=line)
    found = ReleaseKeys.load(helm.paths.state, ledger)
    signer = open_signer(helm.paths.state, "ledger")
    in_force(own_history(helm.paths.state, ledger), signer)
    return found, signer


def notary(helm: Helm, stack: ExitStack, ledger: Ledger, signer: Signer) -> Notary:
    """Return the notary, who has seen that the log is what was signed; else it gets no further entry."""
    anchor = open_anchor(helm.settings.checkpoint.anchor, helm.paths.state)
    made = Notary(helm.paths.state, ledger, signer, anchor, helm.end)
    made.begin()
    stack.callback(made.stop)
    return made


def following(helm: Helm, stack: ExitStack, ledger: Ledger, found: ReleaseKeys) -> Following:
    """Begin to export and to tell hooks."""
    settings = helm.settings
    return stack.enter_context(Following(helm.paths.state, ledger, found, settings.exports, settings.hooks))


def sweep_temporary(paths: Paths) -> None:
    """Remove what a killed daemon left there; blobs there have no name anyway."""
    for name in os.listdir(paths.temporary):
        remove_tree(paths.temporary, name)


def tools(
    helm: Helm,
    stack: ExitStack,
    *,
    lanes: int,
    secret: bytes = b"",
    targets: Sequence[Target] | None = None,
    store: bool = True,
) -> Tools:
    """Open cells, comparer and sealer, and prove the walls that the policy requires.

    ``targets``: the profiles that are run here; None: all of the policy's. ``store``: whether the cell sees it.
    """
    made = stack.enter_context(
        Tools.open(
            helm.paths.sealed,
            helm.paths.temporary,
            spare=True,
            store=helm.paths.store if store else None,
            secret=secret,
            on_replaced=lambda reason: _replaced(helm, reason),
            lanes=lanes,
        )
    )
    for target in helm.rules().targets if targets is None else targets:
        made.cell.prepare(target.profile)
    helm.notifier.status("proving the walls")
    selfcheck.require_walls(made.cell, helm.paths.sealed, helm.rules().policy)
    return made


def _replaced(helm: Helm, reason: str) -> None:
    log.warning("warm parent replaced", reason=reason)
    helm.count.replaced(reason)


def workers(
    helm: Helm, stack: ExitStack, ledger: Ledger, capacity: Share, on_error: Callable[[Task, BaseException], None]
) -> tuple[Workers, Journal]:
    """Return the workers, not started, and the journal of their leases; those of a dead daemon are closed."""
    leases = Leases(ledger, boot=secrets.token_hex(8))
    closed = leases.open(time.time())
    if closed:
        log.warning("closed leases of a dead daemon", leases=closed)
    journal = Journal(helm.paths.state, leases)
    stack.callback(journal.stop)
    admission = Admission(capacity, limit=helm.settings.queue_limit, listen=journal.hear)
    made = Workers(
        helm.settings.workers or capacity.cores,
        admission,
        on_error=on_error,
        on_room=helm.room,
        on_change=journal.nudge,
    )
    log.info("budget", cores=capacity.cores, memory_bytes=capacity.memory)
    return made, journal


def inbox(helm: Helm, on_ready: Callable[[Claim], None]) -> Inbox:
    """Return the inbox, not started."""
    table = helm.settings.inbox
    settle, rescan = table.settle_seconds, table.rescan_seconds
    wanted = InboxSettings(
        settle_seconds=settle, rescan_seconds=rescan, polling=table.polling, scan_cap=table.max_entries
    )
    return Inbox(helm.paths.inbox, wanted, on_ready, _noticed)


def _noticed(notice: Notice) -> None:
    log.warning("inbox", code=notice.code, team=notice.team, message=notice.message)


def told(rules: Rules) -> dict[str, object]:
    """Return what is in force now, for whoever must not rely on what the files say."""
    return {"policy_digest": rules.policy_digest, "observe": rules.policy.observe.model_dump()}


def deadline(allowed: float, claimed: float) -> float:
    """Return the monotonic time at which a claim of that wall-clock time is over.

    A wall clock that was set back meanwhile gives nobody more than the whole time again.
    """
    return time.monotonic() + min(allowed, claimed + allowed - time.time())
