"""The stages of one acceptance, in order, readable top to bottom (design, section 5).

Nothing here parses a submitted byte: jobs in the cell do, and what they say is evidence. Every way
out of here leads through the judge, and no failure leads to ``accepted``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acceptd.advisory_facts import AdvisoryStanding
from acceptd.aside import aside
from acceptd.cell.blobs import closing_blob
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.contracts.effective import Agreed, without_ledger
from acceptd.drop import ANY_TEAM as ANY_TEAM
from acceptd.drop import BUNDLE as BUNDLE
from acceptd.drop import LOCAL as LOCAL
from acceptd.drop import MANIFEST_FILE as MANIFEST_FILE
from acceptd.drop import Drop as Drop
from acceptd.drop import Kind as Kind
from acceptd.errors import CellUnavailableError, SealError
from acceptd.evidence import (
    Facts,
    JobRecord,
    KeptFile,
    Prior,
    Problem,
    Sealed,
    SealFailure,
    Submission,
    UnderProfile,
    Variant,
)
from acceptd.examination import Examination
from acceptd.fleet.examined import Examined
from acceptd.heldout.stage import Agreed as HeldOutOf
from acceptd.heldout.stage import Bundle, Keeper, Stage, known_seconds
from acceptd.judge import infer, inventory
from acceptd.judge.apart import joined
from acceptd.judge.heldout import due
from acceptd.judge.jobs import Jobs
from acceptd.judge.profiles import Target, runnable
from acceptd.oracle import Oracle
from acceptd.ordering import Shelf
from acceptd.outcomes import Outcome as Outcome
from acceptd.outcomes import judge
from acceptd.policy import manifest as manifests
from acceptd.policy.manifest import Manifest
from acceptd.policy.profile import Profile
from acceptd.prior import NO_LEDGER
from acceptd.record.entry import utc_now
from acceptd.rules import Rules
from acceptd.runtime.identity import RuntimeRecord
from acceptd.tools import Tools
from acceptd.under import Shared, UnderOne
from acceptd.unpack import unpack_archive
from acceptd.wall_facts import standing
from acceptd.work.need import job_share
from acceptd.work.workers import Hold


@dataclass(slots=True)
class Acceptance:
    """One acceptance under way. Call :meth:`run`."""

    drop: Drop
    rules: Rules
    tools: Tools
    hold: Hold
    progress: Callable[[str], None] = lambda _stage: None
    timings_ms: dict[str, float] = field(default_factory=dict)
    jobs: list[JobRecord] = field(default_factory=list)
    under: dict[str, UnderProfile] = field(default_factory=dict)
    """What comparer and measurement found by profile; a profile that nothing was run under is not there."""
    manifest: Manifest | None = None
    manifest_error: Problem | None = None
    inferred: list[str] = field(default_factory=list)
    agreed: Agreed = Agreed()  # noqa: RUF009 - frozen, and empty
    """The contract in force."""
    team: str = ""
    find_prior: Callable[[str, str], Prior] = lambda _model_id, _digest: NO_LEDGER
    """Model id and bundle digest to the current release that the submission is compared with."""
    find_contract: Callable[[Rules, str], Agreed] = without_ledger
    """Rules and model id to the contract in force. A local check has no ledger, and takes the file's."""
    find_advisories: Callable[[Rules, Sequence[RuntimeRecord]], AdvisoryStanding | None] = lambda _rules, _of: None
    """What the list of advisories in force says of these runtimes; a local check knows of none."""
    find_shelf: Callable[[Prior], Shelf | None] = lambda _prior: None
    """Where the files of that release lie for the cell."""
    prior: Prior | None = None
    keeper: Keeper | None = None
    """Of held-out vectors. None: there are none here, as in a local check."""
    seed: str = ""
    """Of the probes, where another chose it; empty: the tools' own for this bundle."""
    place: str = ""
    """Where the sealed bundle lies below the tools' ``sealed``; empty: in the drop's own directory."""
    keep: Callable[[Mapping[str, int], int], dict[str, KeptFile]] = lambda _files, _most: {}
    """Keeps what lies behind descriptors, up to so many bytes; without a ledger nothing is kept."""

    def __post_init__(self) -> None:
        self.team = LOCAL if self.drop.team == ANY_TEAM else self.drop.team
        self.place = self.place or f"{self.drop.id}/{BUNDLE}"

    def run(self, sealed: Sealed | None = None) -> Outcome:
        """Take the drop through all stages; with ``sealed`` the sealing was done before (recovery).

        Raises GivenUpError when the work is cancelled: no job of it is left by then.
        """
        examined = self.examine(sealed)
        with self._stage("judge"):
            outcome = self._judged(examined)
        if due(self.agreed.contract, outcome.submission, outcome.judgement):
            with self._stage("heldout"):
                stage = self._held_out(examined)
                outcome = self._judged(examined.with_heldout(stage.run()))
                stage.fill()  # the time it takes says nothing
                outcome = replace(outcome, judgement=outcome.judgement.model_copy(update={"judged_at": utc_now()}))
        return replace(outcome, timings_ms=dict(self.timings_ms))

    def examine(self, sealed: Sealed | None = None, targets: Sequence[Target] | None = None) -> Examined:
        """Do all that looks at the bundle or runs it, under ``targets`` (None: every profile); judge nothing.

        Each of ``targets`` is one of the rules'. Raises as :meth:`run`.
        """
        failure: SealFailure | None = None
        wanted = self.rules.targets if targets is None else targets
        if sealed is None:
            with self._stage("seal"):
                sealed, failure = self.seal()
        if sealed is not None:
            try:
                self._examine(sealed, wanted)
            except CellUnavailableError as error:
                self._unavailable(error)
        return Examined(
            profiles=[target.profile.name for target in wanted],
            submission=self._submission(sealed, failure),
            manifest=self.manifest,
            contract_digest=self.agreed.digest,
            timings_ms=dict(self.timings_ms),
        )

    def evaluate(self, examined: Examined, targets: Sequence[Target]) -> Examined:
        """Evaluate what the contract holds out under ``targets``, for who judges ``examined`` elsewhere.

        What is returned says of held-out vectors alone (:func:`acceptd.fleet.merge.with_heldout` takes it). The
        caller has seen to it that the evaluation is due and spent. Raises as :meth:`run`.
        """
        with self._stage("heldout"):
            if examined.manifest is not None:
                self.agreed = self.find_contract(self.rules, examined.manifest.bundle.id)
            stage = self._held_out(examined, targets)
            held = stage.run()
            stage.fill()
        states, notes = self._walls(held.jobs)
        told = self._submission(examined.submission.sealed, None)
        return Examined(
            profiles=[target.profile.name for target in targets],
            submission=told.model_copy(update={"walls": states, "wall_notes": notes, "heldout": held}),
            manifest=examined.manifest,
            contract_digest=self.agreed.digest,
            timings_ms=dict(self.timings_ms),
        )

    def _judged(self, examined: Examined) -> Outcome:
        known = self.find_advisories(self.rules, examined.submission.every_runtime())
        return judge(self.rules, examined.advised(known), self.agreed)

    def _held_out(self, examined: Examined, targets: Sequence[Target] | None = None) -> Stage:
        """Return the stage for what the contract holds out, now that all else passed."""
        sealed = examined.submission.sealed
        assert examined.manifest is not None
        assert self.agreed.contract is not None
        assert sealed is not None
        known = known_seconds(examined.submission.jobs)
        bundle = Bundle(self.place, examined.manifest, sealed, examined.facts(), known)
        held_out = HeldOutOf(self.agreed.contract, self.agreed.digest, self.keeper)
        return Stage(self.rules, self.tools, self.hold, bundle, held_out, self.keep, targets)

    # -- seal ---------------------------------------------------------------------------------------

    @property
    def sealed_directory(self) -> Path:
        """Where the sealed bundle lies."""
        return self.tools.sealed / self.place

    def seal(self) -> tuple[Sealed | None, SealFailure | None]:
        """Seal the drop into acceptd's own storage; a refusal is evidence, not an error."""
        home = self.tools.sealed / self.drop.id
        limits = self.rules.policy.limits
        try:
            home.mkdir(mode=0o755, exist_ok=True)
            home.chmod(0o755)
            if self.drop.kind == "directory":
                stop = self.hold.kill_due
                return self.tools.sealer.seal(
                    self.drop.source, self.sealed_directory, limits, cancelled=stop
                ), None
            record, sealed = unpack_archive(
                self.drop.source, self.drop.kind, home, self.drop.id, self.rules, self.tools, self.hold
            )
            if record is not None:
                self.jobs.append(record)
            return sealed, None
        except SealError as error:
            return None, SealFailure(code=error.code, where=error.where, message=error.message)

    # -- examine ------------------------------------------------------------------------------------

    def _examine(self, sealed: Sealed, targets: Sequence[Target]) -> None:
        facts: dict[str, Facts] = {}
        if MANIFEST_FILE in {file.path for file in sealed.files}:
            with self._stage("manifest"):
                self.read_manifest()
            if self.manifest is None:
                return
        else:
            with self._stage("inspect"):
                models = dict.fromkeys(inventory.model_paths(sealed, None)[:32], "")
                facts = self._examined(models, self._side_by_side(self._examination(sealed).inspect(models)))
            found = infer.infer(self.team, self.drop.name, facts, sealed)
            if found is None:
                return
            self.manifest, self.inferred = found.manifest, list(found.inferred)
            self._name_jobs(found.manifest)
        if self.drop.team == ANY_TEAM:
            self.team = self.manifest.bundle.id.partition("/")[0]
        if self.manifest.bundle.id.partition("/")[0] != self.team and not self.inferred:
            return  # manifest/team-mismatch: the judge says so, and nothing of it is examined further
        if not self.inferred:  # an inferred id is a guess from the drop's name: no contract may be picked by it
            self.agreed = self.find_contract(self.rules, self.manifest.bundle.id)
        with ExitStack() as stack:
            self._examine_models(sealed, self.manifest, facts, targets, stack)

    def _examine_models(
        self,
        sealed: Sealed,
        manifest: Manifest,
        facts: dict[str, Facts],
        targets: Sequence[Target],
        stack: ExitStack,
    ) -> None:
        taken = inventory.take(sealed, manifest)
        inputs, expected = (stack.enter_context(closing_blob(self.tools.temporary)) for _ in range(2))
        models = {} if facts else {model.file: model.name for model in manifest.inspected}
        examination = self._examination(sealed)
        calls = examination.inspect(models)
        vectors = examination.vectors(manifest, taken, inputs, expected)
        with aside(lambda: self.find_prior(manifest.bundle.id, sealed.digest)) as prior:
            with self._stage("inspect" if calls else "vectors"):
                records = joined(self._side_by_side([*calls, *vectors, *examination.signature()]))
            facts |= self._examined(models, records)
            if assets := examination.assets(manifest, taken, Jobs(tuple(self.jobs))):
                with self._stage("inspect"):
                    self.jobs += self._side_by_side(assets)
            with self._stage("difference"):
                self.prior = prior()
        known = self._submission(sealed, None)
        vectors_facts = next((job.vectors for job in self.jobs if job.vectors is not None), None)
        oracle = Oracle(self.rules.policy, self.tools, self._job, sealed, not self.inferred, stack)
        seed = self.seed or self.tools.probe_seed(sealed.digest)
        shared = Shared(sealed, manifest, taken, facts, vectors_facts, inputs, expected, oracle, seed)
        under = UnderOne(
            rules=self.rules,
            tools=self.tools,
            hold=self.hold,
            job=self._job,
            stage=self._stage,
            keep=self.keep,
            shared=shared,
            inferred=bool(self.inferred),
            contract=self.agreed.contract,
            prior=self.prior,
            shelf=self.find_shelf(self.prior) if self.prior is not None else None,
            jobs=self.jobs,
            found=self.under,
        )
        for target in list(runnable(manifest, self.agreed.contract, self.rules.policy, known, targets)):
            under.run(target)

    def _examination(self, sealed: Sealed) -> Examination:
        return Examination(self.rules, sealed, self.manifest, self._job)

    def read_manifest(self) -> None:
        """Read ``bundle.toml`` of the sealed bundle, in a job; one that is not valid leaves no manifest."""
        limits = job_limits("manifest", self.rules.policy.limits)
        record = self._job("manifest", {MANIFEST_FILE: MANIFEST_FILE}, {"path": MANIFEST_FILE}, limits)
        self.jobs.append(record)
        if record.manifest is None:
            return
        found = manifests.validated(record.manifest)
        if isinstance(found, manifests.Manifest):
            self.manifest = found
            return
        where = f"bundle.toml {found.key}".strip()
        self.manifest_error = Problem(code="manifest/invalid", where=where, message=found.message)

    def _side_by_side(self, calls: Sequence[Callable[[], JobRecord]]) -> list[JobRecord]:
        """Run jobs that look at models and vectors, as many at once as there is room for."""
        return self.hold.side_by_side(job_share(self.rules, "inspect"), calls)

    def _examined(self, models: dict[str, str], records: list[JobRecord]) -> dict[str, Facts]:
        """Keep the records of ``inspect`` jobs and those beside them; return facts by file."""
        self.jobs += records
        by_name = {name or path: path for path, name in models.items()}
        return {
            by_name[job.model]: job.facts for job in records if job.kind == "inspect" and job.facts is not None
        }

    def _name_jobs(self, manifest: Manifest) -> None:
        """Give the jobs that ran before the manifest was inferred the names that it gave the models."""
        names = {model.file: model.name for model in manifest.models}
        self.jobs[:] = [job.model_copy(update={"model": names.get(job.model, job.model)}) for job in self.jobs]

    # -- common -------------------------------------------------------------------------------------

    def _job(
        self,
        kind: str,
        files: dict[str, str],
        spec: dict[str, Any],
        limits: JobLimits,
        *,
        blobs: dict[str, int] | None = None,
        model: str = "",
        variant: Variant = "",
        proc_fd: bool = False,
        scratch: bool = False,
        profile: Profile | None = None,
        shelf: Shelf | None = None,
    ) -> JobRecord:
        shelf = shelf or Shelf("sealed", self.place)
        self.hold.check()
        record = self.tools.cells.at(self.hold.slot).run(
            kind,
            files={inside: f"{shelf.place}/{path}" for inside, path in files.items()},
            area=shelf.area,
            spec=spec,
            limits=limits,
            required_walls=self.rules.policy.required_walls,
            blobs=blobs,
            cancelled=self.hold.kill_due,
            model=model,
            profile=profile if kind == "run" else None,
            variant=variant,
            proc_fd=proc_fd,
            scratch=scratch,
        )
        self.hold.check()  # what was cancelled is no evidence
        return record

    def _unavailable(self, error: CellUnavailableError) -> None:
        self.jobs.append(
            JobRecord(kind="inspect", ending="unavailable", cause="no cell", message=error.message[:300])
        )

    def _submission(self, sealed: Sealed | None, failure: SealFailure | None) -> Submission:
        states, notes = self._walls(self.jobs)
        first, *others = (target.profile.name for target in self.rules.targets)
        own = self.under.get(first, UnderProfile(profile=first))
        return Submission(
            id=self.drop.id,
            team=self.team,
            sealed=sealed,
            seal_failure=failure,
            jobs=list(self.jobs),
            profile=first,
            statistics=own.statistics,
            walls=states,
            wall_notes=notes,
            manifest_error=self.manifest_error,
            prior=self.prior,
            inferred=list(self.inferred),
            runtimes=own.runtimes,
            runtime_problem=own.runtime_problem,
            kept=own.kept,
            others=[self.under[name] for name in others if name in self.under],
            contract=self.agreed.standing,
        )

    def _walls(self, jobs: Sequence[JobRecord]) -> tuple[dict[str, str], dict[str, str]]:
        if not jobs:  # nothing ever ran in the cell (a drop that cannot be sealed): no wall has anything to say
            return {}, {}
        return standing(self.tools.cell.outer_states, self.tools.cell.outer_notes, jobs)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.hold.check()
        self.progress(name)
        start = time.monotonic()
        try:
            yield
        finally:
            spent = (time.monotonic() - start) * 1000
            self.timings_ms[name] = round(self.timings_ms.get(name, 0.0) + spent, 3)
