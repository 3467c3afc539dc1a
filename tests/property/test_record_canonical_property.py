"""Canonical JSON holds for any value, and plain brings any value there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from acceptd.errors import LedgerError
from acceptd.record.canonical import canonical, parse, plain

pytestmark = pytest.mark.property

text = st.text(st.characters(codec=None), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_canonical_bytes_survive_any_reader_or_the_value_is_refused(value: Any) -> None:
    try:
        data = canonical(value)
    except LedgerError:
        return
    assert canonical(parse(data)) == data
    assert parse(data) == value


@settings(max_examples=200, deadline=None)
@given(values)
def test_plain_values_are_canonical_and_plain_again(value: Any) -> None:
    try:
        made = plain(value)
    except LedgerError:
        assume(False)  # keys that become equal: a test of its own
        raise
    canonical(made)
    assert plain(made) == made
