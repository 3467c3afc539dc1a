"""What depends on the runtime: runs, comparison and measurement of one submission under one profile at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from acceptd.cell.blobs import Blob, lent
from acceptd.compare import pairing
from acceptd.compare.whole import whole_task
from acceptd.errors import CellUnavailableError, InternalError
from acceptd.evidence import Facts, JobRecord, KeptFile, Prior, Sealed, Statistics, UnderProfile, Vectors
from acceptd.execution import Execution, Sources
from acceptd.judge import inventory
from acceptd.judge.profiles import Target
from acceptd.oracle import Oracle
from acceptd.ordering import RunJob, Shelf
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.rules import Rules
from acceptd.runtime import cpu
from acceptd.runtime.identity import RuntimeRecord, record_of
from acceptd.tools import Tools
from acceptd.work.hold import Hold


@dataclass(frozen=True, slots=True)
class Shared:
    """What was found out once and holds under every profile. ``facts`` are by the models' files."""

    sealed: Sealed
    manifest: Manifest
    taken: inventory.Inventory
    facts: dict[str, Facts]
    vectors: Vectors | None
    inputs: Blob
    expected: Blob
    oracle: Oracle
    seed: str
    """Of the probes."""


@dataclass(frozen=True, slots=True)
class UnderOne:
    """Runs one submission under each profile in turn; ``jobs`` and ``found`` gain what comes of it."""

    rules: Rules
    """With every profile."""
    tools: Tools
    hold: Hold
    job: RunJob
    """Of any profile; it is told which."""
    stage: Callable[[str], AbstractContextManager[None]]
    keep: Callable[[Mapping[str, int], int], dict[str, KeptFile]]
    shared: Shared
    inferred: bool
    contract: Contract | None
    prior: Prior | None
    shelf: Shelf | None
    """Where the current release's files lie for the cell."""
    jobs: list[JobRecord]
    found: dict[str, UnderProfile]

    def run(self, target: Target) -> None:
        """Run and compare under one profile: all that depends on the runtime belongs here.

        Every ``run`` job made here bears the profile's name; what other jobs find belongs to all
        profiles and is done once, before this.
        """
        shared, rules, name = self.shared, self.rules.under(target), target.profile.name
        outputs: dict[tuple[str, str], Blob] = {}
        with ExitStack() as stack:
            with self.stage("run"):
                job = partial(self.job, profile=target.profile)
                execution = Execution(
                    rules,
                    self.tools,
                    self.hold,
                    shared.manifest,
                    job,
                    shared.oracle,
                    shared.seed,
                    inferred=self.inferred,
                    contract=self.contract,
                    prior=self.prior,
                    shelf=self.shelf,
                )
                for model in shared.manifest.models:
                    if model.file in shared.facts:
                        facts = shared.facts[model.file]
                        sources = Sources(shared.sealed, shared.taken, facts, shared.vectors, shared.inputs)
                        self.jobs.extend(execution.run(model, sources, outputs, stack))
            with self.stage("compare"):
                statistics, kept = self._compare(rules, outputs)
                runtimes, problem = self._measured(target)
        self.found[name] = UnderProfile(
            profile=name, statistics=statistics, runtimes=runtimes, runtime_problem=problem, kept=kept
        )

    def _compare(
        self, rules: Rules, outputs: dict[tuple[str, str], Blob]
    ) -> tuple[Statistics | None, dict[str, KeptFile]]:
        own = [job for job in self.jobs if job.profile in {"", rules.profile.name}]
        shared = self.shared
        task = whole_task(
            shared.manifest, self.contract, rules.policy, shared.vectors, own, shared.taken.sets, self.prior
        )
        named = {pairing.EXPECTED: shared.expected.reader(), pairing.INPUTS: shared.inputs.reader()}
        named |= {pairing.outputs_key(model, variant): blob.reader() for (model, variant), blob in outputs.items()}
        with lent(named) as files:
            try:
                statistics = self.tools.comparer.compare(task, files, check=self.hold.check)
            except InternalError:
                return None, {}  # no statistics: the judge says inconclusive, never accepted
            used = {file.sha256: file.size for one in self.found.values() for file in one.kept.values()}
            most = rules.policy.evidence.keep_outputs_bytes - sum(used.values())
            return statistics, self.keep(files, most)

    def _measured(self, target: Target) -> tuple[list[RuntimeRecord], str]:
        """Return what each run was forked from: the warm parent before it read a submitted byte."""
        runtimes: list[RuntimeRecord] = []
        problem = ""
        mine = [job for job in self.jobs if job.kind == "run" and job.profile == target.profile.name]
        for parent in sorted({job.parent for job in mine if job.parent}):
            try:
                facts = self.tools.cell.runtime(parent)
            except CellUnavailableError as error:
                problem = error.message
                continue
            record = record_of(facts, target.profile, cpu.host())
            if record not in runtimes:
                runtimes.append(record)
        return runtimes, problem
