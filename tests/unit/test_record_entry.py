"""What each type of entry must hold before it can stand in the log for ever, and whom a filter takes it for."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.errors import LedgerError
from acceptd.record.canonical import MAX_INT, canonical
from acceptd.record.entry import (
    ADVISORIES,
    Entry,
    Filter,
    NewEntry,
    advisories_key,
    contract_key,
    decode,
    encode,
    heldout_key,
    unique_key,
)
from tests.log_world import AT

pytestmark = pytest.mark.unit
A, B = "ab" * 32, "cd" * 32
FINDING = dict.fromkeys(("code", "severity", "audience", "stage", "where", "message"), "x")
SIDE = {"channel": "production", "digest": A, "release_digest": B}
BODIES: dict[str, dict[str, Any]] = {
    "verdict": {"verdict": "held", "judged_at": AT, "reason": "r", "findings": [FINDING]},
    "intent": {"model": "mosaic/m", "channel": "production", "number": 1, "digest": A, "verdict_seq": 3},
    "activated": {"model": "mosaic/m", "channel": "production", "number": MAX_INT},
    "abandoned": {"model": "mosaic/m", "channel": "production", "number": 1},
    "heldout": {"model": "mosaic/m", "contract_digest": A, "contract_version": 1, "number": 999_999_999},
    "contract-version": {"model": "mosaic/m", "digest": A, "supersedes": B, "version": 2**31},
    "decision": {"verdict_seq": 3, "nonce": "n", "reviewer": "ann", "decision": "approve"},
    "canary": {"model": "mosaic/m", "decision": "hold", "canary": SIDE, "against": SIDE},
    "canary-refused": {"model": "mosaic/m", "reason": "r", "entry": 4},
    ADVISORIES: {"digest": A, "number": MAX_INT},
    "removed": {"what": "bundle", "reason": "age", "items": [{"name": "n", "size": 0}] * 1000},
    "frozen": {"channel": "production", "reason": "r" * 2000},
    "unfrozen": {"channel": "production", "reason": "r", "model": "mosaic/m"},
    "pinned": {"channel": "production", "reason": "r", "model": "mosaic/m", "digest": A},
    "unpinned": {"channel": "production", "reason": "r", "model": "mosaic/m", "digest": A},
    "revoked": {"digest": A, "reason": "r"},
    "key-rotated": {"role": "ledger", "reason": "r", "old": A, "new": B, "envelope": {}},
}
BELONGING = frozenset({"verdict", "heldout", "decision"})
"""Types that belong to a submission."""


def encoded(kind: str, body: dict[str, Any]) -> bytes:
    return encode(7, NewEntry(kind, body, "s-1" if kind in BELONGING else None), AT)


@pytest.mark.parametrize("kind", BODIES)
def test_an_entry_with_all_that_its_type_promises_stands_as_it_was_given(kind: str) -> None:
    found = decode(encoded(kind, BODIES[kind]), b"")
    assert (found.seq, found.type, found.at, found.body) == (7, kind, AT, BODIES[kind])


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("verdict", {"verdict": "approved"}, "`verdict` is one of accepted, held, inconclusive, rejected"),
    ("verdict", {"judged_at": 7}, "`judged_at` is text"),
    ("verdict", {"reason": None}, "`reason` is text"),
    ("verdict", {"findings": "none"}, "`findings` is a list"),
    ("verdict", {"findings": ["x"]}, "a finding is an object"),
    *(("verdict", {"findings": [FINDING, {**FINDING, key: 1}]}, f"`{key}` is text") for key in FINDING),
    *(
        (kind, {"number": number}, "`number` is a whole number from 1")
        for kind in ("intent", "activated", "abandoned", ADVISORIES)
        for number in (0, True, 1.0, "1", None, MAX_INT + 1)
    ),
    *((kind, {"channel": 1}, "`channel` is text") for kind in ("intent", "activated", "abandoned", "frozen")),
    ("intent", {"digest": None}, "`digest` is text"),
    ("intent", {"verdict_seq": "3"}, "`verdict_seq` is an entry's number"),
    ("intent", {"verdict_seq": None}, "`verdict_seq` is an entry's number"),
    ("heldout", {"contract_digest": 1}, "`contract_digest` is text"),
    ("heldout", {"contract_version": 0}, f"`contract_version` is a whole number from 1 to {MAX_INT}"),
    ("heldout", {"contract_version": MAX_INT + 1}, f"`contract_version` is a whole number from 1 to {MAX_INT}"),
    ("heldout", {"number": 0}, "`number` is a whole number from 1 to 999999999"),
    ("heldout", {"number": 1_000_000_000}, "`number` is a whole number from 1 to 999999999"),
    ("contract-version", {"version": 0}, "`version` is a whole number from 1"),
    ("contract-version", {"version": 2**31 + 1}, "`version` is a whole number from 1"),
    ("contract-version", {"version": True}, "`version` is a whole number from 1"),
    ("contract-version", {"supersedes": 1}, "`supersedes` is text"),
    ("decision", {"verdict_seq": "3"}, "a decision belongs to a submission and names its verdict's entry"),
    *(("decision", {key: 1}, f"`{key}` is text") for key in ("nonce", "reviewer", "decision")),
    ("canary", {"decision": "keep"}, "`decision` is promote, hold or rollback"),
    *(("canary", {key: A}, f"`{key}` is a release") for key in ("canary", "against")),
    *(
        ("canary", {side: {**SIDE, key: 1}}, f"`{key}` is text")
        for side in ("canary", "against")
        for key in ("channel", "digest", "release_digest")
    ),
    ("canary-refused", {"entry": "4"}, "`entry` is an entry's number"),
    ("canary-refused", {"reason": 1}, "`reason` is text"),
    ("removed", {"items": []}, "`items` is a list of 1 to 1,000"),
    ("removed", {"items": [{"name": "n", "size": 0}] * 1001}, "`items` is a list of 1 to 1,000"),
    ("removed", {"items": "n"}, "`items` is a list of 1 to 1,000"),
    ("removed", {"items": ["n"]}, "an item has a `name` and a `size` in bytes"),
    ("removed", {"items": [{"name": "n", "size": -1}]}, "an item has a `name` and a `size` in bytes"),
    ("removed", {"items": [{"name": "n", "size": True}]}, "an item has a `name` and a `size` in bytes"),
    ("removed", {"items": [{"name": 1, "size": 1}]}, "`name` is text"),
    ("removed", {"what": 1}, "`what` is text"),
    ("removed", {"reason": 1}, "`reason` is text"),
    ("frozen", {"reason": "  "}, "`reason` is text of at most 2000 characters"),
    ("frozen", {"reason": "r" * 2001}, "`reason` is text of at most 2000 characters"),
    ("frozen", {"model": 1}, "`model` is text"),
    ("pinned", {"model": None}, "`model` is text"),
    ("unpinned", {"digest": None}, "`digest` is text"),
    ("revoked", {"reason": None}, "`reason` is text"),
    ("key-rotated", {"envelope": "x"}, "`envelope` is a DSSE envelope"),
    *(("key-rotated", {key: 1}, f"`{key}` is text") for key in ("role", "reason", "old", "new")),
]


@pytest.mark.parametrize(("kind", "change", "words"), REFUSED)
def test_an_entry_that_lacks_what_its_type_promises_is_refused_with_the_member(
    kind: str, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(LedgerError) as told:
        encoded(kind, BODIES[kind] | change)
    assert str(told.value) == f"an entry of type {kind!r} is malformed: {words}"


NAMES = [
    ("model", "mosaic", ("intent", "heldout", "contract-version", "canary", "canary-refused", "frozen", "pinned")),
    ("channel", "current", ("intent", "activated", "abandoned", "frozen", "unfrozen", "pinned", "unpinned")),
    ("digest", "AB" * 32, ("intent", "contract-version", ADVISORIES, "pinned", "unpinned", "revoked")),
    ("contract_digest", A[:-1], ("heldout",)),
    ("supersedes", A + "a", ("contract-version",)),
    ("old", "x", ("key-rotated",)),
    ("new", "x", ("key-rotated",)),
]


@pytest.mark.parametrize(
    ("key", "value", "kind"), [(key, value, one) for key, value, all_ in NAMES for one in all_]
)
def test_an_entry_about_what_can_have_no_such_name_is_refused(key: str, value: str, kind: str) -> None:
    with pytest.raises(LedgerError, match=f"^an entry of type '{kind}' is malformed: "):
        encoded(kind, BODIES[kind] | {key: value})


@pytest.mark.parametrize("kind", sorted(BELONGING))
def test_what_belongs_to_a_submission_does_not_stand_without_one(kind: str) -> None:
    with pytest.raises(LedgerError, match="belongs to a submission"):
        encode(7, NewEntry(kind, BODIES[kind]), AT)


def test_a_type_of_entry_is_a_word_of_at_most_48_letters() -> None:
    assert decode(encoded("a" * 48, {}), b"").type == "a" * 48
    for kind in ("a" * 49, "", "A", "a-", "-a", "a b", "a\n"):
        with pytest.raises(LedgerError, match="is no entry type"):
            encoded(kind, {})


@pytest.mark.parametrize(
    "change",
    [{"v": 2}, {"seq": "7"}, {"seq": True}, {"type": 1}, {"at": 1}, {"submission": 1}, {"body": []}, {"x": 1}],
)
def test_a_leaf_of_another_form_is_no_entry(change: dict[str, Any]) -> None:
    good = {"v": 1, "seq": 7, "type": "note", "at": AT, "body": {}}
    assert decode(canonical(good), b"h") == Entry(7, "note", AT, None, {}, canonical(good), b"h")
    with pytest.raises(LedgerError, match="a leaf that is no entry of version 1"):
        decode(canonical(good | change), b"h")
    with pytest.raises(LedgerError, match="a leaf that is no entry of version 1"):
        decode(canonical({key: value for key, value in good.items() if key != "at"}), b"h")


def test_what_the_log_holds_once_is_named_so_that_its_order_is_that_of_the_numbers() -> None:
    keys = {kind: unique_key(kind, "s-1", body) for kind, body in BODIES.items()}
    assert {kind: key for kind, key in keys.items() if key is not None} == {
        "verdict": "verdict/s-1",
        "intent": "intent/mosaic/m/production/1",
        "decision": "decision/n",
        "key-rotated": f"key/ledger/{A}",
        "contract-version": f"{contract_key('mosaic/m')}2147483648",
        ADVISORIES: f"{advisories_key()}9007199254740991",
        "heldout": f"{heldout_key('mosaic/m', 1)}999999999",
    }
    later = (unique_key("heldout", "s", BODIES["heldout"] | {"number": number}) or "" for number in (2, 10, 100))
    assert list(later) == [f"heldout/mosaic/m/1/{number}" for number in ("000000002", "000000010", "000000100")]
    assert unique_key("contract-version", None, BODIES["contract-version"] | {"version": 2}) == (
        "contract/mosaic/m/0000000002"
    )


# -- filters


def entry(kind: str, body: dict[str, Any], at: str = AT) -> Entry:
    return Entry(1, kind, at, None, body, b"", b"")


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"team": "mosaic"}, True),
        ({"team": "mosaic", "model": "other/m"}, True),
        ({"team": "other", "model": "mosaic/m"}, False),
        ({"model": "mosaic/m"}, True),
        ({"bundle_id": "mosaic/m"}, True),
        ({"model": "mosaic-2/m"}, False),
        ({"model": 1}, False),
        ({}, False),
    ],
)
def test_a_team_is_the_one_that_an_entry_names_else_its_models(body: dict[str, Any], kept: bool) -> None:
    assert Filter(team="mosaic").keeps(entry("note", body)) is kept


def test_a_time_is_from_since_and_before_until_to_the_second() -> None:
    before, after = "2026-11-29T15:16:59Z", "2026-11-29T15:17:01Z"
    assert [Filter(since=one).keeps(entry("note", {})) for one in (before, AT, after)] == [True, True, False]
    assert [Filter(until=one).keeps(entry("note", {})) for one in (before, AT, after)] == [False, False, True]


def test_a_verdict_or_a_code_is_looked_for_in_verdicts_alone() -> None:
    body = BODIES["verdict"]
    assert Filter(verdict="held").keeps(entry("verdict", body))
    assert not Filter(verdict="held").keeps(entry("note", body))
    assert not Filter(verdict="accepted").keeps(entry("verdict", body))
    assert Filter(code="x").keeps(entry("verdict", body))
    assert not Filter(code="y").keeps(entry("verdict", body))
    assert not Filter(code="x").keeps(entry("verdict", {**body, "findings": None}))
    wanted: list[dict[str, str]] = [{}, {"verdict": "held"}, {"code": "x"}, {"type": "intent"}, {"team": "mosaic"}]
    assert [Filter(**one).kind for one in wanted] == [None, "verdict", "verdict", "intent", None]
    assert Filter(type="intent", code="x").kind == "intent"
