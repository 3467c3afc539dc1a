"""The run stage of one model: which jobs are made, with which orders, and what a broken-off run means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from acceptd.cell.blobs import Blob, closing_blob, lent
from acceptd.cell.compact import InputsOnly, inputs_only
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.evidence import Facts, JobRecord, Prior, Sealed, Variant, Vectors
from acceptd.judge import inventory, performance, slower
from acceptd.judge.beside import beside, wanted
from acceptd.judge.second import Second, second
from acceptd.measuring import profiling_order, timing_order
from acceptd.oracle import Oracle
from acceptd.ordering import RunJob, Shelf
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.regression import PriorRun
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.work.need import job_share
from acceptd.work.workers import Hold

Outputs = dict[tuple[str, str], Blob]
"""Model name and variant to the blob that holds what the run gave."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a model's runs read: the sealed bundle and its parts, its facts, golden inputs."""

    sealed: Sealed
    taken: inventory.Inventory
    facts: Facts
    vectors: Vectors | None
    inputs: Blob


@dataclass(frozen=True, slots=True)
class _Order:
    """What the runs of one model have in common."""

    model: str
    variant: Variant
    files: dict[str, str]
    external: bool
    limits: JobLimits
    inputs: Blob
    outputs: Blob
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Execution:
    """Runs the models of one bundle, variants side by side as the lease and the machine allow."""

    rules: Rules
    tools: Tools
    hold: Hold
    manifest: Manifest
    job: RunJob
    oracle: Oracle
    seed: str
    """Of the probes."""
    inferred: bool
    contract: Contract | None = None
    prior: Prior | None = None
    shelf: Shelf | None = None
    """Where the files of the release lie."""

    def run(self, model: ModelSpec, sources: Sources, outputs: Outputs, stack: ExitStack) -> list[JobRecord]:
        """Run one model: as the profile says, and in a fresh process without optimisation.

        ``outputs`` gains the blobs, which ``stack`` closes.
        """
        files, external = inventory.run_files(sources.taken, model, sources.facts)
        sizes = {file.path: file.size for file in sources.sealed.files}
        limits = job_limits("run", self.rules.policy.limits, mapped_bytes=sum(sizes[path] for path in external))
        golden = self._golden_inputs(model, sources, stack)
        base = self._spec(model, sources, external, golden)
        # An inferred manifest declares no range: no probe would be in-domain, and none could decide anything.
        probes = "all" if self.rules.policy.probes.enabled and not self.inferred else False
        variants: list[Variant] = [""]
        if self.rules.policy.probes.unoptimised and base["sets"]:
            variants.append("unoptimised")
        calls: list[Callable[[], list[JobRecord]]] = []

        def order_of(variant: Variant) -> _Order:
            blob = stack.enter_context(closing_blob(self.tools.temporary))
            inside = {path: path for path in files}
            return _Order(model.name, variant, inside, bool(external), limits, golden.blob, blob)

        for variant in variants:
            order = order_of(variant)
            outputs[model.name, variant] = order.outputs
            if variant == "":
                spec = base | {"optimised": True, "repeats": 2, "probes": probes} | self._timing()
            else:
                weights = sum(sizes[path] for path in {model.file, *external})
                plan = self._second(weights, quantised=base["quantised"])
                relations = self._relations(limits, plan) if probes else None
                spec = base | {"optimised": False, "repeats": 1, "probes": False, "relations": relations}
                spec |= {"packed": plan.packed}
            calls.append(partial(self._probed, order, spec))
        calls += self.oracle.calls(model, sources.facts, files, base, golden.blob, outputs)
        mapped = limits.inner.mapped_bytes
        released = self._released(model, sources, golden.blob, outputs, stack)
        if released is not None:
            own = {"optimised": True, "repeats": 2, "probes": "draws" if probes else False} | self._timing()
            calls.append(partial(released, base | own))
            mapped = max(mapped, released.mapped_bytes)
        share = job_share(self.rules, "run", mapped=mapped)
        records = [record for records in self.hold.side_by_side(share, calls) for record in records]
        main = next((one for one in reversed(records) if one.kind == "run" and one.variant == ""), None)
        alternated = released is not None and slower.suspected(records, released.beside, self.rules.policy)
        if released is not None and alternated:
            for _ in range(self.rules.policy.regression.timing_rounds):
                records += self._alternate(released, order_of("timed"), base, order_of("timed-prior").outputs)
        if main is None:
            return records
        beside_it = self._profiled_beside(released, records, base, order_of, external=bool(external))
        further = self._further(order_of, base, main, timed=alternated, profiled=bool(beside_it))
        return records + beside_it + further

    def _timing(self, *, judged: bool = False) -> dict[str, Any]:
        """Return what a run's order says of timing; nothing where nothing was declared, and so promised."""
        return {} if self.inferred else timing_order(self.rules.policy, self.contract, judged=judged)

    def _further(
        self,
        orders: Callable[[Variant], _Order],
        base: dict[str, Any],
        done: JobRecord,
        *,
        timed: bool,
        profiled: bool,
    ) -> list[JobRecord]:
        """Measure what the first runs left open: once more, alone, for a ceiling; and under the profiler.

        ``timed``: it was timed again beside the release, which does for a ceiling too. ``profiled``: done already.
        """
        spec = base | {"optimised": True, "repeats": 2, "probes": False}
        found: list[JobRecord] = []
        if not timed and performance.again(done, self.contract, self.rules.policy):
            with self.hold.alone():
                found.append(self._once(orders("timed"), spec | self._timing()))
        if not profiled and (profiling := profiling_order(self.rules.policy, done)):
            found.append(self._profiled(orders, spec, profiling))
        return found

    def _profiled(
        self, orders: Callable[[Variant], _Order], spec: dict[str, Any], profiling: dict[str, Any]
    ) -> JobRecord:
        # No /proc/self/fd beside a directory that may be written to.
        order = replace(orders("profiled"), external=False, scratch=True)
        return self._once(order, spec | {"repeats": 1} | profiling)

    def _profiled_beside(
        self,
        released: PriorRun | None,
        done: Sequence[JobRecord],
        base: dict[str, Any],
        orders: Callable[[Variant], _Order],
        *,
        external: bool,
    ) -> list[JobRecord]:
        """Profile the release and the model, one after the other, where it is quantised and the release is not.

        Not where the first runs are broken: nothing is compared then. External data cannot be read without
        ``/proc/self/fd``, which a profiled run has not.
        """
        policy = self.rules.policy
        ended = {one.variant: one for one in done if one.kind == "run" and one.ending == "done"}
        if released is None or not {"", "prior"} <= ended.keys() or external or released.mapped_bytes:
            return []
        if not (released.beside.quantised and policy.regression.quantized.profiled and base["sets"]):
            return []
        profiling = profiling_order(policy, ended[""], beside=True)
        if not profiling:
            return []
        spec = base | {"optimised": True, "repeats": 1, "probes": False} | profiling
        with self.hold.alone():
            older = replace(released, outputs=orders("profiled-prior").outputs)(spec, "profiled-prior")
            return [*older, self._profiled(orders, spec, profiling)]

    def _second(self, weights: int, *, quantised: bool) -> Second:
        budget, entries = self.rules.policy.probes.packed_bytes, self.rules.profile.session_entries
        return second(weights, budget, quantised=quantised, entries=entries)

    def _relations(self, limits: JobLimits, plan: Second) -> dict[str, Any] | None:
        """Return what the second process may use to hold calls against each other; None where it shall not."""
        probes = self.rules.policy.probes
        if not probes.relations:
            return None
        threads, memory = limits.inner.threads, limits.inner.memory_bytes
        room = {"seconds": probes.relations_seconds, "threads": threads, "memory_bytes": memory}
        return room | {"sessions": plan.sessions}

    def _alternate(
        self, released: PriorRun, order: _Order, base: dict[str, Any], outputs: Blob
    ) -> list[JobRecord]:
        """Time the release and the model once more, one after the other, each with the machine to itself."""
        spec = base | {"optimised": True, "repeats": 2, "probes": False} | self._timing(judged=True)
        with self.hold.alone():
            older = replace(released, outputs=outputs)(spec, "timed-prior")
            return [*older, self._once(order, spec)]

    def _released(
        self, model: ModelSpec, sources: Sources, inputs: Blob, outputs: Outputs, stack: ExitStack
    ) -> PriorRun | None:
        """Return the run of the release's model beside ``model``, where one takes the same inputs."""
        if self.prior is None or not wanted(self.prior, self.rules.policy):
            return None
        how = beside(self.prior, model, sources.facts)
        if how.obstacle:
            return None
        blob = outputs[model.name, "prior"] = stack.enter_context(closing_blob(self.tools.temporary))
        return PriorRun(self.rules, self.prior, how, self.shelf, self.job, inputs, blob)

    def _golden_inputs(self, model: ModelSpec, sources: Sources, stack: ExitStack) -> InputsOnly:
        sets = [one for one in sources.vectors.sets if one.model == model.name] if sources.vectors else []
        names = {one.name for one in model.inputs} | {one.name for one in sources.facts.inputs}
        return inputs_only(
            sets, names, sources.inputs, lambda: stack.enter_context(closing_blob(self.tools.temporary))
        )

    def _spec(self, model: ModelSpec, sources: Sources, external: list[str], golden: InputsOnly) -> dict[str, Any]:
        file = next(one for one in sources.sealed.files if one.path == model.file)
        probes = self.rules.policy.probes
        return {
            "model": model.file,
            "sha256": file.sha256,
            "size": file.size,
            "external": external,
            "declared": model.model_dump(mode="json"),
            "dims": {name: bounds.model_dump() for name, bounds in self.manifest.dims.items()},
            "profile": self.rules.profile.model_dump(mode="json", by_alias=True),
            "sets": [
                {"name": one.name, "inputs": [item.model_dump(mode="json") for item in one.inputs]}
                for one in golden.sets
            ],
            "max_elements": probes.max_elements,
            "draws": probes.draws,
            "near_ties": probes.near_ties,
            "probe_seconds": probes.seconds,
            "quantised": sources.facts.quantisation is not None and sources.facts.quantisation.method != "none",
            "inferred": self.inferred,
            "seed": self.seed,
        }

    def _probed(self, order: _Order, spec: dict[str, Any]) -> list[JobRecord]:
        """Run goldens and all probes; where that broke off, again without those outside the domain.

        If the second run ends well, an input that nobody promised broke the first one. Which it was is
        thereby ours to say: a job's own word about it could excuse a crash.
        """
        first = self._once(order, spec)
        if first.ending not in {"crash", "limit"} or not spec["probes"]:
            return [first]
        told = {(case.set, case.repeat) for case in first.cases}
        if any((one["name"], repeat) not in told for one in spec["sets"] for repeat in range(spec["repeats"])):
            return [first]  # it broke at a golden: no second try can excuse that
        if all(one.scope != "inside" for one in first.probed):
            return [first]  # it broke inside the domain, whatever a second try would do
        second = self._once(order, spec | {"probes": "inside"})
        if second.ending != "done" or not _untimed(second) <= told:
            return [first]  # it broke at a golden or at an input inside the domain
        return [first.model_copy(update={"variant": "outside"}), second]

    def _once(self, order: _Order, spec: dict[str, Any]) -> JobRecord:
        with lent({"inputs": order.inputs.reader(), "outputs": order.outputs.writer()}) as blobs:
            return self.job(
                "run",
                order.files,
                spec,
                order.limits,
                blobs=blobs,
                model=order.model,
                variant=order.variant,
                proc_fd=order.external,
                scratch=order.scratch,
            )


_BOUNDS: Final = ("probe:zeros", "probe:ones", "probe:low", "probe:high", "probe:mid", "probe:dim")


def _untimed(record: JobRecord) -> set[tuple[str, int]]:
    """Goldens and bounds of the domain, which are always run: what else fits in the time may differ."""
    return {
        (case.set, case.repeat)
        for case in record.cases
        if not case.set.startswith("probe:") or case.set.startswith(_BOUNDS)
    }
