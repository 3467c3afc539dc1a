"""The audit's quick ways give the answer of the ways that they stand for: canonical JSON, and Ed25519."""

from __future__ import annotations

import itertools
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptd.errors import LedgerError
from acceptd.record import canonical
from acceptd.record.auditing import quick

pytestmark = pytest.mark.unit

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.builds(lambda digits, power: float(f"{digits}e{power}"), st.integers(-999, 999), st.integers(-320, 300)),
)
TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["", ":1e-6,", "1.0,", ".0000001", "1e5}", "{", "\ue000", "\U00010000"])
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
SPELLED = (
    lambda value: json.dumps(value, separators=(",", ":")),
    lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False),
    lambda value: json.dumps(value, sort_keys=True),
    lambda value: canonical.canonical(canonical.plain(value)).decode(),
)


def answer(read: object, data: bytes) -> tuple[str, str]:
    try:
        value = read(data)  # type: ignore[operator]
    except LedgerError as error:
        return "refused", str(error)
    return "taken", repr(value)  # with the types, the order of keys and the sign of zero


def same(data: bytes) -> None:
    assert answer(quick.parse, data) == answer(canonical.parse, data)


@given(VALUES, st.sampled_from(SPELLED))
def test_no_text_is_taken_that_is_not_canonical_and_none_refused_that_is(value: object, spelled: object) -> None:
    for one in (value, [value], {"a": value}):
        try:
            data = spelled(one).encode()  # type: ignore[operator]
        except (UnicodeEncodeError, LedgerError):
            continue
        same(data)


@given(VALUES, st.integers(0, 10**6), st.binary(max_size=3))
def test_a_canonical_text_with_one_place_changed_gets_the_same_answer(value: object, at: int, put: bytes) -> None:
    data = canonical.canonical(canonical.plain([value]))
    place = at % len(data)
    same(data[:place] + put + data[place + 1 :])
    same(data[:place] + put + data[place:])


@given(VALUES)
def test_what_was_parsed_is_written_as_it_was(value: object) -> None:
    data = canonical.canonical(canonical.plain([value]))
    parsed = quick.parse(data)
    assert quick.written(parsed) == data
    assert quick.written(parsed[0]) == canonical.canonical(parsed[0])
    assert quick.digest(parsed) == canonical.digest(parsed)


def test_every_size_of_number_is_spelled_in_one_way_alone() -> None:
    powers = (*range(-325, -20, 20), *range(-20, 30), *range(30, 309, 20), 308)
    for digits, power in itertools.product(("1", "-1.5", "9.999999999999999"), powers):
        value = float(f"{digits}e{power}")
        for text in {
            repr(value),
            f"{value:.1f}",
            f"{value:.30f}",
            f"{value:e}",
            quick.orjson.dumps(value).decode(),
        }:
            same(f"[{text}]".encode())
            same(f'{{"a":{text},"b":{text}}}'.encode())
        if math.isfinite(value) and not canonical.MAX_INT < abs(value) < 1e21:
            same(canonical.canonical({"a": [value], "b": value}))


@given(st.binary(min_size=8, max_size=8))
def test_a_number_of_any_bits_is_read_alike(bits: bytes) -> None:
    (value,) = struct.unpack("<d", bits)
    if math.isfinite(value):
        same(f"[{value!r}]".encode())
        same(b"[%b]" % quick.orjson.dumps(value))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}', b'{"b":1,"a":1}', b"[1.0]", b"[1e5]", b"[-0]", b"[-0.0]", b"[9007199254740992]",
        b"[9007199254740991]", b"[18446744073709551616]", b"[1e400]", b"[NaN]", b'["\\u0041"]', b'["\\ud800"]',
        b'["\\/"]', b'["\\u001F"]', b'["\\u001f"]', b'["\x7f"]', b"[1] ", b"\xef\xbb\xbf[1]", b'["\xff"]',
        b"", b"1", b"1.0",
        b"[1e-6]", b"[0.000001]", b"[0.0000015]", b"[1.5e-6]", b'[":1e-6,",0.000001]', b'[":0.000001,",1e-6]',
        b'{"\xee\x80\x80":1,"\xf0\x90\x80\x80":1}', b'{"\xf0\x90\x80\x80":1,"\xee\x80\x80":1}',
        b"[" * 100 + b"]" * 100, b"[" * 101 + b"]" * 101, b"[" * 300 + b"]" * 300, b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 101 + b"1" + b"}" * 101, b'["' + b"[{" * 200 + b'"]',
    ],
)  # fmt: skip
def test_the_known_ways_to_spell_a_value_twice(data: bytes) -> None:
    same(data)


def test_a_control_character_is_escaped_in_one_way_alone() -> None:
    for code in range(0x20):
        for text in (f'["\\u{code:04x}"]', f'["\\u{code:04X}"]', json.dumps([chr(code)]), f'["{chr(code)}"]'):
            same(text.encode())
