"""One state directory with a real daemon at work in it: what is dropped, and what commands beside it said."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from acceptd.record.log import Ledger
from acceptd.release.book import Row, read_book
from tests import commands
from tests.fleet import embedded
from tests.fleet.mixed import TEAMS, Piece, mixed
from tests.world import World

PATIENCE: Final = 180.0
"""Seconds until a wait gives up: what has not happened by then is a promise that did not hold."""
_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER, prctl(2)."""
MARK: Final = "chaos"
_SETTINGS: Final = ("min_free_bytes = 0", "stop_seconds = 20")


def adopt_orphans() -> None:
    """Be the parent of every process whose own parent dies: what lives on after a daemon is found here."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class EndedError(AssertionError):
    """A daemon has ended by itself: after a fault it may, once."""


@dataclass
class Order:
    """One command beside the daemon: what it is to put on record, and how it ended."""

    kind: str
    """``rollback`` or ``revoked``."""
    reason: str
    process: commands.Process
    model: str
    digest: str
    """What is revoked; it may be on record under another command's reason, which asked for the same."""
    acknowledged: bool = False


class Town(World):
    """A state on a file system of its own where that may be, pieces to drop, and one daemon after another.

    ``home`` is outside of what is filled up or made read-only: the log, and what promises remember.
    """

    def __init__(self, home: Path, disk: Path, chance: random.Random, count: int) -> None:
        self.disk = disk
        super().__init__(disk, *TEAMS)
        self.home = self.beside = home
        self.log, self.arming = home / "daemon.log", home / "failpoint"
        self.chance = chance
        self.policies = embedded.rules(home / "policies", "enabled = false")
        embedded.configure(self.state, self.policies, *_SETTINGS)
        self.pieces = iter(mixed(count, chance.randrange(1 << 30), heavy=False))
        self.dropped: list[Piece] = []
        self.orders: list[Order] = []
        self.touched: set[str] = set()
        """Models of which something was revoked: the same bytes again are another matter then."""
        self.seconds: float = 1.0
        """How long the last drop took until all was done: within that kills come."""
        self.starting: float = 1.0
        self.more: dict[str, str] = {}
        """Variables of the daemons that are started from now on."""

    # -- the daemon

    def begin(self, *, gate: Path | None = None, failpoint: str = "") -> None:
        """Start a daemon without waiting for anything; behind a gate it does nothing until that is opened."""
        more = self.more | ({commands.GATE: str(gate)} if gate else {})
        self.start(ready=False, failpoint=failpoint, **more)

    def begin_cold(self, **more: str) -> None:
        """Start a daemon in an interpreter of its own."""
        self.start(ready=False, cold=True, **self.more | more)

    def stop_in_order(self) -> None:
        """Let the daemon end as an operator does."""
        self.stop()

    def said_why(self) -> bool:
        """Whether the daemon's last line is a reason, and no traceback's."""
        text = self.log.read_text(errors="replace")
        return bool(text) and "Traceback (most recent call last)" not in text.split('"event": "stopping"')[-1]

    def ready(self) -> bool:
        """Whether the daemon has said that it is ready."""
        return b'"event": "ready"' in self.log.read_bytes()

    def up(self) -> None:
        """Have a daemon that is ready, started anew where there is none. Raises EndedError where it ends."""
        began = time.monotonic()
        if self.daemon is None or self.daemon_ended():
            self.begin()
        self.until(lambda: self.ready() or self.daemon_ended(), "the daemon is ready")
        if self.daemon_ended():
            raise EndedError(f"the daemon does not come back: {self.tail()}")
        self.starting = max(0.05, time.monotonic() - began)

    def down(self) -> None:
        """Kill the daemon with SIGKILL, wait for that, and see that nothing of it lives on."""
        self.kills += 1
        self.kill()
        self.alone()
        self.daemon = None

    kills = 0
    """How often SIGKILL was sent to a daemon at work, or to one that was starting."""

    def alone(self) -> None:
        """Wait until nothing of a daemon that has ended lives. Raises AssertionError where something does."""
        assert self.daemon is not None
        own = {order.process.pid for order in self.orders} | {self.daemon.pid}
        self.until(lambda: not self.orphans(own), lambda: f"processes live on: {self.orphans(own)}")

    def orphans(self, but: set[int]) -> list[str]:
        """Return what has come to this process from others that died; the dead among it are buried."""
        me, found = psutil.Process(), []
        for one in me.children():
            with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
                if one.pid in but or one.pid in self.ours:
                    continue
                if one.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(one.pid, 0)
                    continue
                found.append(f"{one.pid} {' '.join(one.cmdline())[:80]}")
        return found

    ours: frozenset[int] = frozenset()
    """Processes of the harness itself."""

    def nudge(self) -> None:
        """Let the daemon do its housekeeping at once."""
        if self.daemon is not None:
            with contextlib.suppress(ProcessLookupError):
                self.daemon.send_signal(signal.SIGHUP)

    def tail(self) -> str:
        """Return the last line of the log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1][:600] if lines else "(it said nothing)"

    def until(self, holds: Callable[[], bool], what: str | Callable[[], str]) -> None:
        """Wait until ``holds``; fail with what was waited for."""
        deadline, pause = time.monotonic() + PATIENCE, 0.005
        while not holds():
            if time.monotonic() > deadline:
                words = what if isinstance(what, str) else what()
                raise AssertionError(f"{words}: not within {PATIENCE:g} s; {self.tail()}")
            time.sleep(pause)
            pause = min(0.1, pause * 1.3)

    # -- what is at work

    def drop_some(self, most: int = 2) -> int:
        """Drop the next pieces; return how many. None where there are no more."""
        count = 0
        for piece in self.next(self.chance.randrange(1, most + 1)):
            self.put(piece)
            count += 1
        return count

    def next(self, count: int) -> list[Piece]:
        """Return the next pieces, of one wave: within it no two promote the same model."""
        found: list[Piece] = []
        for _ in range(count):
            piece = self.held_back or next(self.pieces, None)
            self.held_back = None
            if piece is None:
                break
            if found and piece.wave != found[0].wave:
                self.held_back = piece
                break
            found.append(piece)
        return found

    held_back: Piece | None = None

    def staged(self, count: int) -> list[Callable[[], None]]:
        """Write the next pieces aside; return what renames each into its inbox."""
        return [self._staged(piece) for piece in self.next(count)]

    def _staged(self, piece: Piece) -> Callable[[], None]:
        made = piece.write(self.stage / piece.name)

        def drop() -> None:
            made.rename(self.state / "inbox" / piece.team / made.name)
            self.dropped.append(piece)

        return drop

    clock_was_set = False
    """Then `ledger verify` says so for ever (decision 0045), and the town ends with this act."""
    last_words = ""
    """Of a daemon that ended in a fault."""
    mute = False
    """Whether the fault is one of writing, so that a log may be refused as well."""
    injected = 0
    """How many calls failed in the last fault by strace."""

    def put(self, piece: Piece) -> None:
        """Write a bundle aside and rename it into the inbox: from then on it is acknowledged."""
        self._staged(piece)()

    def command(self) -> Order | None:
        """Give a command beside the daemon, by chance: a rollback or a revocation. None where there is nothing."""
        with Ledger.open(self.state, create=False) as ledger:
            book = read_book(ledger)
        active = [row for rows in book.channels.values() for row in rows.values() if row.state == "active"]
        active = [row for row in active if row.digest not in book.revoked]
        several = [row for row in active if book.fallback(row.model_id, row.channel)]
        reason = f"{MARK} {len(self.orders)}"
        if several and self.chance.random() < 0.7:
            row = self.chance.choice(several)
            return self._order("rollback", row, reason, "rollback", row.model_id)
        if active and self.chance.random() < 0.5:
            row = self.chance.choice(active)
            self.touched.add(row.model_id)
            back = ("--rollback",) if row in several else ()
            return self._order("revoked", row, reason, "revoke", row.digest, *back)
        return None

    def _order(self, kind: str, row: Row, reason: str, *words: str) -> Order:
        said = self.home / f"said-{len(self.orders)}"
        place = {}
        if self.chance.random() < 0.15:
            step = self.chance.choice(_STEPS[kind])
            place = {"ACCEPTD_FAILPOINT": step}
        with said.open("wb") as file:
            process = commands.Process(
                "release", *words, "--reason", reason, "--state", str(self.state),
                environment=dict(os.environ) | place, stdout=file, stderr=file,
            )  # fmt: skip
        order = Order(kind, reason, process, row.model_id, row.digest)
        self.orders.append(order)
        return order

    def ended_orders(self) -> None:
        """Wait for every command; one that ended with 0 is acknowledged."""
        for order in self.orders:
            if order.process.returncode is None:
                order.acknowledged = order.process.wait(PATIENCE) == 0

    def kill_orders(self) -> None:
        """Kill the commands that still run."""
        for order in self.orders:
            with contextlib.suppress(ProcessLookupError):
                order.process.kill()

    # -- when all is done

    def answered(self) -> int:
        """Return how many verdicts stand in the outboxes."""
        return sum(1 for _ in (self.state / "outbox").glob("*/*/verdict.json"))

    def settled(self) -> None:
        """Wait until every drop is answered and nothing is on its way, with a daemon at work."""
        self.ended_orders()
        began = time.monotonic()
        told = began
        while not (self.answered() >= len(self.dropped) and not list((self.state / "sealed").iterdir())):
            now = time.monotonic()
            if self.daemon_ended():
                raise EndedError(f"the daemon ended by itself: {self.tail()}")
            words = (
                f"{self.answered()} verdicts of {len(self.dropped)}, {os.listdir(self.state / 'sealed')} sealed"
            )
            assert now < began + PATIENCE, f"{words} after {PATIENCE:g} s; {self.tail()}"
            if now > told + 3.0:
                told = now
                self.nudge()
            time.sleep(0.03)
        self.seconds = max(0.2, time.monotonic() - began)

    def close(self) -> None:
        """Kill what is left."""
        self.kill_orders()
        self.kill()


_STEPS: Final = {
    "rollback": (
        "record.append.before-commit", "release.rollback.intended", "release.rollback.written",
        "release.rollback.swapped", "release.rollback.announced", "release.rollback.activated",
    ),
    "revoked": (
        "record.append.before-commit", "release.revoke.recorded", "release.revoke.listed",
        "release.revoke.announced",
    ),
}  # fmt: skip
"""Where a command kills itself now and then."""
