"""A local check starts its helpers in an order that leaves the processors to the sealing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd import local, tools
from acceptd.compare import client
from acceptd.prior import NO_LEDGER

pytestmark = pytest.mark.unit


class _Helper:
    """Stands for a helper process."""

    def __init__(self, *_: object, **__: object) -> None:
        self.started = 0

    def start(self) -> None:
        self.started += 1


def test_the_comparer_starts_once_a_bundle_is_sealed_and_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparer, seen = _Helper(), []

    class Staged:
        def __init__(self, *_: object, progress: Callable[[str], None]) -> None:
            self.progress = progress

        def run(self) -> str:
            for stage in ("seal", "manifest", "run"):
                self.progress(stage)
                seen.append((stage, comparer.started > 0))
            return "judged"

    monkeypatch.setattr(local, "Acceptance", Staged)
    place: Any = SimpleNamespace(rules=None, tools=SimpleNamespace(comparer=comparer))
    told: list[str] = []
    hold: Any = None
    outcome: Any = local._judge(place, tmp_path, "check-1", "*", told.append, hold, NO_LEDGER)
    assert outcome == "judged"
    assert told == ["seal", "manifest", "run"]
    assert seen == [("seal", False), ("manifest", True), ("run", True)]


@pytest.mark.parametrize("later", [False, True])
def test_a_daemon_and_a_suite_have_a_comparer_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    for name in ("Comparer", "Cells", "SealerClient"):
        monkeypatch.setattr(tools, name, _Helper)
    made: Any = tools.Tools.open(tmp_path, tmp_path, spare=False, compare_later=later).comparer
    assert made.started == (not later)


def test_starting_a_comparer_that_is_there_waits_for_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite's bundles share one: each start would else wait until another bundle's is compared."""
    comparer = client.Comparer(uid=None, interpreter="/bin/false")
    spawned: Any = []
    monkeypatch.setattr(
        client.Comparer, "_spawn", lambda self: spawned.append(1) or setattr(self, "_socket", object())
    )
    comparer.start()
    assert spawned == [1]
    comparer._process = SimpleNamespace(poll=lambda: None)  # type: ignore[assignment]
    with comparer._lock:  # a comparison is under way
        comparer.start()
    assert spawned == [1]
