"""The days of `[retention]`: what is due, to the second, and what stays however old it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acceptd.config import RetentionTable
from acceptd.release.book import Book, Row
from acceptd.retention.look import _ended, _needed
from acceptd.retention.rules import KEYS, Thing, What, after, decide

pytestmark = pytest.mark.unit
SINCE, DIGEST = "2026-11-01T12:00:00Z", "ab" * 32
THING = Thing("held", "quarantine", "s-1", 5, SINCE, digest=DIGEST, team="mosaic", model="mosaic/m")
TABLE = RetentionTable(held_days=10, superseded_days=10)


def test_a_thing_goes_at_its_time_and_not_a_second_before() -> None:
    assert after(SINCE, 10) == "2026-11-11T12:00:00Z"
    assert decide(THING, TABLE, "2026-11-11T12:00:00Z").goes
    one = decide(THING, TABLE, "2026-11-11T11:59:59Z")
    assert (one.goes, one.reason) == (False, "until 2026-11-11 (held_days = 10)")


@pytest.mark.parametrize("what", KEYS)
def test_each_kind_has_days_of_its_own_and_none_means_for_ever(what: What) -> None:
    thing = replace(THING, what=what)
    days = dict.fromkeys(KEYS.values(), 36_500)
    assert decide(thing, RetentionTable(**days | {KEYS[what]: 1}), "2026-12-01T00:00:00Z").goes
    assert not decide(thing, RetentionTable(**days), "2026-12-01T00:00:00Z").goes
    assert not decide(thing, RetentionTable(**days | {KEYS[what]: 0}), "2099-12-01T00:00:00Z").goes


@pytest.mark.parametrize(
    ("thing", "table"),
    [
        (replace(THING, keeps="current release of mosaic/m production"), TABLE),
        (replace(THING, since=""), TABLE),
        (THING, TABLE.model_copy(update={"pinned": [DIGEST]})),
        (THING, TABLE.model_copy(update={"pinned": ["mosaic/m"]})),
        (replace(THING, since="2099-01-01T00:00:00Z"), TABLE),  # the clock was set back
    ],
)
def test_what_is_needed_pinned_or_in_doubt_stays(thing: Thing, table: RetentionTable) -> None:
    assert not decide(thing, table, "2027-12-01T00:00:00Z").goes


def test_the_store_keeps_all_by_default() -> None:
    assert RetentionTable().superseded_days == 0
    assert not decide(replace(THING, what="store"), RetentionTable(), "2099-01-01T00:00:00Z").goes


@pytest.mark.parametrize(
    "table",
    [{"held_days": -1}, {"held_days": "9"}, {"held_day": 9}, {"pinned": ["../x"]}, {"interval_seconds": 0}],
)
def test_nonsense_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"RetentionTable"):
        RetentionTable.model_validate(table)


@pytest.mark.parametrize(("bundles", "ends"), [("xyyz", "4"), ("xyxyz", "5"), ("xyz", "3"), ("xyyxz", "")])
def test_a_new_number_for_the_same_bytes_ends_no_other_bundles_time_as_prior_release(
    bundles: str, ends: str
) -> None:
    """A key's exchange is a number too: ``superseded_days`` begin when x is neither current nor prior."""
    rows = {
        number: Row(
            "mosaic/m", "production", number, digest, "promote", "r", number, number, f"{number}",
            "active" if number == len(bundles) else "superseded", activated_at=f"{number}",
        )
        for number, digest in enumerate(bundles, 1)
    }  # fmt: skip
    book = Book(channels={("mosaic/m", "production"): rows})
    of_x = [row for row in rows.values() if row.digest == "x"]
    if ends:
        assert max(_ended(book, "mosaic/m", "production", row) for row in of_x) == ends
    assert any(_needed(book, "mosaic/m", "production", row) for row in of_x) == (not ends)
