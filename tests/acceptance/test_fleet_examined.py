"""A real bundle examined under one profile at a time, as workers do, and under all at once, as one host does."""

from __future__ import annotations

import queue
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from acceptd.acceptance import Acceptance, Drop
from acceptd.contracts.effective import without_ledger
from acceptd.errors import FleetTrustError
from acceptd.fleet.examined import Examined
from acceptd.fleet.merge import merge, with_heldout
from acceptd.heldout.place import add
from acceptd.heldout.stage import Keeper
from acceptd.intake.files import remove_tree
from acceptd.judge.finding import Judgement
from acceptd.judge.heldout import due, gap
from acceptd.judge.profiles import Target, judge_all
from acceptd.outcomes import judge
from acceptd.record.canonical import canonical
from acceptd.replay.again import recorded
from acceptd.rules import Rules
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold
from examples import evidence_classifier as classifier
from examples.bundle_text import write_set
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
    place: Desk,
    rules: Rules,
    path: Path,
    targets: Sequence[Target] | None,
    seed: str = SEED,
    secret: bytes = b"",
    work: Callable[[Acceptance], Examined] | None = None,
) -> Examined:
    """Examine under a lease of the desk's workers."""
    ended: queue.SimpleQueue[Examined | BaseException] = queue.SimpleQueue()
    tools = replace(place.bench.tools, secret=secret)

    def run(hold: Hold) -> None:
        drop = Drop(id="s-1", team="mosaic", name=path.name, source=path, kind="directory")
        found: Examined | BaseException
        try:
            acceptance = Acceptance(drop, rules, tools, hold, seed=seed)
            found = acceptance.examine(targets=targets) if work is None else work(acceptance)
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


def of_any_host(judgement: Judgement) -> bytes:
    """Return the recorded findings as bytes, without which probes this host had no time for."""
    return canonical([one for one in recorded(judgement) if one["code"] != "behaviour/probes-left-out"])


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
    assert of_any_host(one) == of_any_host(other)
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


def test_held_out_vectors_evaluated_by_two_workers_are_one_evaluation(tmp_path: Path) -> None:
    """Round 2 of an order: each worker that has the vectors evaluates for its profile, and the promoter judges."""
    with desk(tmp_path / "desk", contract=True) as place:
        text = 'schema = 1\nname = "basic"\nproviders = ["CPUExecutionProvider"]\noptimisation = "basic"\n'
        (place.policies / "profiles" / "basic.toml").write_text(text, "utf-8")
        home = tmp_path / "heldout"
        home.mkdir(mode=0o700)
        features = np.array([[0.31, 0.57, 0.25, 0.13]], np.float32)
        expected = classifier.oracle(features)["probabilities"].astype(np.float32)
        write_set(tmp_path / "sets" / "zebra_0", [("features", features)], [("probabilities", expected)])
        kept = add(home, "mosaic/evidence-disposition", tmp_path / "sets")
        file = place.policies / "contracts" / "mosaic" / "evidence-disposition.toml"
        wanted = f'\n[[models.heldout]]\nsets = ["zebra_0"]\nsha256 = "{kept.digest}"\n'
        file.write_text(re.sub(r"\[ceilings\].*?(?=\n\[\[)", "", file.read_text(), flags=re.S) + wanted)
        rules = place.rules('profiles=["cpu","basic"]', "heldout.seconds=2")
        path = bundle("good", tmp_path / "b")
        agreed = without_ledger(rules, "mosaic/evidence-disposition")
        assert agreed.contract is not None

        def evaluate(acceptance: Acceptance, examined: Examined, target: Target) -> Examined:
            acceptance.keeper = Keeper(home, lambda _contract, _digest: 7)
            assert acceptance.seal()[0] == examined.submission.sealed
            return acceptance.evaluate(examined, [target])

        first = merge([examine(place, rules, path, [target]) for target in rules.targets], rules.targets)
        owed = judge(rules, first, agreed)
        assert due(agreed.contract, owed.submission, owed.judgement), owed.judgement.reason
        parts = [
            examine(place, rules, path, None, work=partial(evaluate, examined=first, target=target))
            for target in rules.targets
        ]
        assert all(part.submission.walls["network"] == "enforced" for part in parts)
        carried = [Examined.from_bytes(part.to_bytes()) for part in parts]
        whole = with_heldout(first, carried, rules.targets)
        found = judge(rules, whole, agreed)
        assert found.judgement.verdict == "accepted", gap(found.submission.heldout)
        (told,) = [one for one in found.judgement.findings if one.code == "heldout/result"]
        assert told.evidence["evaluation"] == 7
        assert told.evidence["result"] == "passed"
        with pytest.raises(FleetTrustError):
            with_heldout(first, carried[:1], rules.targets)
