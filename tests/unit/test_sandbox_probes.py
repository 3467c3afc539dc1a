"""Which probes are made, with which values, and which of them the manifest allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sandbox.interface import RuntimeValue, parse
from sandbox.probes import Planner, Probe, plan, ports, stretch

pytestmark = pytest.mark.unit

BATCH = {"batch": {"min": 1, "max": 32}}


def value(
    name: str, spelling: str = "tensor(float)", shape: tuple[int | str, ...] | None = ("batch", 4)
) -> RuntimeValue:
    return RuntimeValue(name, parse(spelling), shape)


def made(
    inputs: list[RuntimeValue],
    declared: list[dict[str, Any]],
    dims: dict[str, dict[str, int]],
    golden: dict[str, Any] | None = None,
    max_elements: int = 10_000,
    seed: str = "ab",
) -> dict[str, Probe]:
    found = ports(inputs, declared, golden or {})
    assert found is not None
    return {probe.name: probe for probe in plan(found, dims, seed=seed, max_elements=max_elements)}


FEATURES: dict[str, Any] = {"name": "features", "dtype": "float32", "shape": ["batch", 4], "range": [0.25, 1.0]}


def test_declared_range_and_dims_make_probes_inside_the_domain() -> None:
    probes = made([value("features")], [FEATURES], BATCH)
    inside = [name for name, probe in probes.items() if probe.in_domain]
    assert inside == [
        "probe:ones", "probe:low", "probe:high", "probe:mid", "probe:dim-min:batch", "probe:dim-max:batch",
    ]  # fmt: skip
    assert (probes["probe:low"].feeds["features"] == 0.25).all()
    assert (probes["probe:mid"].feeds["features"] == 0.625).all()
    assert probes["probe:dim-max:batch"].feeds["features"].shape == (32, 4)
    for name in inside:
        array = probes[name].feeds["features"]
        assert array.dtype == np.float32
        assert ((array >= 0.25) & (array <= 1)).all()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([0.0, 1.0], ["zeros", "ones", "mid"]),
        ([0.0, 5.0], ["zeros", "ones", "high", "mid"]),
        ([-2.0, 1.0], ["zeros", "ones", "low", "mid"]),
        ([-1.0, 0.0], ["zeros", "low", "high", "mid"]),
        ([-0.0, 1.0], ["zeros", "ones", "low", "mid"]),
        ([0.0, 0.0], ["zeros", "low", "mid"]),
    ],
)
def test_no_bound_is_tried_twice_and_two_that_differ_always_remain(
    limits: list[float], expected: list[str]
) -> None:
    """A model that ignores its inputs is known by two bounds that differ; -0 is no 0."""
    probes = made([value("features")], [FEATURES | {"range": limits}], BATCH)
    found = [name.removeprefix("probe:") for name, one in probes.items() if one.in_domain and "dim" not in name]
    assert [name for name in found if name not in {"subnormal", "minus-zero"}] == expected


def test_a_bound_that_repeats_another_for_one_of_two_inputs_is_tried() -> None:
    other = {"name": "other", "dtype": "int32", "shape": ["batch"], "range": [0, 7]}
    probes = made(
        [value("features"), value("other", "tensor(int32)", ("batch",))],
        [FEATURES | {"range": [0, 1]}, other],
        BATCH,
    )
    assert "probe:low" not in probes
    assert probes["probe:high"].feeds["other"].tolist() == [7]


def test_what_is_outside_comes_last_and_is_marked() -> None:
    probes = list(made([value("features")], [FEATURES], BATCH).values())
    outside = [probe.name for probe in probes if not probe.in_domain]
    assert outside == [
        "probe:zeros", "probe:subnormal", "probe:dim-zero:batch", "probe:dim-over:batch", "probe:below",
        "probe:above", "probe:nan", "probe:inf", "probe:minus-inf", "probe:float-max", "probe:float-lowest",
    ]  # fmt: skip
    assert [probe.in_domain for probe in probes] == sorted((probe.in_domain for probe in probes), reverse=True)
    by_name = {probe.name: probe for probe in probes}
    assert by_name["probe:dim-zero:batch"].feeds["features"].shape == (0, 4)
    assert by_name["probe:dim-over:batch"].feeds["features"].shape == (33, 4)
    assert np.isnan(by_name["probe:nan"].feeds["features"]).all()


def test_without_declarations_nothing_is_inside_the_domain() -> None:
    probes = made([value("features")], [], {}, {"features": np.ones((2, 4), np.float32)})
    assert probes
    assert not any(probe.in_domain for probe in probes.values())


def test_an_unknown_dimension_is_not_inside_the_domain() -> None:
    declared = [{"name": "x", "dtype": "float32", "shape": ["?", 4], "range": [0, 1]}]
    probes = made([value("x", shape=("?", 4))], declared, {})
    assert not any(probe.in_domain for probe in probes.values())


def test_an_input_without_a_range_is_held_at_its_golden_value() -> None:
    declared = [FEATURES, {"name": "rate", "dtype": "int64", "shape": []}]
    inputs = [value("features"), value("rate", "tensor(int64)", None)]
    probes = made(inputs, declared, BATCH, {"features": np.ones((1, 4), np.float32), "rate": np.array(16000)})
    assert probes["probe:low"].in_domain
    assert probes["probe:low"].feeds["rate"] == 16000
    without = made(inputs, declared, BATCH, {})
    assert not any(probe.in_domain for probe in without.values())


def test_golden_rows_are_repeated_to_the_largest_batch() -> None:
    declared = [{"name": "ids", "dtype": "int64", "shape": ["batch"]}]
    probes = made([value("ids", "tensor(int64)", ("batch",))], declared, BATCH, {"ids": np.array([7, 8, 9])})
    assert probes["probe:dim-max:batch"].in_domain
    assert probes["probe:dim-max:batch"].feeds["ids"].tolist() == ([7, 8, 9] * 11)[:32]


def test_several_dimensions_are_probed_alone_and_together() -> None:
    dims = {"batch": {"min": 1, "max": 3}, "length": {"min": 2, "max": 5}}
    declared = [{"name": "x", "dtype": "float32", "shape": ["batch", "length"], "range": [0, 1]}]
    probes = made([value("x", shape=("batch", "length"))], declared, dims)
    shapes = {name.removeprefix("probe:"): probe.feeds["x"].shape for name, probe in probes.items()}
    assert shapes["dim-max:batch"] == (3, 2)
    assert shapes["dim-max:length"] == (1, 5)
    assert (shapes["dims-min"], shapes["dims-max"]) == ((1, 2), (3, 5))


def test_a_dimension_that_may_be_zero_is_not_probed_outside_at_zero() -> None:
    probes = made([value("features")], [FEATURES], {"batch": {"min": 0, "max": 2}})
    assert probes["probe:dim-min:batch"].in_domain
    assert "probe:dim-zero:batch" not in probes


@pytest.mark.parametrize(
    ("spelling", "limits", "low", "high"),
    [
        ("tensor(int8)", [-1000.0, 1000.0], -128, 127),
        ("tensor(uint8)", [0.5, 9.5], 1, 9),
        ("tensor(uint64)", [0.0, 2.0**70], 0, 2**64 - 1),
        ("tensor(bool)", [0.0, 1.0], 0, 1),
        ("tensor(float16)", [-1e9, 1e9], -65504, 65504),
    ],
)
def test_ranges_are_cut_to_the_element_type(spelling: str, limits: list[float], low: float, high: float) -> None:
    port = value("x", spelling, (3,))
    probes = made([port], [{"name": "x", "dtype": port.type.dtype, "shape": [3], "range": limits}], {})
    for name, same, expected in (("low", "zeros", low), ("high", "ones", high)):  # whichever of the two is tried
        assert (probes.get(f"probe:{name}") or probes[f"probe:{same}"]).feeds["x"].tolist() == [expected] * 3


def test_a_range_without_a_whole_number_makes_no_integer_probe() -> None:
    declared = [{"name": "x", "dtype": "int32", "shape": [3], "range": [0.2, 0.8]}]
    probes = made([value("x", "tensor(int32)", (3,))], declared, {})
    assert not any(probe.in_domain for probe in probes.values())


def test_integers_get_no_nan() -> None:
    probes = made([value("x", "tensor(int32)", (3,))], [], {})
    assert list(probes) == ["probe:zeros", "probe:ones", "probe:int-min", "probe:int-max"]
    assert probes["probe:int-min"].feeds["x"].tolist() == [-(2**31)] * 3


@pytest.mark.parametrize(
    "spelling", ["tensor(bfloat16)", "tensor(float8e5m2)", "tensor(float8e8m0)", "tensor(double)"]
)
def test_every_floating_type_has_probes(spelling: str) -> None:
    probes = made([value("x", spelling, (2,))], [], {})
    assert np.isnan(probes["probe:nan"].feeds["x"].astype(np.float32)).all()


def test_a_probe_beyond_max_elements_is_left_out() -> None:
    probes = made([value("features")], [FEATURES], BATCH, max_elements=31 * 4)
    assert "probe:low" in probes
    assert "probe:dim-max:batch" not in probes


@pytest.mark.parametrize("spelling", ["seq(tensor(float))", "optional(tensor(float))", "map(int64,tensor(float))"])
def test_an_input_that_is_no_tensor_means_no_probes(spelling: str) -> None:
    assert ports([value("x", spelling)], [], {}) is None


def test_a_string_input_is_held_at_its_golden_or_nothing_is_inside_the_domain() -> None:
    inputs = [value("x", "tensor(string)", (1,)), value("features")]
    assert not any(probe.in_domain for probe in made(inputs, [FEATURES], BATCH).values())
    golden = {"x": np.array(["a"], object), "features": np.ones((1, 4), np.float32)}
    assert made(inputs, [FEATURES], BATCH, golden)["probe:low"].feeds["x"].tolist() == ["a"]


def test_no_inputs_no_probes() -> None:
    assert list(plan([], {}, seed="0", max_elements=10)) == []


def test_the_seed_decides_what_is_random_and_no_probe_changes_another() -> None:
    def filled(seed: str, **changes: Any) -> list[float]:
        probe = made([value("features")], [FEATURES], BATCH, seed=seed, **changes)["probe:dim-min:batch"]
        return list(probe.feeds["features"].ravel().tolist())

    assert filled("01") == filled("01")
    assert filled("01") != filled("02")
    assert filled("01") == filled("01", max_elements=31 * 4), "without the largest batch, the same smallest one"


def test_strings_are_probed_with_empty_long_and_odd_text() -> None:
    inputs = [value("x", "tensor(string)", (3,))]
    probes = made(inputs, [], {})
    assert probes["probe:text-empty"].feeds["x"].tolist() == [""] * 3
    assert [len(text) for text in probes["probe:text-long"].feeds["x"]] == [1 << 16, 1, 1]
    odd = probes["probe:text-unicode"].feeds["x"]
    assert len(set(odd.tolist())) == 3
    assert not any("\0" in text or any("\ud800" <= char <= "\udfff" for char in text) for text in odd)


def test_a_range_that_ends_at_the_types_own_ends_leaves_nothing_beyond() -> None:
    declared = [{"name": "x", "dtype": "uint8", "shape": [256], "range": [0, 255]}]
    probes = made([value("x", "tensor(uint8)", (256,))], declared, {})
    assert not {"probe:below", "probe:above", "probe:int-min", "probe:int-max"} & set(probes)
    assert probes["probe:codes"].feeds["x"].tolist() == list(range(256))
    assert probes["probe:codes"].in_domain


def test_steps_of_a_quantised_model_lie_on_codes_and_halfway() -> None:
    declared = [{"name": "x", "dtype": "float32", "shape": [256], "range": [-2.0, 3.1]}]
    found = ports([value("x", shape=(256,))], declared, {})
    assert found is not None
    planner = Planner(found, {}, seed="1", max_elements=1000)
    plain = {probe.name for probe in planner.values()}
    probes = {probe.name: probe for probe in planner.values(quantised=True)}
    assert set(probes) - plain == {"probe:steps", "probe:half-steps"}
    codes = (probes["probe:steps"].feeds["x"].astype(np.float64) + 2) / 0.02
    assert np.abs(codes - np.arange(256)).max() < 1e-4
    halves = (probes["probe:half-steps"].feeds["x"][:-1].astype(np.float64) + 2) / 0.02
    assert np.abs(halves - np.arange(255) - 0.5).max() < 1e-4


def test_a_least_size_above_one_is_probed_below() -> None:
    declared = [{"name": "x", "dtype": "float32", "shape": ["n"], "range": [0, 1]}]
    probes = made([value("x", shape=("n",))], declared, {"n": {"min": 4, "max": 9}})
    assert probes["probe:dim-under:n"].feeds["x"].shape == (3,)
    assert not probes["probe:dim-under:n"].in_domain


def test_stretching_an_empty_golden_is_not_possible() -> None:
    assert stretch(np.zeros((0, 2)), (3, 2)) is None
    repeated = stretch(np.array([[1, 2]]), (2, 3))
    assert repeated is not None
    assert repeated.tolist() == [[1, 2, 1], [1, 2, 1]]
