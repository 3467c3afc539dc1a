"""The tests' own PostgreSQL: what it promises the other tests."""

from __future__ import annotations

import psutil
import pytest

from tests.fleet.postgres import OWNER, Server

pytestmark = pytest.mark.acceptance


def test_it_listens_on_loopback_and_a_socket_and_its_owner_is_no_superuser(postgres: Server) -> None:
    import psycopg

    name = postgres.fresh_database()
    for url in (postgres.url(name), postgres.socket_url(name)):
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user")
            assert row.fetchone() == (OWNER, False)
    addresses = {one.laddr.ip for one in psutil.net_connections("tcp") if one.laddr.port == postgres.port}
    assert addresses == {"127.0.0.1"}


def test_no_process_of_it_is_roots(postgres: Server) -> None:
    assert postgres._process is not None
    family = [psutil.Process(postgres._process.pid)]
    family += family[0].children(recursive=True)
    assert len(family) > 3
    assert 0 not in {one.uids().effective for one in family}


def test_a_database_copied_from_another_has_its_rows_and_is_apart_from_it(postgres: Server) -> None:
    first = postgres.fresh_database()
    postgres.execute("CREATE TABLE here (n int)", database=first, user=OWNER)
    second = postgres.fresh_database(first)
    postgres.execute("INSERT INTO here VALUES (1)", database=second, user=OWNER)
    counts = [postgres.execute("SELECT count(*) FROM here", database=name) for name in (first, second)]
    assert counts == [[(0,)], [(1,)]]


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_what_was_committed_before_a_restart_or_a_kill_stands_after_it(own_postgres: Server, how: str) -> None:
    name = own_postgres.fresh_database()
    own_postgres.execute("CREATE TABLE here (n int)", database=name)
    own_postgres.execute("INSERT INTO here VALUES (7)", database=name)
    port = own_postgres.port
    own_postgres.restart(how)
    assert own_postgres.port == port
    assert own_postgres.execute("SELECT n FROM here", database=name) == [(7,)]


def test_nothing_of_it_is_left_when_it_is_closed() -> None:
    server = Server()
    assert server._process is not None
    family = [psutil.Process(server._process.pid)]
    family += family[0].children(recursive=True)
    server.close()
    assert not server.root.exists()
    assert psutil.wait_procs(family, timeout=30)[1] == []
