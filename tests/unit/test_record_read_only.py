"""A ledger that is opened for reading alone reads what others append, and cannot be written to in any way."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from acceptd.errors import LedgerError, StateError
from acceptd.record.database import FILE_NAME
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", ["state", "a b%20#?&é;mode=rwc"])
def test_it_sees_what_others_append_and_refuses_to_write(tmp_path: Path, name: str) -> None:
    state = tmp_path / name
    state.mkdir()
    with Ledger.open(state) as writer, Ledger.open(state, read_only=True) as reader:
        appended = writer.append("note", {"text": "one"})
        assert reader.entry(appended.seq).body == {"text": "one"}
        assert reader.proof(appended.seq).holds()
        with pytest.raises(LedgerError, match="reading alone"):
            reader.append("note", {})
        with pytest.raises(LedgerError, match="reading alone"):
            Queue(reader).add("s-1", team="a", name="b", path="/c", kind="directory")
        assert writer.tree() == reader.tree()


@pytest.mark.parametrize("statement", ["DELETE FROM meta", "CREATE TABLE t (a)", "PRAGMA user_version = 7"])
def test_sqlite_itself_refuses_what_goes_around_the_ledger(tmp_path: Path, statement: str) -> None:
    Ledger.open(tmp_path).close()
    with (
        Ledger.open(tmp_path, read_only=True) as reader,
        pytest.raises((OperationalError, LedgerError), match="readonly"),
        reader.reading() as connection,
    ):
        connection.execute(text(statement))


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no ledger"):
        Ledger.open(tmp_path, read_only=True)
    assert not (tmp_path / FILE_NAME).exists()
