"""The baseline: the same drops through one embedded daemon, with the keys and rules that a fleet is given."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.inboxes import Inboxes
from tests.fleet.mixed import TEAMS, Piece, waves
from tests.fleet.processes import PATIENCE, ROOT, Bell, Running
from tests.fleet.recorded import Book, read

POLICY = "fleet-test"
STEADY = (
    "[regression]",
    "latency_slack_ms = 1000.0",
    "[probes]",
    "seconds = 20.0",
    "relations_seconds = 20.0",
)


def rules(place: Path, *more: str) -> Path:
    """Write the policies that both sides judge by: the demo's, with a contract in force; return their directory.

    What depends on how fast the machine was at that moment, and so repeats in no second run, is taken out of play:
    the contract's ceilings, the comparison in speed with the release before (a second more would count), the bound
    on the time of probes (which says how many are left out). ``more`` is put at the end of the policy.
    """
    shutil.copytree(ROOT / "policies", place)
    (place / "demo.toml").unlink()
    demo = (ROOT / "policies" / "demo.toml").read_text().replace('name = "demo"', f'name = "{POLICY}"')
    (place / f"{POLICY}.toml").write_text("\n".join([demo, *STEADY, *more]) + "\n")
    contract = place / "contracts" / "mosaic" / "evidence-disposition.toml"
    lines = contract.with_suffix(".toml.example").read_text().splitlines()
    start = lines.index("[ceilings]")
    end = lines.index("[[models]]")
    contract.write_text("\n".join(lines[:start] + lines[end:]) + "\n")
    return place


def initialise(state: Path, *teams: str) -> Path:
    """Make a state directory with its keys and ledger."""
    words = [word for team in teams or TEAMS for word in ("--team", team)]
    done = subprocess.run(
        [sys.executable, "-m", "acceptd", "init", *words, "--state", str(state)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return state


def configure(state: Path, policies: Path, *lines: str) -> None:
    """Write the settings that both sides share, and ``lines``. Drops arrive by a rename: none needs to settle."""
    text = [f'policy = "{POLICY}"', f'policies = "{policies}"', "submission_seconds = 3600", *lines]
    (state / "acceptd.toml").write_text("\n".join([*text, "[inbox]", "settle_seconds = 0.0"]) + "\n")


def copied(template: Path, state: Path) -> Path:
    """Copy a state, its keys too, as ``init`` made it; return the copy."""
    state.parent.mkdir(parents=True, exist_ok=True)
    # -a: init gives directories modes and groups, which a plain copy would not keep.
    subprocess.run(["cp", "-a", str(template), str(state)], check=True)
    return state


def run(
    home: Path,
    template: Path,
    policies: Path,
    pieces: Sequence[Piece],
    *,
    record: str = "",
    patience: float = PATIENCE,
) -> Book:
    """Judge ``pieces`` with one embedded daemon on a copy of the state ``template``; return what is on record.

    ``record``: URL of an empty database, for the record to be there and not in a file.
    """
    state = copied(template, home / "state")
    if record:
        (state / "ledger.sqlite3").unlink()
        configure(state, policies, "[record]", f'url = "{record}"')
        initialise(state)  # makes the tables; the keys stay
    else:
        configure(state, policies)
    bell = Bell()
    boxes = Inboxes(state, home / "stage", bell)
    daemon = Running(["daemon", "--state", str(state)], home / "daemon.log", bell)
    try:
        daemon.ready()
        for wave in waves(list(pieces)):
            drops = [boxes.drop(piece) for piece in wave]
            bell.until(
                lambda drops=drops: boxes.answered(drops) or daemon.ended(),  # type: ignore[misc]
                lambda drops=drops: f"{len(drops)} verdicts; {daemon.tail()}",  # type: ignore[misc]
                patience + 5.0 * len(drops),
            )
            assert not daemon.ended(), daemon.tail()
        daemon.stop()
    finally:
        daemon.kill()
        boxes.close()
    return read(state)
