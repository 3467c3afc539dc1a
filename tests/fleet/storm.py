"""What can befall a fleet, by chance from a seed: kills, pauses, cut cables, a database and an object store that
fail.

One act after another, each taken back after a while; then all is healed. The seed gives the same acts on the same
nodes after the same pauses; how far the work is at that moment depends on the machine.
"""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.fleet.house import Fleet
from tests.fleet.network import DATABASE, OBJECTS, Network
from tests.fleet.postgres import Server
from tests.fleet.s3 import Asked, Proxy, Reply

PAUSE = (0.1, 1.5)
"""Seconds between two acts, least and most."""
LASTS = (0.5, 6.0)
"""Seconds that an act lasts."""


@dataclass
class Act:
    """One thing that happens: ``begin`` does it, ``heal`` takes it back. Both may be called once."""

    words: str
    begin: Callable[[], None]
    heal: Callable[[], None]
    lasts: float


@dataclass
class Storm:
    """Acts by chance on one fleet and on what it stands on; what is None is left alone."""

    fleet: Fleet
    chance: random.Random
    postgres: Server | None = None
    proxy: Proxy | None = None
    network: Network | None = None
    only: Sequence[str] = ()
    """Kinds of acts to choose from, where not all."""
    done: collections.Counter[str] = field(default_factory=collections.Counter)
    """How often each kind of act was done."""

    def acts(self) -> list[str]:
        """Return the kinds of acts that are possible here, a kind as often as its weight."""
        kinds = ["kill worker", "kill worker", "kill promoter", "kill intake", "pause node"]
        if self.postgres is not None:
            kinds += ["database restarts", "database killed"]
        if self.proxy is not None:
            kinds += ["objects fail", "objects slow", "objects truncated", "objects cut"]
        if self.network is not None:
            kinds += [
                "cable pulled",
                "cable pulled",
                "interface down",
                "database lost",
                "objects lost",
                "cable slow",
            ]
        return [kind for kind in kinds if not self.only or kind in self.only]

    def next(self) -> Act:
        """Choose an act; nothing has happened yet."""
        kind = self.chance.choice(self.acts())
        self.done[kind] += 1
        lasts = self.chance.uniform(*LASTS)
        if kind.startswith("kill "):
            role = kind.removeprefix("kill ")
            return self._kill(self.chance.choice(self._named(role)), lasts)
        if kind == "pause node":
            return self._pause(self.chance.choice(list(self.fleet.nodes)), lasts)
        if kind.startswith("database ") and kind != "database lost":
            return self._database(kind, lasts)
        if kind.startswith("objects ") and kind != "objects lost":
            return self._objects(kind, lasts)
        return self._network(kind, self.chance.choice(list(self.fleet.nodes)), lasts)

    def _named(self, role: str) -> list[str]:
        return [node.name for node in self.fleet.nodes.values() if node.role == role]

    # -- processes --------------------------------------------------------------------------------------

    def _kill(self, name: str, lasts: float) -> Act:
        """A machine loses power and starts again after a while."""

        def heal() -> None:
            if not self.fleet[name].up:
                self.fleet.begin(name)

        return Act(f"kill -9 {name}", lambda: self.fleet.kill(name), heal, lasts)

    def _pause(self, name: str, lasts: float) -> Act:
        """A machine stands still as a virtual one does that is moved."""

        def each(do: str) -> None:
            process = self.fleet[name].process
            if process is not None and not process.ended():
                getattr(process, do)()

        return Act(f"SIGSTOP {name}", lambda: each("pause"), lambda: each("resume"), lasts)

    # -- what all share ---------------------------------------------------------------------------------

    def _database(self, kind: str, lasts: float) -> Act:
        server = self.postgres
        assert server is not None
        how = self.chance.choice(("fast", "immediate"))

        def stop() -> None:
            if server.running:
                server.kill() if kind == "database killed" else server.stop(how)

        words = "the database is killed -9" if kind == "database killed" else f"the database stops ({how})"
        return Act(words, stop, lambda: None if server.running else server.start(), min(lasts, 3.0))

    def _objects(self, kind: str, lasts: float) -> Act:
        proxy = self.proxy
        assert proxy is not None
        chance = random.Random(self.chance.random())

        def refuse(_asked: Asked) -> Reply | None:
            return Reply(503, [], b"<Error><Code>SlowDown</Code></Error>", 36) if chance.random() < 0.5 else None

        def slow(_asked: Asked, reply: Reply) -> None:
            reply.piece, reply.pause = 4096, 0.05

        def truncate(asked: Asked, reply: Reply) -> None:
            if asked.method == "GET" and len(reply.body) > 1 and chance.random() < 0.5:
                reply.body = reply.body[: len(reply.body) // 2]  # and Content-Length promises all of it

        def begin() -> None:
            if kind == "objects fail":
                proxy.before = refuse
            elif kind == "objects slow":
                proxy.fault = slow
            elif kind == "objects truncated":
                proxy.fault = truncate
            else:
                proxy.cut = True

        def heal() -> None:
            proxy.before, proxy.fault, proxy.cut = None, None, False

        return Act(kind, begin, heal, lasts)

    # -- the network ------------------------------------------------------------------------------------

    def _network(self, kind: str, name: str, lasts: float) -> Act:
        network = self.network
        assert network is not None
        begin: dict[str, Callable[[], None]] = {
            "cable pulled": lambda: network.pull(name),
            "interface down": lambda: network.down(name),
            "database lost": lambda: network.lose(name, DATABASE),
            "objects lost": lambda: network.lose(name, OBJECTS),
            "cable slow": lambda: network.slow(name, 512),
        }
        return Act(f"{kind}: {name}", begin[kind], lambda: network.mend(name), lasts)


@dataclass
class Weather:
    """Storms while drops are judged, and heals at the end of each wave."""

    storm: Storm
    acts: int
    """So many in a wave."""
    say: Callable[[str], None] = lambda _words: None
    overlap: float = 0.3
    """The chance that the next act begins before this one was taken back."""
    _running: list[Act] = field(default_factory=list)

    def over(self, drops: Sequence[str], drip: Callable[[int], Sequence[str]]) -> list[str]:
        """Let it storm; ``drip(n)`` makes the drops that are due before the n-th act. Return all drops."""
        made = list(drops)
        chance = self.storm.chance
        for number in range(self.acts):
            made += drip(number)
            self._wait(chance.uniform(*PAUSE))
            act = self.storm.next()
            self.say(act.words)
            act.begin()
            self._running.append(act)
            if chance.random() >= self.overlap or number == self.acts - 1:
                self._wait(act.lasts)
                self.heal()
        made += drip(self.acts)
        return made

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)  # by the clock on purpose: acts come at random moments, and nothing waits for them

    def heal(self) -> None:
        """Take back what was done, the last first: then nothing is broken any more but what acceptd must mend."""
        while self._running:
            self._running.pop().heal()
