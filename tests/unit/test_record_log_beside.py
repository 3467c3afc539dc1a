"""The ledger among threads, processes and forks: writers and readers lose nothing, and who waits hears it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from acceptd.errors import LedgerError
from acceptd.record import merkle
from acceptd.record.database import FILE_NAME
from tests.log_world import opened

pytestmark = pytest.mark.unit


def test_eight_writers_and_readers_lose_nothing(tmp_path: Path) -> None:
    writers, each = 8, 25
    acknowledged: list[int] = []
    problems: list[BaseException] = []
    stop = threading.Event()
    with opened(tmp_path) as ledger:

        def write(number: int) -> None:
            try:
                for n in range(each):
                    acknowledged.append(ledger.append("note", {"writer": number, "n": n}).seq)
            except BaseException as error:
                problems.append(error)

        def read() -> None:
            try:
                while not stop.is_set():
                    head = ledger.tree()
                    assert ledger.proof(head.size - 1, head.size).root == head.root
            except BaseException as error:
                problems.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in [*readers, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        for thread in readers:
            thread.join()
        assert problems == []
        assert sorted(acknowledged) == list(range(1, writers * each + 1))
        entries = list(ledger.entries())
        assert ledger.tree() == (len(entries), merkle.root_of(entry.leaf_hash for entry in entries))
        for number in range(writers):
            assert [e.body["n"] for e in entries if e.body.get("writer") == number] == list(range(each))


OTHER = """
import sys
from pathlib import Path
from acceptd.record.log import Ledger
with Ledger.open(Path(sys.argv[1])) as ledger:
    for n in range(int(sys.argv[2])):
        ledger.append("other", {"n": n})
"""


def test_entries_of_other_processes_in_between_are_seen(tmp_path: Path) -> None:
    """Also: several processes that open a fresh state directory at once agree on one log."""
    others = [subprocess.Popen([sys.executable, "-c", OTHER, str(tmp_path), "20"]) for _ in range(3)]
    with opened(tmp_path) as ledger:
        for n in range(20):
            ledger.append("note", {"n": n})
        assert [other.wait(timeout=120) for other in others] == [0, 0, 0]
        last = ledger.append("note", {"n": 20})
        entries = list(ledger.entries())
        assert last.seq == 81
        assert [entry.seq for entry in entries] == list(range(82))
        assert ledger.tree() == (82, merkle.root_of(entry.leaf_hash for entry in entries))
    assert sorted(file.name for file in tmp_path.iterdir()) == [FILE_NAME]


def test_a_forked_child_uses_connections_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append("note", {"who": "parent"})
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ledger.append("note", {"who": "child"})
                ledger.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ledger.append("note", {"who": "parent"})
        assert [entry.body.get("who") for entry in ledger.entries()] == [None, "parent", "child", "parent"]
        assert ledger.tree().root == merkle.root_of(entry.leaf_hash for entry in ledger.entries())


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.append("note", {})
    with pytest.raises(LedgerError, match="closed"):
        ledger.tree()


def test_a_writer_that_waits_too_long_hears_it_in_our_words(tmp_path: Path) -> None:
    with opened(tmp_path, busy_seconds=0.05) as ledger:
        raw = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        try:
            raw.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerError, match="kept it busy"):
                ledger.append("note", {})
            assert ledger.tree().size == 1, "readers do not wait"
        finally:
            raw.close()
        assert ledger.append("note", {}).seq == 1


def test_entries_are_written_with_full_synchronisation_and_the_queue_without(tmp_path: Path) -> None:
    def synchronous(durable: bool) -> tuple[object, object]:
        with ledger.transaction(durable=durable) as change:
            level = change.connection.exec_driver_sql("PRAGMA synchronous").scalar()
            return level, change.connection.exec_driver_sql("PRAGMA journal_mode").scalar()

    with opened(tmp_path) as ledger:
        levels = [synchronous(durable) for durable in (True, False, True, False, False, True)]
        assert levels == [(2, "wal"), (1, "wal"), (2, "wal"), (1, "wal"), (1, "wal"), (2, "wal")]
