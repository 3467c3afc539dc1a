"""A submission beside the current release: what the statistics and the two runs must lead to. Pure."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from acceptd.evidence import (
    Prior,
)
from acceptd.judge.regressed import beyond_chance
from acceptd.kind_facts import Embedding
from acceptd.kind_facts import Sequence as Tokens
from acceptd.policy.regression import QuantisedLimits
from acceptd.report.document import document
from acceptd.report.html import render
from acceptd.report.terminal import print_verdict
from tests import judge_world as world
from tests.regression_judged import DRAWS, INT8, judged, older, regressions, release, row, same

pytestmark = pytest.mark.unit


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
