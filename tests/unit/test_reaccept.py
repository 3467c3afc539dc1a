"""What became of a promoted bundle that was run again, and what the ledger says is promoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.judge.finding import Finding, Judgement
from acceptd.reaccept.result import EXIT, of
from acceptd.reaccept.standing import Standing, promoted
from acceptd.record.queue import Queue
from tests.release_world import MODEL, World
from tests.review_world import held

pytestmark = pytest.mark.unit


def standing(verdict: str = "accepted", *held_for: str) -> Standing:
    return Standing(MODEL, "a" * 64, (("production", 3),), verdict, 7, "", frozenset(held_for), (), revoked=False)


def judgement(verdict: Any, *codes: tuple[str, Any]) -> Judgement:
    findings = tuple(
        Finding(code=code, severity=severity, audience="team", stage="run", where="", message="m")
        for code, severity in codes
    )
    return Judgement(verdict=verdict, findings=findings, judged_at="2026-11-30T00:00:00Z", reason="r")


HELD = standing("held", "contract/missing")


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        (standing(), judgement("accepted", ("contract/missing", "warn")), "passes"),
        (standing(), judgement("held", ("contract/missing", "hold")), "held"),
        (
            standing("held", "contract/missing"),
            judgement("held", ("contract/missing", "hold")),
            "passes-as-approved",
        ),
        (HELD, judgement("held", ("parity/close", "hold")), "held"),
        (HELD, judgement("rejected", ("contract/missing", "reject")), "rejected"),
        (standing("accepted", "contract/missing"), judgement("held", ("contract/missing", "hold")), "held"),
        (standing("unknown"), judgement("held", ("contract/missing", "hold")), "held"),
        (standing("held"), judgement("inconclusive"), "inconclusive"),
    ],
)
def test_only_what_people_approved_passes_although_it_is_held(
    before: Standing, now: Judgement, status: str
) -> None:
    found = of(before, now, "a" * 64, [], heldout=False)
    assert found.status == status
    assert EXIT[found.status] == {"rejected": 1, "held": 3, "inconclusive": 4}.get(status, 0)


def test_other_bytes_than_the_promoted_ones_never_pass() -> None:
    found = of(standing(), judgement("accepted"), "b" * 64, [], heldout=False)
    assert (found.status, "does not hold the bundle" in found.reason) == ("inconclusive", True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_what_is_promoted_is_each_bundle_once_with_all_its_places(world: World) -> None:
    one = world.accepted("1")
    world.promote(one)
    world.promote(one, channel="canary")
    other = world.accepted("2", model_id="mosaic/other")
    world.promote(other, model_id="mosaic/other")
    world.revoke(other.digest)
    found = promoted(world.ledger, lambda _model, _channel: True)
    assert [(one.model_id, one.places, one.verdict, one.revoked) for one in found] == [
        (MODEL, (("canary", 1), ("production", 1)), "accepted", False),
        ("mosaic/other", (("production", 1),), "accepted", True),
    ]
    assert [one.model_id for one in promoted(world.ledger, lambda _model, channel: channel == "canary")] == [MODEL]


@pytest.mark.parametrize("seq", [9_999, 0], ids=["no entry", "no verdict"])
def test_a_promotion_that_rests_on_no_verdict_stands_on_nothing_known(world: World, seq: int) -> None:
    digest = world.released().bundle_digest
    release = {"model": MODEL, "channel": "production", "number": 2, "digest": digest, "verdict_seq": seq}
    world.ledger.append("intent", release)
    world.ledger.append("activated", release | {"release_digest": "ab" * 32})
    (found,) = promoted(world.ledger, lambda _model, _channel: True)
    assert (found.places, found.verdict, found.held_for) == ((("production", 2),), "unknown", frozenset())
    now = judgement("held", ("contract/missing", "hold"))
    assert of(found, now, digest, [], heldout=False).status == "held"


def test_what_held_a_bundle_is_on_record_or_in_the_queue_and_what_only_warned_did_not(world: World) -> None:
    findings = [
        {"code": "contract/missing", "severity": "hold"}, {"code": "a/b", "severity": "warn"}, "text",
    ]  # fmt: skip
    _, submission = held(world, findings=findings)
    (entry,) = world.ledger.entries(kind="verdict", submission=submission)
    Queue(world.ledger).advance(
        submission, "done", document={"findings": [{"code": "runtime/advisory", "severity": "hold"}]}
    )
    release = {"model": MODEL, "channel": "production", "number": 1, "digest": entry.body["bundle_digest"]}
    world.ledger.append("intent", release | {"verdict_seq": entry.seq})
    world.ledger.append("activated", release | {"release_digest": "ab" * 32})
    (found,) = promoted(world.ledger, lambda _model, _channel: True)
    assert (found.verdict, found.held_for) == ("held", {"contract/missing", "runtime/advisory"})
