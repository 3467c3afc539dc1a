"""The audit's short way through an entry takes nothing in which the long one finds a difference."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.record import merkle
from acceptd.record.auditing.entries import Known, Stored, check_entry, ordinary
from acceptd.record.auditing.report import Report
from acceptd.record.canonical import canonical
from acceptd.record.database import FILE_NAME
from tests.audit_world import audited, edit, found

pytestmark = pytest.mark.unit
Row = tuple[Any, ...]
COLUMNS = ("seq", "type", "submission", "unique_key", "leaf", "leaf_hash", "recorded_at")
ODD: tuple[Any, ...] = (
    None, "", 0, 1, -1, 1.0, 2**60, "verdict", "log", "s-1", "é", b"", b"x", "2026-11-29T15:17:01Z", "x" * 5000,
)  # fmt: skip
MEMBERS = ("v", "seq", "type", "at", "submission", "body", "more")
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    2,
    1.0,
    1e-6,
    "",
    "verdict",
    "note",
    "s-2",
    [],
    {},
    [1],
    {"a": 1},
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    state: Path = audited(tmp_path_factory.mktemp("ledger") / "state")
    with sqlite3.connect(state / FILE_NAME) as raw:
        return raw.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY seq").fetchall()


def both(row: Row) -> tuple[Known | None, Known | None, list[str]]:
    """Return what the short way takes, what the long one takes, and its differences."""
    leaf = row[4]
    leaf_hash = merkle.leaf_hash(leaf if isinstance(leaf, bytes) else b"")
    report = Report()
    checked = check_entry(Stored._make(row), leaf_hash, report)
    return ordinary(row, leaf_hash), checked, [one.message for one in report.found]


def agree(row: Row) -> bool:
    """Hold both ways against one another; return whether the short one took the row."""
    short, checked, differences = both(row)
    if short is None:
        return False
    assert differences == [], row[:4]
    assert repr(short) == repr(checked)  # with the types: 1 is not true
    return True


def edited(leaf: bytes) -> Iterator[bytes]:
    """Yield leaves that are nearly this one: a member away, added or of another kind; and other spellings."""
    whole = json.loads(leaf)
    for name in MEMBERS:
        for value in VALUES:
            yield canonical({**whole, name: value})
        yield canonical({key: value for key, value in whole.items() if key != name})
    for name in whole["body"]:
        for value in VALUES:
            yield canonical({**whole, "body": {**whole["body"], name: value}})
    yield json.dumps(whole).encode()
    yield leaf + b" "
    yield leaf[:-1]
    yield leaf.replace(b'"v":1', b'"v":1.0')
    yield leaf.replace(b'"v":1', b'"v":1,"v":1')


def test_every_honest_entry_takes_the_short_way(rows: list[Row]) -> None:
    assert all(agree(row) for row in rows)


def test_a_changed_column_never_takes_the_short_way_past_a_difference(rows: list[Row]) -> None:
    taken = 0
    for row in rows:
        for at in range(len(COLUMNS)):
            for value in ODD:
                taken += agree((*row[:at], value, *row[at + 1 :]))
    assert taken > 0  # some of the odd values are what stands there


def test_a_changed_leaf_never_takes_the_short_way_past_a_difference(rows: list[Row]) -> None:
    taken = 0
    for row in rows:
        for leaf in edited(row[4]):
            leaf_hash = merkle.leaf_hash(leaf)
            taken += agree((*row[:4], leaf, leaf_hash, row[6]))
            try:
                said = json.loads(leaf)
            except ValueError:
                continue
            if isinstance(said, dict):  # who changes the leaf changes the columns with it
                follows = (said.get("seq"), said.get("type"), said.get("submission"), row[3])
                taken += agree((*follows, leaf, leaf_hash, said.get("at")))
    assert taken > 0


@pytest.mark.parametrize("value", [[], {}, [1], {"a": 1}])
@pytest.mark.parametrize("name", ["verdict", "findings", "judged_at", "statement", "bundle_digest"])
def test_a_verdict_of_another_kind_is_a_difference_and_no_end_of_the_audit(
    tmp_path: Path, name: str, value: object
) -> None:
    state = audited(tmp_path / "state")
    with sqlite3.connect(state / FILE_NAME) as raw:
        (leaf,) = raw.execute("SELECT leaf FROM entries WHERE seq = 1").fetchone()
        said = json.loads(leaf)
        changed = canonical({**said, "body": {**said["body"], name: value}})
    leaf_hash = merkle.leaf_hash(changed).hex()
    edit(state, f"UPDATE entries SET leaf = X'{changed.hex()}', leaf_hash = X'{leaf_hash}' WHERE seq = 1")
    assert "entry 1" in {where for _, where in found(state)}
