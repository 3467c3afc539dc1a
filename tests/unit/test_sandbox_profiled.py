"""The profiler's file, parsed in the job: own times, order, cut files, and what a hostile line may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandbox import profiled
from tests.run_world import classifier, declared, decode, execute, spec_of, write_set

pytestmark = pytest.mark.unit
CPU, NPU = "CPUExecutionProvider", "QNNExecutionProvider"


def node(start: int, took: int, provider: str, name: str) -> str:
    args = {"provider": provider, "op_name": name, "node_index": "0"}
    return json.dumps({"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": took, "args": args}) + ","


def session(name: str, took: int) -> str:
    return json.dumps({"cat": "Session", "name": name, "ts": 0, "dur": took, "args": {}}) + ","


def inference(at: int, *events: tuple[int, int, str, str]) -> list[str]:
    return [node(at + start, took, provider, name) for start, took, provider, name in events] + [
        session("model_run", 100)
    ]


PLAN = ((0, 10, NPU, "Conv"), (10, 10, NPU, "Relu"), (20, 5, CPU, "Cast"), (25, 20, NPU, "Conv"))


def test_segments_shares_and_operators_of_one_inference() -> None:
    lines = ["[", session("model_loading_uri", 400), session("session_initialization", 9000)]
    lines += [*inference(0, *PLAN), *inference(1000, *PLAN), *inference(2000, *PLAN), "]"]
    told = profiled.told(lines, skip=1, runs=2)
    assert (told["runs"], told["segment_count"], "note" in told) == (2, 3, False)
    assert [(one["provider"], one["nodes"], one["first"], one["last"]) for one in told["segments"]] == [
        (NPU, 2, "Conv", "Relu"),
        (CPU, 1, "Cast", "Cast"),
        (NPU, 1, "Conv", "Conv"),
    ]
    assert told["ms"] == {CPU: 0.005, NPU: 0.04}
    assert told["operators"][0] == {"provider": NPU, "op_type": "Conv", "nodes": 2, "ms": 0.03, "median_ms": 0.03}
    assert (told["loading_ms"], told["initialising_ms"], told["memcpy"]) == (0.4, 9.0, 0)


def test_what_runs_inside_a_loop_is_not_counted_twice() -> None:
    body = ((0, 100, CPU, "Loop"), (10, 30, NPU, "Conv"), (50, 30, NPU, "Conv"), (110, 10, NPU, "Relu"))
    told = profiled.told(inference(0, *body), skip=0, runs=1)
    assert told["ms"] == {CPU: 0.04, NPU: 0.07}


def test_copies_between_devices_are_counted() -> None:
    body = ((0, 1, NPU, "MemcpyFromHost"), (1, 5, NPU, "Conv"), (6, 1, NPU, "MemcpyToHost"), (7, 1, CPU, "Cast"))
    assert profiled.told(inference(0, *body), skip=0, runs=1)["memcpy"] == 2


def test_a_file_that_was_cut_gives_what_it_holds() -> None:
    lines = [*inference(0, *PLAN), *inference(100, *PLAN), node(200, 10, NPU, "Conv")[:50]]
    told = profiled.told(lines, skip=0, runs=20)
    assert (told["runs"], told["segment_count"]) == (2, 3)
    assert told["note"] == "the profiler's file holds 2 of 20 inferences"
    assert profiled.told([], skip=0, runs=20)["runs"] == 0


@pytest.mark.parametrize(
    "line",
    [
        "{" * 5000,
        '{"cat": "Node", "name": "x_kernel_time", "ts": "1", "dur": 5, "args": {}}',
        '{"cat": "Node", "name": "x_kernel_time", "ts": 1, "dur": -5, "args": {}}',
        '{"cat": "Node", "name": "x_kernel_time", "ts": 1, "dur": 5, "args": []}',
        '{"cat": "Node", "name": ["_kernel_time"], "ts": 1, "dur": 5}',
        '{"cat": "Session", "name": "model_loading", "dur": "x"}',
        '{"cat": "Node", "name": "' + "x" * 70_000 + '_kernel_time"}',
        "[1, 2]",
        "\udcff",
    ],
)
def test_a_hostile_line_is_left_out_and_the_rest_stands(line: str) -> None:
    told = profiled.told([line, *inference(0, *PLAN)], skip=0, runs=1)
    assert (told["runs"], told["segment_count"]) == (1, 3)


def test_runs_are_as_many_as_the_file_has_room_for() -> None:
    assert profiled.runs_that_fit(20, 3) == 20
    assert 1 <= profiled.runs_that_fit(20, 5_000) < 20
    assert profiled.runs_that_fit(20, 10_000_000) == 1


def test_a_real_profile_of_this_onnxruntime_is_understood(tmp_path: Path) -> None:
    inputs = np.full((1, 4), 0.5, np.float32)
    frame, blob, _ = decode(tmp_path, write_set(tmp_path, "set", [inputs], [np.ones((1, 3), np.float32)]))
    spec = spec_of(
        tmp_path, classifier(), sets=frame["sets"], declared=declared(), dims={"batch": {"min": 1, "max": 2}},
        repeats=1, profiled={"runs": 20, "seconds": 5.0}, scratch=str(tmp_path),
    )  # fmt: skip
    channel, _ = execute(spec, blob)
    (told,) = channel.all("profiled")
    assert (told["runs"], told.get("note", "")) == (20, "")
    assert (told["segment_count"], set(told["ms"])) == (1, {CPU})
    rows: list[dict[str, Any]] = told["operators"]
    assert {row["op_type"] for row in rows} >= {"Softmax"}
    assert told["loading_ms"] is not None
    assert told["initialising_ms"] > 0
    assert channel.frames[-1][0] == "profiled"


def test_nodes_are_named_only_where_the_order_asks_and_the_slowest_are_kept() -> None:
    lines = [*inference(0, *PLAN), *inference(1000, *PLAN)]
    assert "named" not in profiled.told(lines, skip=0, runs=2)
    rows = profiled.told(lines, skip=0, runs=2, named=True)["named"]
    assert rows[0] == {"name": "Conv", "op_type": "Conv", "provider": NPU, "ms": 0.03}
    many = [node(10 * at, at, CPU, f"n{at}") for at in range(profiled.MAX_NODES + 50)]
    rows = profiled.told([*many, session("model_run", 1)], skip=0, runs=1, named=True)["named"]
    assert len(rows) == profiled.MAX_NODES
    assert min(row["ms"] for row in rows) >= 0.05


def test_an_interruption_moves_the_mean_and_not_the_median() -> None:
    lines = [*inference(0, *PLAN), *inference(1000, *PLAN), *inference(2000, (0, 900, NPU, "Conv"))]
    told = profiled.told(lines, skip=0, runs=3, named=True)
    (conv,) = [row for row in told["operators"] if row["op_type"] == "Conv"]
    assert (conv["ms"], conv["median_ms"]) == (0.32, 0.03)
    assert told["named"][0]["ms"] == 0.03
