"""Warm parents in supply: shared by cells, asked how they are, replaced when they are not well."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from acceptd.cell import launcher
from acceptd.cell import seat as seat_module
from acceptd.cell import supply as supply_module
from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.cell.supply import Kind, Supplies, WarmParent
from acceptd.errors import CellUnavailableError, StateError
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy
from acceptd.tools import Cells

pytestmark = [pytest.mark.cell, pytest.mark.any_uid]
WHO = "note(pid=os.getppid(), text=open('/m/model.onnx').read())"


def run(cell: Cell, source: str = WHO) -> JobRecord:
    return cell.run(
        "attack",
        files={"model.onnx": "mine/model.onnx"},
        spec={"source": source},
        limits=job_limits("attack", LimitsTable(run_cpu_seconds=5, memory_bytes=128 << 20)),
        required_walls=Policy().required_walls,
    )


def parent_of(cell: Cell) -> WarmParent:
    seat, parent = cell._take(Kind())
    seat.give_back(parent, trouble="", suspect=False)
    return parent


def alive(parent: WarmParent) -> bool:
    return parent.parent.process.poll() is None


@pytest.fixture
def reasons() -> list[str]:
    return []


@pytest.fixture
def own(sealed: Path, reasons: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """A cell that asks its parent after every job."""
    monkeypatch.setattr(seat_module, "JOBS_PER_HEALTH", 1)
    with Cell(sealed, testing=True, on_replaced=reasons.append) as cell:
        yield cell


def test_cells_that_share_supplies_have_parents_of_their_own(sealed: Path) -> None:
    supplies = Supplies(sealed, testing=True)
    first, second = Cell(sealed, testing=True, supplies=supplies), Cell(sealed, testing=True, supplies=supplies)
    try:
        assert run(first).parent != run(second).parent
        parent = parent_of(first)
        first.close()
        assert not alive(parent)
        assert run(second).ending == "done"
        with pytest.raises(CellUnavailableError):
            run(first)
    finally:
        second.close()
        supplies.close()
    with pytest.raises(CellUnavailableError):
        run(Cell(sealed, testing=True, supplies=supplies))


def test_a_healthy_parent_stays_however_often_it_is_asked(own: Cell, reasons: list[str]) -> None:
    parents = {run(own).parent for _ in range(12)}
    assert (len(parents), reasons, own.replaced) == (1, [], 0)


@pytest.mark.parametrize("illness", ["threads", "memory", "children"])
def test_a_parent_that_is_not_well_is_replaced_and_the_reason_is_told(
    own: Cell, reasons: list[str], illness: str
) -> None:
    run(own)
    ill = parent_of(own)
    assert reasons == []
    ill.parent.control.send(b"X" + illness.encode())
    # Its own next job still runs; the one after it has another parent.
    assert run(own).ending == "done"
    assert [one.partition(":")[0] for one in reasons] == [illness]
    assert own.replacements == {illness: 1}
    assert not alive(ill)
    record = run(own)
    assert record.parent != ill.number
    assert [note.facts["text"] for note in record.notes] == ["my model"]


def test_a_parent_that_answers_no_more_is_replaced_and_the_job_runs_in_another(
    own: Cell, reasons: list[str]
) -> None:
    run(own)
    silent = parent_of(own)
    silent.parent.control.settimeout(0.5)
    silent.parent.control.send(b"Xsilent")
    record = run(own)
    assert (record.ending, record.attempts) == ("done", 2)
    assert record.parent != silent.number
    assert [one.partition(":")[0] for one in reasons] == ["lost"]
    assert not alive(silent)


def test_after_a_job_that_was_killed_the_parent_is_asked_at_once(sealed: Path, reasons: list[str]) -> None:
    with Cell(sealed, testing=True, on_replaced=reasons.append) as cell:
        run(cell)
        ill = parent_of(cell)
        ill.parent.control.send(b"Xthreads")
        assert run(cell).parent == ill.number  # well so far: it is asked every 32 jobs only
        record = run(cell, "while True: os.write(2, b'x' * 65536)")
        assert (record.ending, record.cause) == ("limit", "stderr")
        assert reasons == ["threads: 2"]


def test_outside_the_tests_no_word_makes_a_parent_ill(sealed: Path) -> None:
    with Cell(sealed) as cell:
        parent = parent_of(cell)
        assert parent.ailment() == ""
        parent.parent.control.send(b"Xmemory")
        parent.parent.control.recv(64)  # taken for an order: a room goes out
        assert parent.ailment() == ""


def test_a_parent_leaves_no_descriptor_behind(sealed: Path) -> None:
    with Cell(sealed, testing=True) as cell:
        run(cell)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with Cell(sealed, testing=True) as cell:
            run(cell)
    assert len(os.listdir("/proc/self/fd")) == before


def test_parents_that_still_see_a_sealed_directory_that_was_made_anew_are_replaced(
    tmp_path: Path, reasons: list[str]
) -> None:
    area = tmp_path / "sealed"

    def fill(text: str) -> None:
        (area / "mine").mkdir(parents=True)
        area.chmod(0o755)
        (area / "mine" / "model.onnx").write_text(text)

    fill("old")
    with Cell(area, spare=True, testing=True, on_replaced=reasons.append) as cell:
        first = run(cell)
        parent = parent_of(cell)
        spare = cell._supplies.of(Kind())._upcoming[0].result()
        area.rename(tmp_path / "away")
        with pytest.raises(StateError, match="init"):
            run(cell)
        fill("new")
        second = run(cell)
        assert [one.notes[0].facts["text"] for one in (first, second)] == ["old", "new"]
        assert run(cell).parent == second.parent
        assert not alive(parent)
        assert not alive(spare), "what stood ready saw the old one too"
        assert reasons == ["sealed: the directory was made anew"]


def test_after_a_job_that_was_killed_beside_another_the_parent_is_asked_at_once_and_ends_with_the_last(
    sealed: Path,
) -> None:
    with Cell(sealed, testing=True) as cell:
        seat, parent = cell._take(Kind())
        for _ in range(2):
            assert cell._take(Kind())[1] is parent
        assert seat.give_back(parent, trouble="", suspect=True) == "", "two others run, and that is no illness"
        parent.parent.control.send(b"Xthreads")
        assert seat.give_back(parent, trouble="", suspect=True) == "threads: 2"
        assert alive(parent), "the other one still runs"
        assert seat.give_back(parent, trouble="", suspect=False) == "", "it was told once"
        assert not alive(parent)


def test_a_suite_has_one_parent_for_all_lanes_and_starts_the_next_only_when_it_is_needed(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seat_module, "JOBS_PER_PARENT", seat_module.AHEAD + 2)
    cells = Cells(sealed, spare=True, on_replaced=lambda _reason: None, one=True)
    try:
        cell = cells.at(2)
        assert cells.at(0) is cell
        supply = cell._supplies.of(Kind())
        seat, parent = cell._take(Kind())
        assert not supply._upcoming, "nothing stands ready beside it"
        cell._take(Kind())
        assert len(supply._upcoming) == 1, "its last jobs begin"
        seat.give_back(parent, trouble="crash: SIGSEGV", suspect=True)
        seat.give_back(parent, trouble="", suspect=False)
        seat, parent = cell._take(Kind())
        assert len(supply._upcoming) == 1, "after a crash one stands ready at all times"
        seat.give_back(parent, trouble="", suspect=False)
    finally:
        cells.close()


def test_a_daemon_has_no_spare_before_its_first_look_and_one_from_then_on(sealed: Path) -> None:
    cells = Cells(sealed, spare=True, on_replaced=lambda _reason: None)
    try:
        supply = cells.at(0)._supplies.of(Kind())
        assert parent_of(cells.at(0)).number != parent_of(cells.at(1)).number
        assert not supply._upcoming, "two workers are at work, and nothing stands ready beside them"
        cells.keep_spares()
        (spare,) = supply._upcoming
        seat, parent = cells.at(0)._take(Kind())
        seat.give_back(parent, trouble="crash: SIGSEGV", suspect=True)
        assert parent_of(cells.at(0)) is spare.result()
        assert len(supply._upcoming) == 1, "and the next one is on its way"
    finally:
        cells.close()


def test_who_closes_waits_for_no_parent_to_get_warm(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    seen = threading.Event()
    given = supply_module.ParentSupply._begun

    def hear(self: supply_module.ParentSupply, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            process.send_signal(signal.SIGSTOP)  # it will never be warm
            begun.append(process)
        given(self, process)
        seen.set()

    monkeypatch.setattr(supply_module.ParentSupply, "_begun", hear)
    supplies = Supplies(sealed, testing=True)
    assert seen.wait(60)
    supplies.close()
    (process,) = begun
    assert process.poll() == -signal.SIGKILL


def test_who_closes_while_the_outer_wall_is_built_waits_for_none_of_its_processes(sealed: Path) -> None:
    """bubblewrap's child waits for its parent's word, and for ever where only that one is killed."""
    for turn in range(20):
        supplies = Supplies(sealed, testing=True)
        threading.Event().wait(turn / 1000)  # at once, and later and later while it is built
        supplies.close()


def test_the_facts_of_a_living_parent_outlast_all_that_come_and_go(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply_module, "MAX_KNOWN", 2)
    supplies = Supplies(sealed, testing=True)
    first, second = (Cell(sealed, testing=True, supplies=supplies) for _ in range(2))
    try:
        living = run(first).parent
        others = []
        for _ in range(3):
            seat, parent = second._take(Kind())
            seat.give_back(parent, trouble="lost: told so", suspect=False)
            others.append(parent.number)
        assert run(first).parent == living
        assert first.runtime(living).onnxruntime
        with pytest.raises(CellUnavailableError, match="nothing is known"):
            first.runtime(others[0])
    finally:
        first.close()
        second.close()
        supplies.close()


def test_a_spare_that_failed_long_ago_fails_no_job_of_now(sealed: Path) -> None:
    with Cell(sealed, testing=True, spare=True) as cell:
        run(cell)
        supply = cell._supplies.of(Kind())
        supply._upcoming.popleft().result().close()
        failed: Future[WarmParent] = Future()
        failed.set_exception(CellUnavailableError("no memory, then"))
        supply._upcoming.append(failed)
        seat, parent = cell._take(Kind())
        seat.give_back(parent, trouble="lost: told so", suspect=False)
        assert run(cell).ending == "done"


@pytest.mark.parametrize("delay", [0.0, 0.002, 1.0])
def test_a_cell_that_is_ended_while_its_wall_is_built_leaves_no_process_and_holds_nobody_up(
    sealed: Path, delay: float
) -> None:
    """Killed alone in its first milliseconds, bubblewrap left a child that waited for it, and we for that."""
    begun: list[subprocess.Popen[bytes]] = []

    def hear(process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            begun.append(process)
            threading.Event().wait(delay)
            launcher.end(process)

    try:
        parent = launcher.start(sealed, begun=hear)
    except CellUnavailableError:
        pass
    else:  # warm before the kill, or its wall had not yet asked to die with bubblewrap: it ends with its socket
        parent.control.close()
        assert parent.process.stderr is not None
        parent.process.stderr.read()  # until whoever held it is dead
        parent.process.wait(60)
    (process,) = begun
    for _ in range(1000):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        threading.Event().wait(0.01)
    else:
        pytest.fail("somebody of its group lives")
    assert process.stderr is not None
    process.stderr.close()
