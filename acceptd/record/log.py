"""The ledger: an append-only log of canonical entries in a Merkle tree, with its projections in step.

An append is one BEGIN IMMEDIATE transaction: entry, completed tree nodes, projections and whatever the
caller adds are on disk together or not at all, and nothing is acknowledged before the commit's fsync.
The tree's state is O(log n) hashes, so an append costs the same at a hundred entries and at a million.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Connection, Row, Select, bindparam, select

from acceptd.errors import LedgerError, LedgerLostError
from acceptd.record import database, merkle, projections, tables
from acceptd.record.entry import Appended, Entry, Filter, NewEntry, decode, utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.place import Place
from acceptd.record.transaction import Transaction as Transaction
from acceptd.record.transaction import entry_row

T = TypeVar("T")
_PAGE: Final = 256
_TRIES: Final = 10
"""How often one change is tried whose server goes away in the middle; each time it is waited for."""

# Statements of the hot path, built once: building one costs more than SQLite's work on it.
_LAST: Final = (
    select(tables.entries.c.seq, tables.entries.c.leaf_hash).order_by(tables.entries.c.seq.desc()).limit(1)
)
_LEAF_HASH: Final = select(tables.entries.c.leaf_hash).where(tables.entries.c.seq == bindparam("index"))
_NODE_HASH: Final = select(tables.nodes.c.hash).where(
    tables.nodes.c.level == bindparam("level"), tables.nodes.c.idx == bindparam("index")
)


class TreeHead(NamedTuple):
    """Size and root hash of the log."""

    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """That the entry ``seq`` with these ``leaf`` bytes is in the tree of ``size`` leaves with ``root``."""

    seq: int
    leaf: bytes
    leaf_hash: bytes
    size: int
    root: bytes
    path: tuple[bytes, ...]

    def holds(self) -> bool:
        """Recompute the leaf's hash and verify the path (RFC 9162, 2.1.3.2)."""
        return merkle.leaf_hash(self.leaf) == self.leaf_hash and merkle.verify_inclusion(
            self.leaf_hash, self.seq, self.size, self.path, self.root
        )

    def as_json(self) -> dict[str, Any]:
        """Return the proof as ``release.json`` carries it: the leaf in base64, hashes in hex."""
        return {
            "seq": self.seq,
            "leaf": base64.b64encode(self.leaf).decode("ascii"),
            "leaf_hash": self.leaf_hash.hex(),
            "size": self.size,
            "root": self.root.hex(),
            "path": [step.hex() for step in self.path],
        }


class Ledger:
    """The log of one state directory. Safe from threads and beside other processes."""

    def __init__(self, store: database.Database, origin: str, clock: Callable[[], str]) -> None:
        self._database = store
        self.origin = origin
        """The log's own name, fixed at creation: ``acceptd/`` and 32 hex digits."""
        self._clock = clock
        self._frozen = ""
        self._cache: tuple[bytes, merkle.Frontier] | None = None
        self._cache_lock = threading.Lock()

    @classmethod
    def open(
        cls,
        state: Path,
        *,
        create: bool = True,
        clock: Callable[[], str] = utc_now,
        busy_seconds: float = 60.0,
        damaged: bool = False,
        read_only: bool = False,
        place: Place | None = None,
    ) -> Ledger:
        """Open the ledger of ``state``, creating it where ``create`` allows.

        It is ``<state>/ledger.sqlite3`` (0600), or the PostgreSQL database that ``[record] url`` of the state
        names; ``place`` says so whatever the settings are. ``damaged`` is the audit's: it opens a log whose tree
        is broken too, to say where. ``read_only`` opens the database for reading alone: every write raises
        LedgerError, and the engine itself would refuse it. Raises StateError where it is missing, a stranger's,
        writable by others, of a newer version or was moved, ConfigError for wrong settings, and LedgerError where
        the log has lost its entries, its name or its tree.
        """
        place = place or Place.of(state)
        if create and not read_only:
            origin = f"acceptd/{secrets.token_hex(16)}"
            first = entry_row(0, NewEntry("log", {"origin": origin}), clock())
            place.create({"origin": origin}, first)
        store = place.open(busy_seconds=busy_seconds, read_only=read_only)
        try:
            rows = database.read_meta(store)
            if not damaged:
                database.refuse_moved(store.place, rows)
            ledger = cls(store, rows["origin"], clock)
            if not damaged and ledger.tree().size == 0:
                raise LedgerError(f"{store.place}: the log has lost its entries")
        except KeyError as error:
            store.close()
            raise LedgerError(f"{store.place}: the log has lost its name (meta.origin)") from error
        except BaseException:
            store.close()
            raise
        return ledger

    def freeze(self, reason: str) -> None:
        """Refuse every write from now on: the log is not what was signed."""
        self._frozen = reason

    def settle(self, on_failed: Callable[[str], None]) -> None:
        """For the one process that owns the state: see that nothing an earlier one wrote is only in memory.

        ``on_failed`` hears, once, that the disk refused a write: from then on this process writes nothing more.
        """
        self._database.on_failed = on_failed
        self._database.settle()

    def size(self) -> int:
        """Return the bytes that the database takes."""
        return self._database.size()

    def close(self) -> None:
        """Close the connections; the last one out lets SQLite fold the WAL into the file."""
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def change(
        self,
        do: Callable[[Transaction], T],
        *,
        durable: bool = True,
        stands: Callable[[Connection], bool | None] | None = None,
    ) -> T:
        """Run ``do`` in a transaction of its own and return what it returns, when that stands.

        Where the database is a server, it may go away in the middle: ``do`` is then run again, as nothing of it
        stands; so it changes nothing but the transaction. Raises as :meth:`transaction`.
        """
        return self._again(lambda: self._changed(do, durable=durable, stands=stands))

    def look(self, do: Callable[[Connection], T]) -> T:
        """Run ``do`` on one snapshot and return what it returns; again where the server went away meanwhile."""

        def looked() -> T:
            with self._database.read() as connection:
                return do(connection)

        return self._again(looked)

    def _changed(
        self,
        do: Callable[[Transaction], T],
        *,
        durable: bool,
        stands: Callable[[Connection], bool | None] | None,
    ) -> T:
        with self.transaction(durable=durable, stands=stands) as change:
            return do(change)

    @staticmethod
    def _again(do: Callable[[], T]) -> T:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(LedgerLostError):
                return do()
        return do()

    @contextlib.contextmanager
    def transaction(
        self, *, durable: bool = True, stands: Callable[[Connection], bool | None] | None = None
    ) -> Iterator[Transaction]:
        """Give a write transaction, committed at the end, rolled back whole on any exception.

        ``durable=False`` survives a killed process but perhaps not a power cut (see ``database``);
        it is for the queue, and refused for entries. ``stands`` is :meth:`Database.write`'s, for transactions
        without an entry. Raises LedgerError once the log is frozen, and LedgerLostError where the database's
        server went away and nothing stands: :meth:`change` then tries again.
        """
        if self._frozen:
            raise LedgerError(f"nothing more is written: {self._frozen}")
        changes: list[Transaction] = []

        def found(connection: Connection) -> bool | None:
            if changes[0].last_leaf_hash is not None:
                index = changes[0].next_seq - 1
                return connection.execute(_LEAF_HASH, {"index": index}).scalar() == changes[0].last_leaf_hash
            return stands(connection) if stands is not None else None

        with self._database.write(durable=durable, stands=found) as connection:
            change = Transaction(connection, self._frontier, self._clock)
            changes.append(change)
            yield change
            if change.torn or (change.last_leaf_hash is not None and not durable):
                raise LedgerError("an entry that failed half-way, or in a transaction that is not durable")
            failpoint("record.append.before-commit")
        failpoint("record.append.after-commit")
        if change.last_leaf_hash is not None:
            self._remember(change.last_leaf_hash, change.frontier)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection on one snapshot, for the rooms' own queries."""
        with self._database.read() as connection:
            yield connection

    def append(self, kind: str, body: Mapping[str, Any], *, submission: str | None = None) -> Appended:
        """Append one entry and return when it is on disk. Raises as :meth:`Transaction.append`."""
        return self.change(lambda change: change.append(kind, body, submission=submission))

    def append_many(self, new: Sequence[NewEntry]) -> list[Appended]:
        """Append several entries in one transaction: all of them, in order, or none."""
        return self.change(
            lambda change: [change.append(item.type, item.body, submission=item.submission) for item in new]
        )

    def entry(self, seq: int) -> Entry:
        """Return one entry; raise LedgerError if there is none of this number."""
        found = next(self.entries(after=seq - 1, before=seq + 1), None)
        if found is None:
            raise LedgerError(f"there is no entry {seq}")
        return found

    def entries(
        self,
        *,
        after: int = -1,
        before: int | None = None,
        kind: str | None = None,
        submission: str | None = None,
        since: str | None = None,
    ) -> Iterator[Entry]:
        """Yield entries with ``after < seq < before``, in order, in constant memory.

        Read by pages of a key range, so that no long snapshot keeps the WAL from shrinking.
        """
        columns = tables.entries.c
        query = select(columns.seq, columns.leaf, columns.leaf_hash).order_by(columns.seq).limit(_PAGE)
        if before is not None:
            query = query.where(columns.seq < before)
        if kind is not None:
            query = query.where(columns.type == kind)
        if submission is not None:
            query = query.where(columns.submission == submission)
        if since is not None:
            query = query.where(columns.recorded_at >= since)
        while True:
            page = self._page(query.where(columns.seq > after))
            for row in page:
                yield decode(row.leaf, row.leaf_hash)
            if len(page) < _PAGE:
                return
            after = page[-1].seq

    def _page(self, query: Select[Any]) -> Sequence[Row[Any]]:
        return self.look(lambda connection: connection.execute(query).all())

    def export(self, wanted: Filter | None = None) -> Iterator[dict[str, Any]]:
        """Yield the entries that ``wanted`` keeps as JSON values, one line of ``ledger export`` each."""
        wanted = wanted or Filter()
        size = self.tree().size  # what is appended meanwhile belongs to the next export
        for entry in self.entries(before=size, kind=wanted.kind, since=wanted.since):
            if wanted.keeps(entry):
                yield entry.as_json()

    def tree(self) -> TreeHead:
        """Return size and root of the log as it stands."""
        frontier = self.look(self._frontier)
        return TreeHead(frontier.size, frontier.root())

    def proof(self, seq: int, size: int | None = None) -> InclusionProof:
        """Return the inclusion proof of entry ``seq`` in the tree of ``size`` leaves (default: all)."""
        with self._database.read() as connection:
            count = self._frontier(connection).size
            size = count if size is None else size
            if not 0 <= seq < size <= count:
                raise LedgerError(f"there is no entry {seq} in a log of {min(size, count)}")
            fetch = stored_hashes(connection)
            path = tuple(merkle.inclusion_proof(seq, size, fetch))
            leaf = connection.execute(select(tables.entries.c.leaf).where(tables.entries.c.seq == seq)).scalar()
            if not isinstance(leaf, bytes):  # SQLite's columns hold any type that somebody puts there
                raise LedgerError(f"entry {seq} has no leaf that is bytes")
            return InclusionProof(seq, leaf, fetch(0, seq), size, merkle.frontier_at(size, fetch).root(), path)

    def consistency(self, old: int, new: int | None = None) -> tuple[TreeHead, TreeHead, list[bytes]]:
        """Return the heads at both sizes and the proof that the second extends the first."""
        with self._database.read() as connection:
            count = self._frontier(connection).size
            new = count if new is None else new
            if not 0 <= old <= new <= count:
                raise LedgerError(f"the log has {count} entries: no proof from {old} to {new}")
            fetch = stored_hashes(connection)
            heads = [TreeHead(size, merkle.frontier_at(size, fetch).root()) for size in (old, new)]
            return heads[0], heads[1], merkle.consistency_proof(old, new, fetch)

    def evidence(self, digest: str) -> bytes | None:
        """Return a blob of evidence, or None where it is not (or no longer) kept."""
        with self._database.read() as connection:
            query = select(tables.evidence.c.data).where(tables.evidence.c.digest == digest)
            data = connection.execute(query).scalar()
        if data is not None and (not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != digest):
            raise LedgerError(f"evidence {digest} is not what its digest says")
        return data

    def holds_evidence(self, digest: str) -> bool:
        """Say whether a blob of evidence is kept; it is not read."""
        with self._database.read() as connection:
            query = select(tables.evidence.c.size).where(tables.evidence.c.digest == digest)
            return connection.execute(query).first() is not None

    def rebuild(self) -> None:
        """Make the projections anew from the entries, in one transaction."""
        with self.transaction() as change:
            projections.rebuild(change.connection, self.entries(before=change.next_seq))

    def _frontier(self, connection: Connection) -> merkle.Frontier:
        """Return the tree's state in this snapshot: the remembered one, unless somebody else appended."""
        last = connection.execute(_LAST).first()
        if last is None:
            return merkle.Frontier()
        with self._cache_lock:
            cache = self._cache
        if cache is not None and cache[0] == last.leaf_hash and cache[1].size == last.seq + 1:
            return cache[1]
        frontier = merkle.frontier_at(last.seq + 1, stored_hashes(connection))
        self._remember(last.leaf_hash, frontier)
        return frontier

    def _remember(self, last_leaf_hash: bytes, frontier: merkle.Frontier) -> None:
        with self._cache_lock:
            if self._cache is None or frontier.size >= self._cache[1].size:
                self._cache = (last_leaf_hash, frontier)


def stored_hashes(connection: Connection) -> merkle.Fetch:
    """Return the look-up of perfect subtrees in the database; it raises LedgerError where one is missing."""

    def fetch(level: int, index: int) -> bytes:
        if level == 0:
            found = connection.execute(_LEAF_HASH, {"index": index}).scalar()
        else:
            found = connection.execute(_NODE_HASH, {"level": level, "index": index}).scalar()
        if not isinstance(found, bytes):
            raise LedgerError(f"the tree has lost its node {index} of level {level}")
        return found

    return fetch
