"""A submitter sees what becomes of its own drops, and of no other team's; nobody else's words come out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.cli import stages
from acceptd.embedded import Embedded
from acceptd.work.budget import NOTHING
from acceptd.work.progress import Progress
from acceptd.work.progress_file import NAME, Now, read
from acceptd.work.rotation import Rotation, Task
from tests.unit.test_contract_propose import HOSTILE

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Row:
    """As much of a submission as is told."""

    id: str
    team: str
    name: str


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    for team in ("a", "b"):
        (tmp_path / team).mkdir()
    return tmp_path


def told(progress: Progress, row: Any, stage: str) -> None:
    progress.stage(row, stage)


def test_a_team_is_told_of_its_own_drops_while_they_wait_and_are_worked(outbox: Path) -> None:
    nudges: list[int] = []
    progress = Progress(outbox, lambda: nudges.append(1))
    for number in range(3):
        progress.claimed(f"s{number}", f"drop{number}")
    progress.write({"a": ["s1", "s2"], "b": ["s0"]})
    assert read(outbox, "a", "drop2") == Now(position=2, waits=2)
    assert read(outbox, "a", "drop0") is None
    assert read(outbox, "b", "drop1") is None
    told(progress, Row("s1", "a", "drop1"), "run")
    progress.write({"a": ["s2"]})
    found = read(outbox, "a", "drop1")
    assert found is not None
    assert (found.stage, found.words("a"), nudges) == ("run", "run …", [1])
    assert not (outbox / "b" / NAME).exists()
    progress.clear()
    assert os.listdir(outbox / "a") == []


def test_what_is_final_is_forgotten_and_what_fails_or_waits_again_keeps_its_name(outbox: Path) -> None:
    progress = Progress(outbox, lambda: None)

    def fails() -> None:
        told(progress, Row("s", "a", "drop"), "seal")
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - any
        progress.during("s", fails)
    progress.write({"a": ["s"]})
    assert read(outbox, "a", "drop") == Now(position=1, waits=1)
    assert progress.during("s", lambda: "more") == "more"
    progress.write({"a": ["s"]})
    assert read(outbox, "a", "drop") == Now(position=1, waits=1)
    progress.during("s", lambda: None)
    progress.write({"a": ["s"]})
    assert read(outbox, "a", "drop") is None


def test_a_file_is_written_where_something_changed_alone_and_through_no_link(outbox: Path) -> None:
    progress = Progress(outbox, lambda: None)
    progress.claimed("s", "drop")
    progress.write({"a": ["s"]})
    before = (outbox / "a" / NAME).stat().st_ino
    progress.write({"a": ["s"], "gone": ["t"]})
    assert (outbox / "a" / NAME).stat().st_ino == before
    (outbox / "b" / f"{NAME}.tmp").symlink_to(outbox / "elsewhere")
    progress.write({"a": ["s"], "b": ["s"]})
    assert not (outbox / "elsewhere").exists()
    assert not (outbox / "b" / NAME).is_symlink()
    assert read(outbox, "b", "drop") == Now(position=1, waits=1)


def test_a_team_whose_file_cannot_be_written_keeps_no_other_team_in_the_dark(outbox: Path) -> None:
    progress = Progress(outbox, lambda: None)
    progress.claimed("s", "drop")
    (outbox / "a" / f"{NAME}.tmp").mkdir()  # before the other one by name
    with pytest.raises(OSError, match="directory"):
        progress.write({"a": ["s"], "b": ["s"]})
    assert read(outbox, "b", "drop") == Now(position=1, waits=1)
    (outbox / "a" / f"{NAME}.tmp").rmdir()
    os.mkfifo(outbox / "a" / f"{NAME}.tmp")
    progress.write({"a": ["s"], "b": ["s"]})
    assert read(outbox, "a", "drop") == Now(position=1, waits=1)


def test_what_is_no_file_makes_nobody_wait_who_looks_for_it(outbox: Path) -> None:
    os.mkfifo(outbox / "a" / NAME)
    assert read(outbox, "a", "x") is None
    (outbox / "b" / "real").write_text('{"working": [{"drop": "x", "stage": "run", "since": 1}], "waiting": []}')
    (outbox / "b" / NAME).symlink_to("real")
    assert read(outbox, "b", "x") is None


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_a_drop_is_only_compared(outbox: Path, name: str) -> None:
    progress = Progress(outbox, lambda: None)
    told(progress, Row("s", "a", name), "run")
    progress.write({})
    found = read(outbox, "a", name)
    assert found is not None
    assert found.words("a") == "run …"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"working": 3}',
        '{"working": [{"drop": "x"}]}',
        "\xff",
        "1" * 9,
        "[" * 200_000,
        '{"working": [], "waiting": [{"drop": "x", "position": Infinity}], "waits": 1}',
    ],
)
def test_a_file_that_is_not_whole_tells_nothing(outbox: Path, text: str) -> None:
    (outbox / "a" / NAME).write_text(text, encoding="latin-1")
    assert read(outbox, "a", "x") is None


@pytest.mark.parametrize("end", ["run", "expired", "given_up"])
def test_a_drop_leaves_no_name_behind_however_it_ends(
    outbox: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose time was over while it waited, of which a daemon in a flood sees thousands."""
    offered: list[Task] = []
    ended: list[str] = []
    daemon = object.__new__(Embedded)
    daemon._progress = Progress(outbox, lambda: None)
    daemon._settings = SimpleNamespace(submission_seconds=3600)  # type: ignore[assignment]
    daemon._helm = SimpleNamespace(rules=lambda: SimpleNamespace(profile=SimpleNamespace(name="p")))  # type: ignore[assignment]
    daemon._rooms = SimpleNamespace(  # type: ignore[assignment]
        lifecycle=SimpleNamespace(
            claim=lambda _claim: None,
            process=lambda submission, _hold: ended.append(submission),
            expire=ended.append,
            given_up=lambda submission, _reason: ended.append(submission),
        ),
        workers=SimpleNamespace(offer=lambda task, fresh: offered.append(task)),
    )
    monkeypatch.setattr("acceptd.embedded.need", lambda _rules: NOTHING)
    daemon._claimed(SimpleNamespace(id="s", team="a", name="drop"))  # type: ignore[arg-type]
    assert daemon._progress._names == {"s": "drop"}
    (task,) = offered
    how: dict[str, Callable[[], object]] = {
        "run": lambda: task.run(None),  # type: ignore[arg-type]
        "expired": task.expired,
        "given_up": lambda: task.given_up("withdrawn"),
    }
    how[end]()
    assert ended == ["s"]
    assert daemon._progress._names == {}


def test_turns_are_told_by_team() -> None:
    rotation = Rotation()
    for number, (team, profile) in enumerate([("a", "p"), ("b", "p"), ("a", "p"), ("a", "q")]):
        rotation.add(Task(f"s{number}", team, profile, NOTHING, float("inf")))
    assert rotation.by_team() == {"a": ["s0", "s2", "s3"], "b": ["s1"]}


def test_without_a_terminal_each_stage_is_one_plain_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(stages.time, "monotonic", lambda: now[0])
    with stages.Stages("a", "x\x1b]0;owned\x07", running=False) as shown:
        shown.show(Now(stage="seal"))
        now[0] = 2.0
        for one in (Now(stage="run"), Now(stage="run"), None, Now(position=1, waits=2)):
            shown.show(one)
    lines = capsys.readouterr().err.splitlines()
    assert [one.partition(": ")[2] for one in lines] == [
        "dropped; no daemon is running, it waits until one does", "run …", "waiting, number 1 of 2 of team a"
    ]  # fmt: skip
    assert "\x1b" not in "".join(lines)
