"""Channels: what a policy may say of them, and what a promotion asks of frozen, pinned and waiting ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ChannelClosedError, ConfigError, ReleaseError, SigningError, UsageError
from acceptd.policy import load
from acceptd.policy.channels import Rule
from acceptd.policy.difference import changes
from acceptd.policy.policy import Policy
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import gate, history, hold, stated
from acceptd.release.book import read_book
from acceptd.release.reconcile import catch_up
from acceptd.release.signers import ReleaseKeys
from tests.release_world import MODEL, Accepted, World, types_of

pytestmark = pytest.mark.unit
OTHER = "mosaic/other-model"
HOUR = Rule("production", automatic=True, after_channel="canary", after_seconds=3600)
WHO: dict[str, Any] = {"reason": "an incident", "by": "root (uid 0)"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose ledger goes by the clock that tests turn, too."""
    made = World(tmp_path)
    made.ledger.close()
    made.ledger = Ledger.open(made.state, clock=lambda: channels.stamp(made.now))
    made.keys = ReleaseKeys.load(made.state, made.ledger)
    yield made
    made.close()


def freeze(world: World, model_id: str = MODEL, channel: str = "production") -> hold.Held:
    return hold.freeze(
        world.state, world.ledger, world.keys, model_id=model_id, channel=channel, terms=world.terms, **WHO
    )


def unfreeze(world: World, model_id: str = MODEL, channel: str = "production") -> hold.Held:
    return hold.unfreeze(world.state, world.ledger, model_id=model_id, channel=channel, **WHO)


def pin(world: World, wanted: str = "", channel: str = "production") -> hold.Held:
    return hold.pin(
        world.state, world.ledger, world.keys,
        model_id=MODEL, channel=channel, wanted=wanted, terms=world.terms, **WHO,
    )  # fmt: skip


def closed(world: World, accepted: Accepted, **more: Any) -> ChannelClosedError:
    with pytest.raises(ChannelClosedError) as caught:
        world.promote(accepted, **more)
    return caught.value


# -- the policy


def policy_of(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "p.toml"
    path.write_text(text)
    path.chmod(0o644)
    return load.load_policy(path)


def test_a_policy_of_yesterday_has_its_one_channel_and_a_canary(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, '[release]\nchannel = "live"\nautomatic = false\nchannel_valid_seconds = 600\n')
    assert [(one.name, one.automatic, one.valid_seconds) for one in policy.all_channels()] == [
        ("live", False, 600),
        ("canary", False, 600),
    ]


def test_what_a_channel_leaves_out_it_inherits_and_a_channel_stands_after_the_one_it_waits_for(
    tmp_path: Path,
) -> None:
    policy = policy_of(
        tmp_path,
        """
        [release]
        channel_valid_seconds = 7200
        [channels.production]
        approvals = 2
        after = { channel = "canary", seconds = 3600 }
        [channels.canary]
        automatic = true
        valid_seconds = 60
        """,
    )
    canary, production = policy.all_channels()
    assert canary == Rule("canary", automatic=True, valid_seconds=60)
    assert production == Rule("production", True, 2, "canary", 3600, 7200)


def test_an_unknown_channel_is_refused_with_the_known_names() -> None:
    with pytest.raises(UsageError, match=r"no channel 'prodution'; it has canary, production"):
        Policy().channel("prodution")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[channels.production]\nafter = { channel = "canry", seconds = 1 }\n[channels.canary]\n', "p.toml:2"),
        ('[channels]\na.after = { channel = "b", seconds = 1 }\nb.after = { channel = "a", seconds = 1 }',
         "waits for itself: a → b → a"),
        ('[channels.a]\nafter = { channel = "a", seconds = 1 }\n', "waits for itself: a → a"),
        ('[channels.a]\nafter = { channel = "production", seconds = 0 }\n', "seconds"),
        ("[channels.a]\napprovals = -1\n", "channels.a.approvals"),
        ("[channels.a]\nautomatik = true\n", "did you mean automatic"),
        ("[channels.current]\n", "reserved name"),
    ],
)  # fmt: skip
def test_nonsense_about_channels_is_told_with_its_place(text: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line):
        policy_of(tmp_path, text)


def test_a_reviewer_sees_which_channel_became_stricter_and_which_laxer(tmp_path: Path) -> None:
    text = '[channels.production]\napprovals = 2\nafter = {channel = "canary", seconds = 60}\n'
    first = policy_of(tmp_path, text + "[channels.canary]\nautomatic = false\n")
    second = policy_of(tmp_path, "[channels.production]\napprovals = 3\n[channels.canary]\nautomatic = true\n")
    assert {one.key: one.tendency for one in changes(first, second) if one.key.startswith("channels")} == {
        "channels.production.approvals": "stricter",
        "channels.production.after.channel": "other",
        "channels.production.after.seconds": "laxer",
        "channels.canary.automatic": "laxer",
    }


# -- freeze


def test_nothing_is_promoted_to_a_frozen_channel_and_the_error_says_how_it_will_be(world: World) -> None:
    new = world.accepted("2.0.0")
    world.released("1.0.0")
    assert freeze(world).new
    assert not freeze(world).new
    error = closed(world, new)
    assert error.words == ("frozen",)
    assert "an incident" in str(error)
    assert f"`acceptd release unfreeze {MODEL} --channel production" in error.remedy
    assert f"--digest {new.digest[:12]}" in error.remedy
    assert world.promote(new, channel="canary").number == 1  # another channel is not held
    unfreeze(world)
    assert world.promote(new).number == 2


def test_a_channel_of_all_models_is_frozen_also_for_a_model_that_nobody_has_seen_yet(world: World) -> None:
    freeze(world, "")
    error = closed(world, world.accepted("1.0.0", model_id=OTHER), model_id=OTHER)
    assert "for all models" in str(error)
    assert "--all-models" in error.remedy
    with pytest.raises(ReleaseError, match="with --all-models"):
        unfreeze(world, OTHER)
    freeze(world, OTHER)
    unfreeze(world, "")
    assert closed(world, world.accepted("1.0.1", model_id=OTHER), model_id=OTHER).words == ("frozen",)
    with pytest.raises(ReleaseError, match=f"frozen for {OTHER}"):
        unfreeze(world, "")


def test_rollback_and_revoke_go_on_in_a_frozen_channel_and_past_a_pin(world: World) -> None:
    one, two = (world.released(f"{number}.0.0") for number in (1, 2))
    pin(world)
    freeze(world)
    assert world.rollback().bundle_digest == one.bundle_digest
    done = world.revoke(one.bundle_digest, rollback=True)
    assert [made.bundle_digest for made in done.rollbacks] == [two.bundle_digest]


def test_promoting_what_is_current_in_a_frozen_channel_is_no_promotion(world: World) -> None:
    accepted = world.accepted()
    world.promote(accepted)
    freeze(world)
    assert not world.promote(accepted).new


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2001])
def test_a_freeze_without_a_reason_is_none(reason: str, world: World) -> None:
    with pytest.raises(ReleaseError, match="reason"):
        hold.freeze(world.state, world.ledger, world.keys, model_id="", channel="production", reason=reason)
    assert types_of(world) == []


def test_a_damaged_release_keeps_nothing_from_being_frozen(world: World) -> None:
    world.released()
    channels_file = world.channel_file
    channels_file.unlink()
    world.release_file(1).unlink()
    done = freeze(world, "")
    assert done.new
    assert MODEL in done.problems[0]


@pytest.mark.parametrize("kind", ["promote", "rollback"])
@pytest.mark.parametrize("model_id", [MODEL, ""])
@pytest.mark.parametrize("ended", [False, True])
def test_a_promotion_that_a_freeze_could_not_settle_is_not_finished_after_it(
    kind: str, model_id: str, ended: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback is: it is the way out of a frozen channel."""
    first = world.released("1.0.0")
    if kind == "rollback":
        world.released("2.0.0")
    accepted = world.accepted("3.0.0")

    def refused(*_: Any) -> None:
        raise SigningError("the key does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(stated, "make", refused)
        with pytest.raises(SigningError):
            world.promote(accepted) if kind == "promote" else world.rollback()
        assert "does not answer" in freeze(world, model_id).problems[0]
    if ended:
        unfreeze(world, model_id)
    catch_up(world.state, world.ledger, world.keys, terms=world.terms)
    current = read_book(world.ledger).current(MODEL, "production")
    assert current is not None
    assert (current.number, current.digest) == (1 if kind == "promote" else 3, first.bundle_digest)


# -- pin


def test_a_pinned_release_stays_current_until_it_is_unpinned(world: World) -> None:
    first = world.released("1.0.0")
    assert pin(world).hold.digest == first.bundle_digest
    new = world.accepted("2.0.0")
    assert closed(world, new).words == ("pinned",)
    hold.unpin(world.state, world.ledger, model_id=MODEL, channel="production", wanted="1", **WHO)
    assert world.promote(new).number == 2
    with pytest.raises(ReleaseError, match="is pinned"):
        hold.unpin(world.state, world.ledger, model_id=MODEL, channel="production", wanted="", **WHO)


def test_a_pin_of_an_older_release_holds_only_while_that_is_current(world: World) -> None:
    old = world.released("1.0.0")
    world.released("2.0.0")
    pin(world, old.bundle_digest[:8])
    world.released("3.0.0")
    world.rollback(old.bundle_digest)
    assert closed(world, world.accepted("4.0.0")).words == ("pinned",)


def test_a_revoked_release_is_not_pinned_and_a_pin_gives_way_to_a_revocation(world: World) -> None:
    first = world.released("1.0.0")
    pin(world)
    world.revoke(first.bundle_digest)
    assert world.released("2.0.0").number == 2
    with pytest.raises(ReleaseError, match="is revoked"):
        pin(world, "1")


@pytest.mark.parametrize(
    ("wanted", "match"), [("7", "no release '7'"), ("abc", "too short"), ("0" * 12, "no release")]
)
def test_only_a_release_of_the_channel_is_pinned(wanted: str, match: str, world: World) -> None:
    world.released()
    world.released("9.0.0", model_id=MODEL)
    with pytest.raises(ReleaseError, match=match):
        pin(world, wanted)


# -- time in another channel


def test_a_bundle_that_is_not_current_in_the_other_channel_is_not_promoted(world: World) -> None:
    new = world.accepted()
    assert closed(world, new, rule=HOUR).words == ("absent",)
    world.promote(new, channel="canary")
    world.now += 3599
    error = closed(world, new, rule=HOUR)
    assert error.words == ("early",)
    assert "wait until 2026-11-29T12:57:00Z" in error.remedy
    world.now += 1
    assert world.promote(new, rule=HOUR).number == 1


def test_a_rollback_in_between_ends_the_period_and_coming_back_begins_a_new_one(world: World) -> None:
    world.promote(world.accepted("1.0.0"), channel="canary")
    new = world.accepted("2.0.0")
    world.promote(new, channel="canary")
    world.now += 3000
    world.rollback(channel="canary")
    world.now += 3000
    assert closed(world, new, rule=HOUR).words == ("absent",)
    world.rollback(new.digest, channel="canary")
    world.now += 3599
    assert closed(world, new, rule=HOUR).words == ("early",)
    world.now += 1
    assert world.promote(new, rule=HOUR).new


def test_a_promotion_that_was_burnt_in_the_other_channel_counts_for_nothing(world: World) -> None:
    new = world.accepted()
    body = {"model": MODEL, "channel": "canary", "number": 1, "digest": new.digest}
    world.ledger.append("intent", body)
    world.now += 9999
    world.ledger.append("abandoned", {key: body[key] for key in ("model", "channel", "number")})
    assert closed(world, new, rule=HOUR).words == ("absent",)


def test_files_that_say_otherwise_do_not_shorten_the_time(world: World) -> None:
    new = world.accepted()
    world.promote(new, channel="canary")
    folder = world.state / "releases" / MODEL / "canary"
    for path in (folder / "000001").iterdir():
        if not path.is_symlink():
            path.chmod(0o644)
    (folder / "channel.json").write_bytes(b"{}")
    assert closed(world, new, rule=HOUR).words == ("early",)


def test_a_new_number_for_the_same_bundle_is_no_break() -> None:
    row = read_book_row("a", 1, "2026-11-29T10:00:00Z")
    again = dataclasses.replace(row, number=2, activated_at="2026-11-29T11:00:00Z", activated_seq=9)
    book = type("B", (), {"rows": lambda *_: [row, again]})()
    assert gate.current_since(book, MODEL, "canary", "a") == "2026-11-29T10:00:00Z"
    assert gate.current_since(book, MODEL, "canary", "b") == ""


def read_book_row(digest: str, number: int, at: str) -> Any:
    from acceptd.release.book import Row

    return Row(MODEL, "canary", number, digest, "promote", "", 0, number, at, "active", "r", at, number)


def test_broken_glass_spares_the_time_and_no_freeze_and_no_pin() -> None:
    frozen = gate.Facts(freezes=(hold_of("frozen"),), pin=hold_of("pinned"))
    words = [one.word for one in gate.reasons(frozen, HOUR, "2026-11-29T12:00:00Z", glass=True)]
    assert words == ["frozen", "pinned"]
    assert gate.reasons(gate.Facts(), HOUR, "2026-11-29T12:00:00Z", glass=True) == []


def hold_of(kind: str) -> Any:
    from acceptd.release.holds import Hold

    return Hold(kind, MODEL, "production", "a" * 64, "why", "root", "2026-11-29T11:00:00Z", 7)


# -- who, when, why


def test_history_tells_releases_and_holds_with_who_and_why(world: World) -> None:
    world.released("1.0.0", model_id=MODEL)
    world.promote(world.accepted("2.0.0"), by="root (uid 0)")
    pin(world)
    freeze(world, "")
    unfreeze(world, "")
    world.rollback()
    lines = history.history(world.state, world.ledger, world.keys, MODEL, "production")
    assert [(one.kind, one.number) for one in lines] == [
        ("rollback", 3), ("unfrozen", None), ("frozen", None), ("pinned", None), ("promote", 2), ("promote", 1),
    ]  # fmt: skip
    assert lines[4].by == lines[2].by == "root (uid 0)"
    assert lines[2].reason == "all models: an incident"
    [now] = history.current_releases(world.state, world.ledger, world.keys, clock=lambda: world.now)
    assert (now.number, now.frozen, now.pinned) == (3, "", "")


def test_the_entry_of_a_promotion_says_who_and_what_its_channel_asked(world: World) -> None:
    new = world.accepted()
    world.promote(new, channel="canary")
    world.now += 3600
    world.promote(new, rule=dataclasses.replace(HOUR, approvals=2), by="ada (uid 7)")
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    assert row.by == "ada (uid 7)"
    assert (row.rule.approvals, row.rule.after_channel, row.rule.after_seconds) == (2, "canary", 3600)
