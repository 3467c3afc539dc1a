"""What an acceptance works with, in one place; shared by all submissions, safe from threads."""

from __future__ import annotations

import hmac
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from acceptd.cell.client import Cell
from acceptd.compare.client import Comparer
from acceptd.intake.client import SealerClient


@dataclass(frozen=True, slots=True)
class Tools:
    """Cell, comparer and sealer with the places they work in. A context manager that closes them."""

    cell: Cell
    comparer: Comparer
    sealer: SealerClient
    jobs: ThreadPoolExecutor
    """One thread for each core: jobs of one submission run side by side as cores allow."""
    sealed: Path
    temporary: Path
    secret: bytes
    """The acceptor's own: with the bundle digest it makes the probes' seed, so no model is built to pass them."""

    def probe_seed(self, bundle_digest: str) -> str:
        """Return the seed of one bundle's probes, hex of HMAC-SHA256(secret, digest); only it enters the cell."""
        return hmac.digest(self.secret, bundle_digest.encode(), "sha256").hex()

    @classmethod
    def open(cls, sealed: Path, temporary: Path, *, cores: int, spare: bool, secret: bytes = b"") -> Self:
        """Start everything; ``spare`` keeps a second warm parent ready (a daemon, a suite)."""
        comparer = Comparer()
        comparer.start()
        return cls(
            cell=Cell(sealed, spare=spare),
            comparer=comparer,
            sealer=SealerClient(),
            jobs=ThreadPoolExecutor(cores, thread_name_prefix="job"),
            sealed=sealed,
            temporary=temporary,
            secret=secret or secrets.token_bytes(32),
        )

    def close(self) -> None:
        """Let running jobs finish, then end every helper process."""
        self.jobs.shutdown(wait=True, cancel_futures=True)
        self.cell.close()
        self.comparer.close()
        self.sealer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
