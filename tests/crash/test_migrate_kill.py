"""kill -9 during backup and migration: the old database or the new one, never half of either."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from acceptd.record import audit, backup, failpoint, migrate, tables
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import create_keys
from acceptd.record.log import Ledger

pytestmark = pytest.mark.crash

REVISION = """
import os, signal
from alembic import op
import sqlalchemy as sa

revision, down_revision = "0003", "0002"


def upgrade():
    op.create_table("more", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("DELETE FROM findings")
    if os.environ.get("TEST_KILL") == "half-way":
        os.kill(os.getpid(), signal.SIGKILL)
    op.add_column("verdicts", sa.Column("extra", sa.Text))
"""
PLACES = [
    ("record.backup.copied", 2, 0),
    ("record.migrate.backed-up", 2, 1),
    ("half-way", 2, 1),
    ("record.migrate.before-commit", 2, 1),
    ("record.migrate.after-commit", 3, 1),
]
"""Where it is killed, the version that stands after it, and how many backups have a name."""


def killed(state: Path, scripts: Path, place: str) -> None:
    """Migrate in a child of ours, which dies at ``place``."""
    child = os.fork()
    if child == 0:
        os.environ[failpoint.VARIABLE] = os.environ["TEST_KILL"] = place
        try:
            migrate.migrate(state, scripts=scripts)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), place
    assert os.WTERMSIG(status) == signal.SIGKILL


def version(path: Path) -> tuple[int, str, bool, bool]:
    with closing(sqlite3.connect(path)) as connection:
        said = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0]
        stamp = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        more = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'more'").fetchone()
        extra = connection.execute("SELECT 1 FROM pragma_table_info('verdicts') WHERE name = 'extra'").fetchone()
    return int(said), stamp, more is not None, extra is not None


def test_a_kill_leaves_the_old_database_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    made.mkdir()
    create_keys(made)
    with Ledger.open(made) as ledger:
        ledger.append("note", {})
    scripts = tmp_path / "scripts"
    shutil.copytree(migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "v0003_test.py").write_text(REVISION)
    for number, (place, stands, backups) in enumerate(PLACES):
        state = Path(shutil.copytree(made, tmp_path / str(number)))
        with monkeypatch.context() as patched:
            patched.setattr(tables, "SCHEMA_VERSION", 3)
            killed(state, scripts, place)
            found = version(state / FILE_NAME)
            assert found == ((2, "0002", False, False), (3, "0003", True, True))[stands - 2], place
            named = [one for one in (state / backup.FOLDER).iterdir() if not one.name.startswith(".tmp-")]
            assert len(named) == backups, place
            assert all(version(one)[0] == 2 for one in named), place
            again = migrate.migrate(state, scripts=scripts, clock=lambda: "2031-01-01T00:00:00Z")
            assert (again is None) == (stands == 3), place
            assert version(state / FILE_NAME) == (3, "0003", True, True)
            assert not list((state / backup.FOLDER).glob(".tmp-*")) or stands == 3, place
            assert audit.verify(state) == []
