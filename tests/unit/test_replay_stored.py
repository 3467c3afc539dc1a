"""What is judged again from the record: a piece that is missing or of another form is named, and not guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.compare.task import CompareTask
from acceptd.compare.whole import files_of
from acceptd.evidence import KeptFile, Statistics, Submission
from acceptd.heldout import pairs
from acceptd.judge.finding import Finding, Judgement
from acceptd.judge.heldout import parts
from acceptd.judge.profiles import Target
from acceptd.policy.load import digest, with_overrides
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile, ReducedBuild
from acceptd.replay import again as replay
from acceptd.replay.again import again, judged, recorded
from acceptd.replay.stored import NotReplayableError, Shelf, Stored, rules_content
from acceptd.rules import Rules
from tests import heldout_world as own
from tests import judge_world as world

pytestmark = pytest.mark.unit
BODY: dict[str, Any] = {
    "evidence_digest": "e", "policy_digest": "p", "manifest_digest": "m", "contract_digest": "c",
    "profiles": [{"profile": "cpu", "digest": "f", "required": True}], "judged_at": world.NOW,
    "verdict": "accepted", "reason": "it was so",
}  # fmt: skip


def blob(table: Any) -> bytes:
    return json.dumps(table.model_dump(mode="json", by_alias=True)).encode()


def kept(**changes: bytes | None) -> dict[str, bytes]:
    usual = {
        "e": blob(world.submission()), "p": blob(Policy()), "m": json.dumps(world.manifest_document()).encode(),
        "c": blob(world.a_contract()), "f": blob(Profile()),
    }  # fmt: skip
    return {key: value for key, value in (usual | changes).items() if value is not None}


def read(blobs: Mapping[str, bytes], **body: Any) -> Stored:
    ledger, entry = SimpleNamespace(evidence=blobs.get), SimpleNamespace(body=BODY | body, submission="s-1")
    return Shelf(cast("Any", ledger)).read(cast("Any", entry))


def test_a_submission_comes_back_with_everything_that_it_was_judged_with() -> None:
    found = read(kept())
    assert (found.policy, found.manifest, found.contract) == (Policy(), world.a_manifest(), world.a_contract())
    assert [(one.profile, one.digest, one.required) for one in found.targets] == [(Profile(), "f", True)]
    before = read(
        kept(), profiles=None, profile="cpu", profile_digest="f", contract_digest=None, manifest_digest=""
    )
    assert (before.manifest, before.contract, len(before.targets)) == (None, None, 1)


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"e": None}, "its evidence is no longer kept"),
        ({"e": b"{}"}, "its evidence has another form: id: Field required"),
        ({"e": b"\xff"}, "its evidence has another form: "),
        ({"e": DEEP}, "its evidence has another form: "),
        ({"e": blob(world.submission().model_copy(update={"jobs": []}))}, "nothing was examined: it was so"),
        ({"p": None}, "the policy that it was judged with is not kept"),
        ({"p": b'{"schema": 1, "nodez": 1}'}, "the policy that it was judged with has another form: nodez"),
        ({"p": DEEP}, "the policy that it was judged with has another form: "),
        ({"m": None}, "the manifest that it was judged with is not kept"),
        ({"m": b"{"}, "the manifest that it was judged with has another form: "),
        ({"c": None}, "the contract that it was judged with is not kept"),
        ({"f": None}, "the profile cpu that it was judged with is not kept"),
        ({"f": b"[]"}, "the profile cpu that it was judged with has another form: "),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_missing_or_of_another_form_is_named(changes: dict[str, bytes | None], said: str) -> None:
    with pytest.raises(NotReplayableError) as caught:
        read(kept(**changes))
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) < 400


# -- a reduced build's operators

REDUCED = Profile(reduced_build=ReducedBuild(config="/etc/acceptd/ops.config", sha256="ab" * 32))
OPERATORS = b"ai.onnx;13;Gemm\n"


@pytest.mark.parametrize(
    ("operators", "said"),
    [(None, "the operators file of profile cpu is not kept"), (b"\xff", "/etc/acceptd/ops.config:1: not UTF-8")],
)
def test_operators_of_a_reduced_build_are_those_of_then_or_it_says_so(operators: bytes | None, said: str) -> None:
    (target,) = read(kept(f=blob(REDUCED), **{"ab" * 32: OPERATORS})).targets
    assert target.reduced is not None
    with pytest.raises(NotReplayableError, match=said):
        read(kept(f=blob(REDUCED), **{"ab" * 32: operators}))


def test_every_rule_is_kept_by_its_digest_and_once() -> None:
    policy, profile = Policy(), digest(REDUCED)
    rules = Rules(policy, digest(policy), REDUCED, profile, Path("/nonexistent"), source=OPERATORS)
    contract = world.a_contract()
    texts = list(rules_content(rules, contract, "c", ()))
    assert texts[-1] == OPERATORS
    assert [json.loads(text)["schema"] for text in texts[:-1]] == [1, 1, 1]
    assert list(rules_content(rules, contract, "c", {digest(policy), profile, "c", "ab" * 32})) == []


# -- comparisons that a new tolerance asks for


def stored(given: Submission, **changes: Any) -> Stored:
    """Return a submission as it was judged under today's policy."""
    target = Target(Profile(), "f", None, True)
    manifest = world.a_manifest(lambda document: document["models"][0]["outputs"][0].pop("tolerance"))
    made = Stored("s-1", BODY, given, manifest, own.contract(), Policy(), (target,))
    rows = recorded(judged(made, Policy(), given, (target,)))
    team = [row for row in rows if row["audience"] == "team"]
    body = {"findings": team, "reviewer_findings": {"count": len(rows) - len(team)}, "team": "mosaic"}
    return replace(made, body=BODY | body | changes)


FILE = KeptFile(sha256="0" * 64, size=1)
TIGHTER = with_overrides(Policy(), ["parity.probabilities.atol=0.000002"])


def with_outputs(made: Stored, *, heldout: bool) -> Stored:
    """Let the outputs be kept that the tighter policy compares."""
    given = made.submission
    main = files_of(replay._task(made, TIGHTER.under("cpu"), given.under("cpu")))
    given = given.model_copy(update={"kept": dict.fromkeys(main, FILE)})
    held = given.heldout
    if heldout and held is not None:
        vectors = next(job.vectors for job in held.jobs if job.vectors is not None)
        assert made.manifest is not None and made.contract is not None  # noqa: PT018
        (part,) = [one for _, one in parts(held)]
        task = pairs.task(made.manifest, made.contract, TIGHTER, vectors, part.jobs)
        held = held.model_copy(update={"kept": dict.fromkeys(files_of(task), FILE)})
        given = given.model_copy(update={"heldout": held})
    return replace(made, submission=given)


def test_a_tolerance_that_no_kept_output_answers_for_needs_a_rerun() -> None:
    def never(_task: CompareTask, _files: Mapping[str, KeptFile]) -> Statistics | None:
        raise AssertionError("nothing is there to be compared")

    made = stored(own.submission(own.held()))
    found = again(made, TIGHTER, never)
    assert (found.status, found.reason) == (
        "needs-rerun", "what is compared changed, and the outputs of this submission were not kept"
    )  # fmt: skip
    found = again(with_outputs(made, heldout=True), TIGHTER, lambda _task, _files: None)
    assert found.reason == "what is compared changed, and the outputs of this submission are not kept any more"


def test_held_out_outputs_are_compared_again_too_and_never_taken_for_compared() -> None:
    asked: list[CompareTask] = []

    def compare(task: CompareTask, files: Mapping[str, KeptFile]) -> Statistics | None:
        assert set(files) == set(files_of(task))
        asked.append(task)
        return world.statistics() if len(asked) == 1 else Statistics(outputs=[own.row(name) for name in own.NAMES])

    made = stored(own.submission(own.held()))
    found = again(with_outputs(made, heldout=False), TIGHTER, compare)
    assert (found.status, len(asked)) == ("needs-rerun", 1)
    asked.clear()
    found = again(with_outputs(made, heldout=True), TIGHTER, compare)
    assert (found.status, len(asked)) == ("unchanged", 2), found


def test_a_profile_under_which_nothing_was_run_needs_a_rerun() -> None:
    made = stored(own.submission(own.held()))
    other = with_overrides(Policy(), ["profiles=['cpu','gpu']"])
    found = again(made, other, lambda _task, _files: None)
    assert (found.status, found.reason) == ("needs-rerun", "it was never run under profile gpu")


def test_this_versions_own_judgement_is_held_against_the_record() -> None:
    made = stored(world.submission())
    assert not again(made, Policy(), lambda _task, _files: None).drifted
    made = stored(world.submission(), reviewer_findings={"count": 9})
    assert again(made, Policy(), lambda _task, _files: None).drifted


def stage_missing(*where: str) -> Judgement:
    found = [
        Finding(code="cell/stage-missing", severity="info", audience="team", stage="judge", where=one, message="m")
        for one in where
    ]
    return Judgement(verdict="inconclusive", findings=tuple(found), judged_at=world.NOW, reason="r")


def test_what_was_not_run_then_is_no_answer_now() -> None:
    replay._whole(stage_missing(), stage_missing())
    replay._whole(stage_missing("profile"), stage_missing("profile"))
    with pytest.raises(replay.RerunError, match="the new policy asks for what was not run: oracle"):
        replay._whole(stage_missing("profile"), stage_missing("profile", "oracle"))
    with pytest.raises(replay.RerunError, match="it could not be judged then: oracle is missing"):
        replay._whole(stage_missing("profile", "oracle"), stage_missing("oracle"))
