"""Speed and placement in the report: what is told, what is never told, and hostile names in it."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import (
    ColdPhase,
    HostLoad,
    JobRecord,
    Kernel,
    PlacedNode,
    Placement,
    Profiled,
    Submission,
    Timing,
)
from acceptd.placement_facts import Segment
from acceptd.report.document import document, for_team
from acceptd.report.html import render
from acceptd.report.speed import distribution_chart, performance, placements, speed_rows
from tests import judge_world as world

pytestmark = pytest.mark.unit
CPU, NPU = "CPUExecutionProvider", "QNNExecutionProvider"
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


def timed(**changes: Any) -> JobRecord:
    fields: dict[str, Any] = {
        "set": world.SETS[0],
        "batch": 1,
        "shapes": {"features": [1, 4]},
        "warmups": 2,
        "wall_ms": [float(value) for value in range(2, 101)],
        "cold": [ColdPhase(name="session", ms=2.0), ColdPhase(name="parse", reason="inside session")],
    }
    return world.run(
        timing=Timing.model_validate(fields | changes),
        host=HostLoad(cores=2, load1=0.5, pressure=0.01),
        kernel=Kernel(name="k/1", wall_ms=[0.5, 0.25, 0.75]),
        wall_s=6.0,
    )


def hybrid(name: str = "Cast") -> list[JobRecord]:
    nodes = [
        PlacedNode(provider=NPU, domain="ai.onnx", op_type="Conv", count=8),
        PlacedNode(provider=CPU, domain="ai.onnx", op_type=name, count=1),
    ]
    segments = [
        Segment(provider=NPU, nodes=8, first="Conv", last="Conv"),
        Segment(provider=CPU, nodes=1, first=name, last=name),
    ]
    frame = Profiled(runs=20, segments=segments, segment_count=2, ms={NPU: 3.0, CPU: 1.0})
    main = world.run(placement=Placement(nodes=nodes, requested_provider=NPU))
    return [main, world.run(variant="profiled", profiled=frame)]


def report(given: Submission) -> dict[str, Any]:
    judged = world.verdict(given)
    return document(given, judged, world.a_manifest(), policy_digest="0" * 64)


def test_quantiles_samples_machine_and_digests_are_told() -> None:
    (one,) = performance(world.submission([timed()]))
    assert one["quantiles_ms"] == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
    assert (one["samples"], one["warmups"], one["batch"], one["kernel"]["p50_ms"]) == (100, 1, 1, 0.5)
    assert one["machine"]["pressure"] == 0.01
    assert all(path.startswith(world.SETS[0]) for path in one["input_files"])
    assert {"name": "parse", "ms": None, "reason": "inside session"} in one["cold"]


def test_a_run_that_saw_held_out_vectors_tells_no_time() -> None:
    secret = timed().model_copy(update={"variant": "heldout"})
    assert performance(world.submission([secret])) == []
    shown = for_team(report(world.submission([secret])))
    assert shown["performance"] == []


def test_the_three_names_and_the_shares_stand_in_report_and_page() -> None:
    given = report(world.submission(hybrid()))
    (one,) = given["placement"]
    assert (one["requested_provider"], one["selected_provider"], one["used_cpu_fallback"]) == (NPU, CPU, True)
    assert (one["partitions"], one["cpu_islands"], one["shares"]) == (2, 1, {CPU: 0.25, NPU: 0.75})
    page = render(given)
    for word in ("requested_provider", "selected_provider", "used_cpu_fallback", "75.0%", "25.0%"):
        assert word in page
    ((_, words),) = speed_rows(given, every=False)
    assert "used_cpu_fallback" in words
    assert "2 partitions" in words


def test_a_model_on_one_provider_says_nothing_at_the_terminal() -> None:
    given = report(world.submission([timed()]))
    assert speed_rows(given, every=False) == []
    assert [name for name, _ in speed_rows(given, every=True)] == ["warm", "placement"]


def test_the_chart_says_in_words_what_the_line_shows() -> None:
    (one,) = performance(world.submission([timed()]))
    chart = distribution_chart(one)
    assert "Latency of main" in chart
    assert "100 warm inferences took 1 ms to 100 ms; p50 50 ms, p95 95 ms, p99 99 ms" in chart
    assert chart.count("<rect") == 48
    assert chart.count("<line") == 3
    assert "style=" not in chart
    assert distribution_chart(one | {"wall_ms": [1.0, 2.0]}) == ""


def test_names_from_the_model_are_shown_and_not_obeyed() -> None:
    runs = hybrid(HOSTILE)
    given = world.submission(
        [runs[0].model_copy(update={"timing": timed(set=HOSTILE, shapes={HOSTILE: [1]}).timing}), runs[1]]
    )
    page = render(report(given))
    for text in ("<script", "\x1b", "\u202e"):
        assert text not in page
    for _, words in speed_rows(report(given), every=True):
        assert "\x1b" not in words


def test_old_evidence_has_neither_and_the_page_stands() -> None:
    old = placements(world.submission([world.run()]))
    assert old[0]["note"].startswith("by definition")
    given = report(world.submission([world.run()]))
    assert given["performance"] == []
    assert "<h2>Latency</h2>" not in render(given)
