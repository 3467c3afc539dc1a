"""What must hold of a state after whatever happened to a process that worked on it.

``current`` is the old or the new release, whole, signed and in the ledger; numbers never repeat or fall; no
approved bundle is lost; the log is what it was, and more; what was acknowledged stands.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd import key_rotation
from acceptd.intake.files import remove_temporaries
from acceptd.record import anchor, audit, backup, checkpoint
from acceptd.record.keys import load_keyring
from acceptd.record.keystore import open_signer, own_history, pending
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.record.tables import STATES
from acceptd.release import audit as release_audit
from acceptd.release import channel as channels
from acceptd.release import memory, store
from acceptd.release.book import read_book
from acceptd.release.reconcile import reconcile
from acceptd.release.settle import Terms
from acceptd.release.signers import Auditor
from acceptd.retention import audit as retention_audit
from acceptd.retention import collect as retention
from tests.release_promises import Place, Promises
from tests.release_world import NOON, World


@dataclass(frozen=True, slots=True)
class Before:
    """What stood before: leaf hashes, bundles in the store, the highest number of each channel."""

    leaves: tuple[bytes, ...]
    stored: frozenset[str]
    numbers: dict[Place, int]


def remember(root: Path) -> Before:
    """Return what stands in the state below ``root``, and let loaders remember it too."""
    Promises(root / "state", root, NOON).standing()
    memory.forget()
    world = World(root)
    try:
        book = read_book(world.ledger)
        return Before(
            tuple(entry.leaf_hash for entry in world.ledger.entries()),
            frozenset(store.digests(world.state)),
            {place: max(rows) for place, rows in book.channels.items()},
        )
    finally:
        world.close()


def look(root: Path) -> None:
    """Assert, before anybody puts anything right, that loaders are given something whole, or an error."""
    Promises(root / "state", root, NOON).standing()


def _audited(root: Path) -> World:
    """Return a world without private keys: while a rotation is half done nobody may use them."""
    world = World.__new__(World)
    world.root, world.state, world.now = root, root / "state", NOON
    world.terms = Terms(valid_seconds=3600, clock=lambda: world.now)
    world.ledger = Ledger.open(world.state, create=False)
    world.keys = Auditor.of(own_history(world.state, world.ledger))  # type: ignore[assignment]
    return world


def restart(root: Path, before: Before, acknowledged: Sequence[Sequence[Any]] = ()) -> None:
    """Do what the daemon's start does, and assert that all is in line and what was acknowledged stands."""
    memory.forget()
    world = _audited(root)
    try:
        state, ledger = world.state, world.ledger
        ledger.settle(lambda _reason: None)
        key_rotation.resume(state, ledger, world.terms)
        # What the first run of the retention does, and the next backup: until then temporary names may lie there.
        assert retention.sweep(state) == []
        if (state / backup.FOLDER).exists():
            assert remove_temporaries(state / backup.FOLDER) == []
        assert not any(pending(state, role) for role in ("ledger", "release", "revocation"))
    finally:
        world.close()
    world = World(root)  # with the keys that are in use now
    try:
        done = reconcile(state, world.ledger, world.keys, terms=world.terms)
        assert done.problems == ()
        assert reconcile(state, world.ledger, world.keys, terms=world.terms).done == (), (
            "it takes one reconciliation"
        )
        log(world, before)
        releases(world, before)
        for words in acknowledged:
            stands(root, world, before, words)
        signer, history = open_signer(state, "ledger"), own_history(state, world.ledger)
        place = anchor.Directory(root / "anchor") if (root / "anchor").is_dir() else None
        assert checkpoint.write(state, world.ledger, signer, history, place).size == world.ledger.tree().size
    finally:
        world.close()
    differences(root)


def log(world: World, before: Before) -> None:
    """Assert that the log begins as it was."""
    leaves = tuple(entry.leaf_hash for entry in world.ledger.entries())
    assert leaves[: len(before.leaves)] == before.leaves, "entries were lost or changed"


def differences(root: Path) -> None:
    """Assert that the audits of log, releases, store and kept bundles find nothing."""
    state = root / "state"
    assert audit.verify(state) == []
    with Ledger.open(state, create=False) as ledger:
        keys = Auditor.of(own_history(state, ledger))
        assert release_audit.examine(state, ledger, keys) == []
        assert retention_audit.examine(state, ledger) == []


def releases(world: World, before: Before) -> None:
    """Assert the promises about releases, and that numbers and bundles of before are not forgotten."""
    Promises(world.state, world.root, NOON).in_line(audited=False)
    book = read_book(world.ledger)
    for place, number in before.numbers.items():
        assert max(book.channels[place]) >= number, "a number was forgotten"
    gone = {item["name"] for entry in world.ledger.entries(kind="removed") for item in entry.body["items"]}
    lost = before.stored - set(store.digests(world.state)) - gone
    assert not lost, f"bundles were lost: {lost}"


# -- what was acknowledged


def stands(root: Path, world: World, before: Before, words: Sequence[Any]) -> None:
    """Assert that one acknowledgement still holds."""
    what, *more = words
    _STANDS[what](root, world, before, *more)


def _entry(_root: Path, world: World, _before: Before, seq: int, leaf_hash: str, _when: str = "") -> None:
    assert world.ledger.entry(seq).leaf_hash.hex() == leaf_hash


def _queue(_root: Path, world: World, _before: Before, submission: str, state: str) -> None:
    row = Queue(world.ledger).get(submission)
    assert row is not None
    assert STATES.index(row.state) >= STATES.index(state)


def _checkpoint(root: Path, world: World, _before: Before, size: int) -> None:
    history = own_history(world.state, world.ledger)
    assert checkpoint.read(world.state, size, history, world.ledger.origin).size == size
    kept = anchor.Directory(root / "anchor").last(world.ledger.origin)
    assert kept is not None
    assert checkpoint.verify(kept, history, world.ledger.origin).size >= size


def _outbox(root: Path, _world: World, _before: Before, place: str) -> None:
    folder = root / "outbox" / place
    assert json.loads((folder / "verdict.json").read_bytes())["verdict"]
    assert json.loads((folder / "statement.json").read_bytes())["payload"]
    assert "</html>" in (folder / "report.html").read_text()[-20:]


def _key(_root: Path, world: World, _before: Before, role: str, key_id: str) -> None:
    assert open_signer(world.state, role).key_id == key_id
    assert [key.key_id for key in load_keyring(world.state).for_role(role)] == [key_id]


def _migrated(root: Path, _world: World, _before: Before, version: int) -> None:
    assert stored_version(root) == version


def stored_version(root: Path) -> int:
    """Return the schema version of the database below ``root``."""
    with contextlib.closing(sqlite3.connect(root / "state" / "ledger.sqlite3")) as raw:
        return int(raw.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0])


def _backup(root: Path, _world: World, before: Before, place: str) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{root / place}?mode=ro&immutable=1", uri=True)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("SELECT count(*) FROM entries").fetchone()[0] >= len(before.leaves)


def _reserve(_root: Path, world: World, _before: Before) -> None:
    assert (world.state / "reserve").stat().st_blocks > 0


def _stored(_root: Path, world: World, _before: Before, digest: str) -> None:
    assert store.verify(world.state, digest)


def _released(
    _root: Path, world: World, _before: Before, model_id: str, channel: str, number: int, digest: str
) -> None:
    rows = {row.number: row for row in read_book(world.ledger).rows(model_id, channel)}
    assert rows[number].digest == digest
    assert rows[number].release_digest


def _revoked(_root: Path, world: World, _before: Before, digest: str, number: int) -> None:
    assert digest in read_book(world.ledger).revoked
    listed = channels.read_revocations(world.state, world.keys)
    assert digest in listed.revoked
    assert listed.number >= number


def _refreshed(_root: Path, world: World, _before: Before, model_id: str, channel: str, sequence: int) -> None:
    facts = channels.read(world.state, world.keys, model_id, channel)
    assert facts is not None
    assert facts.sequence >= sequence


def _gone(_root: Path, world: World, _before: Before, place: str) -> None:
    assert not os.path.lexists(world.state / place)


def _started(*_: Any) -> None:
    pass  # all that it did is looked at anyway


_STANDS: Final = {
    "entry": _entry,
    "queue": _queue,
    "checkpoint": _checkpoint,
    "outbox": _outbox,
    "key": _key,
    "migrated": _migrated,
    "backup": _backup,
    "reserve": _reserve,
    "stored": _stored,
    "released": _released,
    "revoked": _revoked,
    "refreshed": _refreshed,
    "gone": _gone,
    "started": _started,
}


def copy(base: Path, root: Path) -> Path:
    """Return ``root``, made anew as a copy of ``base``."""
    shutil.rmtree(root, ignore_errors=True)
    return Path(shutil.copytree(base, root, symlinks=True))


def after(root: Path, before: Before, acknowledged: Sequence[Sequence[Any]]) -> None:
    """Assert that the work, done again in peace, went through and left all in line."""
    memory.forget()
    world = World(root)
    try:
        log(world, before)
        releases(world, before)
        for words in acknowledged:
            stands(root, world, before, words)
    finally:
        world.close()
