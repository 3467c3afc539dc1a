"""The works that are done while a call fails, each on a copy of one prepared state.

A work acknowledges what it was told stands (a line of words each, see :mod:`tests.crash.faults.whole`), and
raises what acceptd's commands would say in one line.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd import key_rotation
from acceptd.errors import ReleaseError, StateError
from acceptd.evidence import Sealed
from acceptd.record import anchor, attest, backup, checkpoint, migrate, reserve, tables
from acceptd.record.canonical import document_digest
from acceptd.record.failpoint import VARIABLE
from acceptd.record.keys import load_signer
from acceptd.record.keystore import open_signer, own_history
from acceptd.record.log import Ledger, Transaction
from acceptd.record.queue import Queue
from acceptd.release import channel as channels
from acceptd.release import memory, store
from acceptd.release.layout import store_lock
from acceptd.release.reconcile import reconcile
from acceptd.report.outbox import write_outbox
from tests.release_world import MODEL, Accepted, World
from tests.report_world import report
from tests.retention_world import Kept

Ack = Callable[..., None]
DIGEST: Final = "ab" * 32
REVISION: Final = """
from alembic import op
import sqlalchemy as sa

revision, down_revision = "0003", "0002"


def upgrade():
    op.create_table("more", sa.Column("id", sa.Integer, primary_key=True))
    op.add_column("verdicts", sa.Column("extra", sa.Text))
"""


@dataclass(frozen=True, slots=True)
class Work:
    """One work. ``do`` is given the root, where to acknowledge, and where to leave its world."""

    name: str
    do: Callable[[Path, Ack, dict[str, Any]], None]
    base: str = "both"
    """Which prepared state it begins with (:func:`prepare`)."""
    room: str = "release"


# -- the states that they begin with


def prepare(home: Path, base: str) -> Path:
    """Make a state; return its root. ``both``: two releases and all that could be done next."""
    root = home / base
    root.mkdir(parents=True)
    world = Kept(root)
    facts: dict[str, Any] = {}
    for number in (1, 2, 3):
        accepted = world.accepted(f"{number}.0.0")
        world.promote(accepted)
        facts[f"v{number}"] = accepted.__dict__ | {}
    world.promote(_accepted(facts, "v1"), channel="canary")
    facts["v4"] = _waiting(world, "4.0.0")
    _held(world)
    world.output("a", 50)
    Queue(world.ledger).add("s-9", team="mosaic", name="d", path="/p", kind="directory")
    (root / "anchor").mkdir()
    history = own_history(world.state, world.ledger)
    checkpoint.write(world.state, world.ledger, _signer(world.state), history, anchor.Directory(root / "anchor"))
    shutil.copytree(migrate.SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "scripts" / "versions" / "v0003_test.py").write_text(REVISION)
    (root / "facts.json").write_text(json.dumps(facts))
    world.open(state_file=root / "seen.json")
    world.close()
    if base == "cut":
        _cut(root)
    return root


def _accepted(facts: dict[str, Any], name: str) -> Accepted:
    return Accepted(**{key: facts[name][key] for key in ("digest", "manifest", "verdict_seq")})


def _waiting(world: World, version: str) -> dict[str, Any]:
    """Return a bundle that was accepted and is not yet in the store."""
    manifest = {
        "schema": 1,
        "bundle": {"id": MODEL, "version": version},
        "models": [{"name": "main", "file": "model.onnx", "inputs": [], "outputs": []}],
    }
    path, sealed = world.sealed({"model.onnx": version.encode() * 900, "data/labels.txt": b"x"})
    path = path.rename(path.with_name("sub-waiting"))
    seq = _verdict(world, "sub-waiting", sealed, manifest, "accepted")
    place = str(path.relative_to(world.root))
    told = sealed.model_dump(mode="json")
    return {"digest": sealed.digest, "manifest": manifest, "verdict_seq": seq, "sealed": told, "place": place}


def _held(world: World) -> None:
    queue = Queue(world.ledger)
    queue.add("s-held", team="mosaic", name="drop", path="/p", kind="directory")
    path, sealed = world.sealed({"model.onnx": b"held" * 100, "deep/er/x": b"x"})
    _verdict(world, "s-held", sealed, {"bundle": {"id": MODEL}}, "held")
    told = sealed.model_dump(mode="json")
    queue.advance("s-held", "done", bundle_digest=sealed.digest, model=MODEL, verdict="held", sealed=told)
    (world.state / "quarantine" / "s-held").mkdir(parents=True)
    os.rename(path, world.state / "quarantine" / "s-held" / "bundle")


def _body(state: Path, submission: str, sealed: Sealed, manifest: dict[str, Any], verdict: str) -> dict[str, Any]:
    statement = attest.verdict_statement(
        submission=submission, verdict=verdict, bundle_id=MODEL, bundle_digest=sealed.digest,
        files=[(file.path, file.sha256) for file in sealed.files], findings=[],
        predicate={"manifest_digest": document_digest(manifest)},
    )  # fmt: skip
    return {
        "verdict": verdict, "judged_at": "2026-11-29T11:57:00Z", "reason": "as it is", "findings": [],
        "model": MODEL, "bundle_digest": sealed.digest, "manifest_digest": document_digest(manifest),
        "statement": attest.sign_statement(statement, _signer(state)),
    }  # fmt: skip


def _verdict(world: World, submission: str, sealed: Sealed, manifest: dict[str, Any], verdict: str) -> int:
    body = _body(world.state, submission, sealed, manifest, verdict)
    return world.ledger.append("verdict", body, submission=submission).seq


def _signer(state: Path) -> Any:
    return load_signer(state, "ledger")


def _cut(root: Path) -> None:
    """Let a promotion die once ``release.json`` is written, and a revocation before its list is."""
    for work, place in (("promote", "release.promote.written"), ("revoke", "release.revoke.recorded")):
        pid = os.fork()
        if pid == 0:
            os.environ[VARIABLE] = place
            try:
                WORKS[work].do(root, lambda *_: None, {})
            finally:
                os._exit(70)
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), place


# -- the record


def _open(root: Path, place: dict[str, Any]) -> World:
    memory.forget()
    world = place["world"] = World(root)
    return world


def _append(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    """Queue a submission and record its verdict with evidence."""
    world = _open(root, place)
    queue = Queue(world.ledger)
    row = queue.get("s-1")
    if row is None:
        row = queue.add("s-1", team="mosaic", name="d", path="/p", kind="directory")
    ack("queue", "s-1", "claimed")
    if row.state == "judged":
        return world.close()
    queue.note_start("s-1", "sealed")
    queue.advance("s-1", "sealed")
    facts = _facts(root)
    sealed = Sealed.model_validate(facts["v4"]["sealed"])
    body = _body(world.state, "s-1", sealed, facts["v4"]["manifest"], "rejected")

    def entries(change: Transaction) -> list[Any]:
        change.put_evidence(b"evidence " * 3000)
        return [change.append("note", {"first": 1}), change.append("verdict", body, submission="s-1")]

    for one in queue.advance("s-1", "judged", entries=entries, model=MODEL):
        ack("entry", one.seq, one.leaf_hash.hex())
    ack("queue", "s-1", "judged")
    return world.close()


def _checkpoint(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    world = _open(root, place)
    one = world.ledger.append("note", {"seal": "me"})
    ack("entry", one.seq, one.leaf_hash.hex())
    history = own_history(world.state, world.ledger)
    done = checkpoint.write(
        world.state, world.ledger, _signer(world.state), history, anchor.Directory(root / "anchor")
    )
    ack("checkpoint", done.size)
    world.close()


def _outbox(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    world = _open(root, place)
    statement = next(world.ledger.entries(kind="verdict")).body["statement"]
    write_outbox(root / "outbox", "mosaic", "s-1", report(), statement)
    ack("outbox", "mosaic/s-1")
    Queue(world.ledger).advance("s-9", "sealed")
    world.close()


def _rotate(role: str) -> Callable[[Path, Ack, dict[str, Any]], None]:
    def do(root: Path, ack: Ack, place: dict[str, Any]) -> None:
        world = _open(root, place)
        done = key_rotation.rotate(world.state, world.ledger, role, reason="age", terms=world.terms)
        ack("key", role, done.rotation.new.key_id)
        ack("entry", done.seq, world.ledger.entry(done.seq).leaf_hash.hex())
        if done.problems:
            raise StateError(done.problems[0])
        world.close()

    return do


def _migrate(root: Path, ack: Ack, _place: dict[str, Any]) -> None:
    tables.SCHEMA_VERSION = 3  # type: ignore[misc] # as a later acceptd has it
    try:
        made = migrate.migrate(root / "state", scripts=root / "scripts")
    finally:
        tables.SCHEMA_VERSION = 2  # type: ignore[misc]
    if made is not None:
        ack("migrated", made.after)
        assert made.backup is not None
        ack("backup", str(made.backup.relative_to(root)))


def _backup(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    world = _open(root, place)
    name = f"ledger-v2-20261129T1157{len(list(world.state.glob('backups/l*'))):02d}Z.sqlite3"
    done = backup.online_backup(world.state / "ledger.sqlite3", world.state / "backups", name)
    ack("backup", str(done.path.relative_to(root)))
    world.close()


def _reserve(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    world = _open(root, place)
    if not reserve.keep(world.state, 1 << 20):
        raise StateError("no room for the ledger's reserve")
    ack("reserve")
    world.close()


# -- the releases


def _facts(root: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((root / "facts.json").read_text())
    return facts


def _promote(channel: str) -> Callable[[Path, Ack, dict[str, Any]], None]:
    def do(root: Path, ack: Ack, place: dict[str, Any]) -> None:
        world = _open(root, place)
        fact = _facts(root)["v4"]
        with store_lock(world.state, shared=True):
            store.put(world.state, root / fact["place"], Sealed.model_validate(fact["sealed"]))
            ack("stored", fact["digest"])
            made = world.promote(_accepted({"v4": fact}, "v4"), channel=channel)
        ack("released", MODEL, channel, made.number, made.bundle_digest)
        world.close()

    return do


def _rollback(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    world = _open(root, place)
    made = world.rollback(_facts(root)["v1"]["digest"])
    ack("released", MODEL, "production", made.number, made.bundle_digest)
    world.close()


def _revoke(*, rollback: bool) -> Callable[[Path, Ack, dict[str, Any]], None]:
    def do(root: Path, ack: Ack, place: dict[str, Any]) -> None:
        world = _open(root, place)
        digest = _facts(root)["v3"]["digest"]
        done = world.revoke(digest, rollback=rollback)
        ack("revoked", digest, done.number)
        for made in done.rollbacks:
            ack("released", made.model_id, made.channel, made.number, made.bundle_digest)
        if done.problems:
            raise ReleaseError(done.problems[0])
        world.close()

    return do


def _refresh(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    world = _open(root, place)
    done = channels.refresh(
        world.state, world.ledger, world.keys, valid_seconds=3600, clock=lambda: world.now + 60, force=True
    )
    for model_id, channel in done.renewed:
        ack("refreshed", model_id, channel, int(world.now + 60))
    if done.problems:
        raise ReleaseError(done.problems[0])
    world.close()


def _gc(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    memory.forget()
    world = place["world"] = Kept(root)
    done = world.collect(11)
    for one in done.gone:
        ack("gone", one.thing.place)
    if done.problems:
        raise StateError(done.problems[0])
    world.close()


def start(root: Path, ack: Ack, place: dict[str, Any]) -> None:
    """Do what a daemon's start does about record and releases."""
    memory.forget()
    ledger = Ledger.open(root / "state", create=False)
    ledger.close()
    world = _open(root, place)
    world.ledger.settle(lambda _reason: None)
    for _ in key_rotation.resume(world.state, world.ledger, world.terms):
        pass
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    if done.problems:
        raise ReleaseError(done.problems[0])
    signer, history = open_signer(world.state, "ledger"), own_history(world.state, world.ledger)
    checkpoint.write(world.state, world.ledger, signer, history, anchor.Directory(root / "anchor"))
    ack("started")
    world.close()


WORKS: Final = {
    work.name: work
    for work in (
        Work("verdict", _append, room="record"),
        Work("checkpoint", _checkpoint, room="record"),
        Work("outbox", _outbox, room="record"),
        Work("rotate-release", _rotate("release"), room="record"),
        Work("rotate-ledger", _rotate("ledger"), room="record"),
        Work("migrate", _migrate, room="record"),
        Work("backup", _backup, room="record"),
        Work("reserve", _reserve, room="record"),
        Work("promote", _promote("production")),
        Work("promote-first", _promote("staging")),
        Work("rollback", _rollback),
        Work("revoke", _revoke(rollback=False)),
        Work("revoke-rollback", _revoke(rollback=True)),
        Work("refresh", _refresh),
        Work("gc", _gc),
        Work("start", start, base="cut"),
    )
}
