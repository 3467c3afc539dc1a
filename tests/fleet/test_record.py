"""The record on PostgreSQL: one writer at a time, nothing lost by restarts and kills, every error in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acceptd.errors import (
    ConfigError,
    DuplicateEntryError,
    LedgerError,
    LedgerLostError,
    LedgerStorageError,
    StateError,
)
from acceptd.record import audit
from acceptd.record.keys import create_keys
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from tests.fleet.postgres import OWNER, Server
from tests.fleet.record_world import Record, make_record

pytestmark = pytest.mark.acceptance


def test_a_state_that_names_a_database_has_its_record_there_and_no_file(record: Record) -> None:
    with record.open() as ledger:
        assert ledger.append("note", {"n": 1}).seq == 1
    assert not (record.state / "ledger.sqlite3").exists()
    assert record.ask("SELECT count(*) FROM entries") == [(2,)]
    with record.open(create=False) as ledger:
        assert ledger.tree().size == 2
        assert ledger.proof(1).holds()


def test_the_environment_names_the_database_before_the_file_does(
    record: Record, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = postgres.fresh_database()
    monkeypatch.setenv("ACCEPTD_RECORD_URL", postgres.socket_url(other))
    record.open().close()
    assert postgres.execute("SELECT count(*) FROM entries", database=other) == [(1,)]
    assert record.ask("SELECT to_regclass('entries')") == [(None,)]


def test_an_empty_database_is_no_ledger_and_says_so_in_one_line(record: Record) -> None:
    with pytest.raises(StateError, match="there is no ledger") as told:
        record.open(create=False)
    assert "acceptd init" in told.value.remedy
    assert "\n" not in str(told.value)


def test_a_database_of_somebody_else_is_left_alone(record: Record) -> None:
    record.ask("CREATE TABLE releases (mine int)", user=OWNER)
    with pytest.raises(StateError, match="'releases' that is none of a ledger's"):
        record.open()
    assert record.ask("SELECT to_regclass('entries')") == [(None,)]


def test_of_many_that_make_it_at_once_one_does(record: Record) -> None:
    def origin(_: int) -> str:
        with record.open() as ledger:
            return ledger.origin

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(origin, range(6)))) == 1
    assert record.ask("SELECT count(*) FROM entries") == [(1,)]


@pytest.mark.parametrize("user", [OWNER, "postgres"])
def test_not_even_the_owner_changes_what_stands(record: Record, user: str) -> None:
    import psycopg

    with record.open() as ledger, ledger.transaction() as change:
        change.append("note", {})
        change.append("note", {})
        change.put_evidence(b"measured")
    before = record.ask("SELECT * FROM entries ORDER BY seq")
    for statement in (
        "UPDATE entries SET type = 'x'",
        "DELETE FROM entries WHERE seq = 2",
        "TRUNCATE entries",
        "DELETE FROM nodes",
        "UPDATE nodes SET hash = hash",
        "TRUNCATE nodes",
        "UPDATE evidence SET data = 'x'",
        "TRUNCATE evidence",
        "INSERT INTO entries SELECT 7, type, submission, NULL, leaf, leaf_hash, recorded_at FROM entries LIMIT 1",
        "INSERT INTO entries SELECT 0, type, submission, NULL, leaf, leaf_hash, recorded_at FROM entries LIMIT 1",
        "INSERT INTO entries SELECT * FROM entries ON CONFLICT (seq) DO UPDATE SET type = 'x'",
    ):
        with pytest.raises((psycopg.errors.RestrictViolation, psycopg.errors.UniqueViolation)):
            record.ask(statement, user=user)
    assert record.ask("SELECT * FROM entries ORDER BY seq") == before
    with record.open(create=False) as ledger:  # and the next number, taken in order, is
        assert ledger.append("note", {}).seq == 3


WRITER = """
import sys
from pathlib import Path
from acceptd.record.log import Ledger
with Ledger.open(Path(sys.argv[1]), create=False) as ledger:
    for number in range(int(sys.argv[2])):
        print(ledger.append("note", {"n": number}).seq, flush=True)
"""


def writer(record: Record, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(record.state), str(count)], stdout=subprocess.PIPE, text=True
    )


def test_many_processes_append_side_by_side_without_a_gap_or_a_fork(record: Record) -> None:
    record.open().close()
    running = [writer(record, 40) for _ in range(4)]
    told = [int(line) for one in running for line in one.communicate(timeout=120)[0].split()]
    assert [one.returncode for one in running] == [0] * 4
    assert sorted(told) == list(range(1, 161))
    create_keys(record.state)
    assert audit.verify(record.state) == []


def test_a_process_killed_while_it_writes_keeps_nobody_waiting(record: Record) -> None:
    code = (
        "import os, sys, signal\nfrom pathlib import Path\nfrom acceptd.record.log import Ledger\n"
        "with Ledger.open(Path(sys.argv[1])) as ledger, ledger.transaction() as change:\n"
        "    change.append('note', {})\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(record.state)])
    assert done.returncode == -signal.SIGKILL
    with record.open(create=False, busy_seconds=30) as ledger:
        assert ledger.append("note", {}).seq == 1


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_a_ledger_goes_on_after_the_server_was_restarted_or_killed(
    own_postgres: Server, tmp_path: Path, how: str
) -> None:
    record = make_record(tmp_path / "state", own_postgres)
    create_keys(record.state)
    with record.open() as ledger, ThreadPoolExecutor(4) as pool:
        stop, told = threading.Event(), []

        def appends() -> None:
            while not stop.is_set():
                told.append(ledger.append("note", {}).seq)

        writers = [pool.submit(appends) for _ in range(2)]
        for _ in range(2):
            own_postgres.restart(how)
            assert ledger.tree().size > 0
        stop.set()
        for one in writers:
            one.result(60)
        assert sorted(told) == list(range(1, ledger.tree().size))
    assert audit.verify(record.state) == []


def test_a_server_that_is_away_is_told_in_one_line_without_host_user_or_password(
    own_postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record(tmp_path / "state", own_postgres)
    with record.open(busy_seconds=0.5) as ledger:
        own_postgres.stop()
        monkeypatch.setenv("PGPASSWORD", "not-to-be-shown")
        for act in (lambda: ledger.append("note", {}), ledger.tree, lambda: record.open(create=False)):
            with pytest.raises(LedgerStorageError, match="PostgreSQL database") as told:
                act()
            words = str(told.value)
            assert "\n" not in words
            assert not any(secret in words for secret in ("127.0.0.1", str(own_postgres.port), "not-to-be-shown"))
        with pytest.raises(LedgerStorageError, match=r"see to the server that `\[record\] url` names"):
            audit.verify(record.state)
        own_postgres.start()
        assert ledger.append("note", {}).seq == 1


@pytest.mark.parametrize(("dies", "stands"), [("before", False), ("after", True)])
def test_a_commit_whose_answer_was_lost_is_asked_about(record: Record, dies: str, stands: bool) -> None:
    """The backend dies before the commit, or after it and before the answer comes."""
    with record.open() as ledger:
        commit = ledger._database._engine.dialect.do_commit  # type: ignore[attr-defined]

        def lost(connection: object) -> None:
            pid = connection.driver_connection.info.backend_pid  # type: ignore[attr-defined]
            if dies == "after":
                commit(connection)
            record.ask(f"SELECT pg_terminate_backend({pid}, 10000)")
            connection.driver_connection.execute("SELECT 1")  # type: ignore[attr-defined]

        dialect = ledger._database._engine.dialect  # type: ignore[attr-defined]
        dialect.do_commit = lost
        try:
            if stands:
                with ledger.transaction() as change:
                    change.append("note", {})
            else:
                with pytest.raises(LedgerLostError, match="did not happen"), ledger.transaction() as change:
                    change.append("note", {})
        finally:
            del dialect.do_commit
        assert ledger.tree().size == 1 + stands
        assert ledger.append("note", {}).seq == 1 + stands


def test_a_writer_that_hangs_is_told_of_and_not_waited_for_without_end(record: Record) -> None:
    with record.open() as ledger, record.open(busy_seconds=0.3) as other:
        with ledger.transaction() as change:
            change.append("note", {})
            with pytest.raises(LedgerStorageError, match="busy for too long"):
                other.append("note", {})
        assert other.append("note", {}).seq == 2


def test_a_read_is_one_snapshot_and_writes_nothing(record: Record) -> None:
    from sqlalchemy import text

    with record.open() as ledger:
        count = text("SELECT count(*) FROM entries")
        with ledger.reading() as connection:
            assert connection.execute(count).scalar() == 1
            ledger.append("note", {})
            assert connection.execute(count).scalar() == 1
        with pytest.raises(LedgerError, match="read-only transaction"), ledger.reading() as connection:
            connection.execute(text("DELETE FROM findings"))


def test_a_ledger_opened_for_reading_alone_cannot_write_around_it(record: Record) -> None:
    record.open().close()
    with record.open(read_only=True) as ledger:
        with pytest.raises(LedgerError, match="reading alone"):
            ledger.append("note", {})
        raw = ledger._database._engine.raw_connection()  # type: ignore[attr-defined]
        with pytest.raises(Exception, match="read-only transaction"):
            raw.driver_connection.execute("DELETE FROM findings")
        raw.close()


def test_a_durable_write_waits_for_the_disk_and_another_does_not(record: Record) -> None:
    """Also where the server's own default is off."""
    from sqlalchemy import text

    record.ask(f"ALTER ROLE {OWNER} IN DATABASE {record.name} SET synchronous_commit = off")
    asked = text("SHOW synchronous_commit")
    with record.open() as ledger:
        for durable, due in ((True, "on"), (False, "off"), (True, "on")):
            with ledger.transaction(durable=durable) as change:
                assert change.connection.execute(asked).scalar() == due
        with pytest.raises(LedgerError, match="not durable"), ledger.transaction(durable=False) as change:
            change.append("note", {})
        ledger.settle(lambda reason: pytest.fail(reason))


def test_a_forked_child_has_connections_of_its_own(record: Record) -> None:
    with record.open() as ledger:
        ledger.append("note", {})
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if ledger.append("note", {"child": True}).seq == 2 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ledger.append("note", {}).seq == 3


def test_text_that_no_database_likes_goes_in_and_comes_out_as_it_was(record: Record) -> None:
    names = [
        "a\x00b",
        "\x01",
        "\x010",
        "\x00\x01\x00",
        "é\u202e\U0001f600",
        "'; DROP TABLE entries; --",
        "%s %(a)s",
    ]
    with record.open() as ledger:
        queue = Queue(ledger)
        for number, name in enumerate(names):
            queue.add(f"s-{number}", team="a", name=name, path=name, kind="directory", words={name: name})
        for number, name in enumerate(names):
            row = queue.get(f"s-{number}")
            assert row is not None
            assert (row.name, row.path, row.data["words"]) == (name, name, {name: name})
        with pytest.raises(LedgerError, match="not valid Unicode"):
            queue.add("s-x", team="a", name="x", path="\udc80", kind="directory")
        assert queue.get("\x00") is None


def test_numbers_of_53_bits_have_room(record: Record) -> None:
    with record.open() as ledger:
        row = Queue(ledger).add("s-1", team="a", name="b", path="/c", kind="directory", uid=4_294_967_294)
        assert row.uid == 4_294_967_294
        found = {"code": "a/b", "severity": "info", "audience": "team", "stage": "s", "where": "w", "message": "m"}
        body = {"verdict": "accepted", "judged_at": "2026-11-29T15:17:00Z", "reason": "r"}
        ledger.append("verdict", {**body, "findings": [{**found, "count": 2**53 - 1}]}, submission="s-1")
        with pytest.raises(DuplicateEntryError):
            ledger.append("verdict", {**body, "findings": []}, submission="s-1")
    assert record.ask("SELECT count FROM findings") == [(2**53 - 1,)]


def test_names_compare_byte_by_byte_whatever_the_locale(postgres: Server, tmp_path: Path) -> None:
    record = make_record(tmp_path / "state", postgres)
    postgres.drop(record.name)
    postgres.execute(
        f"CREATE DATABASE {record.name} OWNER {OWNER} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    )
    with record.open() as ledger:
        for name in ("B", "a", "C"):
            Queue(ledger).add(name, team="a", name="b", path="/c", kind="directory")
    assert record.ask("SELECT id FROM submissions ORDER BY id") == [("B",), ("C",), ("a",)]
    assert record.ask('SELECT id FROM submissions ORDER BY id COLLATE "default"') == [("a",), ("B",), ("C",)]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:hunter2@db/acceptd", "password"),
        ("postgresql://me@db/acceptd?password=hunter2", "password"),
        ("postgresql://me@db/acceptd?PASSWORD=hunter2", "password"),
        ("postgresql://me@db/acceptd?p%61ssword=hunter2", "password"),
        ("postgresql://me:@db/acceptd", "password"),
        ("mysql://db/hunter2", "postgresql://"),
        ("postgresql://db/hunter2?options=-c%20x", "options"),
        ("postgresql://db/hunter2\n", "control characters"),
        ("postgresql://[db/hunter2", "malformed"),
    ],
)
def test_a_url_with_a_password_is_refused_and_nothing_of_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setenv("ACCEPTD_RECORD_URL", url)
    with pytest.raises(ConfigError, match="ACCEPTD_RECORD_URL") as told:
        Ledger.open(tmp_path)
    assert words in str(told.value)
    assert "hunter2" not in str(told.value)
    if words == "password":
        assert "PGPASSFILE" in str(told.value)


def test_a_password_comes_from_a_file_that_libpq_reads(
    own_postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record(tmp_path / "state", own_postgres)
    own_postgres.execute(f"ALTER ROLE {OWNER} PASSWORD 'swordfish'")
    (own_postgres.data / "pg_hba.conf").write_text(
        f"host all {OWNER} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
    )
    own_postgres.restart()
    with pytest.raises(LedgerStorageError, match="no password supplied"):
        record.open()
    secret = tmp_path / "pass"
    secret.touch(0o600)
    secret.write_text(f"127.0.0.1:*:*:{OWNER}:swordfish\n")
    monkeypatch.setenv("PGPASSFILE", str(secret))
    with record.open() as ledger:
        assert ledger.append("note", {}).seq == 1
    secret.write_text(f"127.0.0.1:*:*:{OWNER}:wrong\n")
    with pytest.raises(LedgerStorageError, match="password authentication failed") as told:
        record.open()
    assert "wrong" not in str(told.value)


def test_doctor_says_where_the_record_is_and_what_weakens_it(
    own_postgres: Server, record: Record, tmp_path: Path
) -> None:
    from acceptd.cli.doctor import _record

    record.open().close()  # a server of the tests' own, without fsync
    assert _record(record.state) == (
        f"PostgreSQL database {record.name!r}; fsync or full_page_writes is off: "
        "a power cut may lose or damage what was acknowledged"
    )
    sound = make_record(tmp_path / "sound", own_postgres)
    sound.open().close()
    assert _record(sound.state) == f"PostgreSQL database {sound.name!r}"
    sound.settings("postgres")
    assert "superuser" in _record(sound.state)
    own_postgres.stop()
    assert "Connection refused" in _record(sound.state)
