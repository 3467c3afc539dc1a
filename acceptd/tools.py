"""What an acceptance works with, in one place; shared by all submissions, safe from threads."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from acceptd.cell import cgroup
from acceptd.cell.client import Cell
from acceptd.cell.supply import Supplies
from acceptd.compare.client import Comparer
from acceptd.intake.client import SealerClient

SEALERS: Final = 4
"""Sealer processes that are kept at most."""


class Cells:
    """A cell for each worker, made when it is first asked for. Safe from threads.

    Each takes warm parents of its own, so that a crash in one worker's submission does not retire the
    parent in which another's runs. The supplies, and what stands spare in them, are shared.

    ``one`` for all workers: a suite starts no more parents than it needs, and waits for none but after a crash.
    ``spare``: one stands ready from :meth:`keep_spares` on, or from the first crash.
    """

    def __init__(
        self,
        sealed: Path,
        *,
        spare: bool,
        on_replaced: Callable[[str], None],
        store: Path | None = None,
        one: bool = False,
    ) -> None:
        cgroup.area()  # first: it moves this process, and what starts later is born in its leaf
        self._sealed = sealed
        self._on_replaced = on_replaced
        self._one = one
        self._supplies = Supplies(sealed, spare=spare, later=True, store=store)
        self._lock = threading.Lock()
        self._cells: dict[int, Cell] = {}

    def at(self, slot: int) -> Cell:
        """Return the cell of one worker."""
        slot = 0 if self._one else slot
        with self._lock:
            if slot not in self._cells:
                self._cells[slot] = Cell(self._sealed, supplies=self._supplies, on_replaced=self._on_replaced)
            return self._cells[slot]

    def apart(self) -> Cell:
        """Return a fresh cell for work that must leave no trace in a later job's time; the caller closes it.

        Its warm parents are used for nothing else before or after.
        """
        return Cell(self._sealed, supplies=self._supplies, on_replaced=self._on_replaced)

    def keep_spares(self) -> None:
        """Start what shall stand spare now, and keep it: whoever has begun has processors for it."""
        self._supplies.keep()

    def close(self) -> None:
        """End all cells and what stands spare; all work in them has ended before."""
        with self._lock:
            for cell in self._cells.values():
                cell.close()
        self._supplies.close()


@dataclass(frozen=True, slots=True)
class Tools:
    """Cells, comparer and sealer with the places they work in. A context manager that closes them."""

    cells: Cells
    comparer: Comparer
    sealer: SealerClient
    sealed: Path
    temporary: Path
    secret: bytes
    """The acceptor's own: with the bundle digest it makes the probes' seed, so no model is built to pass them."""

    def probe_seed(self, bundle_digest: str) -> str:
        """Return the seed of one bundle's probes, hex of HMAC-SHA256(secret, digest); only it enters the cell."""
        return hmac.digest(self.secret, bundle_digest.encode(), "sha256").hex()

    @property
    def cell(self) -> Cell:
        """The first worker's cell, for who asks about the host and not about a submission."""
        return self.cells.at(0)

    @classmethod
    def open(
        cls,
        sealed: Path,
        temporary: Path,
        *,
        spare: bool,
        store: Path | None = None,
        secret: bytes = b"",
        on_replaced: Callable[[str], None] = lambda _reason: None,
        lanes: int = 1,
        durable: bool = True,
        one_cell: bool = False,
        compare_later: bool = False,
    ) -> Self:
        """Start everything; ``spare`` keeps a second warm parent ready (a daemon, a suite): see :class:`Cells`.

        ``lanes``: how many submissions may be under way, and so many sealers are kept. ``durable`` off:
        what is sealed need not outlive the process. ``one_cell``: all workers share one.
        ``compare_later``: whoever opened starts the comparer, or the first comparison does.

        ``store`` is the directory of approved bundles by digest, where there is one.

        ``on_replaced`` is told why a warm parent is replaced.
        """
        comparer = Comparer()
        if not compare_later:
            comparer.start()
        return cls(
            cells=Cells(sealed, spare=spare, on_replaced=on_replaced, store=store, one=one_cell),
            comparer=comparer,
            sealer=SealerClient(ready=min(lanes, SEALERS), durable=durable),
            sealed=sealed,
            temporary=temporary,
            secret=secret or secrets.token_bytes(32),
        )

    def close(self) -> None:
        """End every helper process; all work with them has ended before."""
        self.cells.close()
        self.comparer.close()
        self.sealer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
