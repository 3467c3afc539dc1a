"""The extra and PostgreSQL come with `make test-fleet`; where they are missing these tests are left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.postgres import Server, programs
from tests.fleet.record_world import Record, make_record
from tests.fleet.s3 import ENVIRONMENT, S3, Proxy

EXTRA = ("psycopg", "psycopg_pool", "procrastinate", "fsspec", "s3fs")
MISSING = [name for name in EXTRA if importlib.util.find_spec(name) is None]
MISSING += [] if programs() is not None else ["PostgreSQL"]
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str:
    """Say why nothing is run here."""
    return f"tests/fleet: left out, without {', '.join(MISSING)}: run `make test-fleet`" if MISSING else ""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of this process, without fsync; who restarts or kills one takes `own_postgres`."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A server that one test may stop, restart and kill; its pages are synchronised as in production."""
    server = Server(fsync=True)
    yield server
    server.close()


@pytest.fixture
def pg_url(postgres: Server) -> Iterator[str]:
    """The URL of an empty database, as its owner, which is no superuser."""
    name = postgres.fresh_database()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def record(postgres: Server, tmp_path: Path) -> Iterator[Record]:
    """A state directory whose record is a database of its own."""
    made = make_record(tmp_path / "state", postgres)
    yield made
    postgres.drop(made.name)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    """One S3-compatible server for all tests of this process."""
    server = S3()
    yield server
    server.close()


@pytest.fixture
def s3(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The server, with its credentials in this process's environment, as an operator would give them."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def s3_proxy(s3: S3) -> Iterator[Proxy]:
    """A proxy before the server, which fails as the test orders."""
    proxy = Proxy(s3)
    yield proxy
    proxy.close()
