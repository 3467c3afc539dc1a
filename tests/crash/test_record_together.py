"""Writers and readers at once, a disk that refuses: a short form of `make soak-ledger`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from acceptd.errors import LedgerError
from acceptd.record import audit, database
from acceptd.record.keys import create_keys
from acceptd.record.log import Ledger
from tests.crash import ledger_soak

pytestmark = pytest.mark.crash


def test_writers_and_readers_together_lose_nothing_and_are_never_told_locked(tmp_path: Path) -> None:
    found = ledger_soak.soak(tmp_path, 0.5, writers=4, readers=5)
    assert found.troubles == []
    assert found.acknowledged + 1 == found.entries
    assert all(found.reads.values()), found.reads


class Refusing:
    """Stands for a disk whose n-th synchronisation fails: what SQLite says then."""

    def __init__(self, code: int) -> None:
        self.code = code

    def error(self) -> OperationalError:
        told = sqlite3.OperationalError("disk I/O error")
        told.sqlite_errorcode = self.code
        return OperationalError("COMMIT", {}, told)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_WRITE])
def test_after_a_disk_error_nothing_more_is_written_until_a_new_start(tmp_path: Path, code: int) -> None:
    """A later fsync that succeeds says nothing about pages whose own failed: the kernel counts them as clean."""
    create_keys(tmp_path)
    told: list[str] = []
    with Ledger.open(tmp_path) as ledger:
        ledger.settle(told.append)
        ledger.append("note", {"before": 1})
        with pytest.raises(LedgerError), ledger.transaction():
            raise Refusing(code).error()
        for durable in (True, False):
            with pytest.raises(LedgerError, match="nothing more is written"), ledger.transaction(durable=durable):
                pytest.fail("it was let in")
        assert len(told) == 1
        assert "start acceptd anew" in told[0]
        assert ledger.tree().size == 2, "reading goes on"
    with Ledger.open(tmp_path) as ledger:
        ledger.settle(told.append)
        ledger.append("note", {"after": 1})
        assert ledger.tree().size == 3
    assert audit.verify(tmp_path) == []


def test_a_full_disk_or_a_busy_database_is_no_disk_error(tmp_path: Path) -> None:
    create_keys(tmp_path)
    with Ledger.open(tmp_path) as ledger:
        for code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT):
            with pytest.raises(LedgerError), ledger.transaction():
                raise Refusing(code).error()
        ledger.append("note", {})


def test_a_start_moves_what_lies_in_the_write_ahead_log_into_the_database(tmp_path: Path) -> None:
    create_keys(tmp_path)
    with Ledger.open(tmp_path) as first, Ledger.open(tmp_path) as second:
        first.append("note", {})
        log = Path(f"{tmp_path / database.FILE_NAME}-wal")
        assert log.stat().st_size > 0
        second.settle(lambda _reason: None)
        assert log.stat().st_size == 0
        assert second.tree().size == 2
