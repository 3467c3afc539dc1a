"""A real bundle examined under one profile at a time, as workers do, and under all at once, as one host does."""

from __future__ import annotations

import queue
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from acceptd.acceptance import Acceptance, Drop
from acceptd.fleet.examined import Examined
from acceptd.fleet.merge import merge
from acceptd.intake.files import remove_tree
from acceptd.judge.finding import Judgement
from acceptd.judge.profiles import Target, judge_all
from acceptd.record.canonical import canonical
from acceptd.replay.again import recorded
from acceptd.rules import Rules
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold
from examples import evidence_classifier as classifier
from tests.bench_world import Desk, desk, rewrite, write_table

pytestmark = pytest.mark.acceptance

NOW = "2026-01-01T00:00:00Z"
SEED = "7" * 64


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("fleet")) as made:
        text = 'schema = 1\nname = "basic"\nproviders = ["CPUExecutionProvider"]\noptimisation = "basic"\n'
        (made.policies / "profiles" / "basic.toml").write_text(text, "utf-8")
        yield made


def examine(
    place: Desk, rules: Rules, path: Path, targets: Sequence[Target] | None, seed: str = SEED, secret: bytes = b""
) -> Examined:
    """Examine under a lease of the desk's workers."""
    ended: queue.SimpleQueue[Examined | BaseException] = queue.SimpleQueue()
    tools = replace(place.bench.tools, secret=secret)

    def run(hold: Hold) -> None:
        drop = Drop(id="s-1", team="mosaic", name=path.name, source=path, kind="directory")
        found: Examined | BaseException
        try:
            found = Acceptance(drop, rules, tools, hold, seed=seed).examine(targets=targets)
        except BaseException as error:
            found = error
        remove_tree(tools.sealed, "s-1")
        ended.put(found)

    name, share = secrets.token_hex(4), place.bench.share
    place.bench.workers.offer(Task(name, "mosaic", rules.profile.name, share, float("inf"), run=run))
    found = ended.get()
    if isinstance(found, BaseException):
        raise found
    return found


def judged(one: Examined, rules: Rules) -> Judgement:
    return judge_all(one.manifest, None, rules.policy, one.submission, NOW, rules.targets)


def bundle(kind: str, path: Path) -> Path:
    if kind == "wrong":
        return write_table(path, (0.2, 0.3, 0.5), (0.9, 0.2, 0.5))
    made = classifier.write_bundle(path)
    if kind == "not to be run":
        (made / "native.so").write_bytes(b"\x7fELF" + b"\0" * 60)
    if kind == "no manifest":
        (made / "bundle.toml").write_text("schema = ", "utf-8")
    if kind == "other shape":
        rewrite(made, lambda table: table["models"][0]["outputs"][0].update(dtype="float64"))
    return made


@pytest.mark.parametrize("kind", ["good", "wrong", "not to be run", "no manifest", "other shape"])
def test_findings_are_byte_for_byte_those_of_one_host(kind: str, place: Desk, tmp_path: Path) -> None:
    path = bundle(kind, tmp_path / "b")
    rules = place.rules('profiles=["cpu","basic"]')
    whole = examine(place, rules, path, None)
    parts = [examine(place, rules, path, [target]) for target in rules.targets]
    carried = [Examined.from_bytes(one.to_bytes()) for one in reversed(parts)]
    merged = merge(carried, rules.targets)
    one, other = judged(whole, rules), judged(merged, rules)
    assert one.verdict == ("accepted" if kind == "good" else "rejected")
    assert canonical(recorded(one)) == canonical(recorded(other))
    assert (one.verdict, one.reason, one.profiles) == (other.verdict, other.reason, other.profiles)
    tasks = [
        [(job.kind, job.model, job.profile, job.variant) for job in each.submission.jobs]
        for each in (whole, merged)
    ]
    assert tasks[0] == tasks[1]
    assert merged.manifest == whole.manifest


def test_the_seed_of_the_order_draws_the_probes_whatever_secret_a_host_has(place: Desk, tmp_path: Path) -> None:
    path = bundle("good", tmp_path / "b")
    rules = place.rules()

    def drawn(seed: str, secret: bytes) -> list[str]:
        statistics = examine(place, rules, path, None, seed, secret).submission.statistics
        assert statistics is not None
        rows = [row for row in statistics.outputs if row.set.startswith("probe:draws")]
        assert rows
        return [row.model_dump_json() for row in rows]

    first = drawn(SEED, b"one")
    assert drawn(SEED, b"two") == first
    assert drawn("8" * 64, b"one") != first
    assert drawn("", b"one") != first  # its own, where nobody chose one
    assert drawn("", b"two") != drawn("", b"one")
