"""Which models can be compared, what they may cost more, and what is no fault of the submission."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import (
    BundleFile,
    Case,
    DeclaredModel,
    Done,
    External,
    JobRecord,
    PlacedNode,
    Placement,
    Prior,
    Sealed,
    Timing,
    declared_by,
    released_files,
)
from acceptd.judge import beside
from acceptd.placement_facts import OperatorTime, Profiled
from acceptd.probe_facts import LeftOut, Probed
from acceptd.report.document import document, for_team
from acceptd.report.html import render
from tests import judge_world as world
from tests.regression_judged import DRAWS, INT8, cases, judged, older, regressions, release, same

pytestmark = pytest.mark.unit
SLOW = (("Softmax", 1.0), ("MatMulInteger", 3.0))


# -- what is no fault of the submission


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (older(ending="crash", cause="SIGFPE", done=None), "regression/release-failed"),
        (older(ending="limit", cause="wall", done=None), "regression/release-failed"),
        (older(ending="unavailable", cause="release", done=None), "regression/release-unavailable"),
        (older(ending="lost", cause="parent", done=None), "regression/release-unavailable"),
    ],
)
def test_a_release_that_does_not_run_is_never_the_submissions_fault(record: JobRecord, code: str) -> None:
    severity = "hold" if code.endswith("failed") else "warn"
    judgement, submission, policy = judged(jobs=[record])
    assert regressions(judgement) == {code: (severity, "models.main")}
    assert not [one for one in world.codes(judgement) if one.startswith(("run/", "resources/", "cell/"))]
    assert judgement.verdict == ("held" if severity == "hold" else "accepted")
    required, _, _ = judged(jobs=[record], table={"required": True})
    assert required.verdict == "held"
    report = for_team(document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy))
    assert report["regression"][0]["reason"] == ""


def test_a_release_of_which_nothing_is_known_is_a_warning_and_holds_where_the_policy_requires_it() -> None:
    unknown = Prior(status="unknown", channel="production", number=3, reason="its evidence is no longer kept")
    for prior in (unknown, release(files=[])):
        judgement, _, _ = judged(*same(), prior=prior)
        assert judgement.verdict == "accepted"
        assert regressions(judgement)["regression/release-unavailable"] == ("warn", "models.main")
        assert judged(*same(), prior=prior, table={"required": True})[0].verdict == "held"


def test_inputs_that_only_the_release_answers_hold() -> None:
    failed = [*cases(DRAWS[1:]), Case(set=DRAWS[0], repeat=0, error="RuntimeException: no")]
    judgement, _, _ = judged(*same(), jobs=[world.run(cases=failed)])
    assert regressions(judgement)["regression/not-answered"] == ("hold", "models.main")
    # Draws end when their time is up, and one run may come to some more than the other: but not to twice as many.
    assert not regressions(judged(*same(), jobs=[world.run(cases=cases(DRAWS[:2]))])[0])
    assert regressions(judged(*same(), jobs=[world.run(cases=cases(DRAWS[:1]))])[0])


def cut(draws: int) -> JobRecord:
    """The release's run, which came to so many draws before its time was over."""
    left = LeftOut(what="draws", count=60, reason="time")
    made = [f"probe:draws-{number}" for number in range(draws)]
    return older(cases=cases(made), probed=[Probed(scope="inside", left_out=[left])])


def test_a_large_model_that_came_to_fewer_of_a_handful_of_draws_is_told_and_not_held() -> None:
    """Two runs of 1.5 GiB came to two draws and to none in the same time: chance, and no fault of the model."""
    judgement, _, _ = judged(*same(), jobs=[cut(3), world.run(cases=cases(DRAWS[:1]))])
    assert regressions(judgement) == {"regression/not-comparable": ("info", "models.main: draws")}
    assert judgement.verdict == "accepted"
    told = [one.message for one in judgement.findings if one.code == "regression/not-comparable"]
    assert told == ["1 of 3 were compared; there was no time for more"]
    required, _, _ = judged(*same(), jobs=[cut(3), world.run(cases=cases(DRAWS[:1]))], table={"required": True})
    assert required.verdict == "held"


def test_a_model_too_slow_for_half_of_many_draws_holds_also_where_the_release_had_no_time_for_all() -> None:
    assert "regression/not-answered" in regressions(
        judged(*same(), jobs=[cut(8), world.run(cases=cases(DRAWS[:3]))])[0]
    )
    assert not regressions(judged(*same(), jobs=[cut(8), world.run(cases=cases(DRAWS[:4]))])[0])


def test_an_error_on_one_of_a_handful_of_draws_holds_whatever_time_there_was() -> None:
    failed = [*cases(DRAWS[1:2]), Case(set=DRAWS[0], repeat=0, error="RuntimeException: no")]
    judgement, _, _ = judged(*same(), jobs=[cut(3), world.run(cases=failed)])
    assert regressions(judgement)["regression/not-answered"] == ("hold", "models.main")


# -- which models can be compared


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": [world.value("evidence", 4)]}, "inputs features in the release, now evidence"),
        ({"inputs": [world.value("features", 4, dtype="float16")]}, "input features"),
        ({"inputs": [world.value("features", 5)]}, "[batch, 5]"),
        ({"inputs": [world.value("features", 4, shape=[1, 4])]}, "[1, 4]"),
        ({"outputs": [world.value("scores", 3)]}, "no output has the name"),
        ({"outputs": [world.value("probabilities", 4)]}, "no output has the name"),
    ],
)
def test_another_interface_is_not_comparable_with_the_reason(changes: dict[str, Any], said: str) -> None:
    how = beside.beside(release(), world.a_manifest().models[0], world.facts(**changes))
    assert said in how.obstacle
    assert not how.ours


def test_names_of_open_dimensions_do_not_make_another_interface() -> None:
    told = world.facts(inputs=[world.value("features", 4, shape=["N", 4])])
    assert beside.beside(release(), world.a_manifest().models[0], told).obstacle == ""


def test_a_second_output_is_left_out_and_the_shared_one_compared() -> None:
    told = world.facts(outputs=[world.value("probabilities", 3), world.value("logits", 3)])
    how = beside.beside(release(), world.a_manifest().models[0], told)
    assert (how.obstacle, how.outputs) == ("", ("probabilities",))
    assert how.skipped == {"logits": "the release has no such output"}


def labelled(*labels: str) -> Prior:
    declared = declared_by(world.a_manifest())
    (output,) = declared.models[0].outputs
    changed = output.model_copy(update={"labels": list(labels)})
    model = DeclaredModel(name="main", inputs=declared.models[0].inputs, outputs=[changed])
    return release(declared=declared.model_copy(update={"models": [model]}))


def test_labels_are_what_classes_are_compared_by() -> None:
    model = world.a_manifest().models[0]
    now = ["accept", "review", "reject"]
    assert beside.columns(["reject", "accept", "review"], now) == [2, 0, 1]
    assert beside.columns(now, now) is None
    assert beside.columns(None, now) is None
    assert beside.beside(labelled("reject", "review", "accept"), model, world.facts()).outputs == (
        "probabilities",
    )
    for labels, said in ((("accept", "review", "deny"), "others"), (("accept", "accept", "review"), "twice")):
        how = beside.beside(labelled(*labels), model, world.facts())
        assert said in how.obstacle


def test_what_a_release_reads_is_known_only_where_every_file_is_on_record() -> None:
    def external(location: str) -> External:
        return External(tensor="w", location=location, offset=0, length=4, where="graph", inside=True)

    sealed = {"m/model.onnx": ("a" * 64, 10), "m/w.bin": ("b" * 64, 20), "m/other.bin": ("c" * 64, 30)}
    found = released_files("m/model.onnx", [external("w.bin"), external("./w.bin")], 2, sealed)
    assert [(one.path, one.size) for one in found] == [("m/model.onnx", 10), ("m/w.bin", 20)]
    for told, count in (([external("gone.bin")], 1), ([external("../../w.bin")], 1), ([external("w.bin")], 2)):
        assert released_files("m/model.onnx", told, count, sealed) == []
    assert released_files("other.onnx", [], 0, sealed) == []


# -- cost


def test_more_memory_and_more_bytes_hold_beyond_ratio_and_slack() -> None:
    mib = 1 << 20
    heavy = world.run(cases=cases(DRAWS), peak_rss_bytes=200 * mib, done=Done())
    light = older(peak_rss_bytes=100 * mib, done=Done())
    judgement, _, _ = judged(*same(), jobs=[heavy, light])
    assert regressions(judgement)["regression/more-memory"] == ("hold", "models.main")
    close = older(peak_rss_bytes=180 * mib, done=Done())
    assert not regressions(judged(*same(), jobs=[heavy, close])[0])
    slack = {"memory_slack_bytes": 101 * mib}
    assert not regressions(judged(*same(), jobs=[heavy, light], table=slack)[0])

    _, submission, policy = judged(*same())
    assert submission.sealed is not None
    files = [
        BundleFile(path=one.path, sha256=one.sha256, size=4 * mib if one.path == "model.onnx" else one.size)
        for one in submission.sealed.files
    ]
    larger = Sealed(digest="d" * 64, files=files, total_bytes=5 * mib)
    found = world.verdict(submission.model_copy(update={"sealed": larger}), policy=policy)
    assert regressions(found)["regression/larger"] == ("hold", "models.main")


def timed(variant: str, ms: float, **changes: Any) -> JobRecord:
    given = {"variant": variant, "cases": cases(DRAWS if variant in {"", "prior"} else [])}
    return world.run(**(given | {"timing": Timing(set=world.SETS[0], wall_ms=[ms] * 40)} | changes))


def test_a_slower_model_holds_only_where_alternating_jobs_show_it() -> None:
    first = [timed("", 4.0), timed("prior", 1.0)]
    judgement, _, _ = judged(*same(), jobs=first)
    assert regressions(judgement) == {"regression/slower-unclear": ("warn", "models.main")}
    turns = [timed("timed-prior", 1.0), timed("timed", 4.0)] * 2
    judgement, _, _ = judged(*same(), jobs=[*first, *turns])
    assert regressions(judgement) == {"regression/slower": ("hold", "models.main")}
    quiet = [timed("timed-prior", 1.0), timed("timed", 1.0)] * 2
    assert not regressions(judged(*same(), jobs=[*first, *quiet])[0])
    assert not regressions(judged(*same(), jobs=[timed("", 1.4), timed("prior", 1.0)])[0])
    # Four times as long, and three tenths of a millisecond: that is no matter unless the policy says so.
    tiny = [timed("", 0.4), timed("prior", 0.1), *[timed("timed-prior", 0.1), timed("timed", 0.4)] * 2]
    assert not regressions(judged(*same(), jobs=tiny)[0])
    assert regressions(judged(*same(), jobs=tiny, table={"latency_slack_ms": 0.0})[0])


def test_operators_of_an_int8_model_on_another_provider_are_named() -> None:
    def placed(provider: str) -> Placement:
        return Placement(nodes=[PlacedNode(provider=provider, domain="ai.onnx", op_type="Softmax", count=1)])

    jobs = [
        world.run(cases=cases(DRAWS), placement=placed("CPUExecutionProvider")),
        older(placement=placed("OpenVINOExecutionProvider")),
    ]
    judgement, _, _ = judged(*same(), jobs=jobs, quantisation=INT8)
    (finding,) = [one for one in judgement.findings if one.code == "regression/moved"]
    assert "ai.onnx::Softmax: OpenVINOExecutionProvider → CPUExecutionProvider" in finding.message
    assert "placement and operator counts" in finding.message
    times = [OperatorTime(provider="CPUExecutionProvider", op_type=name, nodes=1, ms=ms) for name, ms in SLOW]
    profiled = world.run(variant="profiled", cases=[], profiled=Profiled(runs=20, operators=times))
    judgement, submission, policy = judged(*same(), jobs=[*jobs, profiled], quantisation=INT8)
    report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
    (told,) = report["regression"]
    assert [one[0] for one in told["slowest"]] == ["MatMulInteger", "Softmax"]
    assert "Most time in one inference: MatMulInteger on CPUExecutionProvider 3 ms" in render(report)
