"""Many drops of many teams, faster than one daemon can judge them, and what holds when all is judged.

``python -m tests.load.soak`` (make soak-load). One embedded daemon under the walls of this host; as root in mount
and IPC namespaces of its own, so that every mount and every name in shared memory there is its doing, and each
team drops as a user of its own. Drops come as fast as they can be written, until ``backlog`` of them wait; only
``queue`` of those fit into the daemon's memory. Ends with 1, and a line for each, where a promise does not hold:

- one verdict of each drop, the one that it deserves, told to its team; nothing hostile accepted, nothing accepted
  with other bytes than were meant; the user of each drop on record; the ledger verifies;
- memory of the daemon and of each process that lasts is bounded, and so are its queue and the write-ahead log;
- teams are served in turns, told from the order of events (:mod:`tests.load.order`);
- at rest there are no more descriptors, threads, processes, mounts and names in shared memory than before, and
  nothing lies in inboxes, among sealed copies, temporary files or in quarantine that does not belong there.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tests.fleet import embedded
from tests.fleet.mixed import Piece
from tests.fleet.processes import Bell, Running
from tests.load import samples
from tests.load.drops import ONE_PART_IN, Boxes, drops, teams
from tests.load.figures import SAMPLES, Seen, Soaked, look
from tests.load.order import Event
from tests.load.processor import Account

FIRST_UID: Final = 60_000
PATIENCE: Final = 900.0
"""Seconds without any verdict until it is given up. Nothing passes by waiting."""
SETTLE: Final = 0.5
"""Seconds: some that are half copied are taken for whole, as happens where a team copies slowly."""
KINDS: Final[dict[str, Literal["claimed", "begun", "judged"]]] = {
    "claimed": "claimed", "stage": "begun", "judged": "judged",
}  # fmt: skip
"""What the daemon's events say of a drop; its first stage is its beginning."""
WARM: Final = 12
"""Drops before the first look at what is there at rest: every lane has judged some of each kind by then."""
MOST_STEP: Final = 5
"""Verdicts from one sample to the next at most; of more than SAMPLES every so-manieth is kept."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much, and for how long."""

    count: int = 10_000
    teams: int = 20
    seed: int = 1
    backlog: int = 400
    queue: int = 100
    seconds: float = float("inf")
    """After so many no more is dropped; what waits is judged."""
    sure: bool = True
    progress: bool = False


class StoppedError(Exception):
    """Somebody does not want to wait for the rest."""


class Soak:
    """One daemon, and whoever drops."""

    def __init__(self, home: Path, plan: Plan) -> None:
        self.plan = plan
        names = teams(plan.teams)
        self.pieces = drops(plan.count, plan.seed, names)
        self.found = Soaked(plan.seed, wanted=plan.count, teams=plan.teams, backlog=plan.backlog)
        self.dropped: list[Piece] = []
        self.enough = 0
        """How often somebody asked for its end: once for no more drops, twice for no more verdicts either."""
        self._series: list[samples.Sample] = []
        self._events: list[Event] = []
        self._read = 0
        self._judged = 0
        self._said = -1
        self._appeared: dict[str, int] = {}
        self._lost: list[str] = []
        state = embedded.initialise(home / "state", *names)
        policies = embedded.rules(home / "policies")
        embedded.configure(state, policies, f"queue_limit = {plan.queue}", 'log_level = "debug"')
        settings = state / "acceptd.toml"
        settings.write_text(settings.read_text().replace("settle_seconds = 0.0", f"settle_seconds = {SETTLE}"))
        uids = {name: FIRST_UID + number for number, name in enumerate(names)} if os.geteuid() == 0 else {}
        for name, uid in uids.items():
            os.chown(state / "inbox" / name, uid, uid)
        self.state, self.boxes = state, Boxes(state, home / "stage", uids)
        self.boxes.stage.mkdir()
        self._bell, self._began, self._account = Bell(), time.monotonic(), Account()
        inside = [*self._account.inside(), *_apart()]
        self.daemon = Running(["daemon", "--state", str(state)], home / "daemon.log", self._bell, inside=inside)
        self._from: tuple[float, int, float] = (0.0, 0, time.monotonic())
        """Processor time, verdicts and moment at the end of the warm-up."""

    def run(self) -> Soaked:
        """Drop everything, wait for every verdict, stop, and look at what is left.

        What it found until then is kept also where it is stopped, or gives up.
        """
        try:
            self.daemon.ready()
            before = self._warmed()
            self._from = (self._account.spent(self.daemon.pid), self._judged, time.monotonic())
            self._feed()
            self.boxes.settle()
            self._wait(lambda: self._unfinished() == 0, "every drop judged")
            self._costs()
            self.found.broken += samples.more(before, self._at_rest(), os.cpu_count() or 1)
        except StoppedError as error:
            self._costs()
            self.found.stopped = str(error)
        except AssertionError as error:
            self._costs()
            self.found.broken.append(f"given up: {error}")
            self.found.stopped = "given up"
        try:
            self._end()
        except AssertionError as error:
            self.found.broken.append(str(error))
        finally:
            self.daemon.kill()
            self.boxes.close()
            self._account.close()
        self._look()
        return self.found

    def _costs(self) -> None:
        spent, judged, began = self._from
        found, own = self.found, resource.getrusage(resource.RUSAGE_SELF)
        found.elapsed_s = round(time.monotonic() - began, 1)
        found.processor_s = round(self._account.spent(self.daemon.pid) - spent, 1)
        found.processor_by = self._account.by
        found.per_processor_s = round((self._judged - judged) / max(found.processor_s, 0.01), 2)
        found.harness_s = round(own.ru_utime + own.ru_stime, 1)

    def _end(self) -> None:
        if not self.daemon.ended():
            self.daemon.stop()
            self.found.broken += _orphans()
        self._take()

    # -- dropping ---------------------------------------------------------------------------------------

    def _warmed(self) -> samples.Rest:
        """Judge the first few, and return what is there at rest."""
        for piece in self.pieces[:WARM]:
            self._drop(piece)
        self.boxes.settle()
        self._wait(lambda: self._unfinished() == 0, "the first ones judged")
        return self._at_rest()

    def _at_rest(self) -> samples.Rest:
        shared = Path(f"/proc/{self.daemon.pid}/root/dev/shm")
        return samples.rest(self.daemon.pid, lambda: self._unfinished() == 0, shared)

    def _feed(self) -> None:
        chance = random.Random(self.plan.seed)
        for number, piece in enumerate(self.pieces[WARM:], WARM):
            self._wait(self._may_drop, "a place in the backlog")
            if self._over():
                self._tell(
                    f"no more is dropped: {len(self.dropped)} of {self.plan.count} were; the rest is judged"
                )
                return
            self._drop(piece)
            if number % ONE_PART_IN == ONE_PART_IN // 2:
                self.boxes.leave_part(number, chance.choice(self.pieces).team)

    def _over(self) -> bool:
        return self.enough > 0 or time.monotonic() - self._began > self.plan.seconds

    def _may_drop(self) -> bool:
        return self._over() or len(self.dropped) - self._judged < self.plan.backlog

    def _drop(self, piece: Piece) -> None:
        if piece.family != "copied":
            self._appeared[piece.name] = self._judged
        self.boxes.drop(piece)
        self.dropped.append(piece)
        self._take()

    def _wait(self, holds: Any, what: str) -> None:
        """Wait until ``holds``, taking samples; it is given up where no verdict comes for long."""
        while not self._took(holds):
            if self.enough > 1:
                raise StoppedError(f"while it waited for {what}")
            judged = self._judged
            self._bell.until(
                lambda judged=judged: (  # type: ignore[misc]
                    self._took(holds) or self._judged != judged or self.enough > 1 or self.daemon.ended()
                ),
                lambda: f"{what}: {self._judged} of {len(self.dropped)} judged; {self.daemon.tail()}",
                PATIENCE,
            )
            assert not self.daemon.ended(), f"the daemon ended by itself: {self.daemon.tail()}"

    def _took(self, holds: Any) -> bool:
        self._take()
        return bool(holds())

    def _take(self) -> None:
        """Read what the daemon logged since, and look at it after each so many verdicts."""
        events = self.daemon.events
        while self._read < len(events):
            event = events[self._read]
            events[self._read] = {}  # ten thousand drops log much
            self._read += 1
            kind = KINDS.get(event.get("event", ""))
            if kind is not None and "submission" in event:
                self._events.append((kind, event["submission"], event["team"]))
                self._judged += kind == "judged"
            elif event.get("level") in ("error", "critical") or event.get("raw"):
                self._lost.append(json.dumps(event)[:400])
        step = max(1, min(MOST_STEP, self.plan.count // SAMPLES))
        if self._judged // step != self._said:
            self._said = self._judged // step
            self._series.append(samples.take(self.daemon.pid, self.state, self._judged, len(self.dropped)))
            if self._said % 20 == 0:
                self._tell(f"{self._judged} of {len(self.dropped)} dropped are judged")

    def _unfinished(self) -> int:
        """Return how many drops have no end yet: not claimed, or not done."""
        with sqlite3.connect(f"file:{self.state}/ledger.sqlite3?mode=ro", uri=True) as database:
            done = "select count(*) from submissions where state in ('done', 'quarantined')"
            found = len(self.dropped) - int(database.execute(done).fetchone()[0])
        database.close()
        return found

    def _tell(self, text: str) -> None:
        if self.plan.progress:
            seconds = time.monotonic() - self._began
            print(f"{seconds:.0f} s: {text}", file=sys.stderr, flush=True)

    # -- what came of it --------------------------------------------------------------------------------

    def _look(self) -> None:
        seen = Seen(self.dropped, self.boxes, self._series, self._events, self._appeared, self._lost)
        look(self.found, self.state, seen, self.plan.queue, sure=self.plan.sure)


def _apart() -> Sequence[str]:
    """Return what gives the daemon mounts and shared memory of its own, where this may be done."""
    if os.geteuid() != 0:
        return ()
    words = ["unshare", "--mount", "--ipc", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else ()


def _adopt_orphans() -> None:
    """Let whoever loses its parent below us become our child: what a daemon left running is found so."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _orphans() -> list[str]:
    """Return a line for each process that lives on without the daemon."""
    own = samples.below(os.getpid(), samples.table())
    return [f"process {one.pid} ({one.role}) lives on" for one in own if one.pid != os.getpid() and one.resident]


def soak(home: Path, plan: Plan) -> Soaked:
    """Do all of it below ``home``.

    A first SIGINT or SIGTERM is as the end of the time: what waits is judged. After a second one nothing more is
    waited for, and what there is until then is looked at and told.
    """
    _adopt_orphans()
    running = Soak(home, plan)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def enough(number: int, _frame: object) -> None:
        running.enough += 1
        if running.enough > 1:
            signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, enough)
    try:
        return running.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(place: Path, found: dict[str, Any]) -> None:
    """Write the figures to a file, unless it has those of more drops."""
    kept = json.loads(place.read_text())["drops"] if place.is_file() else 0
    if found["drops"] < kept:
        print(f"{place} keeps the figures of {kept} drops", file=sys.stderr)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def main() -> int:
    """Soak, print the figures, keep them where wanted; 1 where a promise does not hold."""
    usual, parser = Plan(), argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=usual.count)
    parser.add_argument("--teams", type=int, default=usual.teams)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one, which is printed")
    parser.add_argument("--backlog", type=int, default=usual.backlog, help="drops that wait at most")
    parser.add_argument("--queue", type=int, default=usual.queue, help="of those in the daemon's memory")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="drop no more after so many")
    parser.add_argument("--directory", type=Path, help="make the state here")
    parser.add_argument("--keep", type=Path, help="write the figures here, unless it has more drops")
    chosen = parser.parse_args()
    seed = chosen.seed or random.SystemRandom().randrange(1, 1 << 31)
    print(f"seed {seed}", file=sys.stderr, flush=True)
    home = Path(tempfile.mkdtemp(prefix="acceptd-load-", dir=chosen.directory or "/var/tmp"))
    home.chmod(0o755)  # cells walk through it
    plan = Plan(chosen.count, chosen.teams, seed, chosen.backlog, chosen.queue, chosen.seconds, progress=True)
    found = asdict(soak(home, plan))
    reached = f"{found['drops']} of {found['wanted']} drops"
    whole = not found["broken"] and not found["stopped"]
    (home / "figures.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if chosen.keep is not None and whole:
        _keep(chosen.keep, found)
    found.pop("series")
    print(json.dumps(found, indent=1))
    for line in found["broken"]:
        print(line, file=sys.stderr)
    if found["stopped"]:
        print(f"stopped {found['stopped']}: {reached}, {found['unjudged']} not judged", file=sys.stderr)
    if not whole:
        print(f"what is left of it lies in {home}, all of its figures in figures.json", file=sys.stderr)
        return 1
    print(f"all held: {reached}, each judged once", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
