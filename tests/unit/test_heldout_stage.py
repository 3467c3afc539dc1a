"""The held-out stage: what each job is given, how long a run may take, how long the stage takes in any case."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.cell.limits import job_limits
from acceptd.errors import CellUnavailableError, InternalError
from acceptd.evidence import Case, Done, Facts, HeldOut, JobRecord, Named, Note, Problem, Statistics, Walls
from acceptd.heldout import place, stage
from acceptd.judge.heldout import parts
from acceptd.judge.profiles import Target
from acceptd.policy.contract import Contract
from acceptd.policy.policy import LimitsTable, Policy
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from tests import heldout_world as own
from tests import judge_world as world
from tests.unit.test_heldout_place import naming, sets

pytestmark = pytest.mark.unit
MODEL = "mosaic/evidence-disposition"


class Ordered:
    """A cell that keeps what it was asked for, and answers as an honest one."""

    def __init__(self, *answers: JobRecord) -> None:
        self.answers = list(answers)
        self.orders: list[dict[str, Any]] = []
        self.read: list[bytes] = []
        self.closed = False
        self.started: list[str] = []

    def told(self, profile: Profile) -> None:
        """Start the parent for a profile."""
        assert len(self.orders) == 1, "after the decoding job and before any model"
        self.started.append(profile.name)

    def run(self, kind: str, **order: Any) -> JobRecord:
        self.orders.append({"kind": kind, **order})
        readable = order["blobs"]["files" if kind == "vectors" else "inputs"]
        self.read.append(os.pread(readable, 1 << 16, 0))
        if kind == "vectors":
            os.pwrite(order["blobs"]["inputs"], b"i" * 64, 0)
            os.pwrite(order["blobs"]["expected"], b"EXPECTED" * 8, 0)
        return self.answers.pop(0)

    def close(self) -> None:
        self.closed = True


@contextmanager
def a_stage(
    tmp_path: Path,
    cell: Ordered,
    spend: Callable[[Contract, str], int] = lambda _contract, _digest: 1,
    others: tuple[Target, ...] = (),
) -> Iterator[stage.Stage]:
    home = tmp_path / "heldout"
    home.mkdir(mode=0o700, parents=True)
    contract = naming(place.add(home, MODEL, sets(tmp_path / "mine")))
    comparer = SimpleNamespace(compare=lambda task, _files, **_more: Statistics(outputs=[]))
    tools = SimpleNamespace(temporary=tmp_path, cells=SimpleNamespace(apart=lambda: cell), comparer=comparer)
    hold = SimpleNamespace(check=lambda: None, kill_due=lambda: False)
    rules = Rules(Policy(), "a" * 64, Profile(), "b" * 64, tmp_path, others=others)
    facts: dict[str, Facts] = {"model.onnx": world.facts()}
    bundle = stage.Bundle("s-1/bundle", world.a_manifest(), world.sealed(), facts, 0.01)
    agreed = stage.Agreed(contract, "c" * 64, stage.Keeper(home, spend))
    yield stage.Stage(rules, cast("Any", tools), cast("Any", hold), bundle, agreed)


def flawless(tmp_path: Path) -> tuple[HeldOut, Ordered]:
    cell = Ordered(own.decoded(), own.a_run())
    with a_stage(tmp_path, cell) as made:
        return made.run(), cell


def test_the_job_that_decodes_is_given_no_file_and_no_word_of_the_bundle(tmp_path: Path) -> None:
    _, cell = flawless(tmp_path)
    order = cell.orders[0]
    assert (order["kind"], order["files"], order["model"], order["profile"]) == ("vectors", {}, "", None)
    assert order["spec"]["types"]["main"]["inputs"] == [{"name": "features", "kind": "tensor", "dtype": "float32"}]
    assert sorted(order["blobs"]) == ["expected", "files", "inputs"]
    assert b"expected of zebra_0" in cell.read[0]


def test_the_run_is_given_inputs_alone_and_no_name_of_a_set(tmp_path: Path) -> None:
    held, cell = flawless(tmp_path)
    order = cell.orders[1]
    assert (order["kind"], order["variant"], sorted(order["blobs"])) == ("run", "heldout", ["inputs", "outputs"])
    assert list(order["files"].values()) == ["s-1/bundle/model.onnx"]
    assert [one["name"] for one in order["spec"]["sets"]] == ["heldout-0", "heldout-1"]
    assert (order["spec"]["probes"], order["spec"]["repeats"]) == (False, 1)
    assert "zebra" not in repr(order)
    assert "expected" not in repr(order["spec"])
    assert b"EXPECTED" not in cell.read[1]
    assert held.names == own.NAMES
    assert cell.closed


def test_every_required_profile_is_run_in_one_counted_evaluation_and_the_same_time(tmp_path: Path) -> None:
    others = (
        Target(Profile(name="second"), "c" * 64),
        Target(Profile(name="told-only"), "d" * 64, required=False),
    )
    first, second = own.a_run(profile="default"), own.a_run(profile="second")
    cell = Ordered(own.decoded(), first, second)
    counted: list[int] = []
    with a_stage(tmp_path, cell, lambda _contract, _digest: counted.append(1) or 4, others) as made:
        name = made.rules.profile.name
        cell.answers[1] = own.a_run(profile=name)
        held = made.run()
        assert made.length == stage.allotted(Policy().heldout.seconds, 2 * 0.01)
    assert [one["profile"].name for one in cell.orders[1:]] == [name, "second"]
    assert [one["spec"]["profile"]["name"] for one in cell.orders[1:]] == [name, "second"]
    assert cell.started == ["second"]
    assert (held.number, counted) == (4, [1])
    assert [one.profile for one in held.further] == ["second"]
    assert held.statistics is not None
    assert held.further[0].statistics is not None
    assert [[job.profile for job in one.jobs if job.kind == "run"] for _, one in parts(held)] == [
        [name],
        ["second"],
    ]
    # Two tries under each of both fit into the stage.
    assert sum(2 * one["limits"].wall_seconds for one in cell.orders[1:]) <= 0.8 * Policy().heldout.seconds + 1e-9


def test_a_job_cannot_make_what_is_recorded_large_for_one_input_and_small_for_another(tmp_path: Path) -> None:
    """What it told would be written after the fixed time: megabytes tell by how much later the verdict comes."""
    text, many = "x" * 4096, [Named(name=f"{number}" * 400, value=world.ref()) for number in range(4000)]
    problem = Problem(code="run/output-unreadable", where=text, message=text)
    flooded = own.a_run(
        cases=own.cases(error=text, problems=[problem] * 64) * 50,
        schema_=own.a_run().schema_.model_copy(update={"runtime": {f"{number}": text for number in range(64)}}),  # type: ignore[union-attr]
        steps=[], message=text * 1000, stderr_tail=text, walls=Walls(states={}, notes={"root": text}),
        done=Done(phases_ms={text * 100: 1.0}), notes=[Note(facts={"a": text * 1000})],
    )  # fmt: skip
    for answer, ending in ((flooded, "done"), (own.a_run(cases=own.cases(outputs=many)), "violation")):
        with a_stage(tmp_path / ending, Ordered(own.decoded(), answer)) as made:
            _, run = made.run().jobs
        assert (run.ending, len(run.model_dump_json()) < 20_000) == (ending, True)
    honest = own.a_run()
    with a_stage(tmp_path / "honest", Ordered(own.decoded(), honest)) as made:
        _, run = made.run().jobs
    assert (run.ending, run.cases) == (honest.ending, honest.cases)
    assert run.schema_ is not None
    assert run.schema_.load_ms == honest.schema_.load_ms  # type: ignore[union-attr]


def test_a_run_and_its_second_try_fit_into_the_stage(tmp_path: Path) -> None:
    _, cell = flawless(tmp_path)
    limits = cell.orders[1]["limits"]
    usual = job_limits("run", LimitsTable())
    seconds = Policy().heldout.seconds
    assert 2 * limits.wall_seconds <= 0.8 * seconds
    assert limits.inner.cpu_seconds <= limits.wall_seconds + 1
    assert limits.inner.output_bytes == 2 * 24 + stage.SPARE_OUTPUT < usual.inner.output_bytes


def test_without_a_count_nothing_is_started(tmp_path: Path) -> None:
    cell = Ordered()
    with a_stage(tmp_path, cell, lambda _contract, _digest: 0) as made:
        assert made.run().status == "spent"
    assert cell.orders == []


def test_the_count_comes_before_the_first_job(tmp_path: Path) -> None:
    cell = Ordered(own.decoded(), own.a_run())
    asked: list[int] = []
    with a_stage(tmp_path, cell, lambda _contract, _digest: asked.append(len(cell.orders)) or 7) as made:
        assert made.run().number == 7
    assert asked == [0]


def test_sets_that_are_refused_cost_no_evaluation(tmp_path: Path) -> None:
    asked: list[int] = []
    with a_stage(tmp_path, Ordered(), lambda _contract, _digest: asked.append(1) or 1) as made:
        (made.agreed.keeper.home / "mosaic").chmod(0o777) if made.agreed.keeper else None
        found = made.run()
    assert (found.status, asked) == ("refused", [])
    assert "can be written by its group" in found.reason


def inconclusive(found: HeldOut) -> bool:
    """Say whether what a stage found is nobody's fault, and lets nothing pass."""
    return world.verdict(own.submission(found), contract=own.contract()).verdict == "inconclusive"


def test_a_host_without_a_cell_has_spent_the_evaluation_and_says_so(tmp_path: Path) -> None:
    """Whoever could take the cell away could try as often as he liked, if the count came later."""

    def none() -> Any:
        raise CellUnavailableError("bubblewrap is gone")

    with a_stage(tmp_path, Ordered(), lambda _contract, _digest: 4) as made:
        made.tools.cells.apart = none  # type: ignore[method-assign]
        found = made.run()
    assert (found.status, found.number, found.statistics, found.kept) == ("run", 4, None, {})
    [job] = found.jobs
    assert (job.kind, job.ending, job.cause) == ("run", "unavailable", "no cell")
    assert job.message == "bubblewrap is gone"
    assert inconclusive(found)


@pytest.mark.parametrize(
    "changes", [{"ending": "limit", "done": None}, {"vectors": None}], ids=["killed", "nothing"]
)
def test_sets_that_were_not_decoded_are_given_to_no_model(changes: dict[str, Any], tmp_path: Path) -> None:
    cell = Ordered(own.decoded().model_copy(update=changes))
    with a_stage(tmp_path, cell) as made:
        found = made.run()
    assert [one["kind"] for one in cell.orders] == ["vectors"]
    assert (found.status, found.number, found.statistics) == ("run", 1, None)
    assert cell.closed


def test_a_comparer_that_broke_leaves_no_figures_and_keeps_nothing(tmp_path: Path) -> None:
    kept: list[int] = []

    def broken(*_: Any, **__: Any) -> Any:
        raise InternalError("the comparer has ended")

    with a_stage(tmp_path, Ordered(own.decoded(), own.a_run())) as made:
        made.tools.comparer.compare = broken  # type: ignore[method-assign]
        made.keep = lambda _files, room: kept.append(room) or {}  # type: ignore[func-returns-value]
        found = made.run()
    assert (found.statistics, found.kept, kept) == (None, {}, [])
    assert [job.ending for job in found.jobs] == ["done", "done"]
    assert inconclusive(found)


@pytest.mark.parametrize(
    ("seconds", "known", "length"),
    [(5.0, 0.0, 5.0), (5.0, 0.99, 5.0), (5.0, 1.01, 10.0), (0.5, 3.0, 15.0), (5.0, 10.0, 50.0)],
)
def test_the_time_is_a_multiple_that_the_team_could_compute(seconds: float, known: float, length: float) -> None:
    assert stage.allotted(seconds, known) == pytest.approx(length)


def test_what_is_known_is_loading_and_goldens_of_the_main_run_and_never_more_than_it_took() -> None:
    def case(name: str, wall_ms: float) -> Case:
        return Case(set=name, repeat=0, wall_ms=wall_ms)

    cases = [case("test_data_set_0", 30.0), case("probe:zeros", 900.0)]
    main = world.run(cases=cases, wall_s=2.0, done=Done(phases_ms={"hash": 18.0}))  # loads in 2 ms
    assert stage.known_seconds([main]) == pytest.approx(0.05)
    assert stage.known_seconds([main, world.unoptimised(wall_s=9.0), own.a_run(wall_s=9.0)]) == pytest.approx(0.05)
    boasting = world.run(cases=[case("test_data_set_0", 1e9)], wall_s=2.0)
    assert stage.known_seconds([boasting]) == 2.0
    modest = world.run(cases=[case("test_data_set_0", -1e9)], wall_s=2.0)
    assert stage.known_seconds([modest]) == 0.0


@pytest.mark.parametrize(("spent", "end"), [(0.0, 5.0), (4.9, 5.0), (5.1, 10.0), (12.0, 15.0)])
def test_whatever_a_run_took_the_stage_ends_at_a_multiple(
    spent: float, end: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(stage.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(stage.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with a_stage(tmp_path, Ordered()) as made:
        made.started = 100.0
        clock[0] += spent
        made.fill()
    assert clock[0] - 100.0 == pytest.approx(end)
