"""A whole fleet of real processes on this machine: PostgreSQL, an object store, an intake, workers, a promoter.

Each node has a state, a key and a login of its own, as on a machine of its own; record and objects are all that
they share. The promoter's keys are a template's, so that an embedded daemon on a copy of it draws the same seeds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fleet import embedded, promises, recorded
from tests.fleet.inboxes import Inboxes
from tests.fleet.mixed import TEAMS, Piece, waves
from tests.fleet.postgres import OWNER, Server
from tests.fleet.processes import PATIENCE, ROOT, Bell, Running
from tests.fleet.s3 import ENVIRONMENT, S3

BRISK: Final = ("beat_seconds = 0.5", "stalled_seconds = 4", "retry_seconds = 0.2", "look_seconds = 1.0")
"""Of ``[fleet]``: so that what is lost is noticed within seconds, and not within a minute."""


@dataclass
class Node:
    """One machine of the fleet."""

    name: str
    role: str
    state: Path
    log: Path
    process: Running | None = None
    inside: Sequence[str] = ()
    """What begins its command line: where its network is."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and not self.process.ended()


class Fleet:
    """One promoter, one intake, workers ``worker-1``, ``worker-2``, …"""

    def __init__(
        self,
        home: Path,
        template: Path,
        *,
        server: Server,
        objects: Sequence[str],
        host: str = "127.0.0.1",
        environment: Mapping[str, str] | None = None,
        workers: int = 3,
        inside: Callable[[str], Sequence[str]] = lambda _name: (),
        settings: Sequence[str] = BRISK,
        warm: bool = False,
    ) -> None:
        """Make the database and every node's state. ``objects``: lines of ``[objects]``; ``host``: the
        server's."""
        self.home, self.bell = home, Bell()
        self._server, self._host = server, host
        self.database = server.fresh_database()
        self._objects, self._settings, self._warm = list(objects), list(settings), warm
        home.mkdir(parents=True, exist_ok=True)
        names = ["promoter", "intake", *(f"worker-{number}" for number in range(1, workers + 1))]
        self.nodes = {
            name: Node(
                name, name.partition("-")[0], home / name, home / f"{name}.log", inside=inside(name),
                environment=environment or {},
            )
            for name in names
        }  # fmt: skip
        self.fell: list[tuple[str, int | None, str]] = []
        """Each node that ended and was not killed, with its exit code and the end of its log."""
        self._make(template)
        self.boxes = Inboxes(self["intake"].state, home / "stage", self.bell)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    # -- states -----------------------------------------------------------------------------------------

    def _make(self, template: Path) -> None:
        promoter = self["promoter"]
        embedded.copied(template, promoter.state)
        (promoter.state / "ledger.sqlite3").unlink()
        for node in self.nodes.values():
            if node is not promoter:
                teams = [word for team in TEAMS if node.role == "intake" for word in ("--team", team)]
                self.acceptd(node, "init", "--role", node.role, *teams)
        self.policies = embedded.rules(self.home / "policies", *map(self._trust, self.nodes.values()))
        self.configure(promoter, OWNER)
        self.acceptd(promoter, "fleet", "init")
        for node in self.nodes.values():
            login = f"{self.database}_{node.name.replace('-', '_')}"
            self._server.execute(f"CREATE ROLE {login} LOGIN IN ROLE acceptd_{node.role}")
            self.configure(node, login)

    def _trust(self, node: Node) -> str:
        """Return the policy's table for a node; the promoter needs none."""
        if node.role == "promoter":
            return ""
        told = json.loads(self.acceptd(node, "key", "node", "--json"))
        lines = ["[[fleet.trust]]", f'name = "{node.name}"', f'role = "{node.role}"', f'key = "{told["public"]}"']
        return "\n".join([*lines, 'profiles = ["cpu"]'] if node.role == "worker" else lines)

    def configure(self, node: Node, login: str) -> None:
        """Write a node's ``acceptd.toml``. A worker examines one submission at a time."""
        url = self._server.url(self.database, login).replace("127.0.0.1", self._host)
        tables = ["[record]", f'url = "{url}"', "[objects]", *self._objects]
        tables += ["[fleet]", f'name = "{node.name}"', f'role = "{node.role}"', *self._settings]
        embedded.configure(node.state, self.policies, "workers = 1", *tables)

    def acceptd(self, node: Node, *words: str) -> str:
        """Run a command on a node's state, at its place in the network; return what it printed."""
        done = subprocess.run(
            [*node.inside, sys.executable, "-m", "acceptd", *words, "--state", str(node.state)],
            cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **node.environment},
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    # -- processes --------------------------------------------------------------------------------------

    def begin(self, name: str, **environment: str) -> Running:
        """Start a node without waiting for it."""
        node = self[name]
        assert not node.up, f"{name} runs"
        node.process = Running(
            ["daemon", "--role", node.role, "--state", str(node.state)], node.log, self.bell, inside=node.inside,
            environment={**node.environment, **environment}, warm=self._warm,
        )  # fmt: skip
        return node.process

    def start(self, *names: str) -> None:
        """Start nodes (all that are down, where none is named) and wait until each is ready."""
        begun = [self.begin(name) for name in names or self.nodes if not self[name].up]
        for process in begun:
            process.ready()

    def kill(self, name: str) -> None:
        """Kill -9 a node."""
        process = self[name].process
        assert process is not None
        process.kill()

    def stop(self) -> None:
        """Stop every node in order, the promoter last, and check that each ended well."""
        for node in reversed(self.nodes.values()):
            if node.up:
                assert node.process is not None
                node.process.stop()

    def close(self) -> None:
        """Kill what still runs."""
        for node in self.nodes.values():
            if node.process is not None:
                node.process.kill()
        self.boxes.close()

    def ended(self) -> list[str]:
        """Return the nodes that were started and whose process has ended."""
        return [node.name for node in self.nodes.values() if node.process is not None and node.process.ended()]

    def tend(self) -> None:
        """Start again what has ended by itself, as a service manager does; :attr:`fell` counts them."""
        for name in self.ended():
            process = self[name].process
            assert process is not None
            self.fell.append((name, process.code, process.tail(600)))
            self.begin(name)

    # -- drops and verdicts -----------------------------------------------------------------------------

    def judged(self, pieces: Sequence[Piece], patience: float = PATIENCE) -> None:
        """Drop ``pieces``, wave after wave, and wait for every verdict of one before the next."""
        for wave in waves(list(pieces)):
            self.await_verdicts([self.boxes.drop(piece) for piece in wave], patience)

    def await_verdicts(self, drops: Sequence[str], patience: float = PATIENCE) -> None:
        """Wait until each of ``drops`` has a verdict in its outbox; no node may end meanwhile."""
        self.bell.until(
            lambda: self.boxes.answered(drops) or bool(self.ended()),
            lambda: f"{len(drops)} verdicts; {self.told(drops)}",
            patience + 5.0 * len(drops),
        )
        assert not (gone := self.ended()), f"ended: {gone}: {self.told(drops)}"

    def await_count(self, count: int, patience: float = PATIENCE) -> None:
        """Wait until there are so many verdicts in the outboxes; a node that ends by itself is started again.

        By number and not by name: a kill between the rename that claims a drop and the commit loses its name.
        """

        def enough() -> bool:
            self.tend()
            return len(self.boxes.look()) >= count

        self.bell.until(
            enough, lambda: f"{count} verdicts, {len(self.boxes.reports)} there; {self.told()}", patience
        )

    def settled(self, patience: float = PATIENCE) -> None:
        """Wait until nothing is left in inboxes and on the way: an outbox is written a moment before that."""
        self.bell.until(
            lambda: not self.boxes.left(), lambda: f"left {self.boxes.left()}; {self.told()}", patience
        )

    def told(self, drops: Sequence[str] = ()) -> str:
        """Return what helps to see why something is missing: what is, and the end of each node's log."""
        named = {report.get("drop") for report in self.boxes.look().values()}
        missing = [drop for drop in drops if drop not in named]
        tails = [f"--- {node.name}\n{node.process.tail(1500)}" for node in self.nodes.values() if node.process]
        return "\n".join([f"missing {len(missing)}: {missing[:10]}; left {self.boxes.left()[:10]}", *tails])

    def examined_by(self) -> dict[str, int]:
        """Return how many pieces of evidence each worker has given."""
        asked = "SELECT node, count(*) FROM fleet_evidence GROUP BY node ORDER BY node"
        return dict(self._server.execute(asked, database=self.database))  # type: ignore[arg-type]

    def book(self) -> recorded.Book:
        """Return what is on record."""
        return recorded.read(self["promoter"].state)

    def broken(self, pieces: Sequence[Piece]) -> list[str]:
        """Return the promises that do not hold after all of ``pieces`` were answered; nothing may be left
        behind."""
        left = [f"left behind: {place}" for place in self.boxes.left()]
        found = promises.broken(self.book(), pieces, self.boxes.look())
        return [*found, *promises.verified(self["promoter"].state), *left]


def shared(place: Path) -> list[str]:
    """Make a directory for the objects of a fleet on one machine; return the lines of ``[objects]``."""
    place.mkdir(parents=True)
    return [f'url = "file://{place}"']


@contextmanager
def built(
    home: Path,
    template: Path,
    *,
    workers: int = 3,
    s3: bool = True,
    settings: Sequence[str] = BRISK,
    warm: bool = False,
) -> Iterator[Fleet]:
    """Give a fleet that is not started yet, on a PostgreSQL and an object store of its own."""
    with ExitStack() as stack:
        server = Server(fsync=True)
        stack.callback(server.close)
        if s3:
            store = S3()
            stack.callback(store.close)
            objects = [f'url = "s3://{store.bucket()}/fleet"', f'endpoint = "{store.endpoint}"']
        else:
            objects = shared(home / "objects")
        fleet = Fleet(
            home, template, server=server, objects=objects, environment=ENVIRONMENT, workers=workers,
            settings=settings, warm=warm,
        )  # fmt: skip
        stack.callback(fleet.close)
        yield fleet
