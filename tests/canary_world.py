"""A canary beside production, and receipts of both, without a runtime."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from acceptd.canary.evaluate import Basis, Done, People, basis, carry_out, evaluate
from acceptd.canary.figures import Evaluation
from acceptd.canary.resume import Unfinished, resume
from acceptd.policy.canary import CanaryTable
from acceptd.policy.channels import Rule
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release.advance import Release
from acceptd.release.model import Decided
from acceptd.release.receipt import Receipt
from acceptd.release.reconcile import Reconciled
from acceptd.release.rests import Rests
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from tests.receipt_world import LABELS, receipt
from tests.release_world import MODEL, World

LIMITS = CanaryTable(
    min_samples=40, rollback_samples=20, max_error_rate=0.2, max_invalid_rate=0.2, max_timeout_rate=0.2,
    max_increase=0.2, max_label_shift=0.3,
)  # fmt: skip
"""As the default ones, for samples of 40."""


def manifest(version: str, labels: Iterable[str] = LABELS, models: Iterable[str] = ("main",)) -> dict[str, Any]:
    """Return a manifest with one output with labels for each model."""
    table = [
        {
            "name": name,
            "file": f"{name}.onnx",
            "inputs": [],
            "outputs": [{"name": "probabilities", "dtype": "float32", "labels": list(labels)}],
        }
        for name in models
    ]
    return {"schema": 1, "bundle": {"id": MODEL, "version": version}, "models": table}


class CanaryWorld(World):
    """Production has 1.0.0, the canary 2.0.0."""

    def __init__(self, root: Path, **canary: Any) -> None:
        super().__init__(root)
        self.old = self.released("1.0.0", manifest=manifest("1.0.0"))
        accepted = self.accepted("2.0.0", manifest=manifest("2.0.0", **canary))
        self.new = self.promote(accepted, channel="canary")
        self.files = 0

    def copy(self, root: Path) -> CanaryWorld:
        """Return a closed world's copy below ``root``, opened."""
        made = copy(self)
        made.root, made.state = root, root / "state"
        shutil.copytree(self.root, root, symlinks=True, dirs_exist_ok=True)
        made.terms = Terms(valid_seconds=3600, clock=lambda: made.now)
        made.ledger = Ledger.open(made.state)
        made.keys = ReleaseKeys.load(made.state, made.ledger)
        return made

    def of(self, release: Release, request: object = "r-1", **changes: Any) -> Receipt:
        """Return a receipt of a release."""
        return replace(
            receipt(str(request), **changes), channel=release.channel, number=release.number,
            release_digest=release.release_digest, bundle_digest=release.bundle_digest,
        )  # fmt: skip

    def some(self, release: Release, count: int = 40, first: int = 0, **changes: Any) -> list[Receipt]:
        """Return receipts of as many requests, their labels in turn."""
        return [
            self.of(release, one, **{"label": LABELS[one % 3], **changes}) for one in range(first, first + count)
        ]

    def file(self, *receipts: Receipt | bytes) -> Path:
        """Write a file of receipts."""
        self.files += 1
        path = self.root / f"receipts-{self.files}.jsonl"
        lines = [one if isinstance(one, bytes) else one.line for one in receipts]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def basis(self) -> Basis:
        return basis(self.state, self.ledger, self.keys, MODEL, "canary", "production")

    def evaluated(self, *paths: Path, limits: CanaryTable = LIMITS) -> Evaluation:
        return evaluate(self.basis(), paths, limits, "a" * 64)

    def carried_out(
        self,
        *paths: Path,
        limits: CanaryTable = LIMITS,
        weigh: Callable[[Entry], Decided] = lambda _: Decided(""),
        between: Callable[[], object] = lambda: None,
        rule: Callable[[str], Rule] = Rule,
    ) -> tuple[Evaluation, Done]:
        """Evaluate and act; ``between`` happens after the receipts were read."""
        compared = self.basis()
        found = evaluate(compared, paths, limits, "a" * 64)
        between()
        people = People(lambda _: weigh, lambda _: lambda _: "", rule)
        return found, carry_out(self.state, self.ledger, self.keys, compared, found, people, self.terms)

    def current(self, channel: str) -> str:
        from acceptd.release.book import read_book

        row = read_book(self.ledger).current(MODEL, channel)
        return "" if row is None else row.digest

    def resumed(self, rests: Rests | None = None) -> Reconciled:
        """Do what the daemon does about evaluations that were cut off."""
        people = People(lambda _: lambda _: Decided(""), lambda _: lambda _: "")
        found = Unfinished(self.ledger).cut_off()
        return resume(self.state, self.ledger, self.keys, found, people, terms=self.terms, rests=rests)
