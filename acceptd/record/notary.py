"""Seals the ledger with signed checkpoints: one for each batch of verdicts, in a thread of its own.

Verdicts that come while a checkpoint is written share the next one. What cannot be proved is not signed: an
anchor that is out of reach is tried again at the next batch and meanwhile each verdict says so; a log that
does not extend its checkpoint ends the daemon, before another entry is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from acceptd.errors import AcceptdError, AnchorError, LedgerError, LedgerStorageError
from acceptd.record import checkpoint
from acceptd.record.anchor import Anchor
from acceptd.record.keys import Signer
from acceptd.record.keystore import own_history
from acceptd.record.log import Ledger
from acceptd.supervisor.turns import Turns
from acceptd.threads import Thread

log = structlog.get_logger("acceptd.record")

UNANCHORED: Final = "unanchored"
ANCHORED: Final = "anchored"


class Notary:
    """Writes checkpoints of one ledger. Safe from threads."""

    def __init__(
        self, state: Path, ledger: Ledger, signer: Signer, anchor: Anchor | None, on_broken: Callable[[str], None]
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._signer = signer
        self._anchor = anchor
        self._on_broken = on_broken
        self._due = threading.Event()
        self._stopping = False
        self._lock = threading.Lock()
        self._out_of_reach = ""
        self.turns = Turns()
        self.thread = Thread(self._work, name="notary")

    @property
    def standing(self) -> str:
        """``anchored``; ``unanchored`` where no anchor is configured; else why it does not count now."""
        if self._anchor is None:
            return UNANCHORED
        return f"{UNANCHORED}: {self._out_of_reach}" if self._out_of_reach else ANCHORED

    def seal(self) -> None:
        """Write a checkpoint now.

        Raises LedgerError where the log does not extend the last one. An anchor out of reach is logged.
        """
        with self._lock:
            try:
                keys = own_history(self._state, self._ledger)
                checkpoint.write(self._state, self._ledger, self._signer, keys, self._anchor)
                self._out_of_reach = ""
            except AnchorError as error:
                if not self._out_of_reach:
                    log.error("the checkpoint's anchor is out of reach", reason=str(error))  # noqa: TRY400
                self._out_of_reach = "the anchor is out of reach"

    def begin(self) -> None:
        """Write a checkpoint before anything is appended.

        Raises LedgerError where the log does not extend the last one. What is merely not possible now
        (a full disk) is logged and tried again.
        """
        try:
            self.seal()
        except LedgerStorageError as error:
            log.error("no checkpoint", error=str(error))  # noqa: TRY400 - it says all
        except LedgerError:
            raise
        except (AcceptdError, OSError) as error:
            log.error("no checkpoint", error=str(error))  # noqa: TRY400 - it says all

    def start(self) -> None:
        """Begin to work."""
        self.thread.start()

    def nudge(self) -> None:
        """Something that has to be sealed was appended."""
        self._due.set()

    def stop(self) -> None:
        """Write what is due, and end."""
        self._stopping = True
        self._due.set()
        if self.thread.ident is not None:
            self.thread.join()

    def _work(self) -> None:
        stopping = False
        while not stopping:
            self._due.wait()
            self._due.clear()
            stopping = self._stopping  # before sealing: what came while the last one was written is due at the end
            try:
                with self.turns.turn():
                    self.seal()
            except LedgerStorageError as error:
                # A full disk, a busy database: the next batch, or housekeeping, tries again.
                log.error("no checkpoint", error=str(error))  # noqa: TRY400 - it says all
            except LedgerError as error:
                self._ledger.freeze(str(error))
                log.critical("the ledger is not what was signed: nothing more is written", reason=str(error))
                self._on_broken(str(error))
                return
            except (AcceptdError, OSError) as error:
                log.error("no checkpoint", error=str(error))  # noqa: TRY400 - it says all
