"""The held-out stage: one job decodes, one job for each model runs, the comparer compares, and time is filled up.

Jobs run in a cell of their own, whose warm parents serve nothing before or after: how one ended cannot be read
off the time of a later job. The stage takes a time that is fixed before its first job starts, from what the
team knows anyway, so that its length says nothing about a held-out value.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from acceptd.cell.blobs import Blob, closing_blob, lent
from acceptd.cell.client import Cell
from acceptd.cell.compact import inputs_only, tensors_in
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.compare import pairing
from acceptd.errors import CellUnavailableError, ConfigError, InternalError
from acceptd.evidence import Facts, HeldOut, HeldOutUnder, JobRecord, KeptFile, Sealed, Vectors, VectorSet
from acceptd.heldout import pairs
from acceptd.heldout.lean import lean
from acceptd.heldout.place import Packed, pack
from acceptd.judge import inventory
from acceptd.judge.profiles import Target
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.work.workers import Hold

ROOM: Final = 5.0
"""Time for the stage, as a multiple of what loading and the goldens took."""
JOBS_PART: Final = 0.8
"""Of that time, what jobs may use; the rest is for starting, comparing and ending them."""
ATTEMPTS: Final = 2
"""A lost job is tried once more."""
SPARE_OUTPUT: Final = 1 << 20
"""Bytes beyond twice the expected outputs that a run may write: comparing what it writes has to fit too."""
_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Keeper:
    """Where held-out vectors are, and the account of their evaluations.

    ``spend`` returns the number of an evaluation that is counted for good by then, 0 where none is left.
    """

    home: Path
    spend: Callable[[Contract, str], int]


def allotted(seconds: float, known: float) -> float:
    """Return how long the stage takes: the least multiple of ``seconds`` that gives ROOM times ``known`` seconds.

    >>> allotted(5.0, 0.1), allotted(5.0, 3.0)
    (5.0, 15.0)
    """
    return seconds * max(1, math.ceil(ROOM * known / seconds))


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is evaluated. ``place`` is the sealed bundle's below the sealed directory, ``facts`` are by model file.

    ``known``: seconds that it took before to load its models and run their goldens, see :func:`known_seconds`.
    """

    place: str
    manifest: Manifest
    sealed: Sealed
    facts: dict[str, Facts]
    known: float


@dataclass(frozen=True, slots=True)
class Agreed:
    """The contract with its digest, and who keeps what it holds out; None: nobody here."""

    contract: Contract
    digest: str
    keeper: Keeper | None


def known_seconds(jobs: Sequence[JobRecord]) -> float:
    """Return what loading the models and running their goldens took, by the jobs' own word, at most their time.

    A team sees the same figures. A job that overstates makes its own stage longer; one that understates leaves
    its own run less time.
    """
    known = 0.0
    for job in jobs:
        if job.kind == "run" and not job.variant and job.schema_ is not None:
            golden = sum(case.wall_ms for case in job.cases if not case.set.startswith("probe:"))
            hashed = job.done.phases_ms.get("hash", 0.0) if job.done is not None else 0.0
            known += min(job.wall_s, max(0.0, (job.schema_.load_ms + golden + hashed) / 1000))
    return known


@dataclass(slots=True)
class Stage:
    """The stage of one submission. :meth:`run`, then judge, then :meth:`fill`."""

    rules: Rules
    tools: Tools
    hold: Hold
    bundle: Bundle
    agreed: Agreed
    keep: Callable[[Mapping[str, int], int], dict[str, KeptFile]] = lambda _files, _most: {}
    """Keeps what lies behind descriptors, up to so many bytes."""
    only: Sequence[Target] | None = None
    """The profiles that are evaluated here; None: every one that is required."""
    started: float = field(default_factory=time.monotonic)
    """When the fixed time began: once a cell stands and the sets are decoded, which no model has a part in."""

    @property
    def length(self) -> float:
        """Seconds that the stage takes, whatever happens in it."""
        return allotted(self.rules.policy.heldout.seconds, self.bundle.known * len(self.targets))

    @property
    def targets(self) -> list[Target]:
        """The required profiles, all of them evaluated at once, as far as that is to happen here."""
        return [one for one in (self.rules.targets if self.only is None else self.only) if one.required]

    def run(self) -> HeldOut:
        """Evaluate once; return what came of it. Raises GivenUpError."""
        keeper = self.agreed.keeper
        if keeper is None:
            return HeldOut(status="local")
        with ExitStack() as stack:
            blobs = {name: stack.enter_context(closing_blob(self.tools.temporary)) for name in _BLOBS}
            try:
                packed = pack(keeper.home, self.agreed.contract, blobs["files"])
            except ConfigError as error:
                return HeldOut(status="refused", reason=str(error)[:2000], nonce=_nonce())
            number = keeper.spend(self.agreed.contract, self.agreed.digest)
            if not number:
                return HeldOut(status="spent")
            jobs: list[JobRecord] = []
            found: list[HeldOutUnder] = []
            try:
                cell = stack.enter_context(closing(self.tools.cells.apart()))
                found = self._evaluate(cell, packed, blobs, jobs, stack)
            except CellUnavailableError as error:
                message = error.message[:300]
                jobs.append(JobRecord(kind="run", ending="unavailable", cause="no cell", message=message))
            return HeldOut(
                status="run",
                number=number,
                nonce=_nonce(),
                names=packed.names,
                jobs=jobs,
                statistics=found[0].statistics if found else None,
                kept=found[0].kept if found else {},
                further=found[1:],
            )

    def _evaluate(
        self, cell: Cell, packed: Packed, blobs: dict[str, Blob], jobs: list[JobRecord], stack: ExitStack
    ) -> list[HeldOutUnder]:
        """Run under every required profile, then compare; return what was found under each, in their order."""
        jobs.append(self._decode(cell, packed, blobs))
        vectors = jobs[0].vectors
        if jobs[0].ending != "done" or vectors is None:
            return []
        targets = self.targets
        for target in targets[1:]:
            with contextlib.suppress(CellUnavailableError, ConfigError):  # its run tells what is wrong
                cell.told(target.profile)  # its parent starts before the clock does
        self.started = time.monotonic()
        outputs: dict[str, dict[str, Blob]] = {target.profile.name: {} for target in targets}
        models = [
            one for one in self.bundle.manifest.models if any(golden.model == one.name for golden in vectors.sets)
        ]
        seconds = JOBS_PART * self.length / (max(1, len(models) * len(targets)) * ATTEMPTS)
        for target in targets:
            for model in (one for one in models if one.file in self.bundle.facts):
                blob = outputs[target.profile.name][model.name] = stack.enter_context(
                    closing_blob(self.tools.temporary)
                )
                rules = self.rules.under(target)
                record = self._run(rules, cell, model, vectors, blobs["inputs"], blob, seconds, stack)
                jobs.append(lean(record, model, [one for one in vectors.sets if one.model == model.name]))
        found: list[HeldOutUnder] = []
        room = self.rules.policy.evidence.keep_outputs_bytes
        for target in targets:
            name = target.profile.name
            own = [job for job in jobs if job.kind != "run" or job.profile in {"", name}]
            one = self._compare(name, vectors, own, blobs["expected"], outputs[name], room)
            room -= sum(file.size for file in one.kept.values())
            found.append(one)
        return found

    def _decode(self, cell: Cell, packed: Packed, blobs: dict[str, Blob]) -> JobRecord:
        """Decode in a job that is given no submitted byte and no word of one: types are the contract's."""
        types = {
            model.name: {
                side: [{"name": one.name, "kind": one.type, "dtype": one.dtype} for one in values]
                for side, values in (("inputs", model.inputs), ("outputs", model.outputs))
            }
            for model in self.agreed.contract.models
        }
        spec = {
            "sets": [one.spec() for one in packed.sets],
            "types": types,
            "data_json": None,
            "lent": {path: list(span) for path, span in packed.index.items()},
        }
        limits = job_limits("vectors", self.rules.policy.limits)
        given = {
            "files": blobs["files"].reader(),
            "inputs": blobs["inputs"].writer(),
            "expected": blobs["expected"].writer(),
        }
        with lent(given) as descriptors:
            return self._job(self.rules, cell, "vectors", {}, spec, limits, descriptors)

    def _run(
        self,
        rules: Rules,
        cell: Cell,
        model: ModelSpec,
        vectors: Vectors,
        inputs: Blob,
        outputs: Blob,
        seconds: float,
        stack: ExitStack,
    ) -> JobRecord:
        """Run one model on its held-out inputs: no expected value, no name of a set, no probe, no repeat."""
        sets = [one for one in vectors.sets if one.model == model.name]
        facts = self.bundle.facts[model.file]
        names = {one.name for one in model.inputs} | {one.name for one in facts.inputs}
        given = inputs_only(sets, names, inputs, lambda: stack.enter_context(closing_blob(self.tools.temporary)))
        files, external = inventory.run_files(
            inventory.take(self.bundle.sealed, self.bundle.manifest), model, facts
        )
        entry = {file.path: file for file in self.bundle.sealed.files}
        spec = {
            "model": model.file,
            "sha256": entry[model.file].sha256,
            "size": entry[model.file].size,
            "external": external,
            "declared": model.model_dump(mode="json"),
            "dims": {name: bounds.model_dump() for name, bounds in self.bundle.manifest.dims.items()},
            "profile": rules.profile.model_dump(mode="json", by_alias=True),
            "sets": [
                {"name": one.name, "inputs": [item.model_dump(mode="json") for item in one.inputs]}
                for one in given.sets
            ],
            "max_elements": 0,
            "inferred": False,
            "seed": "",
            "optimised": True,
            "repeats": 1,
            "probes": False,
        }
        mapped = sum(entry[path].size for path in external)
        limits = _bounded(job_limits("run", self.rules.policy.limits, mapped_bytes=mapped), seconds, sets)
        with lent({"inputs": given.blob.reader(), "outputs": outputs.writer()}) as blobs:
            return self._job(
                rules,
                cell,
                "run",
                {path: path for path in files},
                spec,
                limits,
                blobs,
                model=model.name,
                proc_fd=bool(external),
            )

    def _job(
        self,
        rules: Rules,
        cell: Cell,
        kind: str,
        files: dict[str, str],
        spec: dict[str, Any],
        limits: JobLimits,
        blobs: dict[str, int],
        *,
        model: str = "",
        proc_fd: bool = False,
    ) -> JobRecord:
        self.hold.check()
        record = cell.run(
            kind,
            files={inside: f"{self.bundle.place}/{path}" for inside, path in files.items()},
            spec=spec,
            limits=limits,
            required_walls=rules.policy.required_walls,
            blobs=blobs,
            cancelled=self.hold.kill_due,
            model=model,
            profile=rules.profile if kind == "run" else None,
            variant="heldout" if kind == "run" else "",
            proc_fd=proc_fd,
        )
        self.hold.check()  # what was cancelled is no evidence
        return record

    def _compare(
        self,
        profile: str,
        vectors: Vectors,
        jobs: list[JobRecord],
        expected: Blob,
        outputs: dict[str, Blob],
        room: int,
    ) -> HeldOutUnder:
        """Compare what was given with what is expected, under the contract's kinds and tolerances.

        ``room``: bytes that may still be kept.
        """
        task = pairs.task(self.bundle.manifest, self.agreed.contract, self.rules.policy, vectors, jobs)
        named = {pairing.EXPECTED: expected.reader()}
        named |= {pairing.outputs_key(model): blob.reader() for model, blob in outputs.items()}
        with lent(named) as files:
            try:
                found = self.tools.comparer.compare(task, files, check=self.hold.check)
            except InternalError:
                return HeldOutUnder(profile=profile)
            kept = self.keep(files, room)
        return HeldOutUnder(profile=profile, statistics=pairs.as_heldout(found), kept=kept)

    def fill(self) -> None:
        """Wait until the stage has taken its time; if it took longer, until a further multiple of the policy's.

        Raises GivenUpError.
        """
        if self.agreed.keeper is None:
            return
        spent = time.monotonic() - self.started
        over = max(0.0, spent - self.length)
        step = self.rules.policy.heldout.seconds
        due = self.started + self.length + step * math.ceil(over / step)
        while (left := due - time.monotonic()) > 0:
            self.hold.check()
            time.sleep(min(left, _LOOK_SECONDS))


_BLOBS: Final = ("files", "inputs", "expected")


def _nonce() -> str:
    return secrets.token_hex(16)


def _bounded(limits: JobLimits, seconds: float, sets: list[VectorSet]) -> JobLimits:
    """Return the limits of a run that fits into ``seconds``, and into what the sets expect of it."""
    expected = sum(ref.nbytes for golden in sets for one in golden.expected for ref in tensors_in(one.value))
    inner = replace(
        limits.inner,
        cpu_seconds=max(1, min(limits.inner.cpu_seconds, math.ceil(seconds))),
        output_bytes=min(limits.inner.output_bytes, 2 * expected + SPARE_OUTPUT),
    )
    return replace(limits, inner=inner, wall_seconds=min(limits.wall_seconds, seconds))
