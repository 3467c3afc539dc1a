"""Whether a node reaches its object store, asked now and then: an idle node would learn it by its next task alone.

It is asked in a thread of its own: a store that does not answer is waited for, by its settings for minutes, and
neither the heartbeat nor the main loop may wait with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from acceptd.errors import ObjectDamagedError, ObjectMissingError, ObjectStoreError
from acceptd.fleet.standing import STORE_AWAY
from acceptd.objectstore.remote import Remote
from acceptd.threads import Thread

LOOK_SECONDS: Final = 15.0
AGAIN_SECONDS: Final = 5.0
_KEY: Final = "probe/reached"
"""There is no such object: that the store says so is the answer."""
log = structlog.get_logger("acceptd.fleet")


class StoreWatch:
    """Asks ``remote`` now and then; ``on_change`` is told, in its thread, when the answer is another one.

    Whoever closes the remote ends what is under way.
    """

    def __init__(
        self,
        remote: Remote,
        on_change: Callable[[], None],
        *,
        seconds: float = LOOK_SECONDS,
        again: float = AGAIN_SECONDS,
    ) -> None:
        self._remote, self._on_change = remote, on_change
        self._seconds, self._again = seconds, again
        self._stopping = threading.Event()
        self.trouble = ""
        """Why it cannot be reached; empty where it can, or nobody has asked yet."""
        self.thread = Thread(self._run, name="objects")

    def start(self) -> None:
        """Begin; the first question is asked at once."""
        self.thread.start()

    def stop(self) -> None:
        """Ask no more. An answer that is under way is waited for by nobody."""
        self._stopping.set()

    def remark(self) -> str:
        """Say that the store is away, where it is."""
        return f"{STORE_AWAY}: {self.trouble}" if self.trouble else ""

    def _run(self) -> None:
        while not self._stopping.is_set():
            found = self._ask()
            if self._stopping.is_set():
                return
            if found != self.trouble:
                before, self.trouble = self.trouble, found
                if not before or not found:
                    log.warning("object store", reached=not found, reason=found)
                    self._on_change()
            self._stopping.wait(self._again if found else self._seconds)

    def _ask(self) -> str:
        try:
            self._remote.look(_KEY)
        except (ObjectMissingError, ObjectDamagedError):
            return ""  # it answered
        except ObjectStoreError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is: nothing is reached by it, and the watch goes on
            return f"{type(error).__name__}: {error}"
        return ""
