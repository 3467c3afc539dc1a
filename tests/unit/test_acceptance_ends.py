"""A cell or a comparer that goes away in the middle of an acceptance: no verdict that nobody can stand by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.acceptance import Acceptance, Drop
from acceptd.cell.blobs import Blob, closing_blob
from acceptd.errors import CellUnavailableError, InternalError
from acceptd.execution import Execution
from acceptd.judge.inventory import take
from acceptd.judge.profiles import Target
from acceptd.policy.load import digest, with_overrides
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from acceptd.under import UnderOne
from tests import judge_world as world

pytestmark = pytest.mark.unit
PROFILE = Profile()
RULES = Rules(Policy(), digest(Policy()), PROFILE, digest(PROFILE), Path("/nonexistent"))
HOLD = SimpleNamespace(check=lambda: None)
TARGET = Target(PROFILE, digest(PROFILE))


@pytest.fixture
def blob(tmp_path: Path) -> Iterator[Blob]:
    with closing_blob(tmp_path) as made:
        yield made


def test_a_cell_that_goes_away_ends_inconclusive_and_never_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise CellUnavailableError("the warm parent ended: " + "x" * 1000)

    cell = SimpleNamespace(outer_states=dict(world.WALLS), outer_notes={})
    tools: Any = SimpleNamespace(cell=cell, sealed=tmp_path)
    monkeypatch.setattr(Acceptance, "_examine", away)
    drop = Drop(id="s-1", team="mosaic", name="d", source=tmp_path, kind="directory")
    outcome = Acceptance(drop, RULES, tools, cast("Any", HOLD)).run(world.sealed())
    assert outcome.judgement.verdict == "inconclusive"
    (job,) = outcome.submission.jobs
    assert (job.kind, job.ending, job.cause) == ("inspect", "unavailable", "no cell")
    assert job.message.startswith("the warm parent ended: ")
    assert len(job.message) == 300


def under(blob: Blob, tools: Any, kept: list[Any]) -> Any:
    """Return as much of the work under one profile as comparing and measuring need."""
    submission, manifest = world.submission(), world.a_manifest()
    vectors = next(job.vectors for job in submission.jobs if job.vectors is not None)
    assert submission.sealed is not None
    shared = SimpleNamespace(
        manifest=manifest, vectors=vectors, taken=take(submission.sealed, manifest), expected=blob, inputs=blob
    )

    def keep(files: Any, most: int) -> Any:
        kept.append((sorted(files), most))
        return {}

    jobs = [job.model_copy(update={"profile": PROFILE.name, "parent": "p-1"}) for job in submission.jobs]
    return SimpleNamespace(
        jobs=jobs, shared=shared, contract=None, prior=None, tools=tools, found={}, keep=keep,
        hold=HOLD,
    )  # fmt: skip


def test_a_comparer_that_dies_leaves_no_statistics_and_keeps_nothing(blob: Blob) -> None:
    def dies(*_: Any, **__: Any) -> Any:
        raise InternalError("the comparer ended")

    kept: list[Any] = []
    made = under(blob, SimpleNamespace(comparer=SimpleNamespace(compare=dies)), kept)
    outputs = {("main", ""): blob, ("main", "unoptimised"): blob}
    assert UnderOne._compare(made, RULES, outputs) == (None, {})
    assert kept == []
    found = world.statistics()
    made.tools = SimpleNamespace(comparer=SimpleNamespace(compare=lambda *_, **__: found))
    assert UnderOne._compare(made, RULES, outputs) == (found, {})
    ((names, most),) = kept
    assert len(names) == 4
    assert most == RULES.policy.evidence.keep_outputs_bytes
    alone = world.submission().model_copy(update={"statistics": None})
    assert world.verdict(alone).verdict == "inconclusive", "and the judge says so"


def test_a_parent_that_cannot_be_asked_what_it_is_is_a_problem_and_no_runtime(blob: Blob) -> None:
    def away(_parent: str) -> Any:
        raise CellUnavailableError("the parent ended before it was measured")

    made = under(blob, SimpleNamespace(cell=SimpleNamespace(runtime=away)), [])
    assert UnderOne._measured(made, TARGET) == ([], "the parent ended before it was measured")
    made.jobs = [job for job in made.jobs if job.kind != "run"]
    assert UnderOne._measured(made, TARGET) == ([], ""), "nothing was run: there is nothing to be measured"


@pytest.mark.parametrize("wanted", [True, False])
def test_relations_are_ordered_only_where_the_policy_wants_them(wanted: bool) -> None:
    policy = with_overrides(Policy(), [f"probes.relations={str(wanted).lower()}", "probes.relations_seconds=2.5"])
    inner = SimpleNamespace(threads=4, memory_bytes=1 << 20)
    made: Any = SimpleNamespace(rules=SimpleNamespace(policy=policy))
    found = Execution._relations(
        made, cast("Any", SimpleNamespace(inner=inner)), cast("Any", SimpleNamespace(sessions=2))
    )
    assert found == ({"seconds": 2.5, "threads": 4, "memory_bytes": 1 << 20, "sessions": 2} if wanted else None)
