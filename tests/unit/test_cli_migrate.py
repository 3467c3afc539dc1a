"""Who migrates: the daemon before it opens anything, and `acceptd ledger migrate` beside no daemon."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from acceptd import daemon as daemons
from acceptd.cli import ledger as commands
from acceptd.config import Paths, Settings
from acceptd.daemon_lock import acquire
from acceptd.errors import ConfigError, StateError
from acceptd.record import migrate, tables
from acceptd.record.database import FILE_NAME
from acceptd.record.log import Ledger

pytestmark = pytest.mark.unit
REVISION = """
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade():
    op.execute("CREATE TABLE more (id INTEGER)")
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A state of version 2 under an acceptd of version 3."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "v0003_test.py").write_text(REVISION)
    found = Paths(tmp_path / "state")
    for directory, _ in found.directories():
        directory.mkdir(parents=True, exist_ok=True)
    Ledger.open(found.state).close()
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(migrate.migrate, "__kwdefaults__", migrate.migrate.__kwdefaults__ | {"scripts": scripts})
    return found


def test_the_daemon_migrates_before_it_opens_the_ledger(paths: Paths) -> None:
    one = daemons.Daemon(paths, Settings())
    with ExitStack() as stack, pytest.raises(ConfigError, match="key"):  # it has no keys: that is what comes next
        one.site.open(stack)
    with Ledger.open(paths.state, create=False) as ledger:
        assert ledger.tree().size == 1
    assert len(list(paths.backups.iterdir())) == 1


def test_the_command_migrates_and_tells_where_the_old_one_lies(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.migrate(paths.state)
    (backup,) = paths.backups.iterdir()
    told = f"ledger: schema version 2 is now 3; as it was, it lies in {backup}\n"
    assert capsys.readouterr().out == told
    Ledger.open(paths.state, create=False).close()
    commands.migrate(paths.state)
    assert "at schema version" in capsys.readouterr().out
    assert len(list(paths.backups.iterdir())) == 1


def test_the_command_does_nothing_beside_a_daemon(paths: Paths) -> None:
    held = acquire(paths.lock)
    before = (paths.state / FILE_NAME).read_bytes()
    try:
        with pytest.raises(StateError, match="another daemon"):
            commands.migrate(paths.state)
    finally:
        os.close(held)
    assert (paths.state / FILE_NAME).read_bytes() == before
    assert not paths.backups.exists()
