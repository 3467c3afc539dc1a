"""A trusted worker hands in anything that has the form of evidence: the promoter refuses it, or judges it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptd.contracts.effective import Agreed
from acceptd.errors import FleetTrustError, LedgerError, MalformedError
from acceptd.fleet.examined import Examined
from acceptd.fleet.merge import merge
from acceptd.outcomes import judge
from acceptd.record.canonical import canonical
from acceptd.rules import Rules
from acceptd.verdicts import entry_body
from tests import fleet_evidence as fleet

pytestmark = pytest.mark.property

WHOLE = fleet.whole()
PARTS = {name: fleet.part(WHOLE, name) for name in fleet.NAMES}
DOCUMENT = json.loads(PARTS["other"].to_bytes())
RULES = Rules(fleet.POLICY, "a" * 64, fleet.TARGETS[0].profile, "1" * 64, Path(), others=fleet.TARGETS[1:])
ODD: list[Any] = [
    0, 1, -1, 0.5, 2**53 - 1, -(2**53) + 1, 1e308, "NaN", "-Infinity", "inf", "9" * 60, "", "x", "a" * 4096,
    "\x1b[31m\u202e",
    None, True, False, [], {}, "probe:draws-1", "golden", "reference", "main", "lost", "limit", "done", "float32",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


PLACES = [path for path in places(DOCUMENT) if "walls" not in path[:2]]
"""The states of walls are the statement's, and closed there."""


def changed(changes: list[tuple[tuple[Any, ...], Any]]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(DOCUMENT))
    for (*path, last), value in changes:
        at: Any = document
        try:
            for key in path:
                at = at[key]
            at[last] = at[last] * 2 if value == "twice" and isinstance(at[last], list) else value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    return document


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from([*ODD, "twice"])), min_size=1, max_size=4))
def test_it_is_refused_or_judged_and_never_breaks_the_promoter(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    try:
        one = Examined.from_bytes(canonical(changed(changes)))
        merged = merge([PARTS["cpu"], one, PARTS["spare"]], fleet.TARGETS)
    except (MalformedError, LedgerError, FleetTrustError):
        return
    outcome = judge(RULES, merged, Agreed())
    prepared = entry_body("mosaic", "drop", RULES, outcome, fleet.signer("x"), "unanchored", 1)
    body = prepared.body("acceptd/" + "0" * 32, 3)
    canonical(body)
    assert outcome.judgement.verdict in {"accepted", "rejected", "held", "inconclusive"}
