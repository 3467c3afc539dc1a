"""What the jobs of the cell may say, as frozen models: the shape of evidence.

A job is hostile, so every model forbids unknown keys, coerces nothing and caps its lists
(:mod:`acceptd.values`).
Evidence is stored as it came and never edited.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from acceptd.advisory_facts import AdvisoryStanding
from acceptd.contract_facts import ContractSigner as ContractSigner
from acceptd.contract_facts import ContractStanding as ContractStanding
from acceptd.declared import Declared as Declared
from acceptd.declared import DeclaredModel as DeclaredModel
from acceptd.declared import declared_by as declared_by
from acceptd.file_facts import Assets as Assets
from acceptd.file_facts import Check as Check
from acceptd.file_facts import GapBytes as GapBytes
from acceptd.file_facts import OpsetImport as OpsetImport
from acceptd.file_facts import Wire as Wire
from acceptd.golden_facts import ClassCount as ClassCount
from acceptd.golden_facts import InputStats as InputStats
from acceptd.golden_facts import QualityStats as QualityStats
from acceptd.kept_facts import KeptFile as KeptFile
from acceptd.model_facts import Allocation as Allocation
from acceptd.model_facts import Cost as Cost
from acceptd.model_facts import ElementRange as ElementRange
from acceptd.model_facts import External as External
from acceptd.model_facts import Facts as Facts
from acceptd.model_facts import FunctionFact as FunctionFact
from acceptd.model_facts import OpUse as OpUse
from acceptd.model_facts import Quantisation as Quantisation
from acceptd.model_facts import Trip as Trip
from acceptd.model_facts import TypeUse as TypeUse
from acceptd.model_facts import ValueInfo as ValueInfo
from acceptd.performance_facts import ColdPhase as ColdPhase
from acceptd.performance_facts import HostLoad as HostLoad
from acceptd.performance_facts import Kernel as Kernel
from acceptd.performance_facts import Timing as Timing
from acceptd.placement_facts import Boundary as Boundary
from acceptd.placement_facts import PlacedNode as PlacedNode
from acceptd.placement_facts import Placement as Placement
from acceptd.placement_facts import PlacementSummary as PlacementSummary
from acceptd.placement_facts import Profiled as Profiled
from acceptd.prior import Prior as Prior
from acceptd.prior import ReleasedFile as ReleasedFile
from acceptd.prior import Snapshot as Snapshot
from acceptd.prior import data_digest as data_digest
from acceptd.prior import placements_in as placements_in
from acceptd.prior import pruned as pruned
from acceptd.prior import released_files as released_files
from acceptd.probe_facts import SCOPES as SCOPES
from acceptd.probe_facts import LeftOut as LeftOut
from acceptd.probe_facts import Probed as Probed
from acceptd.profile_facts import UnderProfile as UnderProfile
from acceptd.runtime.identity import RuntimeRecord
from acceptd.sealed_facts import BundleFile as BundleFile
from acceptd.sealed_facts import Sealed as Sealed
from acceptd.sealed_facts import SealFailure as SealFailure
from acceptd.signature_facts import SignatureFacts as SignatureFacts
from acceptd.signature_facts import SignedLayout as SignedLayout
from acceptd.statistics_facts import Labels as Labels
from acceptd.statistics_facts import OutputStats as OutputStats
from acceptd.statistics_facts import Statistics as Statistics
from acceptd.structure_facts import SelectionPlace as SelectionPlace
from acceptd.structure_facts import SelectionShape as SelectionShape
from acceptd.structure_facts import Structure as Structure
from acceptd.values import Count, Evidence, Text
from acceptd.values import MapRef as MapRef
from acceptd.values import Named as Named
from acceptd.values import OptionalRef as OptionalRef
from acceptd.values import Problem as Problem
from acceptd.values import SequenceRef as SequenceRef
from acceptd.values import TensorRef as TensorRef
from acceptd.values import ValueRef as ValueRef


class Walls(Evidence):
    """First frame of each job, sent before any submitted byte is read.

    ``states`` maps a wall's name to ``enforced``, ``unavailable`` or ``failed``; ``notes`` says why.
    """

    states: Annotated[dict[str, Literal["enforced", "unavailable", "failed"]], Field(max_length=16)]
    notes: Annotated[dict[str, Text], Field(max_length=16)] = {}
    landlock_abi: Count = 0


class Refused(Evidence):
    """A job's own honest ending before ``done``."""

    code: Annotated[str, Field(pattern=r"^[a-z-]+/[a-z0-9-]+$", max_length=64)]
    where: Text
    message: Text
    stage: Text = ""


class Entry(Evidence):
    """``unpack``: one member of an archive; ``size`` bytes of data frames follow."""

    path: Text
    size: Count


class ManifestFrame(Evidence):
    """``manifest``: the TOML document as JSON data, not yet validated."""

    document: dict[str, Any]


class VectorSet(Evidence):
    """One golden set; one without ``expected`` is a smoke set.

    Offsets of ``inputs`` are into the inputs blob, of all else into that of expected values.
    """

    name: Text
    model: Text
    inputs: Annotated[list[Named], Field(max_length=4096)]
    expected: Annotated[list[Named], Field(max_length=4096)]
    rtol: Annotated[float, Field(ge=0)] | None = None
    atol: Annotated[float, Field(ge=0)] | None = None
    labels: TensorRef | None = None
    slices: TensorRef | None = None
    """True class and slice of each row, in the blob of expected values."""


class Vectors(Evidence):
    """``vectors``: all golden sets of the bundle."""

    sets: Annotated[list[VectorSet], Field(max_length=4096)]
    problems: Annotated[list[Problem], Field(max_length=256)] = []


class Step(Evidence):
    """``run``: one step of the load order has passed."""

    name: Text
    note: Text = ""


class Schema(Evidence):
    """``run``: what the runtime itself says of the loaded model."""

    inputs: Annotated[list[ValueInfo], Field(max_length=4096)]
    outputs: Annotated[list[ValueInfo], Field(max_length=4096)]
    providers: Annotated[list[Text], Field(max_length=64)]
    load_ms: float
    runtime: Annotated[dict[str, Text], Field(max_length=64)] = {}


class Case(Evidence):
    """``run``: one inference. ``set`` names the golden set, or the probe (``probe:zeros``).

    ``outputs`` point into the outputs blob. ``error`` is the runtime's message when it raised.
    """

    set: Text
    repeat: Count
    in_domain: bool = True
    outputs: Annotated[list[Named], Field(max_length=4096)] = []
    error: Text = ""
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    batch: Count | None = None
    finite: bool | None = None
    """Whether all floating outputs are finite; None when there is no floating output."""
    problems: Annotated[list[Problem], Field(max_length=64)] = []


class Done(Evidence):
    """Last frame of a job that went to its end."""

    peak_rss_bytes: Count = 0
    baseline_rss_bytes: Count = 0
    phases_ms: Annotated[dict[str, float], Field(max_length=32)] = {}


class Note(Evidence):
    """``attack`` (the cell's own test job): whatever the attacker's code found out."""

    facts: dict[str, Any]


FRAMES: dict[str, type[Evidence]] = {
    "walls": Walls,
    "refused": Refused,
    "entry": Entry,
    "manifest": ManifestFrame,
    "wire": Wire,
    "facts": Facts,
    "structure": Structure,
    "checker": Check,
    "shapes": Check,
    "assets": Assets,
    "signature": SignatureFacts,
    "vectors": Vectors,
    "step": Step,
    "schema": Schema,
    "placement": Placement,
    "case": Case,
    "kernel": Kernel,
    "timing": Timing,
    "profiled": Profiled,
    "probed": Probed,
    "done": Done,
    "note": Note,
}
"""Frame type to model. A frame type that is not here does not exist."""


class ResourceProfile(Evidence):
    """How a job used the host over time, as the trusted side saw it. A short job may end before the first sample.

    ``bytes_used[i]`` is anonymous memory above the warm parent's at ``seconds[i]`` of wall clock.
    """

    seconds: Annotated[list[float], Field(max_length=256)] = []
    bytes_used: Annotated[list[Count], Field(max_length=256)] = []
    minor_faults: Count | None = None
    """None, as ``major_faults``, when the job was killed from outside: then nobody reported them."""
    major_faults: Count | None = None
    threads: Count = 0
    """The most at any sample; 0 without one."""


Variant = Literal[
    "", "unoptimised", "outside", "prior", "timed", "timed-prior", "profiled", "profiled-prior", "heldout"
]
"""What a ``run`` was for. Empty: goldens, timing and probes, as the profile says. ``unoptimised``: the second,
fresh process. ``outside``: a run that broke off and then ended well without the probes outside the declared
domain, so that it was one of those that broke it: the trusted side's own finding, not the job's word. ``prior``:
the current release's model on the same inputs. ``timed`` and ``timed-prior``: alternating timing runs.
``profiled`` and ``profiled-prior``: with onnxruntime's profiler. ``heldout``: the contract's held-out sets."""


class JobRecord(Evidence):
    """How one job went, as the trusted side measured it, with the frames that it accepted.

    ``ending``: ``done`` and ``refused`` are the job's own words; ``limit`` (cpu, memory, output,
    stderr, wall, threads in ``cause``), ``crash`` (signal name in ``cause``), ``violation`` (of the
    protocol) are the model's fault; ``lost`` (killed by a stranger, or a wall-clock limit with
    little CPU used) and ``unavailable`` (no cell, or a mandatory wall missing) are not.
    """

    kind: str
    model: str = ""
    """The model's name in the manifest (not its file); empty for jobs of the whole bundle."""
    profile: str = ""
    variant: Variant = ""
    """``run`` alone: which of the model's runs it was; see :data:`Variant`."""
    ending: Literal["done", "refused", "limit", "crash", "violation", "lost", "unavailable"]
    cause: str = ""
    stage: str = ""
    """The last frame type that arrived: says how far the job came."""
    message: str = ""
    attempts: int = 1
    parent: int = 0
    """Number of the warm parent that ran it, within one process of acceptd: jobs of one share its runtime."""
    walls: Walls | None = None
    refused: Refused | None = None
    wire: Wire | None = None
    facts: Facts | None = None
    structure: Structure | None = None
    checker: Check | None = None
    shapes: Check | None = None
    manifest: dict[str, Any] | None = None
    assets: Assets | None = None
    signature: SignatureFacts | None = None
    vectors: Vectors | None = None
    steps: list[Step] = []
    schema_: Schema | None = None
    placement: Placement | None = None
    cases: list[Case] = []
    kernel: Kernel | None = None
    timing: Timing | None = None
    profiled: Profiled | None = None
    probed: list[Probed] = []
    notes: list[Note] = []
    done: Done | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_rss_bytes: int = 0
    baseline_rss_bytes: int = 0
    """The warm parent's resident set: the trusted side's own figure, not the job's."""
    resource_profile: ResourceProfile | None = None
    host: HostLoad | None = None
    """The machine while it ran, of jobs that time something."""
    stderr_tail: str = ""


class HeldOutUnder(Evidence):
    """What the comparer found of held-out sets under one further profile; the runs bear its name."""

    profile: str
    statistics: Statistics | None = None
    kept: Annotated[dict[str, KeptFile], Field(max_length=1024)] = {}


class HeldOut(Evidence):
    """What became of the contract's held-out vectors. Jobs and statistics lie here and nowhere else.

    ``run``: evaluated, as evaluation ``number`` of this contract version; ``spent``: none was left; ``refused``:
    ``reason`` kept it from being started; ``local``: judged where there are none. ``names`` gives sets their own.
    """

    status: Literal["run", "spent", "refused", "local"]
    reason: Text = ""
    number: Count = 0
    nonce: str = ""
    """Random: no digest of what is withheld confirms a guess."""
    names: dict[str, str] = {}
    jobs: list[JobRecord] = []
    statistics: Statistics | None = None
    kept: Annotated[dict[str, KeptFile], Field(max_length=1024)] = {}
    """Where the bytes that the comparison read are kept; empty: they are not."""
    further: Annotated[list[HeldOutUnder], Field(max_length=64)] = []
    """Required profiles after the first, whose ``statistics`` and ``kept`` are above; part of one evaluation."""


class Submission(Evidence):
    """Everything that the judge may look at beside manifest, contract, policy and time."""

    id: str
    team: str
    sealed: Sealed | None
    seal_failure: SealFailure | None = None
    jobs: list[JobRecord] = []
    statistics: Statistics | None = None
    walls: dict[str, str] = {}
    wall_notes: dict[str, str] = {}
    manifest_error: Problem | None = None
    prior: Prior | None = None
    """The current release that it was compared with; None where it did not come so far."""
    inferred: list[str] = []
    """What of the manifest was inferred because the bundle carries none; empty when it carries one."""
    runtimes: list[RuntimeRecord] = []
    """What the runs were forked from, as the trusted side measured it: one, unless it changed in between."""
    runtime_problem: str = ""
    """Why what a run was forked from could not be measured."""
    profile: str = ""
    """Name of the profile that ``statistics``, ``runtimes`` and ``runtime_problem`` are of; empty in evidence
    from before there were several."""
    kept: Annotated[dict[str, KeptFile], Field(max_length=1024)] = {}
    """Where the bytes that the first profile's comparison read are kept; empty: they are not."""
    others: Annotated[list[UnderProfile], Field(max_length=16)] = []
    """The same of every further profile."""
    heldout: HeldOut | None = None
    """None: not come so far, or the contract names none."""
    contract: ContractStanding | None = None
    """None: not come so far, no contract, or evidence from before contracts were signed."""
    advisories: AdvisoryStanding | None = None
    """None: no list was ever installed, or there is no ledger."""

    @property
    def runtime_identity(self) -> str | None:
        """The identity of the first profile's runtime, where all runs had one and it was measured."""
        return self._first().runtime_identity

    def _first(self) -> UnderProfile:
        return UnderProfile(
            profile=self.profile,
            statistics=self.statistics,
            runtimes=self.runtimes,
            runtime_problem=self.runtime_problem,
            kept=self.kept,
        )

    def with_statistics(self, profile: str, statistics: Statistics) -> Submission:
        """Return the submission with other statistics of one profile."""
        if profile == self.profile or not self.others:
            return self.model_copy(update={"statistics": statistics})
        others = [
            one.model_copy(update={"statistics": statistics}) if one.profile == profile else one
            for one in self.others
        ]
        return self.model_copy(update={"others": others})

    def every_runtime(self) -> list[RuntimeRecord]:
        """Return the runtimes of all profiles, each once."""
        found: list[RuntimeRecord] = []
        for one in (self._first(), *self.others):
            found += [record for record in one.runtimes if record not in found]
        return found

    def under(self, profile: str) -> Submission:
        """Return what the judge may look at for one profile: its own runs, and all that belongs to none.

        A profile that nothing was run under has neither runs nor statistics.
        """
        mine = [job for job in self.jobs if job.profile in {"", profile}]
        if not self.others and len(mine) == len(self.jobs) and self.profile in {"", profile}:
            return self
        every = [self._first(), *self.others]
        found = next((one for one in every if one.profile == profile), UnderProfile(profile=profile))
        return self.model_copy(update={**dict(found), "jobs": mine, "others": []})
