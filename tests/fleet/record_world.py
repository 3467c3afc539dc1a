"""A state directory whose record is on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptd.record.log import Ledger
from tests.fleet.postgres import OWNER, SUPERUSER, Server


@dataclass(frozen=True)
class Record:
    """One state and its database."""

    state: Path
    server: Server
    name: str

    def open(self, **options: Any) -> Ledger:
        """Open the ledger as the settings of the state say."""
        return Ledger.open(self.state, **options)

    def ask(self, statement: str, user: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """Run one statement beside the ledger."""
        return self.server.execute(statement, database=self.name, user=user)

    def settings(self, user: str = OWNER) -> None:
        """Have the state open its record as ``user``."""
        url = self.server.url(self.name, user)
        (self.state / "acceptd.toml").write_text(f'[record]\nurl = "{url}"\n')


def make_record(state: Path, server: Server) -> Record:
    """Name a fresh database in the settings of ``state``; the ledger is made by whoever opens it first."""
    state.mkdir(exist_ok=True)
    made = Record(state, server, server.fresh_database())
    made.settings()
    return made
