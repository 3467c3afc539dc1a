"""Cases of HOSTILE.md's groups that the catalogue has not: through the real rooms, each with its control."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from examples import evidence_classifier as classifier
from examples import hostile_models as models
from examples import hostile_writers as writers
from examples.bundle_text import write_set
from examples.hostile_models import INT64_MIN, Trap, node
from tests.bench_world import Desk, build, desk, rewrite, write_model
from tests.world import codes

pytestmark = pytest.mark.hostile

WEIGHT = np.array(classifier.WEIGHT, np.float32).tobytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("groups")) as made:
        yield made


def whole(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


# -- wire and structure: external data


def external(path: Path, *twice: tuple[str, str]) -> Path:
    """Write a good bundle whose weight lies in ``weights.bin``; ``twice`` are entries that stand once more."""

    def change(proto: Any) -> None:
        tensor = next(one for one in proto.graph.initializer if one.name == "weight")
        for key, value in twice:
            tensor.external_data.add(key=key, value=value)

    raw = models.externalise(classifier.build_model(), "weights.bin", offset="0", length="48")
    writers.plain(path, models.rewrite(raw, change))
    (path / "weights.bin").write_bytes(WEIGHT)
    (path / "other.bin").write_bytes(bytes(96))
    return path


def test_positive_control_external_data_with_each_key_once(place: Desk, tmp_path: Path) -> None:
    assert place.check(external(tmp_path / "b"))["verdict"] == "accepted"


@pytest.mark.parametrize(
    "again",
    [("location", "other.bin"), ("location", "weights.bin"), ("offset", "0"), ("offset", "48"), ("length", "48")],
    ids="=".join,
)
def test_duplicate_external_data_keys_that_readers_take_differently(
    again: tuple[str, str], place: Desk, tmp_path: Path
) -> None:
    report = place.check(external(tmp_path / "b", again))
    assert report["verdict"] == "rejected"
    (one,) = [one for one in report["findings"] if one["severity"] == "reject"]
    assert one["code"] == "external-data/duplicate-key"
    assert "weight" in one["where"]


# -- structure: a weight that a caller may replace


def overridable(path: Path) -> Path:
    """Write the good bundle with the weight as an input too."""

    def change(proto: Any) -> None:
        proto.graph.input.append(helper.make_tensor_value_info("weight", TensorProto.FLOAT, [4, 3]))

    return writers.plain(path, models.rewrite(classifier.build_model(), change))


def test_an_overridable_weight_is_held(place: Desk, tmp_path: Path) -> None:
    held = place.check(overridable(tmp_path / "b"))
    assert (held["verdict"], codes(held, "hold")) == ("held", {"structure/overridable-initializer"})


def test_a_golden_that_replaces_a_weight_is_never_accepted(place: Desk, tmp_path: Path) -> None:
    bundle = overridable(tmp_path / "b")
    (features, *_) = classifier.golden_inputs(classifier.Variant(), 1)
    weight = np.array(classifier.WEIGHT, np.float32)
    write_set(
        bundle / "test_data_set_0",
        [("features", features), ("weight", weight)],
        [("probabilities", classifier.oracle(features)["probabilities"].astype(np.float32))],
    )
    report = place.check(bundle)
    assert report["verdict"] != "accepted"
    assert "run/overridden-initializer" in codes(report, "reject", "hold")


# -- load and run: endless without a loop


def skips() -> Trap:
    """TfIdfVectorizer with two billion skips: each is a pass over the input."""
    return Trap(
        (
            node("Cast", ["features"], ["numbers"], to=TensorProto.INT64),
            node("Reshape", ["numbers", "flat"], ["row"]),
            node(
                "TfIdfVectorizer",
                ["row"],
                ["counts"],
                mode="TF",
                min_gram_length=2,
                max_gram_length=2,
                max_skip_count=2**31 - 1,
                ngram_counts=[0, 0],
                ngram_indexes=[0],
                pool_int64s=[7, 8],
            ),
            node("ReduceMax", ["counts"], ["trap"], keepdims=0),
        ),
        {"flat": whole(-1)},
    )


def test_a_vectorizer_that_skips_for_ever_ends_at_the_cpu_limit(place: Desk, tmp_path: Path) -> None:
    report = place.check(
        writers.write_trap(tmp_path / "b", skips()),
        "limits.run_cpu_seconds=1",
        "limits.repetitions=1000000000000000",
    )
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"resources/cpu-limit"})


# -- load and run: a trigger that no golden pulls, inside the declared domain


def when_all_are_one(*nodes: Any, **weights: np.ndarray[Any, Any]) -> Trap:
    """``flag`` int64 is 1 where every feature is 1, the upper end of the declared range, and else 0."""
    flag = (
        node("ReduceMin", ["features"], ["least"], keepdims=0),
        node("Floor", ["least"], ["floor"]),
        node("Cast", ["floor"], ["flag"], to=TensorProto.INT64),
    )
    return Trap((*flag, *nodes), weights)


def raises() -> Trap:
    """An index far outside when the trigger is pulled."""
    return when_all_are_one(
        node("Mul", ["flag", "far"], ["index"]),
        node("Gather", ["row", "index"], ["trap"]),
        far=np.array(1000, np.int64),
        row=np.zeros(4, np.float32),
    )


def dies() -> Trap:
    """INT64_MIN / -1 when the trigger is pulled, INT64_MIN / 1 else."""
    return when_all_are_one(
        node("Mul", ["flag", "two"], ["double"]),
        node("Sub", ["one", "double"], ["divisor"]),
        node("Div", ["least_number", "divisor"], ["quotient"]),
        node("Cast", ["quotient"], ["trap"], to=TensorProto.FLOAT),
        one=np.array(1, np.int64),
        two=np.array(2, np.int64),
        least_number=np.array(INT64_MIN, np.int64),
    )


@pytest.mark.parametrize(("trap", "code"), [(raises, "behaviour/probe-error"), (dies, "run/crash")])
def test_a_trigger_that_only_a_probe_inside_the_domain_pulls(
    trap: Callable[[], Trap], code: str, place: Desk, tmp_path: Path
) -> None:
    # Without the published points that are all zeros or all ones, no golden pulls it.
    bundle = writers.write_trap(tmp_path / "b", trap())
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert code in codes(report, "reject"), report["findings"]
    assert not {row["exceeding"] for row in report["parity"] if row["against"] == "golden"} - {0}
    quiet = place.check(bundle, "probes.enabled=false")
    assert quiet["verdict"] == "accepted", "the control: the goldens alone do not show it"


# -- load and run: what the run does not keep


def reshaped(path: Path) -> Path:
    """Write a model that declares [batch, 4] and gives [2 * batch, 2]."""
    raw = build(
        [node("Reshape", ["features", "shape"], ["values"])],
        {"features": (TensorProto.FLOAT, ["batch", 4])},
        {"values": (TensorProto.FLOAT, ["batch", 4])},
        {"shape": whole(-1, 2)},
    )
    features = np.array([[0.25, 0.5, 0.75, 1.0]], np.float32)
    return write_model(
        path,
        raw,
        [({"features": features}, {"values": features.reshape(2, 2)})],
        dims={"batch": {"min": 1, "max": 4}},
        inputs=[{"name": "features", "dtype": "float32", "shape": ["batch", 4], "range": [0.0, 1.0]}],
        outputs=[{"name": "values", "dtype": "float32", "shape": ["batch", 4]}],
    )


def test_a_declared_output_shape_that_the_run_does_not_keep(place: Desk, tmp_path: Path) -> None:
    report = place.check(reshaped(tmp_path / "b"))
    assert report["verdict"] == "rejected"
    assert "behaviour/output-shape" in codes(report, "reject")


# -- load and run: results that differ between runs


def noisy(path: Path, *, seed: float | None = None) -> Path:
    """Write the classifier with noise far inside the declared tolerance on its logits."""
    more = {} if seed is None else {"seed": seed}
    noise = node("RandomNormal", [], ["trap"], shape=[3], scale=1e-4, **more)
    raw = models.build(Trap((noise,), {"nothing": np.array(1, np.float32)}))
    writers.plain(path, raw)
    for folder in path.glob("test_data_set_[12]"):
        shutil.rmtree(folder)

    def widen(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"] = {"rtol": 0.0, "atol": 1e-2, "top1": 1.0}

    return rewrite(path, widen)


def test_noise_inside_the_tolerance_is_seen_because_two_runs_must_agree_exactly(
    place: Desk, tmp_path: Path
) -> None:
    report = place.check(noisy(tmp_path / "b"))
    assert report["verdict"] == "held"
    assert "behaviour/nondeterministic" in codes(report, "hold")
    assert "structure/unseeded-random" in codes(report, "warn")


def test_a_seed_does_not_hide_that_each_run_goes_on_in_the_sequence(place: Desk, tmp_path: Path) -> None:
    report = place.check(noisy(tmp_path / "b", seed=7.0))
    assert report["verdict"] == "held"
    assert "behaviour/nondeterministic" in codes(report, "hold")
