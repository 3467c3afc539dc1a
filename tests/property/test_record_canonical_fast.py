"""The short way of `canonical` writes exactly what the RFC 8785 library writes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from acceptd.errors import LedgerError
from acceptd.record import canonical as module
from acceptd.record.canonical import MAX_DEPTH, MAX_INT, canonical, parse, plain, plain_bytes

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


def long_way(data: bytes) -> Any:
    """What `parse` does where its short way is not sure: the library writes the value again."""
    value = json.loads(data.decode(), parse_constant=module._no_constant)
    if canonical(value) != data:
        raise LedgerError("not canonical")
    return value


def verdict_on(read: Any, data: bytes) -> Any:
    try:
        return repr(read(data))
    except (LedgerError, ValueError, RecursionError):
        return "refused"


SPELLINGS = st.sampled_from(
    ["0.000001", "1e-06", "1e-6", "0.00001", "1e-05", "1e+21", "1e21", "1.0", "-0", "-0.0", "1E5", "0.1", "1e-7"]
)


@given(st.lists(st.one_of(SPELLINGS, SPELLINGS.map(json.dumps), TEXT.map(json.dumps)), max_size=8), st.data())
def test_the_short_way_of_reading_takes_and_refuses_what_the_long_way_does(items: list[str], data: Any) -> None:
    """Numbers in every spelling, the same spellings as texts and keys, in any order, keys twice."""
    if data.draw(st.booleans()):
        text = "[" + ",".join(items) + "]"
    else:
        keys = [json.dumps(json.loads(item)) if item.startswith('"') else f'"{item}"' for item in items]
        text = "{" + ",".join(f"{key}:{item}" for key, item in zip(keys, items, strict=True)) + "}"
    assert verdict_on(parse, text.encode()) == verdict_on(long_way, text.encode())


@given(VALUES, st.data())
def test_one_changed_character_of_a_canonical_text_is_judged_as_the_long_way_does(value: Any, data: Any) -> None:
    text = canonical(value).decode()
    at = data.draw(st.integers(0, len(text)))
    changed = (
        text[:at] + data.draw(st.sampled_from(["", " ", "0", "1", "e", ".", "-", '"', "\\u00e9"])) + text[at + 1 :]
    )
    assert verdict_on(parse, changed.encode()) == verdict_on(long_way, changed.encode())


@pytest.mark.parametrize("extra", ["", '"]",', '"[",' * 3])
def test_no_bracket_in_a_text_hides_how_deep_a_value_nests(extra: str) -> None:
    for depth in (MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, MAX_DEPTH + 50):
        text = ("[" + extra) * depth + "1" + "]" * depth
        assert verdict_on(parse, text.encode()) == verdict_on(long_way, text.encode()), depth


def test_a_key_cannot_stand_where_a_number_is_put_back() -> None:
    """One spelling as key and the other as number: put back in the wrong place they would look alike."""
    for text in (
        '{"1e-06":0.000001,"0.000001":0.000001}',
        '{"0.000001":0.000001,"1e-06":0.000001}',
        '["1e-06",1e-06]',
    ):
        assert verdict_on(parse, text.encode()) == verdict_on(long_way, text.encode()), text
