"""A state directory with a real daemon in a process of its own: what acceptance and crash tests stand on."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acceptd.record.entry import Filter
from acceptd.record.log import Ledger
from examples.evidence_classifier import MODEL_ID
from tests import commands, steady
from tests.statement_world import check_statements

ROOT = Path(__file__).resolve().parent.parent
TEAM, MODEL = MODEL_ID.split("/")
PATIENCE = 120.0
"""Seconds until a wait gives up. A test never passes by waiting: this only bounds a failure."""
Daemon = subprocess.Popen[bytes] | commands.Process


@functools.cache
def _initialised(teams: tuple[str, ...]) -> Path:
    """Return a state directory as `acceptd init` makes it, made once in a test run: each world is a copy."""
    home = Path(tempfile.mkdtemp(prefix="acceptd-world-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    words = [word for team in teams for word in ("--team", team)]
    alike = {} if steady.RANDOM else {steady.KEYS: "1"}
    done = commands.run("init", *words, "--state", str(home / "state"), **alike)
    assert done.returncode == 0, done.stderr
    return home / "state"


class World:
    """One state directory. Daemons are started and killed; drops go in, verdicts come out."""

    def __init__(self, home: Path, *teams: str) -> None:
        self.state = home / "state"
        self.stage = home / "stage"
        self.stage.mkdir(parents=True)
        self.log = home / "daemon.log"
        self.arming = home / "failpoint"
        self.daemon: Daemon | None = None
        # -a: init gives directories modes and groups, which a plain copy would not keep.
        subprocess.run(["cp", "-a", str(_initialised(teams or (TEAM,))), str(self.state)], check=True)
        # No settling time: every drop of these tests arrives by rename.
        (self.state / "acceptd.toml").write_text('policy = "demo"\n[inbox]\nsettle_seconds = 0.2\n')

    def acceptd(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one command on this state."""
        return commands.run(*words, "--state", str(self.state), **environment)

    def start(
        self, *words: str, failpoint: str = "", ready: bool = True, cold: bool = False, **more: str
    ) -> Daemon:
        """Start a daemon; wait for its word that it is ready unless it is expected to die first.

        ``cold``: in an interpreter that loads everything itself, as production does it. ``more`` is put into
        its environment.
        """
        environment = dict(os.environ) | more
        environment.pop("ACCEPTD_FAILPOINT", None)
        if failpoint:
            environment["ACCEPTD_FAILPOINT"] = failpoint
        environment[commands.ARMING] = str(self.arming)
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            order = ["daemon", *words, "--state", str(self.state)]
            if cold:
                command = [sys.executable, "-m", "acceptd", *order]
                self.daemon = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)
            else:
                self.daemon = commands.Process(*order, environment=environment, stdout=log, stderr=log)
        if ready:
            self.until(
                lambda: b'"event": "ready"' in self.log.read_bytes() or self.daemon_ended(), "the daemon is ready"
            )
            assert self.daemon.poll() is None, self.log.read_text(errors="replace")
        return self.daemon

    def arm(self, failpoint: str) -> None:
        """Let the running daemon die where it next passes ``failpoint``; return once that is set."""
        assert self.daemon is not None
        self.arming.write_text(failpoint)
        self.daemon.send_signal(signal.SIGUSR2)
        self.until(lambda: not self.arming.exists() or self.daemon_ended(), "the failpoint is set")

    def daemon_ended(self) -> bool:
        """Whether the daemon process has ended."""
        return self.daemon is not None and self.daemon.poll() is not None

    def reload(self) -> None:
        """Let the daemon read its policy again, and wait until it has: a drop may be claimed before that."""
        assert self.daemon is not None
        done = self.log.read_bytes().count(b'"event": "policy reloaded"')
        self.daemon.send_signal(signal.SIGHUP)
        self.until(
            lambda: self.daemon_ended() or self.log.read_bytes().count(b'"event": "policy reloaded"') > done,
            "the policy is read again",
        )

    def stop(self) -> None:
        """Stop the daemon in order and check that it ended well."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGTERM)
        assert self.daemon.wait(PATIENCE) == 0, self.log.read_text(errors="replace")
        self.daemon = None

    def kill(self) -> None:
        """Kill whatever daemon is left (the end of a test)."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait(PATIENCE)

    def drop(self, write: Callable[[Path], Path], name: str, team: str = TEAM) -> str:
        """Write a bundle aside and rename it into the inbox; return the drop's name."""
        made = write(self.stage / name)
        made.rename(self.state / "inbox" / team / made.name)
        return made.name

    def verdict(self, drop: str, team: str = TEAM) -> dict[str, Any]:
        """Wait for the verdict of a drop."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [report for report in self.verdicts(team) if report["drop"] == drop]
            return bool(found) or self.daemon_ended()

        self.until(look, f"a verdict on {drop}")
        assert found, self.log.read_text(errors="replace")
        assert len(found) == 1, "a drop has exactly one verdict"
        return found[0]

    def verdicts(self, team: str = TEAM) -> list[dict[str, Any]]:
        """Return every verdict in a team's outbox."""
        return [json.loads(file.read_bytes()) for file in (self.state / "outbox" / team).glob("*/verdict.json")]

    def until_verdicts(self, count: int, team: str = TEAM) -> list[dict[str, Any]]:
        """Wait for so many verdicts of a team, and return them."""
        self.until(lambda: len(self.verdicts(team)) >= count or self.daemon_ended(), f"{count} verdicts of {team}")
        return self.verdicts(team)

    def entries(self, kind: str = "") -> list[dict[str, Any]]:
        """Return the ledger's entries, as `acceptd ledger export` prints them."""
        with Ledger.open(self.state, create=False) as ledger:
            return list(ledger.export(Filter(type=kind) if kind else Filter()))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until ``holds``; fail with what was waited for."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {PATIENCE:g} s; {self.log.read_text(errors='replace')}")
            time.sleep(0.02)


@contextmanager
def world(home: Path, *teams: str) -> Iterator[World]:
    """Yield a fresh world; kill its daemon at the end."""
    made = World(home, *teams)
    try:
        yield made
        check_statements(made.entries())
    finally:
        made.kill()
        shutil.rmtree(made.state, ignore_errors=True)


def codes(report: Mapping[str, Any], *severities: str) -> set[str]:
    """Return the codes of a report's findings, of the given severities or all."""
    return {one["code"] for one in report["findings"] if not severities or one["severity"] in severities}
