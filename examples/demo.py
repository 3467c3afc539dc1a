"""The main job, shown: a running daemon, real drops, a real loader, a rollback, and the ledger at the end.

Run by ``make demo``. Exits non-zero when any step is not as expected.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from examples import evidence_classifier as classifier
from examples.hostile_bundles import BY_NAME, DEMO

ROOT = Path(__file__).resolve().parent.parent
MARK = ".acceptd-demo"
OTHER_BIAS = (-0.75, 0.5, 0.0)
PATIENCE_SECONDS = 120.0
WIDTH = 120
"""Columns of the table where it goes to no terminal."""


@dataclass(frozen=True)
class Line:
    """One step as the table shows it."""

    step: str
    result: str
    reason: str
    seconds: float
    good: bool


class Demo:
    """The steps, in order; each appends a line."""

    def __init__(self, state: Path, console: Console) -> None:
        self.state = state
        self.console = console
        self.lines: list[Line] = []
        self.team = classifier.MODEL_ID.partition("/")[0]
        self.stage = state / "demo-bundles"
        self.log = state / "daemon.log"

    def acceptd(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command of acceptd on the demo's state."""
        command = [sys.executable, "-m", "acceptd", *words, "--state", str(self.state)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def step(self, name: str, work: Callable[[], tuple[str, str, bool]]) -> None:
        """Do one step, time it, remember and show it."""
        start = time.monotonic()
        try:
            result, reason, good = work()
        except Exception as error:  # noqa: BLE001 - a demo reports whatever went wrong, and goes on to the table
            result, reason, good = "error", f"{type(error).__name__}: {error}", False
        line = Line(name, result, reason, time.monotonic() - start, good)
        self.lines.append(line)
        mark = "[green]ok[/]" if good else "[red]NOT AS EXPECTED[/]"
        self.console.print(f"{mark} {name}: {result} ({line.seconds:.2f} s)")

    # -- steps ------------------------------------------------------------------------------------------

    def init(self) -> tuple[str, str, bool]:
        done = self.acceptd("init", "--team", self.team)
        return (
            ("ready", f"state in {near(self.state)}", True)
            if done.returncode == 0
            else ("failed", done.stderr, False)
        )

    def drop(self, name: str, write: Callable[[Path], Path]) -> dict[str, Any]:
        """Write a bundle aside, rename it into the inbox, wait for its verdict."""
        made = write(self.stage / name)
        target = self.state / "inbox" / self.team / made.name
        made.rename(target)
        return self.verdict(made.name)

    def verdict(self, name: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        outbox = self.state / "outbox" / self.team
        while time.monotonic() < deadline:
            for file in outbox.glob("*/verdict.json"):
                report: dict[str, Any] = json.loads(file.read_bytes())
                if report["drop"] == name:
                    return report
            time.sleep(0.02)
        raise TimeoutError(f"no verdict on {name} in {PATIENCE_SECONDS:g} s; see {self.log}")

    def accepts(self, name: str, bias: tuple[float, ...] | None, number: int) -> tuple[str, str, bool]:
        report = self.drop(name, lambda path: classifier.write_bundle(path, version=f"1.{number}.0", bias=bias))
        release = report.get("release") or {}
        good = report["verdict"] == "accepted" and release.get("number") == number
        text = f"{report['verdict']}, release {release.get('number')}" if release else report["verdict"]
        return text, report["reason"], good

    def refuses(self, name: str) -> tuple[str, str, bool]:
        entry = BY_NAME[name]
        report = self.drop(name, entry.write)
        deciding = [finding for finding in report["findings"] if finding["severity"] in {"reject", "hold"}]
        codes = {finding["code"] for finding in deciding}
        good = report["verdict"] == "rejected" and bool(codes & set(entry.codes))
        first = next((one for one in deciding if one["code"] in entry.codes), deciding[0] if deciding else None)
        return report["verdict"], f"{first['code']}: {first['where']}" if first else report["reason"], good

    def load(self, bias: tuple[float, ...] | None, number: int) -> tuple[str, str, bool]:
        from acceptd.loader import open_release

        opened = open_release(self.state, classifier.MODEL_ID, keys=self.state / "keyring.json")
        session = opened.session()
        said = []
        good = opened.number == number
        variant = classifier.Variant() if bias is None else classifier.Variant(bias=bias)
        for point in classifier.PUBLISHED[:2]:
            features = classifier.features_from_evidence(*point.evidence)
            outputs = session.run({"features": features})
            got = np.asarray(outputs["probabilities"])[0]
            expected = classifier.oracle(features, variant)["probabilities"][0]
            published = np.asarray(point.probabilities) if bias is None else expected
            good &= bool(np.abs(got - expected).max() <= 1e-6 and np.abs(got - published).max() <= 1e-6)
            label = outputs.labels()[0]
            good &= label == point.label
            said.append(f"{label} {got.max():.7f}")
        return f"release {opened.number}", "; ".join(said), good

    def roll_back(self) -> tuple[str, str, bool]:
        done = self.acceptd("release", "rollback", classifier.MODEL_ID, "--reason", "the demo goes back to v1")
        return (
            "rolled back" if done.returncode == 0 else "failed",
            done.stdout.strip() or done.stderr,
            not done.returncode,
        )

    def verify(self) -> tuple[str, str, bool]:
        done = self.acceptd("ledger", "verify")
        text = (done.stdout.strip() or done.stderr).splitlines()
        return ("verified" if done.returncode == 0 else "differs"), text[-1] if text else "", done.returncode == 0

    # -- the whole ----------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Run every step with a daemon beside; return whether all were as expected."""
        self.step("init", self.init)
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "acceptd", "daemon", "--policy", "demo", "--state", str(self.state)]
            daemon = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)
        try:
            self.step("start the daemon", lambda: self._ready(daemon))
            self.step("drop v1", lambda: self.accepts("v1", None, 1))
            self.step("drop v2, another bias", lambda: self.accepts("v2", OTHER_BIAS, 2))
            for name in DEMO:
                self.step(f"drop {name}", lambda name=name: self.refuses(name))  # type: ignore[misc]
            self.step("load the current release", lambda: self.load(OTHER_BIAS, 2))
            self.step("roll back", self.roll_back)
            self.step("load v1 again", lambda: self.load(None, 3))
            self.step("verify the ledger", self.verify)
        finally:
            daemon.terminate()
            daemon.wait(30)
        return all(line.good for line in self.lines)

    def _ready(self, daemon: subprocess.Popen[bytes]) -> tuple[str, str, bool]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and daemon.poll() is None:
            if b'"event": "ready"' in self.log.read_bytes():
                return "ready", f"pid {daemon.pid}, log in {near(self.log)}", True
            time.sleep(0.02)
        return "failed", self.log.read_text(errors="replace").strip().splitlines()[-1][:300], False

    def table(self) -> Table:
        """Return what happened as a table."""
        table = Table(box=None, pad_edge=False)
        for column in ("", "step", "result", "why", "s"):
            table.add_column(column, overflow="fold", justify="right" if column == "s" else "left")
        for line in self.lines:
            mark = "ok" if line.good else "!!"
            table.add_row(mark, line.step, line.result, line.reason[:160], f"{line.seconds:.2f}")
        return table


def near(path: Path) -> str:
    """Return a path as it is seen from here where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


def fresh(state: Path) -> None:
    """Make ``state`` an empty directory; only one that an earlier demo made is ever removed."""
    if state.exists():
        if not (state / MARK).exists():
            raise SystemExit(f"demo: {state} exists and is not a demo's; choose another --state")
        shutil.rmtree(state)
    state.mkdir(parents=True)
    (state / MARK).touch()


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, default=ROOT / "var" / "demo")
    state = parser.parse_args().state.absolute()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    fresh(state)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    demo = Demo(state, console)
    good = demo.run()
    console.print()
    console.print(demo.table())
    console.print(f"\nstate: {state}", markup=False)
    console.print(f"look:  acceptd status --state {state}", markup=False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
