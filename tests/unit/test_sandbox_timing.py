"""Timing in the run job: which set, how often, within which budget, and what starting the model cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandbox import timing
from sandbox.cases import Runner
from tests.run_world import classifier, declared, decode, execute, spec_of, write_set

pytestmark = pytest.mark.unit
BATCH = {"batch": {"min": 1, "max": 4096}}


def run(tmp_path: Path, rows: tuple[int, ...] = (1, 4000), **changes: Any) -> Any:
    sets = [
        write_set(
            tmp_path, f"set_{index}", [np.full((count, 4), 0.5, np.float32)], [np.ones((count, 3), np.float32)]
        )
        for index, count in enumerate(rows)
    ]
    frame, inputs, _ = decode(tmp_path, *sets)
    spec = spec_of(tmp_path, classifier(), sets=frame["sets"], declared=declared(), dims=BATCH, **changes)
    channel, _ = execute(spec, inputs)
    return channel


def test_the_largest_set_is_timed_after_the_goldens_and_before_the_probes(tmp_path: Path) -> None:
    channel = run(tmp_path, timing={"samples": 7, "seconds": 5.0}, probes=True)
    (told,) = channel.all("timing")
    assert (told["set"], told["batch"], told["shapes"]) == ("set_1", 4000, {"features": [4000, 4]})
    assert (len(told["wall_ms"]), told["warmups"], told.get("note", "")) == (7, 2, "")
    assert all(value > 0 for value in told["wall_ms"])
    kinds = [kind for kind, _ in channel.frames]
    assert kinds[: kinds.index("timing")].count("case") == 4
    assert kinds[kinds.index("timing") :].count("case") > 4


def test_an_order_may_name_the_set(tmp_path: Path) -> None:
    (told,) = run(tmp_path, timing={"samples": 3, "seconds": 5.0, "set": "set_0"}).all("timing")
    assert (told["set"], told["batch"], len(told["wall_ms"])) == ("set_0", 1, 3)
    other = tmp_path / "other"
    other.mkdir()
    (told,) = run(other, timing={"samples": 3, "seconds": 5.0, "set": "none"}).all("timing")
    assert (told["set"], told.get("wall_ms", []), told["note"]) == ("none", [], "no golden set ran to its end")


def test_no_order_no_timing_and_none_in_the_unoptimised_process(tmp_path: Path) -> None:
    assert run(tmp_path).all("timing") == []
    other = tmp_path / "other"
    other.mkdir()
    assert run(other, timing={"samples": 3, "seconds": 5.0}, optimised=False).all("timing") == []


def test_no_inference_begins_that_would_not_end_in_the_budget() -> None:
    calls: list[int] = []
    walls, _ = timing._timed(lambda: calls.append(1), 50, 0.001, first=1000.0)
    assert (walls, calls) == ([], [])
    walls, cpu = timing._timed(lambda: calls.append(1), 50, 60.0)
    assert len(walls) == len(calls) == 50
    assert cpu >= 0


def test_the_budget_is_kept_however_many_samples_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock)))
    walls, _ = timing._timed(lambda: None, 500, 10.0)
    assert walls == [1000.0] * len(walls)
    assert len(walls) < 10


def test_what_cannot_be_told_apart_is_null_with_a_reason(tmp_path: Path) -> None:
    channel = run(tmp_path, timing={"samples": 1, "seconds": 5.0})
    (told,) = channel.all("timing")
    phases = {one["name"]: one for one in told["cold"]}
    for name in ("parse", "optimise", "provider-start", "prepack", "compile", "cache"):
        assert phases[name]["ms"] is None
        assert phases[name]["reason"]
    assert all(phases[name]["ms"] > 0 for name in ("read-and-digest", "session", "first-run"))
    assert phases["first-run"]["ms"] == pytest.approx(channel.all("case")[0]["wall_ms"], abs=1e-5)
    assert phases["session"]["ms"] == pytest.approx(channel.all("schema")[0]["load_ms"], abs=1e-5)


def test_a_set_that_fails_while_it_is_timed_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no more")

    monkeypatch.setattr(Runner, "prepared", broken)
    (told,) = run(tmp_path, timing={"samples": 3, "seconds": 5.0}).all("timing")
    assert told["note"] == "RuntimeError: no more"


def test_the_kernel_is_told_before_a_submitted_byte_is_read(tmp_path: Path) -> None:
    channel = run(tmp_path, kernel=5, timing={"samples": 1, "seconds": 1.0})
    kind, body = channel.frames[0]
    assert (kind, body["name"], len(body["wall_ms"])) == ("kernel", timing.KERNEL, 5)
    assert min(body["wall_ms"]) > 0
