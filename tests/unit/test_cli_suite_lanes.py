"""``check --suite``: how many bundles are judged side by side."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from acceptd import local
from acceptd.cli import check
from acceptd.report.targets import Targets

CORES = os.cpu_count() or 1


class _StoppedError(Exception):
    """The suite is about to start."""


@pytest.mark.parametrize(
    ("cases", "workers", "lanes"),
    [(check.MANY, 0, CORES + 1), (check.MANY - 1, 0, CORES), (check.MANY, 1, 1), (1, CORES + 3, CORES + 3)],
)
def test_many_bundles_have_one_lane_more_than_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, cases: int, workers: int, lanes: int
) -> None:
    asked: dict[str, Any] = {}

    def bench(_rules: object, **how: Any) -> None:
        asked.update(how)
        raise _StoppedError

    monkeypatch.setattr(local, "find_cases", lambda _root: [Path(str(number)) for number in range(cases)])
    monkeypatch.setattr(local, "bench", bench)
    with pytest.raises(_StoppedError), Targets({}) as targets:
        check._suite(Path("x"), Path("x"), None, targets, workers, as_json=False, every=False)  # type: ignore[arg-type]
    assert (asked["workers"], asked["cores"]) == (lanes, max(lanes, CORES))
