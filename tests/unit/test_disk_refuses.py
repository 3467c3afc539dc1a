"""A disk that refuses now says nothing of what is on it: nothing is burnt, forgotten or called damaged for it."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from acceptd import key_rotation
from acceptd.cell.selfcheck import require_walls
from acceptd.errors import (
    CellUnavailableError,
    ConfigError,
    LedgerError,
    LedgerStorageError,
    ReleaseError,
    StateError,
)
from acceptd.policy.policy import Policy
from acceptd.policy.trusted import read_trusted
from acceptd.record import backup, checkpoint, migrate, reserve, sqlite, tables
from acceptd.record.keys import Keyring, load_signer
from acceptd.record.keystore import own_history, pending
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary
from acceptd.record.sqlite import translated
from acceptd.release import audit as release_audit
from acceptd.release import channel as channels
from acceptd.release import memory, objects, settle
from acceptd.release.book import read_book
from acceptd.release.reconcile import reconcile
from tests.release_world import MODEL, World, memory_directory

pytestmark = pytest.mark.unit

BROKEN = (errno.EIO, errno.EMFILE)


@pytest.fixture
def world() -> Iterator[World]:
    memory.forget()
    made = World(memory_directory())
    yield made
    made.close()
    shutil.rmtree(made.root)


def unread(patched: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let the disk refuse to open whatever is called ``name``."""
    opening = objects.open_beneath

    def refuses(fd: int, path: Any, flags: int) -> int:
        if str(path).endswith(name):
            raise OSError(number, os.strerror(number), path)
        return opening(fd, path, flags)

    patched.setattr(objects, "open_beneath", refuses)


def half_done(world: World, monkeypatch: pytest.MonkeyPatch, step: str) -> str:
    """Let the promotion of a second bundle fail at a step after its ``release.json``; return its digest."""
    world.released("1.0.0")
    second = world.accepted("2.0.0")

    def fails(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error", step)

    with monkeypatch.context() as broken:
        # Once it is announced, channel.json names it, and the ledger does not yet.
        broken.setattr(*{"announced": (world.ledger, "append"), "written": (settle, "swap_symlink")}[step], fails)
        with pytest.raises((OSError, StateError)):
            world.promote(second)
    return second.digest


@pytest.mark.parametrize("number", BROKEN)
@pytest.mark.parametrize("name", ["channel.json", "release.json", "revocations.json"])
def test_a_number_that_loaders_may_have_seen_is_not_burnt_for_an_unread_file(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    digest = half_done(world, monkeypatch, "announced")
    seen = world.open(state_file=world.root / "seen.json")
    assert (seen.number, seen.bundle_digest) == (2, digest)
    with monkeypatch.context() as broken:
        unread(broken, name, number)
        done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert done.done == ()
    assert done.problems
    assert all(os.strerror(number) in line for line in done.problems), done.problems
    assert list(world.ledger.entries(kind="abandoned")) == []
    assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).problems == ()
    assert world.open(state_file=world.root / "seen.json").number == 2
    assert release_audit.examine(world.state, world.ledger, world.keys) == []


def test_a_sequence_never_falls_because_the_file_before_was_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released("1.0.0")
    for _ in range(3):
        channels.refresh(world.state, world.ledger, world.keys, clock=world.terms.clock, force=True)
    before = channels.read(world.state, world.keys, MODEL, "production")
    assert before is not None
    with monkeypatch.context() as broken:
        unread(broken, "channel.json", errno.EIO)
        done = channels.refresh(world.state, world.ledger, world.keys, clock=world.terms.clock, force=True)
    assert done.renewed == ()
    assert "cannot be read" in done.problems[0]
    assert channels.read(world.state, world.keys, MODEL, "production") == before


def test_a_list_that_was_not_read_is_not_made_anew_without_what_it_holds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signed list may know more than the ledger, an older backup: whoever cannot read it keeps it."""
    world.released("1.0.0")
    world.revoke("ab" * 32)
    held = world.revocations_file.read_bytes()
    with monkeypatch.context() as broken:
        unread(broken, "revocations.json", errno.EIO)
        with pytest.raises(OSError, match="cannot be read"):
            world.revoke("cd" * 32)
        assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).problems
        found = release_audit.examine(world.state, world.ledger, world.keys)
        assert [(one.what, one.where) for one in found] == [("release", "revocations.json")]
    assert world.revocations_file.read_bytes() == held
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    listed = channels.read_revocations(world.state, world.keys)
    assert sorted(listed.revoked) == ["ab" * 32, "cd" * 32]


def test_a_release_that_is_finished_after_a_death_is_durable_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dead process wrote can be read, and may be in memory alone: it is written anew before it is named."""
    half_done(world, monkeypatch, "written")
    path = world.release_file(2)
    data, inode = path.read_bytes(), path.stat().st_ino
    swapped: list[int] = []
    swapping = settle.swap_symlink

    def swap(*words: Any) -> None:
        swapped.append(path.stat().st_ino)
        swapping(*words)

    monkeypatch.setattr(settle, "swap_symlink", swap)
    assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).problems == ()
    assert path.read_bytes() == data
    assert swapped
    assert inode not in swapped
    assert path.stat().st_mode & 0o777 == 0o444


def test_a_rotation_that_the_disk_stopped_stays_half_done_and_is_finished(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released("1.0.0")
    old = (world.state / "keyring.json").read_bytes()
    broken: list[Exception] = [LedgerStorageError("database or disk is full"), ReleaseError("not in the store")]
    broken[1].__cause__ = OSError(errno.EIO, "Input/output error")

    def fails(*_: Any, **__: Any) -> Any:
        raise broken[0]

    with monkeypatch.context() as patched:
        patched.setattr(key_rotation, "rekey_locked", fails)
        with pytest.raises(LedgerStorageError):
            key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)
        del broken[0]
        with pytest.raises(ReleaseError):
            key_rotation.resume(world.state, world.ledger, world.terms)
    assert pending(world.state, "release")
    assert (world.state / "keyring.json").read_bytes() == old, "loaders go on with the old key"
    assert world.open().number == 1
    assert key_rotation.resume(world.state, world.ledger, world.terms)
    assert world.open().number == 2


def test_a_channel_that_is_damaged_does_not_stop_a_rotation(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.released("1.0.0")

    def fails(*_: Any, **__: Any) -> Any:
        raise ReleaseError("release 1: other bytes") from FileNotFoundError(errno.ENOENT, "no such file")

    monkeypatch.setattr(key_rotation, "rekey_locked", fails)
    done = key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)
    assert "stays as it is" in done.problems[0]


# -- the record


def test_a_connection_that_came_out_read_only_is_not_used_again(world: World) -> None:
    """SQLite opens for reading what it could not open for writing, and keeps that to itself until a write."""
    with world.ledger._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(LedgerStorageError, match="readonly"):
        world.ledger.append("note", {"first": 1})
    world.ledger.append("note", {"second": 2})


def test_the_first_to_open_a_ledger_on_a_full_disk_is_given_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of SQLite's log takes 32 KiB: without it nobody reads, let alone revokes."""
    with World(tmp_path).ledger as ledger:
        ledger.append("note", {})
    (tmp_path / "state" / reserve.NAME).write_bytes(b"room")
    monkeypatch.setattr(reserve, "LOW", 1 << 62)
    refused: list[str] = []

    class Full:
        def cursor(self) -> Full:
            return self

        def execute(self, text: str) -> None:
            if (tmp_path / "state" / reserve.NAME).exists():
                refused.append(text)
                raise sqlite.sqlite3.OperationalError("disk I/O error")

        def close(self) -> None:
            pass

    sqlite._on_connect(tmp_path / "state", Full(), type("Record", (), {"info": {}}))
    assert refused == ["PRAGMA journal_mode=WAL"]
    (tmp_path / "state" / reserve.NAME).write_bytes(b"room")
    monkeypatch.setattr(reserve, "LOW", 0)
    with pytest.raises(sqlite.sqlite3.OperationalError):
        sqlite._on_connect(tmp_path / "state", Full(), type("Record", (), {"info": {}}))


def test_a_ledger_that_cannot_be_opened_now_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    World(tmp_path).close()

    def refuses(*_: Any) -> None:
        told = sqlite.sqlite3.OperationalError("disk I/O error")
        told.sqlite_errorcode = sqlite.sqlite3.SQLITE_IOERR_WRITE
        raise told

    monkeypatch.setattr(sqlite, "_on_connect", refuses)
    with pytest.raises(LedgerStorageError) as caught:
        Ledger.open(tmp_path / "state", create=False)
    assert "backup" not in str(caught.value)


def test_a_start_whose_log_is_not_synchronised_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Refuses:
        def cursor(self) -> Refuses:
            return self

        def execute(self, _text: str) -> None:
            error = sqlite.sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite.sqlite3.SQLITE_IOERR_FSYNC
            raise error

        def close(self) -> None:
            pass

    monkeypatch.setattr(world.ledger._database._engine, "raw_connection", Refuses)
    with pytest.raises(LedgerStorageError):
        world.ledger.settle(told.append)
    assert len(told) == 1
    with pytest.raises(LedgerStorageError, match="nothing more is written"):
        world.ledger.append("note", {})


def test_a_checkpoint_that_cannot_be_read_now_ends_no_daemon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[str] = []
    notary = Notary(world.state, world.ledger, load_signer(world.state, "ledger"), None, broken.append)
    notary.begin()
    world.ledger.append("note", {})
    reading = Path.open

    def refuses(path: Path, *words: Any, **more: Any) -> Any:
        if path.suffix == ".note":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return reading(path, *words, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuses)
        notary.begin()
        notary._stopping = True
        notary.nudge()
        notary._work()
    assert broken == []
    world.ledger.append("note", {"goes": "on"})
    history = own_history(world.state, world.ledger)
    assert checkpoint.sizes(world.state) == [1]
    notary.begin()
    assert checkpoint.read(world.state, 3, history, world.ledger.origin).size == 3


def test_a_checkpoint_that_is_no_longer_true_ends_it_still(world: World) -> None:
    broken: list[str] = []
    notary = Notary(world.state, world.ledger, load_signer(world.state, "ledger"), None, broken.append)
    notary.begin()
    (world.state / "checkpoints" / f"{1:016d}.note").write_bytes(b"forged\n1\nAAAA\n\n\n")
    notary._stopping = True
    notary.nudge()
    notary._work()
    assert broken
    with pytest.raises(LedgerError, match="nothing more is written"):
        world.ledger.append("note", {})


def test_a_migration_is_done_again_in_the_second_in_which_it_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.close()
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 3)

    def fails(*_: Any) -> None:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(migrate, "_run", fails)
    for _ in range(3):
        with pytest.raises(LedgerError, match="the disk is full"):
            migrate.migrate(world.state, clock=lambda: "2026-11-29T15:17:00Z")
    names = sorted(path.name for path in (world.state / backup.FOLDER).iterdir())
    assert names == [f"ledger-v2-20261129T151700Z{number}.sqlite3" for number in ("", "1", "2")]


def test_what_is_read_of_a_book_is_what_stands_after_a_refusal(world: World) -> None:
    world.released("1.0.0")
    world.ledger._database.failed = "the disk refused a write"
    with pytest.raises(LedgerStorageError, match="nothing more is written"):
        world.released("2.0.0")
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    assert row.number == 1


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (sqlite3.SQLITE_FULL, "make room on that disk"),
        (sqlite3.SQLITE_READONLY, "let it be written: its mount, its owner, its mode"),
        (sqlite3.SQLITE_CANTOPEN | 4 << 8, "see to the file and its directory, and to how many files may be open"),
        (sqlite3.SQLITE_NOMEM, "give this process more memory"),
    ],
)
def test_a_ledger_that_the_machine_refuses_says_what_can_be_done(kind: int, remedy: str, tmp_path: Path) -> None:
    refused = sqlite3.OperationalError("refused")
    refused.sqlite_errorcode = kind
    with (
        pytest.raises(LedgerStorageError, match=f"ledger.sqlite3: refused; {remedy}$"),
        translated(tmp_path / "ledger.sqlite3"),
    ):
        raise OperationalError("INSERT", {}, refused)
    with (  # and where sqlite3 itself is asked, as a start does
        pytest.raises(LedgerStorageError, match=f"ledger.sqlite3: refused; {remedy}$"),
        translated(tmp_path / "ledger.sqlite3"),
    ):
        raise refused


def test_a_start_without_descriptors_for_its_self_check_names_the_cell_and_a_remedy(tmp_path: Path) -> None:
    class Starved:
        outer_states: dict[str, str] = {}

        def run(self, *_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.raises(
        CellUnavailableError, match="self-check job could not be given to the cell: Too many open"
    ) as told:
        require_walls(Starved(), tmp_path, Policy())  # type: ignore[arg-type]
    assert "how many files and processes" in told.value.remedy


UNREADABLE = Path("/proc/self/mem")
"""A regular file of ours that opens and whose first bytes no disk gives: EIO, which has no path of its own."""


@pytest.mark.parametrize(
    ("read", "remedy"),
    [
        (lambda: read_trusted(UNREADABLE, 10, "a policy"), "name a policy that can be read"),
        (lambda: Keyring.load(UNREADABLE), "keys are made by `acceptd init`"),
    ],
)
def test_an_error_in_the_middle_of_a_file_names_the_file(read: Callable[[], object], remedy: str) -> None:
    with pytest.raises(ConfigError) as told:
        read()
    assert (told.value.message, told.value.remedy) == (f"{UNREADABLE}: Input/output error", remedy)
