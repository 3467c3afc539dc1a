"""A state directory that commands open, and one group of commands in this process: no daemon, no cell."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from acceptd.cli.common import EXIT_AUDIT
from acceptd.config import Paths
from acceptd.errors import AcceptdError, LoaderError, UserError
from acceptd.record.keys import create_keys


@dataclass(frozen=True)
class Said:
    """What one command came to. ``error`` is the line that a person reads, with ``remedy`` below it."""

    code: int
    out: str
    err: str
    error: str = ""
    remedy: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ready(state: Path, policy: str = "", settings: str = "") -> Path:
    """Make of ``state`` what `acceptd init` leaves there, with the policy ``p`` in ``state/policies``."""
    for path, mode in Paths(state).directories():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    if not (state / "keyring.json").exists():
        create_keys(state)
    policies = state / "policies"
    policies.mkdir(mode=0o755, exist_ok=True)
    (policies / "p.toml").write_text(f'schema = 1\nname = "p"\n{policy}', encoding="utf-8")
    text = f'policies = {json.dumps(str(policies))}\npolicy = "p"\n{settings}'
    (state / "acceptd.toml").write_text(text, encoding="utf-8")
    return state


@dataclass(frozen=True)
class Commands:
    """One group of commands (or one command) on one state."""

    app: typer.Typer
    state: Path | None = None

    def run(self, *words: str | os.PathLike[str]) -> Said:
        """Run one command to its end. An error that nobody raised on purpose is the test's."""
        more = [] if self.state is None else ["--state", str(self.state)]
        done = CliRunner().invoke(self.app, [*map(str, words), *more])
        told = done.exception
        if isinstance(told, UserError):
            return Said(told.exit_code, done.stdout, done.stderr, told.message, told.remedy)
        if isinstance(told, AcceptdError):
            return Said(told.exit_code, done.stdout, done.stderr, str(told))
        if isinstance(told, LoaderError):
            return Said(EXIT_AUDIT, done.stdout, done.stderr, str(told))
        if told is not None and not isinstance(told, SystemExit):
            raise told
        return Said(done.exit_code, done.stdout, done.stderr)

    def __call__(self, *words: str | os.PathLike[str]) -> str:
        """Run one command that has to end with 0; return its standard output."""
        said = self.run(*words)
        assert said.code == 0, said
        return said.out


def alone(command: Any) -> typer.Typer:
    """Return an application of one command."""
    app = typer.Typer()
    app.command()(command)
    return app
