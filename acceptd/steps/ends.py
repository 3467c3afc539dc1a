"""How a submission ends that could not be examined: ``inconclusive``, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from acceptd.work.lease import Reason

MAX_DEATHS: Final = 2


@dataclass(frozen=True, slots=True)
class End:
    """The finding's code and message. ``{}`` in the message is for :meth:`of`."""

    code: str
    message: str

    def of(self, what: str) -> End:
        """Return the same end with ``what`` in its message."""
        return replace(self, message=self.message.format(what))


GIVEN_UP: Final[dict[Reason, End]] = {
    "deadline": End(
        "cell/deadline", "the submission's deadline passed while it was examined; its jobs were ended"
    ),
    "withdrawn": End(
        "cell/withdrawn", "the drop was taken out of the inbox before a verdict; its jobs were ended"
    ),
}
EXPIRED: Final = End(
    "cell/deadline", "the submission's deadline passed before its turn came; nothing was examined"
)
COPY_LOST: Final = End("cell/copy-lost", "the sealed copy was removed before it was judged")
CONTRACT_REFUSED: Final = End("contract/refused", "the acceptor's contract for {} is refused")
DIED: Final = End(
    "cell/daemon-died", f"acceptd died or failed {MAX_DEATHS} times in state {{!r}} of this submission"
)
REFUSED: Final = End("cell/evidence-refused", "{}")
"""Of a fleet: what another node handed over does not count."""
