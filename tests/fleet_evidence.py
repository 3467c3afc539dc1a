"""What workers of a fleet hand over, made without a cell: a flawless submission, whole and by profile; nodes."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import FleetTrustError as FleetTrustError
from acceptd.evidence import Submission, UnderProfile
from acceptd.fleet.examined import Examined
from acceptd.fleet.order import Order
from acceptd.fleet.statement import Due, Evidence, Fetch, open_evidence, sign_evidence
from acceptd.fleet.trust import Trust
from acceptd.judge.profiles import Target
from acceptd.policy.fleet import FleetPolicyTable
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record.keys import NODE, Signer
from acceptd.runtime.identity import RuntimeRecord
from acceptd.statement.fleet import Node
from tests import judge_world as world

NAMES: Final = ("cpu", "other", "spare")
TARGETS: Final = (
    Target(Profile(), "1" * 64),
    Target(Profile(name="other", optimisation="basic"), "2" * 64),
    Target(Profile(name="spare", optimisation="disable"), "3" * 64, required=False),
)
POLICY: Final = Policy.model_validate({"profiles": ["cpu", "other"], "optional_profiles": ["spare"]})
NOW: Final = "2026-07-01T12:00:00Z"


def whole() -> Submission:
    """A flawless submission under three profiles, as one host would have examined it."""
    given = world.submission()
    static = [job for job in given.jobs if job.kind != "run"]
    runs = [one for name in NAMES for one in (world.run(profile=name), world.unoptimised(profile=name))]
    return given.model_copy(
        update={
            "profile": "cpu",
            "jobs": [*static, *runs],
            "others": [UnderProfile(profile=name, statistics=world.statistics()) for name in NAMES[1:]],
        }
    )


def examined(one: Submission, *profiles: str, **changes: Any) -> Examined:
    """The examination with this evidence."""
    made: dict[str, Any] = {"profiles": list(profiles), "submission": one, "manifest": world.a_manifest()}
    return Examined(**{**made, **changes})


def part(one: Submission, profile: str, **changes: Any) -> Examined:
    """What a worker that examined it under one profile alone would hand over."""
    own = {} if profile == "cpu" else {"statistics": None, "runtimes": [], "runtime_problem": "", "kept": {}}
    alone = one.model_copy(
        update={
            **own,
            "jobs": [job for job in one.jobs if job.profile in {"", profile}],
            "others": [other for other in one.others if other.profile == profile],
        }
    )
    return examined(alone, profile, **changes)


def signer(name: str) -> Signer:
    """The node key of a name: the same for the same name."""
    return Signer.of(NODE, Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


def public(name: str) -> str:
    """The public half, as a policy names it."""
    return base64.b64encode(signer(name).public).decode()


def node(name: str) -> Node:
    """What the node of a name says of itself."""
    return Node(name=name, host=f"host-{name}", kernel="Linux 6.1", machine="x86_64", acceptd="0.9")


def entry(name: str, *profiles: str, **more: Any) -> dict[str, Any]:
    """One table of ``[[fleet.trust]]``: a worker, or with ``role`` an intake."""
    return {"name": name, "role": "worker", "key": public(name), "profiles": list(profiles)} | more


def trust(*entries: dict[str, Any], now: str = NOW, **more: Any) -> Trust:
    """What a policy with these tables trusts."""
    fleet = FleetPolicyTable.model_validate({"trust": list(entries)} | more)
    return Trust.of(POLICY.model_copy(update={"fleet": fleet}), now)


def order(**changes: Any) -> Order:
    """An order to examine the flawless submission."""
    made: dict[str, Any] = {
        "submission": "s-1",
        "round": 1,
        "model": world.a_manifest().bundle.id,
        "bundle": world.sealed().digest,
        "policy": "d" * 64,
        "profiles": {target.profile.name: target.digest for target in TARGETS},
        "seed": "e" * 64,
    }
    return Order.model_validate(made | changes)


@dataclass
class Case:
    """One worker that examined the flawless submission under ``other``. Change anything, then :meth:`open`."""

    trust: Trust = field(default_factory=lambda: trust(entry("gpu-1", "other")))
    order: Order = field(default_factory=order)
    due: Due | None = None
    profile: str = "other"
    examined: Examined = field(default_factory=lambda: part(whole(), "other"))
    node: Node = field(default_factory=lambda: node("gpu-1"))
    signer: Signer = field(default_factory=lambda: signer("gpu-1"))
    started: str = "2026-07-01T11:00:00Z"
    ended: str = "2026-07-01T11:01:00Z"

    def signed(self) -> tuple[str, bytes]:
        """The envelope and the evidence, as the worker makes them."""
        return sign_evidence(
            self.signer, self.node, self.order, self.profile, self.examined, started=self.started, ended=self.ended
        )

    def open(
        self,
        envelope: str | bytes | None = None,
        data: bytes | None = None,
        fetch: Fetch | None = None,
    ) -> Evidence:
        """What the promoter makes of it."""
        made, evidence = self.signed()
        given = evidence if data is None else data
        due = self.due or Due(order(), "mosaic", world.sealed(), "cpu")
        return open_evidence(
            made if envelope is None else envelope,
            self.trust,
            due,
            "other",
            fetch or (lambda _digest, _most: given),
        )

    def evidence(self, **changes: Any) -> Case:
        """The same worker with other evidence."""
        one = self.examined.submission.model_copy(update=changes)
        self.examined = self.examined.model_copy(update={"submission": one})
        return self


def runtime(**changes: Any) -> RuntimeRecord:
    """The runtime of some host."""
    made: dict[str, Any] = {
        "schema": 1, "python": "3.11.7", "implementation": "cpython", "machine": "x86_64", "cpu_class": "v4",
        "onnxruntime": "1.25.0", "build": "b", "distribution": "onnxruntime", "numpy": "2.3.0",
        "available_providers": [], "libraries": [], "providers": ["CPUExecutionProvider"], "provider_options": {},
        "allow_cpu_fallback": False, "intra_op_threads": 1, "inter_op_threads": 1, "optimisation": "basic",
        "session_entries": {}, "custom_operators": [], "reduced_build": "",
    }  # fmt: skip
    return RuntimeRecord.model_validate(made | changes)
