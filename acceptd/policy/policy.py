"""The acceptor's rules (``policies/*.toml``). Every key has its comment in ``policies/default.toml``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from acceptd.errors import UsageError
from acceptd.policy import channels as channel_tables
from acceptd.policy.advisories import AdvisoriesTable as AdvisoriesTable
from acceptd.policy.canary import CanaryTable as CanaryTable
from acceptd.policy.channels import ChannelTable as ChannelTable
from acceptd.policy.channels import ReleaseTable as ReleaseTable
from acceptd.policy.channels import Rule
from acceptd.policy.export import ExportField
from acceptd.policy.fleet import FleetPolicyTable as FleetPolicyTable
from acceptd.policy.golden import AcceptedOrigins
from acceptd.policy.licenses import valid_entry
from acceptd.policy.limits import LimitsTable as LimitsTable
from acceptd.policy.limits import Number
from acceptd.policy.manifest import Table, Tolerance
from acceptd.policy.names import Name
from acceptd.policy.observe import ObserveTable as ObserveTable
from acceptd.policy.operators import OperatorLimit as OperatorLimit
from acceptd.policy.operators import OperatorsTable as OperatorsTable
from acceptd.policy.operators import OpsetTable as OpsetTable
from acceptd.policy.performance import PerformanceTable as PerformanceTable
from acceptd.policy.performance import PlacementTable as PlacementTable
from acceptd.policy.reference import ReferenceTable as ReferenceTable
from acceptd.policy.regression import RegressionTable as RegressionTable
from acceptd.policy.signatures import SignaturesTable
from acceptd.policy.tolerance import foreign
from acceptd.policy.walls import Wall

KINDS = ("values", "logits", "probabilities", "embedding", "boxes", "sequence", "audio")
Share = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
License = Annotated[str, Field(max_length=256), AfterValidator(valid_entry)]
Severity = Literal["reject", "hold", "warn", "info"]
ProbeSeconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]


class ManifestTable(Table):
    """What happens to a bundle that carries no ``bundle.toml``."""

    inferred: Literal["refuse", "hold", "accept"] = "hold"


class VectorsTable(Table):
    """Whether golden vectors are required, and of which origin."""

    required: bool = True
    require_origin: bool | AcceptedOrigins = False
    separate: bool = False
    """Whether inputs and expected values are decoded by jobs apart."""


class CapsTable(Table):
    """The loosest that a manifest may declare for what one kind of output has, by :data:`LIMITS`."""

    min_topk: Share = 0.9
    max_sum_error: Share = 0.02
    max_divergence: Share = 0.05
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.98
    max_norm_error: NotNegative = 0.05
    min_neighbours: Share = 0.8
    min_iou: Share = 0.5
    min_matched: Share = 0.9
    min_classes: Share = 0.9
    max_score_error: NotNegative = 0.05
    min_snr_db: Annotated[float, Field(ge=-1000, le=1000)] = 20.0
    max_lsd_db: Annotated[float, Field(ge=0, le=1000)] = 3.0

    def of(self, name: str) -> float:
        """Return the cap of one limit."""
        return float(getattr(self, name))


class ParityTable(Table):
    """Default tolerances by kind, and caps that a manifest cannot pass."""

    default: Tolerance = Tolerance()
    probabilities: Tolerance = Tolerance(
        rtol=0.0, atol=1e-5, top1=1.0, limits={"max_sum_error": 1e-4, "max_divergence": 0.01}
    )
    logits: Tolerance = Tolerance(rtol=1e-5, atol=1e-4, top1=1.0, limits={"min_topk": 1.0})
    embedding: Tolerance = Tolerance(limits={"min_cosine": 0.9999, "max_norm_error": 0.001, "min_neighbours": 0.9})
    boxes: Tolerance = Tolerance(
        limits={"min_iou": 0.95, "min_matched": 1.0, "min_classes": 1.0, "max_score_error": 0.01}
    )
    sequence: Tolerance = Tolerance(rtol=0.0, atol=0.0)
    audio: Tolerance = Tolerance(limits={"min_snr_db": 40.0, "max_lsd_db": 1.0})
    max_rtol: Annotated[float, Field(ge=0, le=1)] = 0.02
    max_atol: NotNegative = 0.01
    min_top1: Share = 0.9
    caps: CapsTable = CapsTable()

    def of(self, kind: str) -> Tolerance:
        """Return the tolerance of a kind of output that declares none."""
        own = None if kind == "values" else getattr(self, kind)
        return own if isinstance(own, Tolerance) else self.default

    @model_validator(mode="after")
    def _of_their_kinds(self) -> ParityTable:
        for kind in KINDS:
            if wrong := foreign(kind, self.of(kind)):
                raise ValueError(f"{'default' if kind == 'values' else kind}.limits: {wrong}")
        return self


class ProbesTable(Table):
    """Whether probes are run, how many, how large, and how long."""

    enabled: bool = True
    max_elements: Number = 4_000_000
    draws: Annotated[int, Field(ge=0, le=4096)] = 64
    """Random inputs inside the declared ranges."""
    near_ties: Annotated[int, Field(ge=0, le=16)] = 2
    """Points between two classes that are searched for."""
    seconds: ProbeSeconds = 1.0
    """Wall clock of everything beyond the bounds of the declared domain."""
    relations: bool = True
    """Whether rows, batches, threads and calls at once are held against each other in the second process."""
    relations_seconds: ProbeSeconds = 1.0
    unoptimised: bool = True
    """Whether a second, fresh process runs the goldens without graph optimisation."""
    packed_bytes: Number = 1 << 30
    """Bytes of weights that all sessions of the second process together may rearrange for their kernels."""


class ContractsTable(Table):
    """What happens to a model without a contract, or with one that nobody has signed, and who may sign one."""

    missing: Literal["accept", "hold"] = "accept"
    unsigned: Literal["accept", "hold"] = "accept"
    """A contract that reviewers have not signed, or that was changed since."""
    signers: Annotated[int, Field(ge=1, le=16)] = 1
    """How many different people must sign a version."""
    teams: Annotated[list[Name], Field(max_length=64)] = []
    """Teams whose members count; empty: all. The model's own team never counts where anything is loosened."""
    warn_days: Annotated[int, Field(ge=0, le=3660)] = 30
    """Days before the end of a contract from which its bundles are told so."""


class ExportTable(Table):
    """Which fields of a bundle's export record have to be there."""

    required: Annotated[list[ExportField], Field(max_length=16)] = []


class LicensesTable(Table):
    """Which licences a bundle may be under. Empty: any, or none."""

    allowed: Annotated[list[License], Field(max_length=1024)] = []
    """SPDX identifiers, perhaps ``WITH`` an exception. Of ``A OR B`` one has to be listed, of ``A AND B`` both."""


class HeldOutTable(Table):
    """How often a contract's held-out vectors are evaluated, and how long that takes whatever happens in it."""

    evaluations: Annotated[int, Field(ge=0, le=100_000)] = 5
    """Of one model under one version of its contract; then a person decides."""
    seconds: Annotated[float, Field(ge=0.5, le=3600, allow_inf_nan=False)] = 5.0


class EvidenceTable(Table):
    """What is kept of a submission beside its evidence."""

    keep_outputs_bytes: Number = 64 << 20
    """Outputs and expected values are kept where they have so many bytes at most together; 0: never."""


Attestation = Literal["model_card", "prohibited_uses", "license"]


class ApprovalsTable(Table):
    """Which decisions of people a held bundle, or any bundle, needs before it is promoted."""

    required: Annotated[int, Field(ge=1, le=16)] = 1
    """How many different people must approve a held bundle, or waive each code that holds it."""
    teams: Annotated[list[Name], Field(max_length=64)] = []
    """Teams whose members count; empty: all but the submitting one."""
    attestations: Annotated[list[Attestation], Field(max_length=3)] = []
    """What somebody has to vouch for before anything is promoted, accepted bundles too."""
    break_glass: bool = False
    """Whether one reviewer alone may promote a held bundle, loudly."""


class Policy(Table):
    """A whole policy file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Name = "default"
    required_walls: Annotated[list[Wall], Field(max_length=9)] = [
        "namespaces", "root", "network", "landlock", "seccomp", "capabilities", "rlimits",
    ]  # fmt: skip
    profile: Name = "cpu"
    """The first of ``profiles``: whose options a loader takes that is told no profile."""
    profiles: Annotated[list[Name], Field(min_length=1, max_length=8)] = ["cpu"]
    """Runtimes under which each bundle is run and judged; a verdict each, and the worst is the whole one."""
    optional_profiles: Annotated[list[Name], Field(max_length=8)] = []
    """More of them, whose verdicts decide only whether a release holds for that runtime."""
    limits: LimitsTable = LimitsTable()
    manifest: ManifestTable = ManifestTable()
    vectors: VectorsTable = VectorsTable()
    operators: OperatorsTable = OperatorsTable()
    opsets: OpsetTable = OpsetTable()
    parity: ParityTable = ParityTable()
    probes: ProbesTable = ProbesTable()
    performance: PerformanceTable = PerformanceTable()
    placement: PlacementTable = PlacementTable()
    reference: ReferenceTable = ReferenceTable()
    regression: RegressionTable = RegressionTable()
    contracts: ContractsTable = ContractsTable()
    export: ExportTable = ExportTable()
    licenses: LicensesTable = LicensesTable()
    signatures: SignaturesTable = SignaturesTable()
    heldout: HeldOutTable = HeldOutTable()
    advisories: AdvisoriesTable = AdvisoriesTable()
    approvals: ApprovalsTable = ApprovalsTable()
    observe: ObserveTable = ObserveTable()
    fleet: FleetPolicyTable = FleetPolicyTable()
    release: ReleaseTable = ReleaseTable()
    canary: CanaryTable = CanaryTable()
    channels: Annotated[dict[Name, ChannelTable], Field(max_length=16)] = dict(channel_tables.CHANNELS)
    """By name, the main one (``release.channel``) among them or not; a policy that names some has no others."""
    evidence: EvidenceTable = EvidenceTable()
    severity: Annotated[dict[str, Severity], Field(max_length=512)] = {}
    """Severity by finding code, over the code's own default."""

    @model_validator(mode="before")
    @classmethod
    def _one_or_several(cls, data: Any) -> Any:
        """``profile`` is short for a list of one: two files that mean the same have one digest."""
        if not isinstance(data, dict):
            return data
        one, several = data.get("profile"), data.get("profiles")
        if one is None and isinstance(several, list) and several:
            return {**data, "profile": several[0]}
        if several is None and isinstance(one, str):
            return {**data, "profiles": [one]}
        return data

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.profile != self.profiles[0]:
            raise ValueError("profiles: profile is given too; keep one of them")
        names = [*self.profiles, *self.optional_profiles]
        for index, name in enumerate(names):
            if name in names[:index]:
                key = "optional_profiles" if index >= len(self.profiles) else "profiles"
                raise ValueError(f"{key}: {name} stands twice")
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if said := channel_tables.trouble(self.release, self.channels):
            raise ValueError(said)
        return self

    def channel(self, name: str) -> Rule:
        """Return the rules of a channel; raise UsageError, with the known names, where it is none."""
        found = channel_tables.rule(name, self.release, self.channels)
        if found is None:
            names = ", ".join(sorted(channel_tables.known(self.release, self.channels)))
            raise UsageError(
                f"the policy {self.name} has no channel {name!r:.80}; it has {names}",
                remedy="correct the name, or put [channels.<name>] into the policy",
            )
        return found

    def all_channels(self) -> list[Rule]:
        """Return the rules of all channels, each before those that wait for it."""
        return channel_tables.ordered(self.release, self.channels)

    def under(self, profile: str) -> Policy:
        """Return the policy as it holds for one of its profiles."""
        if self.profile == profile and len(self.profiles) == 1 and not self.optional_profiles:
            return self
        return self.model_copy(update={"profile": profile, "profiles": [profile], "optional_profiles": []})
