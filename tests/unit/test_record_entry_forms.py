"""No entry gets into the log that its readers could not use: each type's promises, one broken at a time."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest

from acceptd.errors import LedgerError
from acceptd.record.canonical import canonical
from acceptd.record.entry import ADVISORIES, NewEntry, check_body, decode, encode, unique_key
from tests.log_world import AT

pytestmark = pytest.mark.unit

DIGEST = "ab" * 32
MODEL = {"model": "mosaic/m", "channel": "production"}
SIDE = {"channel": "production", "digest": DIGEST, "release_digest": DIGEST}
GONE = object()
"""In a change: the member is not there."""


class Form(NamedTuple):
    """A body that stands, and whether its type belongs to a submission."""

    body: dict[str, Any]
    submission: str | None = None


FORMS = {
    "verdict": Form({"verdict": "held", "judged_at": AT, "reason": "r", "findings": []}, "s-1"),
    "intent": Form({**MODEL, "number": 1, "digest": DIGEST, "verdict_seq": 3}),
    "activated": Form({**MODEL, "number": 1}),
    "heldout": Form({"model": "mosaic/m", "contract_digest": DIGEST, "contract_version": 1, "number": 1}, "s-1"),
    "contract-version": Form({"model": "mosaic/m", "digest": DIGEST, "supersedes": DIGEST, "version": 2}),
    "decision": Form({"nonce": "n", "reviewer": "ada", "decision": "approve", "verdict_seq": 3}, "s-1"),
    "canary": Form({"model": "mosaic/m", "decision": "hold", "canary": SIDE, "against": SIDE}),
    "canary-refused": Form({"model": "mosaic/m", "reason": "r", "entry": 3}),
    ADVISORIES: Form({"digest": DIGEST, "number": 1}),
    "removed": Form({"what": "evidence", "reason": "r", "items": [{"name": "n", "size": 0}]}),
    "frozen": Form({"channel": "production", "reason": "r"}),
    "pinned": Form({**MODEL, "digest": DIGEST, "reason": "r"}),
    "revoked": Form({"digest": DIGEST, "reason": "r"}),
    "key-rotated": Form({"role": "ledger", "reason": "r", "old": DIGEST, "new": DIGEST, "envelope": {}}),
}

HEX = "64 lowercase hexadecimal digits"
BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("verdict", {"findings": ["text"]}, "a finding is an object"),
    ("verdict", {"verdict": []}, "unhashable"),
    ("intent", {"verdict_seq": True}, "`verdict_seq` is an entry's number"),
    ("activated", {"number": 2**53}, "`number` is a whole number from 1"),
    ("heldout", {"number": 0}, "`number` is a whole number from 1 to 999999999"),
    ("heldout", {"number": 10**9}, "`number` is a whole number from 1 to 999999999"),
    ("heldout", {"contract_version": True}, "`contract_version` is a whole number from 1 to"),
    ("heldout", {"contract_digest": "AB" * 32}, HEX),
    ("contract-version", {"version": 0}, "`version` is a whole number from 1"),
    ("contract-version", {"version": 2**31 + 1}, "`version` is a whole number from 1"),
    ("contract-version", {"supersedes": "x"}, HEX),
    ("decision", {"verdict_seq": "3"}, "names its verdict's entry"),
    ("decision", {"nonce": GONE}, "nonce"),
    ("decision", {"reviewer": 7}, "reviewer"),
    ("canary", {"decision": "wait"}, "`decision` is promote, hold or rollback"),
    ("canary", {"against": GONE}, "`against` is a release"),
    ("canary", {"canary": {**SIDE, "digest": "x"}}, HEX),
    ("canary-refused", {"entry": GONE}, "`entry` is an entry's number"),
    (ADVISORIES, {"number": 0}, "`number` is a whole number from 1"),
    ("removed", {"items": []}, "`items` is a list of 1 to 1,000"),
    ("removed", {"items": [{"name": "n", "size": 0}] * 1001}, "`items` is a list of 1 to 1,000"),
    ("removed", {"items": [{"name": "n", "size": -1}]}, "an item has a `name` and a `size` in bytes"),
    ("removed", {"items": [{"name": "n", "size": True}]}, "an item has a `name` and a `size` in bytes"),
    ("removed", {"items": ["n"]}, "an item has a `name` and a `size` in bytes"),
    ("frozen", {"reason": "  "}, "`reason` is text of at most 2000 characters"),
    ("frozen", {"reason": "r" * 2001}, "`reason` is text of at most 2000 characters"),
    ("frozen", {"model": "mosaic"}, "model"),
    ("pinned", {"model": GONE}, "model"),
    ("pinned", {"digest": GONE}, "digest"),
    ("revoked", {"reason": GONE}, "reason"),
    ("key-rotated", {"envelope": "signed"}, "`envelope` is a DSSE envelope"),
    ("key-rotated", {"old": "x"}, HEX),
]


@pytest.mark.parametrize("kind", FORMS)
def test_the_plain_form_of_each_type_stands_and_is_read_as_it_was_written(kind: str) -> None:
    form = FORMS[kind]
    leaf = encode(7, NewEntry(kind, copy.deepcopy(form.body), form.submission), AT)
    entry = decode(leaf, b"h" * 32)
    assert (entry.seq, entry.type, entry.at, entry.submission) == (7, kind, AT, form.submission)
    assert entry.body == form.body


@pytest.mark.parametrize(("kind", "change", "word"), BROKEN)
def test_a_body_that_breaks_what_its_type_promises_is_refused_with_the_reason(
    kind: str, change: dict[str, Any], word: str
) -> None:
    form = FORMS[kind]
    body = {key: value for key, value in (form.body | change).items() if value is not GONE}
    with pytest.raises(LedgerError) as caught:
        check_body(kind, form.submission, body)
    said = str(caught.value)
    assert said.startswith(f"an entry of type {kind!r} is malformed: ")
    assert word in said


@pytest.mark.parametrize("kind", [kind for kind, form in FORMS.items() if form.submission])
def test_what_belongs_to_a_submission_is_refused_without_one(kind: str) -> None:
    with pytest.raises(LedgerError, match="belongs to a submission"):
        check_body(kind, None, FORMS[kind].body)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("verdict", "verdict/s-1"),
        ("intent", "intent/mosaic/m/production/1"),
        ("decision", "decision/n"),
        ("key-rotated", f"key/ledger/{DIGEST}"),
        ("contract-version", "contract/mosaic/m/0000000002"),
        (ADVISORIES, f"{ADVISORIES}/0000000000000001"),
        ("heldout", "heldout/mosaic/m/1/000000001"),
        ("revoked", None),
    ],
)
def test_what_the_log_holds_only_once_sorts_by_its_number(kind: str, key: str | None) -> None:
    """Evaluations, versions and lists are found by a range of these keys: digits without padding lie."""
    assert unique_key(kind, FORMS[kind].submission, FORMS[kind].body) == key


LEAF = {"v": 1, "seq": 1, "type": "note", "at": AT, "body": {}}


@pytest.mark.parametrize(
    "leaf",
    [
        [],
        7,
        {**LEAF, "v": 2},
        {**LEAF, "seq": True},
        {**LEAF, "body": []},
        {**LEAF, "submission": 7},
        {**LEAF, "more": 1},
        {key: value for key, value in LEAF.items() if key != "at"},
    ],
    ids=["list", "number", "version", "seq", "body", "submission", "a member more", "a member less"],
)
def test_a_leaf_in_another_form_is_no_entry(leaf: Any) -> None:
    with pytest.raises(LedgerError, match="a leaf that is no entry of version 1"):
        decode(canonical(leaf), b"h" * 32)


def test_a_leaf_that_somebody_made_text_in_the_database_is_no_entry() -> None:
    with pytest.raises(LedgerError, match="not bytes"):
        decode(canonical(LEAF).decode(), b"h" * 32)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["Note", "", "note ", "n" * 49])
def test_a_type_that_is_no_word_is_refused_before_anything_is_written(kind: str) -> None:
    with pytest.raises(LedgerError, match="is no entry type"):
        encode(1, NewEntry(kind, {}), AT)
