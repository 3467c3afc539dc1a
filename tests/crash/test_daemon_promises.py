"""What the daemon promises while much happens at once: one verdict each, an orderly stop, a cell that dies."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper

from examples import evidence_classifier as classifier
from examples import hostile_bundles
from examples.hostile_models import node
from tests.bench_world import build, write_model
from tests.world import World, codes, world

pytestmark = pytest.mark.crash

TEAMS = ("mosaic", "north", "south")
DROPS = 10
TURNS = 400_000
"""Of a Loop with an empty body: about a second of one core, far longer than the kill of its cell takes."""


def write(team: str, number: int) -> Any:
    """Return a writer of one team's bundle; every fifth has wrong goldens."""

    def bundle(path: Path) -> Path:
        model_id = f"{team}/evidence-disposition"
        made = classifier.write_bundle(path, version=f"1.{number}.0", model_id=model_id, sets=2)
        if number % 5 == 4:
            (made / "model.onnx").write_bytes(classifier.build_model(classifier.DRIFTS["other-bias"]))
        return made

    return bundle


def one_verdict_each(made: World, drops: dict[str, list[str]]) -> None:
    """Every drop has exactly one report and one verdict entry, and nothing of any of them is left over."""
    for team, names in drops.items():
        assert sorted(report["drop"] for report in made.verdicts(team)) == sorted(names)
        assert sorted(item.name for item in (made.state / "inbox" / team).iterdir()) == []
    entries = made.entries("verdict")
    assert len(entries) == sum(len(names) for names in drops.values())
    assert set(Counter(entry["submission"] for entry in entries).values()) == {1}
    done = made.acceptd("ledger", "verify")
    assert done.returncode == 0, done.stdout + done.stderr


def test_thirty_drops_of_three_teams_at_once_get_one_verdict_each(tmp_path: Path) -> None:
    with world(tmp_path, *TEAMS) as made:
        staged = [
            (team, f"{team}-{n}", write(team, n)(made.stage / f"{team}-{n}"), n)
            for n in range(DROPS)
            for team in TEAMS
        ]
        made.start()
        with ThreadPoolExecutor(8) as pool:
            moves = [
                pool.submit(path.rename, made.state / "inbox" / team / name) for team, name, path, _ in staged
            ]
            assert all(move.result() for move in moves)
        made.until(
            lambda: made.daemon_ended() or sum(len(made.verdicts(team)) for team in TEAMS) >= len(staged),
            "thirty verdicts",
        )
        made.until(lambda: not list((made.state / "sealed").iterdir()), "nothing is left sealed")
        made.stop()
        one_verdict_each(made, {team: [name for owner, name, _, _ in staged if owner == team] for team in TEAMS})
        for team in TEAMS:
            said = {report["drop"]: report for report in made.verdicts(team)}
            for number in range(DROPS):
                wanted = "rejected" if number % 5 == 4 else "accepted"
                assert said[f"{team}-{number}"]["verdict"] == wanted
            numbers = sorted(report["release"]["number"] for report in said.values() if "release" in report)
            assert numbers == list(range(1, len(numbers) + 1)), "each accepted one took a number of its own"
            assert len(numbers) == 8


def test_a_daemon_that_is_told_to_stop_while_it_works_loses_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        names = [made.drop(write("mosaic", number), f"d-{number}") for number in range(8)]
        made.start()
        made.until(lambda: b'"event": "sealed"' in made.log.read_bytes() or made.daemon_ended(), "work has begun")
        made.stop()
        early = len(made.verdicts())
        assert early < len(names), "the daemon was to be stopped while it works"
        assert made.acceptd("ledger", "verify").returncode == 0
        made.start()
        made.until(lambda: len(made.verdicts()) >= len(names) or made.daemon_ended(), "all verdicts")
        made.until(lambda: not list((made.state / "sealed").iterdir()), "nothing is left sealed")
        made.stop()
        one_verdict_each(made, {"mosaic": names})


# -- the warm parent is killed from outside


def slow(path: Path) -> Path:
    """Write an honest model that counts for about a second and adds nothing to its input."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Identity", ["value"], ["same"])],
        "count",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch", 4]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("same", TensorProto.FLOAT, ["batch", 4]),
        ],
    )
    raw = build(
        [node("Loop", ["turns", "", "features"], ["values"], body=body)],
        {"features": (TensorProto.FLOAT, ["batch", 4])},
        {"values": (TensorProto.FLOAT, ["batch", 4])},
        {"turns": np.array(TURNS, np.int64)},
    )
    sets = [np.full((1, 4), share, np.float32) for share in (0.25, 0.5)]
    return write_model(
        path,
        raw,
        [({"features": rows}, {"values": rows}) for rows in sets],
        dims={"batch": {"min": 1, "max": 1}},
        inputs=[{"name": "features", "dtype": "float32", "shape": ["batch", 4], "range": [0.0, 1.0]}],
        outputs=[{"name": "values", "dtype": "float32", "shape": ["batch", 4]}],
    )


def at_work(made: World, least: float = 0.1) -> list[psutil.Process]:
    """Return the daemon's bubblewraps below which a job has used ``least`` seconds of CPU time since its fork."""
    assert made.daemon is not None
    busy = []
    for outer in psutil.Process(made.daemon.pid).children():
        try:
            below = outer.children(recursive=True) if outer.name() == "bwrap" else []
            # bwrap, bwrap, the warm parent, and for each job its pid 1 and the job itself
            jobs = [one for one in below if len(one.parents()) > len(outer.parents()) + 3]
            if any(sum(one.cpu_times()[:2]) >= least for one in jobs):
                busy.append(outer)
        except psutil.NoSuchProcess:
            continue
    return busy


def quick_policy(made: World) -> None:
    """Let the daemon go by a policy without probes, so that only the goldens take time."""
    policy = made.state / "quick.toml"
    policy.write_text('schema = 1\nname = "quick"\n[limits]\nrun_cpu_seconds = 30\n[probes]\nenabled = false\n')
    (made.state / "acceptd.toml").write_text(f'policy = "{policy}"\n[inbox]\nsettle_seconds = 0.2\n')


def test_a_cell_that_is_killed_at_work_is_replaced_and_the_job_is_tried_once_more(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        quick_policy(made)
        made.start()
        name = made.drop(slow, "slow")
        made.until(lambda: bool(at_work(made)) or made.daemon_ended(), "the model runs")
        (outer,) = at_work(made)
        outer.kill()
        report = made.verdict(name)
        assert report["verdict"] == "accepted", report["findings"]
        assert "cell/job-retried" in codes(report, "info")
        runs = [job for job in report["resources"]["jobs"] if job["kind"] == "run"]
        assert {job["attempts"] for job in runs} <= {1, 2}
        assert max(job["attempts"] for job in runs) == 2
        # The daemon goes on with another cell, and everybody else notices nothing.
        good = made.drop(lambda path: classifier.write_bundle(path, version="2.0.0"), "good")
        after = made.verdict(good)
        assert after["verdict"] == "accepted", after["findings"]
        assert not codes(after) & {"cell/job-retried", "cell/lost"}
        made.stop()
        one_verdict_each(made, {"mosaic": [name, good]})


def test_a_cell_that_is_killed_again_and_again_is_never_the_models_fault(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        quick_policy(made)
        made.start()
        name = made.drop(slow, "slow")
        killed: set[int] = set()

        def kill() -> bool:
            for outer in at_work(made, 0.02):
                killed.add(outer.pid)
                with contextlib.suppress(psutil.NoSuchProcess):
                    outer.kill()
            return bool(made.verdicts()) or made.daemon_ended()

        made.until(kill, "a verdict")
        report = made.verdict(name)
        assert (report["verdict"], codes(report, "reject")) == ("inconclusive", set())
        assert "cell/lost" in codes(report, "hold")
        assert len(killed) >= 2
        bad = made.drop(hostile_bundles.BY_NAME["goldens-wrong"].write, "bad")
        assert made.verdict(bad)["verdict"] == "rejected"
        made.stop()
        one_verdict_each(made, {"mosaic": [name, bad]})
        assert json.loads(made.acceptd("release", "list", "--json").stdout) == []
