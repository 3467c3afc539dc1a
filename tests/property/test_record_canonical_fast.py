"""The short way of `canonical` writes exactly what the RFC 8785 library writes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from acceptd.record.canonical import MAX_INT, canonical, parse, plain, plain_bytes

pytestmark = pytest.mark.property

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**53 - 1), max_value=2.0**53 - 1)
SMALL = st.floats(min_value=1e-12, max_value=1e-3)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-MAX_INT, MAX_INT),
    NUMBERS,
    SMALL,
    TEXT,
    st.sampled_from([-0.0, 1e-7, 0.1]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=30,
)


@given(VALUES)
def test_the_same_bytes_as_the_library(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


ANY_TEXT = st.text(st.characters(), max_size=6)
ANY = st.recursive(
    st.one_of(LEAVES, st.floats(), st.integers(), ANY_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=30,
)


@given(ANY)
def test_plain_bytes_are_those_of_the_plain_value(value: Any) -> None:
    assert plain_bytes(value) == rfc8785.dumps(plain(value))


@pytest.mark.parametrize("power", range(-12, 22))
def test_a_number_around_each_power_of_ten_is_written_as_the_library_does(power: int) -> None:
    around = 10.0**power
    for value in (around, around * 1.5, math.nextafter(around, 0.0), math.nextafter(around, math.inf)):
        for one in (value, -value):
            assert plain_bytes([one]) == rfc8785.dumps(plain([one]))


@given(VALUES)
def test_what_is_written_is_read_back_as_canonical(value: Any) -> None:
    data = canonical(value)
    assert canonical(parse(data)) == data


def test_a_text_that_looks_like_a_token_stays_a_text() -> None:
    value = ["deadbeefdeadbeefdeadbeefdeadbeef0", 0.5]
    assert canonical(value) == b'["deadbeefdeadbeefdeadbeefdeadbeef0",0.5]'
