"""A local check starts its helpers in an order that leaves the processors to the sealing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd import local, tools
from acceptd.cli import main as command_line
from acceptd.compare import client
from acceptd.intake import child
from acceptd.intake.client import SealerClient
from acceptd.policy.limits import LimitsTable
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


def test_the_sealer_that_began_ahead_is_the_one_that_seals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_ahead", [])
    child.begin()
    (begun,) = child._ahead
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "model.onnx").write_bytes(b"model")
    with SealerClient() as sealer:
        assert sealer._idle == [begun]
        assert child._ahead == []  # nobody else gets it
        sealed = sealer.seal(tmp_path / "drop", tmp_path / "sealed", LimitsTable())
    assert [file.path for file in sealed.files] == ["model.onnx"]
    assert begun._process.returncode is not None


def test_a_sealer_that_nobody_came_for_ends_with_its_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_ahead", [])
    child.begin()
    begun = child._ahead.pop()
    begun._socket.close()  # as the end of a process does
    assert begun._process.wait(60) == 0


def test_a_sealer_that_cannot_begin_ahead_is_told_of_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> object:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(child, "_ahead", [])
    monkeypatch.setattr(child, "Child", refused)
    child.begin()
    with pytest.raises(BlockingIOError):
        child.first()


@pytest.mark.parametrize(
    ("words", "begun"),
    [(["check", "bundle"], 1), (["check", "--help"], 0), (["ledger", "check"], 0), ([], 0), (["--version"], 0)],
)
def test_only_a_check_begins_a_sealer_and_before_its_own_imports(
    monkeypatch: pytest.MonkeyPatch, words: list[str], begun: int
) -> None:
    seen: list[str] = []

    def chosen() -> None:
        seen.append("imports")
        raise KeyboardInterrupt

    for name in ("setrlimit", "keep_to_oneself"):  # this process goes on as it was
        monkeypatch.setattr(
            command_line.resource if name == "setrlimit" else command_line.powers, name, lambda *_: None
        )
    monkeypatch.setattr(command_line, "_choose", chosen)
    monkeypatch.setattr(child, "begin", lambda: seen.append("sealer"))
    monkeypatch.setattr("sys.argv", ["acceptd", *words])
    with pytest.raises(SystemExit):
        command_line.main()
    assert seen == [*["sealer"] * begun, "imports"]
