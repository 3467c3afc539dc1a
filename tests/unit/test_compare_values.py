"""The comparer's arithmetic, in this process: every kind of value against a plain numpy computation."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from acceptd.compare import decode, values
from acceptd.compare.blob import Blob
from acceptd.compare.service import compare
from acceptd.compare.task import CompareTask, Group, Pair, Sample, Slice
from acceptd.evidence import MapRef, OptionalRef, OutputStats, SequenceRef, Statistics, TensorRef

pytestmark = pytest.mark.unit


class Store:
    """One file of values, as a job leaves it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the fixture
        self._size = 0

    def close(self) -> None:
        self._file.close()

    def put(self, raw: bytes) -> int:
        offset = self._size
        self._file.write(raw)
        self._file.flush()
        self._size += len(raw)
        return offset

    def tensor(self, array: Any, dtype: str | None = None) -> TensorRef:
        array = np.asarray(array)
        raw = array.tobytes()
        offset = self.put(raw)
        return TensorRef(dtype=dtype or array.dtype.name, shape=list(array.shape), offset=offset, nbytes=len(raw))

    def strings(self, *items: str | bytes, shape: list[int] | None = None) -> TensorRef:
        encoded = [item.encode() if isinstance(item, str) else item for item in items]
        raw = b"".join(struct.pack("<I", len(item)) + item for item in encoded)
        return TensorRef(dtype="string", shape=shape or [len(items)], offset=self.put(raw), nbytes=len(raw))

    def statistics(self, pairs: list[Pair], groups: list[Group] | None = None) -> Statistics:
        return compare(CompareTask(pairs=pairs, groups=groups or []), {"f": Blob(self._file.fileno())})

    def against(self, expected: Any, got: Any, **changes: Any) -> OutputStats:
        fields: dict[str, Any] = {
            "set": "s",
            "model": "main",
            "output": "y",
            "against": "golden",
            "expected": Slice(file="f", value=expected),
            "got": Slice(file="f", value=got),
            "rtol": 0.0,
            "atol": 0.0,
        }
        return self.statistics([Pair.model_validate(fields | changes)]).outputs[0]

    def arrays(self, expected: Any, got: Any, **changes: Any) -> OutputStats:
        return self.against(self.tensor(expected), self.tensor(got), **changes)


@pytest.fixture
def store() -> Iterator[Store]:
    one = Store()
    yield one
    one.close()


def f32(*items: float) -> Any:
    return np.array(items, np.float32)


def test_equal_tensors_are_equal_to_the_bit(store: Store) -> None:
    found = store.arrays(f32(1, 2, 3), f32(1, 2, 3))
    assert (found.comparable, found.n, found.exceeding, found.max_abs, found.bit_exact) == (True, 3, 0, 0.0, True)


def test_the_worst_element_is_the_one_with_the_largest_excess(store: Store) -> None:
    expected = np.array([[1000.0, 1.0], [0.5, 2.0]], np.float32)
    got = np.array([[1000.5, 1.0], [0.5, 2.25]], np.float32)
    found = store.arrays(expected, got, rtol=1e-3, atol=1e-3)
    assert (found.exceeding, found.worst_index, found.worst_expected, found.worst_got) == (
        1,
        [1, 1],
        "2.0",
        "2.25",
    )
    assert (found.max_abs, found.max_rel) == (0.5, 0.125)


def test_the_tolerance_is_inclusive_and_relative_to_the_expected_value(store: Store) -> None:
    assert store.arrays(np.array([2.0]), np.array([2.5]), atol=0.5).exceeding == 0
    assert store.arrays(np.array([2.0]), np.array([2.5]), rtol=0.25).exceeding == 0
    assert store.arrays(np.array([2.5]), np.array([2.0]), rtol=0.19).exceeding == 1


def test_nan_equals_nan_and_infinities_equal_themselves_alone(store: Store) -> None:
    inf, nan = np.inf, np.nan
    assert store.arrays(f32(nan, inf, -inf), f32(nan, inf, -inf)).exceeding == 0
    assert store.arrays(f32(nan, inf, -inf), f32(nan, inf, -inf)).max_rel == 0.0
    for expected, got in ((nan, 1.0), (1.0, nan), (inf, -inf), (inf, 1.0), (1.0, inf), (nan, inf)):
        found = store.arrays(f32(expected), f32(got), rtol=1.0, atol=1e30)
        assert (found.exceeding, found.max_abs) == (1, "inf"), (expected, got)


def test_a_tolerance_beyond_every_number_is_no_overflow_that_hides_an_infinity(store: Store) -> None:
    huge = np.array([1e308, 1.0])
    found = store.arrays(huge, np.array([1e308, 1.5]), rtol=1e10)
    assert (found.exceeding, found.max_abs) == (0, 0.5)
    assert store.arrays(huge, np.array([1e308, np.inf]), rtol=1e10).exceeding == 1
    assert store.arrays(huge, np.array([-1e308, 1.0]), rtol=1e-10).exceeding == 1


def test_non_finite_results_are_counted(store: Store) -> None:
    assert store.arrays(f32(1, 2, 3), f32(1, np.nan, np.inf)).non_finite == 2


def test_64_bit_integers_are_compared_exactly(store: Store) -> None:
    found = store.arrays(np.array([2**62, -(2**63)]), np.array([2**62 + 1, 2**63 - 1]))
    assert (found.exceeding, found.max_abs) == (2, float(2**64 - 1))
    unsigned = store.arrays(np.array([2**64 - 1], np.uint64), np.array([0], np.uint64))
    assert unsigned.max_abs == float(2**64 - 1)
    one = store.arrays(np.array([2**53 + 1]), np.array([2**53]))
    assert (one.exceeding, one.max_abs) == (1, 1.0)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]
)
def test_integers_and_bool(store: Store, dtype: str) -> None:
    assert store.arrays(np.array([0, 1], dtype), np.array([0, 1], dtype)).exceeding == 0
    assert store.arrays(np.array([0, 1], dtype), np.array([1, 1], dtype)).exceeding == 1


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_differ_by_the_length_of_the_difference(store: Store, dtype: str) -> None:
    found = store.arrays(np.array([1 + 1j], dtype), np.array([4 + 5j], dtype), atol=4.9)
    assert (found.exceeding, found.max_abs) == (1, 5.0)


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8e4m3fn", ml_dtypes.float8_e4m3fn),
        ("float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
        ("float8e5m2", ml_dtypes.float8_e5m2),
        ("float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
        ("float8e8m0", ml_dtypes.float8_e8m0fnu),
    ],
)
def test_every_code_of_the_small_floats_decodes_as_ml_dtypes_does(name: str, scalar: Any) -> None:
    wide = np.dtype(scalar).itemsize == 2
    codes = np.arange(65536, dtype=np.uint16) if wide else np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        expected = codes.view(scalar).astype(np.float64)
    np.testing.assert_array_equal(decode.numbers(codes.tobytes(), name), expected)


@pytest.mark.parametrize(
    ("name", "scalar", "width"),
    [
        ("int4", ml_dtypes.int4, 4),
        ("uint4", ml_dtypes.uint4, 4),
        ("float4e2m1", ml_dtypes.float4_e2m1fn, 4),
        ("int2", ml_dtypes.int2, 2),
        ("uint2", ml_dtypes.uint2, 2),
    ],
)
def test_packed_elements_lie_with_the_first_in_the_low_bits(
    store: Store, name: str, scalar: Any, width: int
) -> None:
    per = 8 // width
    codes = np.arange(1 << width, dtype=np.uint8)
    packed = np.zeros(len(codes) // per, np.uint8)
    for index, code in enumerate(codes):
        packed[index // per] |= code << (width * (index % per))
    expected = codes.view(scalar).astype(np.float64)
    np.testing.assert_array_equal(decode.unpack(packed.tobytes(), name), expected)
    odd = TensorRef(dtype=name, shape=[len(codes) - 1], offset=store.put(packed.tobytes()), nbytes=len(packed))
    assert store.against(odd, odd).n == len(codes) - 1


def test_strings_are_equal_or_not(store: Store) -> None:
    found = store.against(store.strings("a", "ä", ""), store.strings("a", "b", ""), atol=1e9)
    assert (found.n, found.exceeding, found.worst_index, found.worst_got) == (3, 1, [1], "'b'")
    assert store.against(store.strings(b"\xff"), store.strings(b"\xff")).exceeding == 0


@pytest.mark.parametrize(
    ("got", "note"), [(np.zeros(3, np.float64), "dtype"), (np.zeros((3, 1), np.float32), "shape")]
)
def test_dtype_and_shape_must_match(store: Store, got: Any, note: str) -> None:
    found = store.arrays(np.zeros(3, np.float32), got)
    assert (found.comparable, found.note, found.n) == (False, note, 0)


def test_a_missing_output_is_missing(store: Store) -> None:
    expected = Slice(file="f", value=store.tensor(f32(1)))
    pair = Pair(set="s", model="m", output="y", against="golden", expected=expected, got=None, rtol=0.0, atol=0.0)
    assert store.statistics([pair]).outputs[0].note == "missing"


def test_scalars_and_empty_tensors(store: Store) -> None:
    assert store.arrays(np.float32(1), np.float32(2)).worst_index == []
    empty = store.arrays(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), kind="probabilities")
    assert (empty.comparable, empty.n, empty.bit_exact) == (True, 0, True)


# -- rows


def test_the_top_class_is_the_lowest_index_on_a_tie(store: Store) -> None:
    third = np.full((1, 3), 1 / 3, np.float32)
    nudged = third.copy()
    nudged[0, 2] = np.nextafter(np.float32(1 / 3), np.float32(1))
    assert store.arrays(third, third, kind="logits").top1_mismatches == 0
    found = store.arrays(third, nudged, kind="logits", atol=1e-3)
    assert (found.exceeding, found.top1_total, found.top1_mismatches) == (0, 1, 1)


@pytest.mark.parametrize(
    ("row", "violations"),
    [
        ([0.5, 0.5, 0.0], 0),
        ([0.5, 0.5, 1e-4], 0),
        ([0.5, 0.5, 1.02e-4], 1),
        ([0.5, 0.4999, 0.0], 0),
        ([0.5, 0.4998, 0.0], 1),
        ([1.0, 0.0, -1e-9], 1),
        ([1.0000002, 0.0, 0.0], 1),
        ([np.nan, 0.5, 0.5], 2),
        ([np.inf, 0.0, 0.0], 2),
    ],
)
def test_probabilities_lie_in_range_and_sum_to_one(store: Store, row: list[float], violations: int) -> None:
    assert store.arrays([f32(*row)], [f32(*row)], kind="probabilities").range_violations == violations


def test_a_single_probability_needs_no_sum(store: Store) -> None:
    assert store.arrays([f32(0.2)], [f32(0.2)], kind="probabilities").range_violations == 0


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 1000])
def test_the_size_of_a_chunk_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    random = np.random.default_rng(7)
    expected = random.random((5, 7)).astype(np.float32)
    expected /= expected.sum(axis=1, keepdims=True)
    got = expected.copy()
    got[2] = got[2, ::-1]
    got[4, 6] += 0.5
    left, right = store.tensor(expected), store.tensor(got)
    whole = store.against(left, right, kind="probabilities")
    monkeypatch.setattr(values, "CHUNK_ELEMENTS", most)
    assert store.against(left, right, kind="probabilities") == whole
    assert whole.top1_mismatches == np.count_nonzero(expected.argmax(1) != got.argmax(1))


# -- nested values


def test_sequences_are_compared_item_by_item(store: Store) -> None:
    left = SequenceRef(items=[store.tensor(f32(1)), store.tensor(f32(2, 3))])
    right = SequenceRef(items=[store.tensor(f32(1)), store.tensor(f32(2, 4))])
    found = store.against(left, right)
    assert (found.n, found.exceeding, found.worst_index) == (3, 1, [1, 1])
    assert store.against(left, SequenceRef(items=left.items[:1])).note == "shape"
    assert store.against(left, left.items[0]).note == "kind"


def test_an_optional_is_its_value_or_nothing(store: Store) -> None:
    one = store.tensor(f32(1))
    absent = OptionalRef(value=None)
    assert store.against(OptionalRef(value=one), one).bit_exact
    assert store.against(absent, absent).comparable
    assert store.against(absent, one).note == "kind"


def test_maps_are_compared_by_key_in_any_order(store: Store) -> None:
    def mapped(keys: list[int], numbers: list[float]) -> MapRef:
        return MapRef(keys=store.tensor(np.array(keys)), values=store.tensor(np.array(numbers, np.float32)))

    assert store.against(mapped([1, 2], [0.1, 0.2]), mapped([2, 1], [0.2, 0.1])).exceeding == 0
    assert store.against(mapped([1, 2], [0.1, 0.2]), mapped([2, 1], [0.1, 0.2])).exceeding == 2
    assert store.against(mapped([1, 2], [0.1, 0.2]), mapped([1, 3], [0.1, 0.2])).note == "shape"
    assert store.against(mapped([1, 1], [0.1, 0.2]), mapped([1, 1], [0.1, 0.2])).note == "malformed"
    words = MapRef(keys=store.strings("a", "b"), values=store.strings("x", "y"))
    swapped = MapRef(keys=store.strings("b", "a"), values=store.strings("y", "z"))
    assert store.against(words, swapped).exceeding == 1


# -- insensitive outputs


def sample(key: str, output: TensorRef, *inputs: TensorRef) -> Sample:
    given = [Slice(file="f", value=one) for one in inputs] if inputs else None
    return Sample(key=key, inputs=given, output=Slice(file="f", value=output))


def insensitive(store: Store, *samples: Sample) -> bool:
    group = Group(model="main", output="y", samples=list(samples))
    return store.statistics([], [group]).insensitive == ["main: y"]


def test_one_output_for_different_inputs_is_insensitive(store: Store) -> None:
    thirds, more = store.tensor(np.full((1, 3), 1 / 3)), store.tensor(np.full((2, 3), 1 / 3))
    first, second = store.tensor(f32(1)), store.tensor(f32(2))
    assert insensitive(store, sample("a", thirds, first), sample("b", thirds, second))
    assert insensitive(store, sample("a", thirds, first), sample("b", more, second))
    assert insensitive(
        store, sample("a", thirds, first), sample("probe:zeros", thirds), sample("probe:ones", more)
    )


def test_what_proves_nothing_is_not_called_insensitive(store: Store) -> None:
    thirds, other = store.tensor(np.full((1, 3), 1 / 3)), store.tensor(np.zeros((1, 3)))
    first, second = store.tensor(f32(1)), store.tensor(f32(2))
    empty = store.tensor(np.zeros((0, 3)))
    assert not insensitive(store, sample("a", thirds, first), sample("b", thirds, first))
    assert not insensitive(store, sample("a", thirds, first), sample("b", other, second))
    assert not insensitive(store, sample("a", thirds, first), sample("probe:zeros", thirds))
    assert not insensitive(store, sample("probe:zeros", thirds), sample("probe:low", thirds))
    assert not insensitive(store, sample("a", empty, first), sample("b", empty, second))


def test_the_worst_element_of_what_passes_is_one_that_differs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "CHUNK_ELEMENTS", 2)
    found = store.arrays(f32(0.0, 1.0, 2.0, 3.0), f32(-0.0, 1.0, 2.0, 3.25), atol=0.5)
    assert (found.exceeding, found.worst_index, found.bit_exact) == (0, [3], False)
