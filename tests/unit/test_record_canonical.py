"""Canonical JSON: the RFC's own examples, and everything that is refused or made plain."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest

from acceptd.errors import LedgerError
from acceptd.record.canonical import MAX_DEPTH, MAX_INT, canonical, digest, parse, plain

pytestmark = pytest.mark.unit


def test_the_example_of_rfc_8785_section_3_2_2() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    assert (
        canonical(value)
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )


def test_keys_are_sorted_by_utf16_code_units_as_in_section_3_2_3() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    got = list(parse(canonical(dict.fromkeys(keys, 0))))
    assert got == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    ("bits", "text"),  # RFC 8785, appendix B
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_those_of_appendix_b(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(value) == text.encode()


def test_digest_is_over_the_canonical_bytes() -> None:
    assert digest({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


@pytest.mark.parametrize(
    "value",
    [
        MAX_INT + 1,
        -MAX_INT - 1,
        float("nan"),
        float("inf"),
        1e17,
        -(2.0**53),
        "\ud800",
        {"\udc80": 1},
        {1: 2},
        b"bytes",
        {1, 2},
        object(),
        [[{"a": [float("-inf")]}]],
    ],
)
def test_what_is_not_canonical_is_refused(value: object) -> None:
    with pytest.raises(LedgerError, match="canonical"):
        canonical(value)


def test_the_refusal_names_the_place() -> None:
    with pytest.raises(LedgerError, match="at /a/1/b"):
        canonical({"a": [0, {"b": float("nan")}]})


def test_limits_are_themselves_canonical() -> None:
    assert parse(canonical([MAX_INT, -MAX_INT, 1e21, 0.5])) == [MAX_INT, -MAX_INT, 1e21, 0.5]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def test_deep_nesting_is_refused_without_recursing_to_death() -> None:
    assert parse(canonical(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    for value in (nested(MAX_DEPTH + 1), nested(100_000)):
        with pytest.raises(LedgerError, match="nested"):
            canonical(value)
    with pytest.raises(LedgerError):
        parse(b"[" * 100_000 + b"]" * 100_000)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b"1.0",
        b"1e2",
        b"-0",
        b"NaN",
        b'"\\u0041"',
        b'"\\ud800"',
        b"",
        b"\xff",
        b"1\n",
        b"9007199254740992",
        b'"\\/"',
        b"9" * 5000,
    ],
)
def test_other_spellings_of_json_are_refused(data: bytes) -> None:
    with pytest.raises(LedgerError):
        parse(data)


def test_plain_makes_any_json_like_value_canonical() -> None:
    value = {
        "trip_count": 2**62,
        "negative": -(2**53),
        "nan": float("nan"),
        "inf": [float("inf"), float("-inf")],
        "large": 1e17,
        "name\udcff": "caf\udce9 \ud800",
        "tuple": (1, 2.5, None, True),
    }
    assert parse(canonical(plain(value))) == {
        "trip_count": "4611686018427387904",
        "negative": "-9007199254740992",
        "nan": "NaN",
        "inf": ["Infinity", "-Infinity"],
        "large": "1e+17",
        "name\\xff": "caf\\xe9 \\ud800",
        "tuple": [1, 2.5, None, True],
    }


def test_plain_refuses_keys_that_become_equal_and_foreign_types() -> None:
    for value in ({"a\udc80": 1, "a\\x80": 2}, {1: 2}, b"x", nested(MAX_DEPTH + 1)):
        with pytest.raises(LedgerError):
            plain(value)
