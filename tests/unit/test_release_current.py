"""`release list` and `release history` tell what is wrong with a channel, and what people held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.errors import ReleaseError
from acceptd.release import hold, trust
from acceptd.release.book import read_book
from acceptd.release.history import CurrentRelease, _people, current_releases, history
from tests.release_world import MODEL, World, replace, resign

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def current(world: World) -> CurrentRelease:
    (row,) = current_releases(world.state, world.ledger, world.keys, clock=lambda: world.now)
    return row


def _revoked(world: World) -> None:
    world.revoke(current(world).bundle_digest)


def _gone(world: World) -> None:
    world.channel_file.unlink()


def _of_a_stranger(world: World) -> None:
    replace(world.channel_file, b"{}")


def _another_number(world: World) -> None:
    resign(world, world.channel_file, lambda payload: payload.update(number=7), trust.CHANNEL_TYPE)


def _another_release(world: World) -> None:
    change = {"release_digest": "0" * 64}
    resign(world, world.channel_file, lambda payload: payload.update(change), trust.CHANNEL_TYPE)


def _late(world: World) -> None:
    world.now += 3601


def _damaged(world: World) -> None:
    replace(world.release_file(1), b"{}")


BROKEN: dict[str, tuple[Callable[[World], None], str]] = {
    "revoked": (_revoked, "revoked: it bites"),
    "channel.json is gone": (_gone, "channel.json is missing or not signed by this instance"),
    "channel.json is nobody's": (_of_a_stranger, "channel.json is missing or not signed by this instance"),
    "another number": (_another_number, "channel.json names number 7"),
    "another release": (_another_release, "channel.json names number 1"),
    "expired": (_late, "channel.json has expired"),
    "release.json": (_damaged, "release.json does not verify"),
}


def test_a_sound_channel_has_no_problem(world: World) -> None:
    made = world.released("1.4.0")
    row = current(world)
    assert (row.model_id, row.channel, row.number, row.version) == (MODEL, "production", 1, "1.4.0")
    assert (row.bundle_digest, row.problem, row.frozen, row.pinned) == (made.bundle_digest, "", "", "")
    assert row.expires_at


@pytest.mark.parametrize("case", BROKEN)
def test_what_keeps_loaders_from_opening_a_channel_is_said_of_it(case: str, world: World) -> None:
    world.released("1.0.0")
    breaks, words = BROKEN[case]
    breaks(world)
    assert current(world).problem == words


def test_of_a_release_that_does_not_verify_nothing_is_told_but_what_the_ledger_says(world: World) -> None:
    made = world.released("1.0.0")
    _damaged(world)
    row = current(world)
    assert (row.number, row.bundle_digest) == (1, made.bundle_digest)
    assert (row.version, row.profiles) == ("", ())


def test_a_channel_without_a_current_release_is_not_listed(world: World) -> None:
    places = [(MODEL, "production"), (MODEL, "canary")]
    assert current_releases(world.state, world.ledger, world.keys, places=places) == []
    with pytest.raises(ReleaseError, match=f"{MODEL} has no release on production"):
        history(world.state, world.ledger, world.keys, MODEL, "production")


def test_holds_stand_beside_the_releases_with_their_reasons_and_the_newest_first(world: World) -> None:
    made = world.released("1.0.0")
    for model_id, reason in ((MODEL, "an incident"), ("", "a holiday")):
        hold.freeze(world.state, world.ledger, world.keys, model_id=model_id, channel="production", reason=reason)
    hold.pin(
        world.state, world.ledger, world.keys, model_id=MODEL, channel="production", wanted="", reason="an audit"
    )
    row = current(world)
    assert set(row.frozen.split("; ")) == {"an incident", "a holiday"}
    assert row.pinned == "an audit"
    lines = history(world.state, world.ledger, world.keys, MODEL, "production")
    assert [(one.kind, one.reason, one.number) for one in lines] == [
        ("pinned", "an audit", None),
        ("frozen", "all models: a holiday", None),
        ("frozen", "an incident", None),
        ("promote", "a test", 1),
    ]
    assert [one.bundle_digest for one in lines if one.kind in {"pinned", "promote"}] == [made.bundle_digest] * 2


def test_a_page_of_the_history_begins_before_an_entry_and_has_so_many_lines(world: World) -> None:
    for number in (1, 2, 3):
        world.released(f"{number}.0.0")
    whole = history(world.state, world.ledger, world.keys, MODEL, "production")
    assert [one.number for one in whole] == [3, 2, 1]
    page = history(world.state, world.ledger, world.keys, MODEL, "production", before=whole[0].intent_seq, most=1)
    assert page == [whole[1]]
    assert history(world.state, world.ledger, world.keys, MODEL, "production", before=whole[-1].intent_seq) == []


def test_a_revoked_release_says_why_in_the_history_also_after_its_file_is_gone(world: World) -> None:
    made = world.released("1.0.0")
    world.released("2.0.0")
    world.revoke(made.bundle_digest)
    world.release_file(1).unlink()
    newest, oldest = history(world.state, world.ledger, world.keys, MODEL, "production")
    assert (newest.revoked, newest.state, newest.version) == ("", "active", "2.0.0")
    assert (oldest.revoked, oldest.state, oldest.version) == ("it bites", "superseded", "")
    assert read_book(world.ledger).current(MODEL, "production") is not None


def test_a_promotion_under_way_stands_in_the_history_and_says_nothing_yet(world: World) -> None:
    made = world.accepted("1.0.0")
    body = {"model": MODEL, "channel": "production", "number": 1, "digest": made.digest, "kind": "promote"}
    world.ledger.append("intent", {**body, "reason": "r", "verdict_seq": made.verdict_seq})
    [line] = history(world.state, world.ledger, world.keys, MODEL, "production")
    assert (line.state, line.number, line.version, line.profiles) == ("intent", 1, "", ())
    assert current_releases(world.state, world.ledger, world.keys) == []


def test_people_whose_decision_is_not_on_record_are_not_named_and_nobody_twice(world: World) -> None:
    body = {"nonce": "n", "reviewer": "ada", "decision": "approve", "verdict_seq": 1}
    one = world.ledger.append("decision", body, submission="s-1").seq
    assert _people(world.ledger, (one, 10_000, one)) == ("approve ada",)
