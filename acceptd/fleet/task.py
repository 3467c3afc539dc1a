"""A task as the fleet's queue carries it: who it is about, how often it was tried, how it is told to end. Pure.

A row of the queue may come from a hostile node: it is read by a closed model with bounded fields, and PostgreSQL
refuses a larger one (``schema``). It says what to look at; what is true stands in the record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from acceptd.errors import GivenUpError
from acceptd.work.lease import Reason

Kind = Literal["order", "examine", "decide", "finish", "given-up"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PROMOTER: Final = "promoter"
"""The queue of ``order``, ``decide`` and ``given-up``; ``examine`` has its profile's, ``finish`` its intake's."""
PREFIX: Final = "acceptd."
"""Before a kind, as the queue's own name of a task."""
MAX_TRIES: Final = 3
"""How often a task whose outcome is ``inconclusive`` is tried."""
MAX_DEATHS: Final = 2
"""Deaths of one task after which it is given up (design, rule 7)."""

_Text = Annotated[str, Field(max_length=160, pattern=r"^[\x21-\x7e]*$")]
_Count = Annotated[int, Field(ge=0, le=1_000_000)]


def intake_queue(node: str) -> str:
    """Return the queue of one intake node."""
    return f"intake:{node}"


class FleetTask(BaseModel):
    """One task. ``queue`` and ``number`` are the row's own, the rest its arguments."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: Kind
    queue: Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9:._-]+$")]
    submission: _Text
    team: _Text = ""
    model: _Text = ""
    round: _Count = 0
    profile: _Text = ""
    what: Kind | None = None
    """Of ``given-up``: which task was."""
    why: Literal["", "deaths", "deadline"] = ""
    """Of ``given-up``: what its worker says; the promoter looks at its own clock."""
    tries: _Count = 0
    """How often it was tried to an ``inconclusive`` end."""
    deaths: _Count = 0
    """How often a worker died with it, or it failed as nobody foresaw."""
    waits: _Count = 0
    """How often in a row something that it needs was away."""
    avoid: _Text = ""
    """The node that tried it last: another one is preferred."""
    passes: _Count = 0
    """How often that node has left it to others."""
    number: int = 0
    """Of the row in the queue: another one for each try."""

    @property
    def last_try(self) -> bool:
        """Whether an ``inconclusive`` outcome of this try stands: it will not be tried again."""
        return self.tries + 1 >= MAX_TRIES

    @property
    def key(self) -> str:
        """Return what the same task has in common with itself, however often it is deferred."""
        return f"{self.kind}/{self.submission}/{self.round}/{self.profile}/{self.what or ''}"

    @property
    def lock(self) -> str:
        """Return what no two running tasks share: a model examined under a profile, a model decided about."""
        if self.kind == "examine":
            return f"examine/{self.model or self.submission}/{self.profile}"
        if self.kind in {"decide", "given-up"}:
            return f"decide/{self.model or self.submission}"
        return f"{self.kind}/{self.submission}"

    def args(self) -> dict[str, Any]:
        """Return what the row carries: no member that has its default."""
        return self.model_dump(mode="json", exclude={"kind", "queue", "number"}, exclude_defaults=True)

    def given_up(self, why: Literal["deaths", "deadline"]) -> FleetTask:
        """Return the task that tells the promoter that nobody does this one any more."""
        fresh = {"tries": 0, "waits": 0, "avoid": "", "passes": 0}
        return self.again(kind="given-up", queue=PROMOTER, what=self.kind, why=why, **fresh)

    def again(self, **changes: Any) -> FleetTask:
        """Return the task of the next try."""
        return self.model_copy(update={"number": 0, **changes})


def read(name: str, queue: str, args: Any, number: int) -> FleetTask | None:
    """Return the task that a row of the queue stands for, or None where it is none of ours."""
    try:
        return FleetTask.model_validate(
            {**args, "kind": name.removeprefix(PREFIX), "queue": queue, "number": number}
        )
    except (ValidationError, TypeError):
        return None


class Cancel:
    """Whether a running task is to end, and why. Safe from threads; set once, for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._calls: list[Callable[[Reason], None]] = []
        self.here = False
        """Whether what hindered the task may be this node's alone."""
        self.reason: Reason = ""
        """``withdrawn``, ``deadline``, ``stop``, or ``interrupted`` where another worker was given the task."""

    def set(self, reason: Reason) -> bool:
        """Tell it to end; False where it was told before."""
        with self._lock:
            if self.reason:
                return False
            self.reason = reason
            calls, self._calls = self._calls, []
        self._event.set()
        for call in calls:
            call(reason)
        return True

    def is_set(self) -> bool:
        """Whether it is to end."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is to end; False where ``seconds`` were not enough."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raise GivenUpError where it is to end."""
        if self.reason:
            raise GivenUpError(f"the task was given up: {self.reason}")

    def on_set(self, call: Callable[[Reason], None]) -> None:
        """Call ``call`` with the reason once it is told to end: at once where it was."""
        with self._lock:
            if not self.reason:
                self._calls.append(call)
                return
        call(self.reason)
