"""What the record promises on a file it promises on PostgreSQL: the same tests, on both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from acceptd.record import place as places
from acceptd.record.database import Database
from tests.fleet.conftest import MISSING
from tests.fleet.postgres import Server

collect_ignore_glob = ["test_*.py"] if MISSING else []


def collect(into: str, given: ModuleType, without: dict[str, str]) -> None:
    """Put tests and fixtures of another module into this one, but those that look into SQLite's own file.

    ``without`` says why for each. A name that is not there any more is an error, so that none is forgotten.
    """
    here = sys.modules[into]
    missing = [name for name in without if not hasattr(given, name)]
    assert not missing, f"{given.__name__} has no {missing}"
    for name, value in vars(given).items():
        if not name.startswith("__") and name not in without:
            setattr(here, name, value)


@pytest.fixture(autouse=True)
def on_postgresql(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Path, str]]:
    """Each state directory of a test has its record in a database of its own; processes know of the first."""
    made: dict[Path, str] = {}
    first = [postgres.fresh_database()]
    monkeypatch.setenv("ACCEPTD_RECORD_URL", postgres.url(first[0]))

    def of(state: Path) -> places.Place:
        key = state.resolve()
        if key not in made:
            made[key] = postgres.fresh_database() if made else first[0]
        return places.Place(state, postgres.url(made[key]))

    opened: list[Database] = []
    opens = places.Place.open

    def remembers(place: places.Place, **options: Any) -> Database:
        opened.append(opens(place, **options))
        return opened[-1]

    monkeypatch.setattr(places.Place, "of", of)
    monkeypatch.setattr(places.Place, "open", remembers)
    yield made
    for one in opened:  # some tests leave theirs open, which of SQLite nobody hears
        one.close()
    for name in {*first, *made.values()}:
        postgres.drop(name)
