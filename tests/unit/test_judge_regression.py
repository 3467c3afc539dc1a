"""A submission beside the current release: what the statistics and the two runs must lead to. Pure."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from acceptd.evidence import (
    BundleFile,
    Case,
    DeclaredModel,
    Done,
    External,
    JobRecord,
    Named,
    OutputStats,
    PlacedNode,
    Placement,
    Prior,
    Quantisation,
    ReleasedFile,
    Sealed,
    Snapshot,
    Submission,
    Timing,
    declared_by,
    released_files,
)
from acceptd.judge import beside
from acceptd.judge.finding import Judgement
from acceptd.judge.regressed import beyond_chance
from acceptd.kind_facts import Embedding
from acceptd.kind_facts import Sequence as Tokens
from acceptd.placement_facts import OperatorTime, Profiled
from acceptd.policy.policy import Policy
from acceptd.policy.regression import QuantisedLimits, RegressionTable
from acceptd.report.document import document, for_team
from acceptd.report.html import render
from acceptd.report.terminal import print_verdict
from acceptd.statistics_facts import LabelRows, Labels
from tests import judge_world as world

pytestmark = pytest.mark.unit

INT8 = Quantisation(method="dynamic", format="qoperator", nodes=1)
SLOW = (("Softmax", 1.0), ("MatMulInteger", 3.0))
DRAWS = [f"probe:draws-{number}" for number in range(4)]


def release(**changes: Any) -> Prior:
    declared = declared_by(world.a_manifest())
    snapshot: dict[str, Any] = {
        "name": "main",
        "file": "model.onnx",
        "bytes": 309,
        "facts": world.facts(),
        "structure": world.structure(),
        "files": [ReleasedFile(path="model.onnx", sha256="e" * 64, size=309)],
    }
    own = {key: changes.pop(key) for key in list(changes) if key in snapshot}
    fields: dict[str, Any] = {
        "status": "found",
        "channel": "production",
        "number": 3,
        "bundle_digest": "c" * 64,
        "version": "1.3.0",
        "models": [Snapshot.model_validate(snapshot | own)],
        "declared": declared,
    }
    return Prior.model_validate(fields | changes)


def cases(draws: list[str]) -> list[Case]:
    drawn = [Case(set=name, repeat=0, outputs=[Named(name="probabilities", value=world.ref())]) for name in draws]
    return [*world.golden_cases(), *drawn]


def older(**changes: Any) -> JobRecord:
    return world.run(**({"variant": "prior", "cases": cases(DRAWS)} | changes))


def row(name: str, rows: dict[int, tuple[int, int]], **changes: Any) -> OutputStats:
    """Statistics of one input: for each label of the release its rows, and how many of them are another's now."""
    labels = [LabelRows(index=index, rows=one, missed=other) for index, (one, other) in rows.items()]
    total, missed = sum(one.rows for one in labels), sum(one.missed for one in labels)
    counted = Labels(rows=total, mismatches=missed, labels=labels)
    fields = {"against": "prior", "n": 3 * total, "labels": counted, "max_abs": 0.25}
    return world.stats(name, **(fields | changes))


def judged(
    *rows: OutputStats,
    prior: Prior | None = None,
    jobs: list[JobRecord] | None = None,
    table: dict[str, Any] | None = None,
    **facts: Any,
) -> tuple[Judgement, Submission, Policy]:
    told = world.facts(**facts)
    own = [world.inspect(facts=told), world.run(cases=cases(DRAWS)), older()]
    given = {(job.kind, job.variant) for job in jobs or []}
    kept = [job for job in own if (job.kind, job.variant) not in given]
    usual = [world.stats(name, against=one) for name in world.SETS for one in ("golden", "repeat", "unoptimised")]
    golden = [world.stats(name, against="prior-golden") for name in world.SETS]
    submission = world.submission(
        [*kept, *(jobs or [])],
        prior=prior or release(),
        statistics=world.statistics().model_copy(update={"outputs": [*usual, *golden, *rows]}),
    )
    policy = Policy(regression=RegressionTable.model_validate(table or {}))
    return world.verdict(submission, policy=policy), submission, policy


def regressions(judgement: Judgement) -> dict[str, tuple[str, str]]:
    return {
        one.code: (one.severity, one.where) for one in judgement.findings if one.code.startswith("regression/")
    }


def same(rows: int = 40) -> list[OutputStats]:
    return [row(DRAWS[0], {0: (rows, 0), 1: (rows, 0), 2: (rows, 0)})]


def test_a_submission_that_answers_as_the_release_does_is_accepted() -> None:
    judgement, submission, policy = judged(*same())
    assert judgement.verdict == "accepted", judgement.findings
    assert not regressions(judgement)
    report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
    (told,) = report["regression"]
    assert (told["status"], told["inputs"], told["quantised"]) == ("compared", [2, 4], False)
    assert told["outputs"][0]["rows"] == 120


def test_without_a_release_beside_a_revoked_one_and_with_the_comparison_off_nothing_is_said() -> None:
    for prior, table in (
        (Prior(status="none", reason="no release"), {}),
        (release(), {"enabled": False}),
        (release(revoked=True), {}),
    ):
        judgement, submission, policy = judged(*same(), prior=prior, jobs=[older(ending="crash")], table=table)
        assert not regressions(judgement)
        report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
        assert report["regression"] == []


def test_a_model_that_decides_otherwise_on_draws_alone_is_held() -> None:
    """Its goldens agree with their expected values, so that parity has nothing to say."""
    judgement, _, _ = judged(row(DRAWS[0], {0: (40, 10), 1: (40, 10), 2: (40, 10)}))
    assert judgement.verdict == "held"
    assert regressions(judgement) == {"regression/class-changed": ("hold", "models.main: probabilities")}


def test_one_lost_label_of_an_int8_model_is_rejected_though_99_of_100_rows_agree() -> None:
    rows = [row(DRAWS[0], {0: (600, 1), 1: (10, 10), 2: (600, 1)})]
    judgement, _, _ = judged(*rows, quantisation=INT8)
    assert judgement.verdict == "rejected"
    assert regressions(judgement) == {"regression/label-gone": ("reject", "models.main: probabilities: review")}
    # A float model that loses it may have been meant to: a person decides.
    judgement, _, _ = judged(*rows)
    assert judgement.verdict == "held"
    assert regressions(judgement) == {"regression/label-gone": ("hold", "models.main: probabilities: review")}


def test_half_of_a_rare_label_lost_is_more_than_chance_and_one_row_of_it_is_not() -> None:
    lost, _, _ = judged(row(DRAWS[0], {0: (600, 0), 1: (20, 10), 2: (600, 0)}), quantisation=INT8)
    assert regressions(lost) == {"regression/false-negatives": ("hold", "models.main: probabilities: review")}
    single, _, _ = judged(row(DRAWS[0], {0: (600, 0), 1: (5, 1), 2: (600, 0)}), quantisation=INT8)
    assert not regressions(single)


def test_labels_with_fewer_rows_than_the_policy_says_are_not_judged_by_themselves() -> None:
    rows = [row(DRAWS[0], {0: (600, 0), 1: (3, 3), 2: (600, 0)})]
    assert not regressions(judged(*rows, quantisation=INT8)[0])
    assert regressions(judged(*rows, quantisation=INT8, table={"label_rows": 3})[0])


def test_golden_rows_that_a_new_version_corrects_do_not_count_and_those_of_an_int8_model_do() -> None:
    rows = [row(world.SETS[0], {1: (40, 40)}), row(DRAWS[0], {0: (40, 0), 1: (10, 0), 2: (40, 0)})]
    judgement, submission, policy = judged(*rows)
    assert not regressions(judgement)
    report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
    (output,) = report["regression"][0]["outputs"]
    assert (output["mismatches"], output["corrected"]) == (40, 40)
    assert regressions(judged(*rows, quantisation=INT8)[0])


@pytest.mark.parametrize(
    ("found", "rows", "share", "expected"),
    [
        (0, 0, 0.1, False),
        (6, 64, 0.1, False),
        (12, 64, 0.1, False),
        (14, 64, 0.1, True),
        (1, 10, 0.0, True),
        (10, 10, 1.0, False),
        (100_000, 10**6, 0.1, False),
        (101_000, 10**6, 0.1, True),
        (10**6, 10**6, 0.1, True),
    ],
)
def test_beyond_chance_is_the_tail_of_the_binomial(found: int, rows: int, share: float, expected: bool) -> None:
    assert beyond_chance(found, rows, share) is expected


def test_values_without_classes_are_only_limited_where_the_policy_says_so() -> None:
    def kind(document: dict[str, Any]) -> None:
        output = document["models"][0]["outputs"][0]
        output["kind"] = "values"
        del output["tolerance"]["top1"], output["labels"]

    apart = world.stats(DRAWS[0], against="prior", n=100, exceeding=50, max_abs=3.0)
    for quantisation, table, expected in (
        (None, {}, set()),
        (None, {"values": {"rtol": 0.0, "atol": 0.1}}, {"regression/differs"}),
        (INT8, {}, {"regression/differs"}),
        (INT8, {"quantized": QuantisedLimits(within=0.4).model_dump()}, set()),
    ):
        _, submission, policy = judged(apart, table=table, quantisation=quantisation)
        judgement = world.verdict(submission, policy=policy, manifest=world.a_manifest(kind))
        assert set(regressions(judgement)) == expected


def test_a_kind_with_figures_of_its_own_is_held_by_them() -> None:
    def kind(name: str) -> Callable[[dict[str, Any]], None]:
        def change(document: dict[str, Any]) -> None:
            output = document["models"][0]["outputs"][0]
            output["kind"] = name
            del output["tolerance"], output["labels"]

        return change

    turned = world.stats(DRAWS[0], against="prior", embedding=Embedding(rows=1, min_cosine=0.5))
    other = world.stats(DRAWS[0], against="prior", sequence=Tokens(rows=10, exact=7))
    for name, row_, said in (("embedding", turned, "cosine"), ("sequence", other, "7 of 10 rows")):
        _, submission, policy = judged(row_, quantisation=INT8)
        judgement = world.verdict(submission, policy=policy, manifest=world.a_manifest(kind(name)))
        (finding,) = [one for one in judgement.findings if one.code == "regression/differs"]
        assert said in finding.message
        _, submission, policy = judged(row_)
        judgement = world.verdict(submission, policy=policy, manifest=world.a_manifest(kind(name)))
        assert "regression/differs" not in world.codes(judgement)


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


# -- the report


def hostile() -> Iterator[str]:
    yield from ("<script>alert(1)</script>", "\x1b[31mred", "a\u202eb")


def test_hostile_names_in_the_comparison_stay_text() -> None:
    for name in hostile():
        worst = row(DRAWS[0], {0: (40, 0)}, worst_expected=name, worst_got=name, worst_index=[0, 1])
        judgement, submission, policy = judged(worst)
        report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
        out = io.StringIO()
        print_verdict(Console(file=out, width=120), report, every_finding=True)
        page = render(report)
        assert "Run beside the current release" in page
        assert "beside the current release" in out.getvalue()
        assert name not in page
        assert name not in out.getvalue() or name.isprintable()
