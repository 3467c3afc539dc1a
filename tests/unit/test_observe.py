"""Observe mode: what is covered, that no way leads from what it judged to a release, and what would be refused."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from acceptd.cli import observe as command
from acceptd.cli import release
from acceptd.errors import ReleaseError, ReleaseNotFoundError
from acceptd.judge.codes import CODES
from acceptd.outcomes import Outcome
from acceptd.policy.observe import ObserveTable
from acceptd.policy.policy import ApprovalsTable, Policy
from acceptd.policy.profile import Profile
from acceptd.record.entry import Entry
from acceptd.record.keys import load_signer
from acceptd.release.model import Decided
from acceptd.report import observed_list as listed
from acceptd.report.observed import headline
from acceptd.report.observed_page import page, refusal
from acceptd.review.standing import OBSERVED
from acceptd.rules import Rules
from acceptd.steps.finishing import Finishing
from acceptd.steps.promoting import Promoting
from acceptd.verdicts import entry_body, observed, promotable, report_of
from tests import judge_world
from tests.release_world import MODEL, Accepted, World, memory_directory
from tests.unit.test_channels_daemon import Running
from tests.unit.test_review import ADA, BEN, case, one, weigh
from tests.unit.test_review_release import decide, held

pytestmark = pytest.mark.unit
ALL = ObserveTable(everything=True)
CODE, OTHER = "parity/mismatch", "vectors/missing"


@pytest.fixture
def world() -> Iterator[World]:
    made = World(memory_directory())
    yield made
    made.close()


# -- what is covered ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "team", "model", "covered"),
    [
        (ObserveTable(), "a", "a/m", False),
        (ALL, "a", None, True),
        (ObserveTable(teams=["a"]), "a", None, True),
        (ObserveTable(teams=["a"]), "b", "a/m", False),
        (ObserveTable(models=["a/m"]), "a", "a/m", True),
        (ObserveTable(models=["a/m"]), "a", "a/n", False),
        (ObserveTable(models=["a/m"]), "b", "a/m", False),
        (ObserveTable(models=["a/m"]), "a", None, False),
    ],
)
def test_a_model_is_covered_for_its_own_team_alone(
    table: ObserveTable, team: str, model: str | None, covered: bool
) -> None:
    assert table.covers(team, model) is covered


def outcome(verdict: str = "accepted", inferred: tuple[str, ...] = ()) -> Outcome:
    given = judge_world.submission().model_copy(update={"inferred": list(inferred), "team": "mosaic"})
    judgement = judge_world.verdict().model_copy(update={"verdict": verdict})
    return Outcome(given, judge_world.a_manifest(), None, "", judgement, {})


def test_the_record_says_what_was_observed_and_names_no_channel(world: World) -> None:
    accepted = outcome()
    for policy in (Policy(), Policy(observe=ALL)):
        only = policy.observe.everything
        assert observed(policy, accepted) is only
        assert promotable(policy, accepted) == ([] if only else ["production"])
        rules = Rules(policy, "a" * 64, Profile(), "b" * 64, world.root)
        made = entry_body("mosaic", "drop", rules, accepted, load_signer(world.state, "ledger"), "unanchored")
        body = made.body("acceptd/" + "0" * 32, 7)
        assert body["observed"] is made.document["observed"] is only
        assert headline(made.document) == ("observed: would be accepted" if only else "accepted")
        assert report_of(rules, accepted)["observed"] is False  # a check is no submission
    assert not observed(
        Policy(observe=ObserveTable(models=[judge_world.a_manifest().bundle.id])), outcome(inferred=("bundle.id",))
    )


# -- no way to a release --------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["accepted", "held"])
def test_no_decision_promotes_what_was_observed(verdict: str) -> None:
    given = [one(1, ADA), one(2, BEN), one(3, ADA, "break-glass")]
    found = weigh(given, ApprovalsTable(break_glass=True), case(verdict, observed=True))
    assert (found.allowed, found.reason) == (False, OBSERVED)
    assert weigh([one(1, ADA, "reject")], of=case(verdict, observed=True)).rejected


@pytest.mark.parametrize("drop", [(), ("observed",)])
@pytest.mark.parametrize("verdict", ["accepted", "held"])
def test_an_approved_promotion_of_an_observed_verdict_is_refused_whatever_the_database_says(
    verdict: str, drop: tuple[str, ...], world: World
) -> None:
    desk, submission = held(world, verdict=verdict, observed=True, drop=drop)
    decide(desk, submission, "approve")
    with pytest.raises(ReleaseError, match="observe mode"):
        desk.carry_out(submission, world.keys, "production", "decided", world.terms)
    entry = desk.verdict(submission)
    if not drop:
        assert list(desk.undecided()) == []
        assert desk.waits_for(entry) == ""
    with pytest.raises(ReleaseNotFoundError):
        world.open()


def test_neither_a_plain_promotion_nor_one_that_somebody_decided_takes_it(world: World) -> None:
    accepted = world.accepted("1.0.0", observed=True)
    for decide_ in (None, lambda _entry: Decided("", (1,), True)):
        with pytest.raises(ReleaseError, match="made in observe mode"):
            world.promote(accepted, decide=decide_)
        with pytest.raises(ReleaseError, match="made in observe mode"):
            world.promote(accepted, channel="canary", decide=decide_)
    assert world.promote(world.accepted("1.0.1", observed=False)).number == 1


def test_while_a_model_is_observed_older_verdicts_are_not_promoted_and_a_rollback_is(world: World) -> None:
    first, second = world.released("1.0.0"), world.released("2.0.0")
    desk, submission = held(world)
    decide(desk, submission, "approve")
    only = replace(desk, policy=Policy(observe=ObserveTable(models=[MODEL])))
    with pytest.raises(ReleaseError, match="only observes it now"):
        only.carry_out(submission, world.keys, "production", "decided", world.terms)
    assert not only.rejected("production")(desk.verdict(submission))
    assert second.number == 2
    assert world.rollback().bundle_digest == first.bundle_digest
    desk.carry_out(submission, world.keys, "production", "decided", world.terms)


def test_the_daemon_promotes_nothing_of_an_observed_model_neither_at_once_nor_when_its_time_comes() -> None:
    world = Running(memory_directory())
    try:
        accepted, _ = world.accept("1.0.0")
        world.now += 3600
        soak, world.policy = (
            world.policy,
            world.policy.model_copy(update={"observe": ObserveTable(teams=["mosaic"])}),
        )
        assert world.tick() == ""
        later = world.accepted("2.0.0", team="mosaic")
        done = world.promotions.accepted(world.row(later, ["canary"]), later.digest)
        assert done.releases == ()
        world.policy = soak
        assert world.tick() == accepted.digest
    finally:
        world.close()


def test_the_audit_finds_a_promotion_that_happened_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, submission = held(world, verdict="accepted", observed=True)
    row = desk.queue.get(submission)
    assert row is not None
    monkeypatch.setattr("acceptd.release.promote.accepted_by", lambda *_: Decided(""))
    desk._store(row)
    entry = desk.verdict(submission)
    world.promote(Accepted(str(row.bundle_digest), row.data["manifest"], entry.seq))
    assert any("made in observe mode" in one.message for one in desk.examine())


def test_bytes_of_what_was_observed_are_neither_stored_nor_kept_for_a_person(tmp_path: Path) -> None:
    from types import SimpleNamespace as Space

    for verdict in ("accepted", "held"):
        (tmp_path / "sealed" / "s-1" / "bundle").mkdir(parents=True)
        told: dict[str, Any] = {}
        queue = Space(advance=lambda _id, state, *, told=told, **data: told.update(data, state=state))
        paths = Space(sealed=tmp_path / "sealed", quarantine=tmp_path / "quarantine", state=tmp_path)
        row = Space(id="s-1", data={"verdict": verdict, "observed": True, "promote": ["production"]})
        parts = cast("Any", Space(paths=paths, queue=queue, keep_held=True))
        Promoting.promote(parts, cast("Any", row))
        Finishing.put_away(parts, cast("Any", row))
        assert told == {"state": "promoted", "release": None, "releases": None, "promotion_trouble": ""}
        assert list((tmp_path / "sealed").iterdir()) == []


# -- what would be refused --------------------------------------------------------------------------------------


def verdict(
    seq: int, model: str | None, word: str, *codes: str, team: str = "a", only: bool = True, **more: Any
) -> Entry:
    severity = {"rejected": "reject", "held": "hold"}.get(word, "warn")
    findings = [
        {"code": code, "severity": severity, "message": f"{code} of {model}", "audience": "team"} for code in codes
    ]
    body = {
        "verdict": word, "reason": f"{codes[0]}: x" if codes else "fine", "judged_at": "2026-11-29T12:00:00Z",
        "team": team, "model": model, "version": "1", "drop": f"d{seq}", "policy": "p", "policy_digest": "a" * 64,
        "findings": findings, "observed": only, **more,
    }  # fmt: skip
    return Entry(seq, "verdict", "", f"s-{seq}", body, b"", b"")


def test_the_newest_verdict_of_a_model_counts_and_one_outside_observe_mode_takes_it_away() -> None:
    seen = listed.newest(
        [
            verdict(0, "a/mended", "rejected", CODE),
            verdict(1, "a/broken", "accepted"),
            verdict(2, "a/decided", "rejected", CODE),
            verdict(3, "a/mended", "accepted"),
            verdict(4, "a/broken", "rejected", CODE, CODE, OTHER),
            verdict(5, "a/decided", "accepted", only=False),
            verdict(6, "a/broken", "accepted", team="b", only=False),  # no word of another team's
        ]
    )
    assert [(one.name, one.verdict) for one in seen] == [("a/broken", "rejected"), ("a/mended", "accepted")]
    assert seen[0].codes == (CODE, OTHER)


def test_drops_that_no_manifest_names_count_once_however_often_they_are_submitted() -> None:
    drops = ("m-0123abcd", "m-4567abcd", "n-4567abcd.tar.gz")
    seen = listed.newest(
        [verdict(n, None, "rejected", "manifest/invalid", drop=drop) for n, drop in enumerate(drops)]
    )
    assert [one.name for one in seen] == ["a/m", "a/n"]
    assert seen[0].submission == "s-1"


def test_refusals_are_counted_by_code_with_models_teams_and_remedy_and_the_hosts_trouble_is_apart() -> None:
    seen = listed.newest(
        [
            verdict(0, "a/m", "rejected", OTHER),
            verdict(1, "b/m", "rejected", OTHER, CODE, team="b"),
            verdict(2, "a/n", "held", "contract/missing"),
            verdict(3, "a/o", "inconclusive", "cell/lost"),
            verdict(4, "a/p", "accepted"),
        ]
    )
    found = listed.refusals(seen)
    assert [(one.code, len(one.models), one.teams) for one in found] == [
        (OTHER, 2, ("a", "b")), (CODE, 1, ("b",)), ("contract/missing", 1, ("a",)),
    ]  # fmt: skip
    assert found[0].json()["remedy"] == CODES[OTHER].remedy
    assert listed.counts(seen) == {"accepted": 1, "rejected": 2, "held": 1, "inconclusive": 1}
    assert "5 models of 2 teams observed" in listed.summary(seen)
    assert "1 not judged" in listed.summary(seen)
    out = io.StringIO()
    command.print_observed(Console(file=out, width=80), seen, "everything")
    assert "NOT JUDGED  a/o" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80
    text = page(seen, "everything", "2026-11-29T12:00:00Z")
    assert text.index("the host is at fault") < text.index("By finding")
    decisive = (("operator/not-listed", "reject", "m"),)
    named = refusal(listed.Refusal("operator/not-listed", "reject", (replace(seen[0], decisive=decisive),)))
    assert "(<code>acceptd policy show</code> prints them)" in named


def test_findings_for_reviewers_count_where_the_entry_binds_them() -> None:
    hidden = [{"code": "contract/missing", "severity": "hold", "message": "m", "audience": "reviewer"}]
    [seen] = listed.newest([verdict(0, "a/m", "held")], lambda _entry: hidden)
    assert seen.codes == ("contract/missing",)
    assert listed.newest([]) == []
    assert "nothing was observed" in listed.summary([])


@pytest.mark.parametrize("order", [(False, True), (True, False), (True,)])
def test_an_observed_verdict_takes_no_promotion_by_hand_from_an_earlier_or_later_acceptance(
    order: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        SimpleNamespace(
            id=str(seq),
            model="a/m",
            bundle_digest="d" * 64,
            data={"verdict": "accepted", "observed": only, "manifest": {}, "options": {}},
        )
        for seq, only in enumerate(order)
    ]
    monkeypatch.setattr(release, "Queue", lambda _ledger: SimpleNamespace(find=lambda: rows))
    entries: Any = lambda kind, submission: iter([SimpleNamespace(seq=int(submission))])  # noqa: E731
    place: Any = SimpleNamespace(ledger=SimpleNamespace(entries=entries))
    assert release._accepted(place, "a/m", "d" * 8)["seq"] == order.index(len(order) == 1)
