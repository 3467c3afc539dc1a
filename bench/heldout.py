"""What a team can learn of a held-out value from a model whose memory follows an input.

A model of twelve nodes allocates in proportion to a feature of its input and multiplies it away, so that it
passes. The same bundle is judged with three held-out values, in turns. The reviewer's figure of peak memory
gives each value away; beside it stands what the team has: the time until ``verdict.json`` stood in the outbox.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from examples import evidence_classifier as classifier
from examples.bundle_text import write_set
from tests.world import MODEL_ID, ROOT, TEAM, World, world

VALUES: Final = (0.11, 0.57, 0.93)
ELEMENTS: Final = 20_000_000
"""Of eight bytes, at a feature of 1."""


def leaky(path: Path, version: str) -> Path:
    """Write the classifier with an allocation as large as its first feature."""
    made = classifier.write_bundle(path, version=version, sets=2)
    model = onnx.load(made / "model.onnx")
    softmax = model.graph.node.pop()
    constants = {
        "first": np.array([0], np.int64),
        "flat": np.array([-1], np.int64),
        "elements": np.array([ELEMENTS], np.float32),
        "none": np.array(0, np.float32),
    }
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    node = helper.make_node
    model.graph.node.extend(
        [
            node("Gather", ["features", "first"], ["row"], axis=0),
            node("Gather", ["row", "first"], ["cell"], axis=1),
            node("Mul", ["cell", "elements"], ["scaled"]),
            node("Reshape", ["scaled", "flat"], ["size"]),
            node("Cast", ["size"], ["count"], to=TensorProto.INT64),
            node("ConstantOfShape", ["count"], ["big"]),
            node("ReduceSum", ["big"], ["sum"], keepdims=0),
            node("Mul", ["sum", "none"], ["nothing"]),
            node("Add", ["logits", "nothing"], ["chosen"]),
        ]
    )
    softmax.input[0] = "chosen"
    model.graph.node.append(softmax)
    (made / "model.onnx").write_bytes(model.SerializeToString())
    return made


def held_out(home: Path, value: float) -> Path:
    features = np.array([[value, 0.57, 0.25, 0.3]], np.float32)
    expected = classifier.oracle(features)["probabilities"].astype(np.float32)
    write_set(home / "set_0", [("features", features)], [("probabilities", expected)])
    return home


class Gate:
    """A world in which one of several held-out values is in force."""

    def __init__(self, made: World, seconds: float) -> None:
        self.world = made
        home = made.state.parent
        self.policies = home / "policies"
        shutil.copytree(ROOT / "policies", self.policies)
        (made.state / "acceptd.toml").write_text(f'policy = "demo"\npolicies = "{self.policies}"\n')
        table = f"\n[heldout]\nseconds = {seconds}\nevaluations = 100000\n[regression]\nenabled = false\n"
        (self.policies / "demo.toml").write_text((ROOT / "policies" / "demo.toml").read_text() + table)
        self.lines = {
            value: made.acceptd(
                "policy", "heldout", "add", MODEL_ID, str(held_out(home / str(value), value))
            ).stdout
            for value in VALUES
        }

    def force(self, value: float) -> None:
        example = self.policies / "contracts" / "mosaic" / "evidence-disposition.toml.example"
        text = re.sub(r"\[ceilings\].*?(?=\n\[\[)", "", example.read_text(), flags=re.S)
        example.with_suffix("").write_text(f"{text}\n{self.lines[value]}")

    def judge(self, write: Callable[[Path], Path], name: str) -> tuple[float, dict[str, Any], dict[str, Any]]:
        """Return seconds until the verdict stood in the outbox, the team's report and the reviewer's."""
        drop = self.world.drop(write, name)
        dropped = time.time()
        report = self.world.verdict(drop)
        stood = (self.world.state / "outbox" / TEAM / report["submission"] / "verdict.json").stat().st_mtime
        whole = json.loads(self.world.acceptd("report", report["submission"], "--json").stdout)
        return stood - dropped, report, whole


def measure(seconds: float, rounds: int) -> None:
    waited: dict[float, list[float]] = {value: [] for value in VALUES}
    peaks: dict[float, list[float]] = {value: [] for value in VALUES}
    after: dict[float, list[float]] = {value: [] for value in VALUES}
    stages: dict[float, list[float]] = {value: [] for value in VALUES}
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as name, world(Path(name)) as made:
        gate = Gate(made, seconds)
        gate.force(VALUES[0])
        made.start()
        order = [value for _ in range(rounds) for value in random.sample(VALUES, len(VALUES))]
        for number, value in enumerate(order):
            gate.force(value)
            spent, report, whole = gate.judge(
                lambda path, number=number: leaky(path, f"1.0.{number}"),
                f"leaky-{number}",  # type: ignore[misc]
            )
            assert report["verdict"] == "accepted", report["findings"]
            assert "heldout" not in report["timings_ms"]
            told = sum(report["timings_ms"].values()) / 1000
            job = whole["heldout"]["jobs"][-1]
            waited[value].append(spent)
            after[value].append(spent - told)
            stages[value].append(whole["timings_ms"]["heldout"] / 1000)
            peaks[value].append((job["peak_memory_bytes"] - job["baseline_memory_bytes"]) / (1 << 20))
    print(f"{rounds} rounds, heldout.seconds = {seconds:g}")
    print("value   reviewer: peak MiB, stage s          team: s to the verdict   less the stages it is told")
    for value in VALUES:
        rows = (peaks[value], stages[value], waited[value], after[value])
        cells = [f"{statistics.mean(row):8.3f} ± {statistics.pstdev(row):.3f}" for row in rows]
        print(f"{value:5}   " + "      ".join(cells))
    for value in VALUES:
        print(f"{value:5}   stage, s: " + " ".join(f"{seconds:.2f}" for seconds in stages[value]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    measure(given.seconds, given.rounds)
