"""Values as bytes: every element type, strings, nested values, and blobs that are full or lie."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from sandbox.tensors import (
    ELEMENTS,
    PACKED,
    BlobFullError,
    BlobReader,
    BlobWriter,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    count_of,
    nbytes_of,
    pack_strings,
    tensor_of,
    to_array,
    unpack_strings,
)
from tests.run_world import blob

pytestmark = pytest.mark.unit

WITH_ARRAYS = [name for name, element in ELEMENTS.items() if element.array is not None]


@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_numbers_and_names_are_onnx_own(name: str) -> None:
    element = ELEMENTS[name]
    assert helper.tensor_dtype_to_np_dtype(element.number) == element.array
    assert helper.tensor_dtype_to_string(element.number).rpartition(".")[2].lower() == {
        "float32": "float", "float64": "double",
    }.get(name, name)  # fmt: skip


@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_byte_form_is_that_of_raw_data(name: str) -> None:
    array = np.array([[1, 2], [2, 1]]).astype(ELEMENTS[name].array)
    value = tensor_of(array, name)
    assert bytes(value.data) == numpy_helper.from_array(array).raw_data
    assert (to_array(value) == array).all()


@pytest.mark.parametrize("name", sorted(PACKED))
def test_packed_elements_round_up_to_whole_bytes(name: str) -> None:
    message = helper.make_tensor("t", ELEMENTS[name].number, [5], [1, 0, 1, 1, 1])
    array = numpy_helper.to_array(message)
    assert nbytes_of(ELEMENTS[name], [5]) == len(numpy_helper.from_array(array).raw_data)


def test_big_endian_and_strided_arrays_become_little_endian_c_order() -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    assert bytes(tensor_of(array, "int32").data) == np.array([0, 3, 1, 4, 2, 5], "<i4").tobytes()


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0), (1, 1, 1)])
def test_scalars_and_zero_size_tensors_keep_their_shape(shape: tuple[int, ...]) -> None:
    writer_fd = blob()
    ref = BlobWriter(writer_fd).store(tensor_of(np.ones(shape, np.float32), "float32"))
    value = BlobReader(writer_fd).fetch(ref)
    assert isinstance(value, TensorValue)
    assert to_array(value).shape == shape


def test_strings_of_any_bytes_survive() -> None:
    items = [b"", b"a\0b", b"\xff\xfe", "ä…".encode()]
    assert unpack_strings(pack_strings(items), 4) == items


@pytest.mark.parametrize("data", [b"\1\0\0", b"\2\0\0\0a", b"\1\0\0\0ab", b""])
def test_string_bytes_that_do_not_add_up_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut short|left over"):
        unpack_strings(data, 1)


@pytest.mark.parametrize("shape", [[-1], [2**62, 2**62], [2**63, 0], [1] * 65])
def test_absurd_shapes_are_refused(shape: list[int]) -> None:
    with pytest.raises(ValueError, match=r"negative|above"):
        count_of(shape)


def test_a_zero_size_tensor_may_have_one_long_dimension() -> None:
    assert count_of([2**62, 0]) == 0


def test_nested_values_survive_a_blob() -> None:
    descriptor = blob()
    numbers = tensor_of(np.array([1, 2], np.int64), "int64")
    words = tensor_of(np.array(["a", "bc"]), "string")
    value = SequenceValue(
        (OptionalValue(None), OptionalValue(numbers), MapValue(numbers, words), SequenceValue(()))
    )
    ref = BlobWriter(descriptor).store(value)
    again = BlobReader(descriptor).fetch(ref)
    assert isinstance(again, SequenceValue)
    assert again.items[0] == OptionalValue(None)
    assert again.items[3] == SequenceValue(())
    pair = again.items[2]
    assert isinstance(pair, MapValue)
    assert unpack_strings(pair.values.data, 2) == [b"a", b"bc"]


@pytest.mark.parametrize(
    "change",
    [
        {"nbytes": 7},
        {"offset": 1},
        {"offset": -1},
        {"shape": [3]},
        {"dtype": "float64"},
        {"dtype": "float7"},
        {"shape": [-1, -2]},
        {"kind": "opaque"},
    ],
)
def test_a_reference_that_lies_is_refused(change: dict[str, Any]) -> None:
    descriptor = blob()
    ref = BlobWriter(descriptor).store(tensor_of(np.ones(2, np.float32), "float32"))
    with pytest.raises(ValueError, match=r"blob|bytes|unknown|negative"):
        BlobReader(descriptor).fetch(ref | change)


def test_references_that_nest_without_end_are_refused() -> None:
    ref: dict[str, Any] = {"kind": "optional", "value": None}
    for _ in range(40):
        ref = {"kind": "optional", "value": ref}
    with pytest.raises(ValueError, match="nest"):
        BlobReader(blob()).fetch(ref)


def test_a_full_blob_is_an_error_of_its_own() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(BlobFullError):
        BlobWriter(descriptor).write(b"abc")
    os.close(descriptor)


def test_element_numbers_are_those_of_tensorproto() -> None:
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    for name, element in ELEMENTS.items():
        assert TensorProto.DataType.Value(names.get(name, name.upper())) == element.number
