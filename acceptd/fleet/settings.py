"""``[fleet]`` of ``acceptd.toml``: which node of a fleet this state is, and what it takes on."""

from __future__ import annotations

import re
import socket
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from acceptd.policy.names import Name

Role = Literal["intake", "worker", "promoter", "all"]
ROLES: Final[tuple[Role, ...]] = ("intake", "worker", "promoter", "all")
_QUEUE: Final = r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$"
_OTHER: Final = re.compile(r"[^a-z0-9]+")


class FleetTable(BaseModel):
    """One node of a fleet. Where the table is there at all, ``acceptd daemon`` is one."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    role: Role = "all"
    """What ``acceptd daemon`` without ``--role`` is."""
    name: Name | Literal[""] = ""
    """The node's name, one for each node of the fleet; empty: made from the host's."""
    queues: Annotated[list[Annotated[str, Field(pattern=_QUEUE)]], Field(max_length=64)] = []
    """Profiles whose queues a worker takes from; empty: those that the policy trusts it with."""
    slots: Annotated[int, Field(ge=0, le=256)] = 0
    """Tasks at once; 0: one for each core (a worker's budget may allow fewer)."""
    beat_seconds: Annotated[float, Field(ge=0.2, le=60, strict=False)] = 5.0
    """Between two heartbeats in the task queue."""
    stalled_seconds: Annotated[float, Field(ge=1, le=3600, strict=False)] = 60.0
    """A worker that was not heard of for so long is dead: its tasks go to others. For the promoter."""
    retry_seconds: Annotated[float, Field(ge=0.05, le=60, strict=False)] = 5.0
    """Before the second try of a task; twice as long before each further one, up to a minute."""
    look_seconds: Annotated[float, Field(ge=0.2, le=600, strict=False)] = 15.0
    """How often a node looks for what stands still in the record."""
    rounds: Annotated[int, Field(ge=2, le=100)] = 8
    """Orders of one submission at most: of other rules, after evidence that does not count, held-out vectors."""

    @property
    def node(self) -> str:
        """Return the node's name."""
        return self.name or host_name(socket.gethostname())


def host_name(host: str) -> str:
    """Return a node's name made from a host's: its first label, as names are written here.

    >>> host_name("GPU-07.cluster.example")
    'gpu-07'
    """
    return _OTHER.sub("-", host.partition(".")[0].lower()).strip("-")[:64].strip("-") or "node"
