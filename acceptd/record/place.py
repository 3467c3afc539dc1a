"""Where the record of a state directory is, and which engine opens it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acceptd.config import load_settings
from acceptd.errors import StateError
from acceptd.record.database import FILE_NAME, Database
from acceptd.record.sqlite import SqliteDatabase, check_file, create_database


@dataclass(frozen=True, slots=True)
class Place:
    """A file in a state directory, or with ``url`` a PostgreSQL database."""

    state: Path
    url: str = ""
    file: Path | None = None
    """Another file than the state's own: a copy, or what was read of the database of a URL."""

    @classmethod
    def of(cls, state: Path) -> Place:
        """Return where the settings of ``state`` say that its record is; raise ConfigError as they do."""
        return cls(state, load_settings(state).record.url)

    @property
    def path(self) -> Path:
        """The file of SQLite, whether or not the record is there."""
        return self.file or self.state / FILE_NAME

    def __str__(self) -> str:
        """Return what messages call it: never the URL, which may name more than a reader should see."""
        return database_name(self.url) if self.url else str(self.path)

    def open(self, *, busy_seconds: float = 60.0, read_only: bool = False) -> Database:
        """Open it; raise StateError where there is none, or it is not to be trusted."""
        if self.url:
            return _postgres(self.url, busy_seconds, read_only=read_only)
        check_file(self.path)
        return SqliteDatabase(self.path, busy_seconds=busy_seconds, read_only=read_only)

    def create(self, about: dict[str, str], first_entry: dict[str, object]) -> bool:
        """Make it, with ``about`` in ``meta`` and one entry; return False where it is there already."""
        if not self.url:
            return create_database(self.path, about, first_entry)
        require_driver()
        from acceptd.record.postgres.schema import create

        return create(self.url, about, first_entry)

    def exists(self) -> bool:
        """Say whether there is one; of PostgreSQL, which is asked when it is opened, whether one is named."""
        return bool(self.url) or os.path.lexists(self.path)


def database_name(url: str) -> str:
    """Return how messages name the database of a URL."""
    name = unquote(urlsplit(url).path.lstrip("/"))
    return f"PostgreSQL database {name!r:.80}" if name else "the PostgreSQL database"


def _postgres(url: str, busy_seconds: float, *, read_only: bool) -> Database:
    require_driver()
    from acceptd.record.postgres.engine import PostgresDatabase

    return PostgresDatabase(url, database_name(url), busy_seconds=busy_seconds, read_only=read_only)


def require_roles(place: Place) -> None:
    """Raise StateError where the record is a file, which has no roles, or PostgreSQL's driver is not installed."""
    if not place.url:
        raise StateError(
            f"{place}: the record is a file, which has no roles", remedy="name a database as `[record] url` first"
        )
    require_driver()


def require_driver() -> None:
    """Raise StateError where PostgreSQL's driver is not installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StateError(
            "the record is on PostgreSQL, and its driver is not installed",
            remedy="install acceptd[fleet]; in a checkout: make fleet",
        ) from error
