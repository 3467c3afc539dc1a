"""What every node has, whatever its roles: its name, the record, the task queue, the object store."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from acceptd import opening
from acceptd.errors import ConfigError
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.settings import FleetTable, Role
from acceptd.fleet.sites import powers
from acceptd.fleet.tasks import Tasks
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.site import Helm

log = structlog.get_logger("acceptd.fleet")


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a fleet, open."""

    helm: Helm
    table: FleetTable
    role: Role
    name: str
    url: str
    ledger: Ledger
    queue: Queue
    tasks: Tasks
    objects: Objects
    warning: str
    """What its database login may do and should not; empty: nothing."""

    @property
    def host(self) -> str:
        """The host's name."""
        return socket.gethostname()

    @classmethod
    def open(cls, helm: Helm, role: Role, stack: ExitStack) -> Node:
        """Open what every role needs. Raises ConfigError for a state that may do more than its role."""
        table, url = helm.settings.fleet or FleetTable(), helm.settings.record.url
        if not url:
            raise ConfigError(
                f"{helm.paths.state / 'acceptd.toml'}: [fleet] needs a record on PostgreSQL",
                remedy='set url = "postgresql://…" in [record] (docs/fleet.md)',
            )
        if role != "all" and not helm.settings.objects.url:  # a store of its own, where no other node looks
            raise ConfigError(
                f"{helm.paths.state / 'acceptd.toml'}: the nodes of a fleet need one object store",
                remedy='set url = "s3://…" or "file:///…" in [objects], the same for every node (docs/objects.md)',
            )
        powers.require_no_keys(helm.paths, role)
        powers.require_keys(helm.paths, [role])
        opening.own(helm.paths, stack)
        if role in {"promoter", "all"}:
            ledger = opening.record(helm, stack)
            powers.require_login(ledger, role, table.node)
            apply_schema(url, finish=False)
        else:
            ledger = stack.enter_context(Ledger.open(helm.paths.state, create=False))
            powers.require_login(ledger, role, table.node)
        tasks = stack.enter_context(Tasks(url))
        objects = stack.enter_context(open_objects(helm.settings.objects, helm.paths.state, helm.count))
        warning = powers.warn_of_login(ledger, role)
        return cls(helm, table, role, table.node, url, ledger, Queue(ledger), tasks, objects, warning)
