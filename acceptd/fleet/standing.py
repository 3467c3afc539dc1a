"""How a fleet stands, and what stands still and why: from what its nodes said and what its queues hold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from acceptd.fleet.nodes import MOST, Node
from acceptd.fleet.task import PROMOTER, intake_queue
from acceptd.record.tables import FINAL_STATES

INTAKE_QUEUES: Final = intake_queue("")
ROLES: Final = ("intake", "worker", "promoter")
STILL_SECONDS: Final = 900.0
"""A submission that nothing was done about for so long stands still."""
STORE_AWAY: Final = "the object store cannot be reached"
"""How a node's standing begins where it is so."""
_NEEDS: Final = {"claimed": "intake", "sealed": "promoter", "examined": "promoter", "judged": "promoter"}
_SHORT: Final = 12


@dataclass(frozen=True, slots=True)
class Depth:
    """What one queue holds. ``oldest`` is the age in seconds of what waits longest; None where nothing waits."""

    waiting: int = 0
    running: int = 0
    oldest: float | None = None
    stalled: int = 0
    """Tasks that run at a worker which the task queue has not heard of for a while."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read. ``states``: submissions and the seconds since the oldest change, by state."""

    nodes: Sequence[Node]
    queues: Mapping[str, Depth] = field(default_factory=dict)
    states: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    schema: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with ``what`` (a node, a queue, a role, a state), and how it is mended."""

    what: str
    says: str
    remedy: str


def troubles(facts: Facts) -> list[Trouble]:
    """Return what is wrong, what keeps work from being done first."""
    return [
        *_many(facts),
        *_roles(facts),
        *_queues(facts),
        *_lost(facts),
        *_said(facts),
        *_policies(facts),
        *_profiles(facts),
        *_schemas(facts),
        *_still(facts),
    ]


def policy_of(facts: Facts) -> str:
    """Return the digest of the policy that verdicts are given under: the promoter's; empty where none is up."""
    said = {node.told.policy for node in _up(facts) if _does(node, "promoter") and node.told.policy}
    return said.pop() if len(said) == 1 else ""


def serving(facts: Facts, queue: str) -> list[Node]:
    """Return the nodes that take work of a queue now."""
    return [node for node in facts.nodes if node.status == "up" and _takes(node, queue)]


def _takes(node: Node, queue: str) -> bool:
    if queue in node.told.queues:
        return True
    if queue == PROMOTER:
        return _does(node, "promoter")
    return queue.startswith(INTAKE_QUEUES) and _does(node, "intake") and queue == INTAKE_QUEUES + node.name


def _does(node: Node, role: str) -> bool:
    return node.told.role in {role, "all"}


def _up(facts: Facts) -> list[Node]:
    return [node for node in facts.nodes if node.status == "up"]


def _many(facts: Facts) -> list[Trouble]:
    if len(facts.nodes) < MOST:
        return []
    remedy = "whoever may beat may invent names: take that login away, then delete the rows of fleet_nodes"
    return [Trouble("nodes", f"{MOST} are shown, and there are more", remedy)]


def _roles(facts: Facts) -> list[Trouble]:
    found = []
    up = _up(facts)
    for role in ROLES:
        if facts.nodes and not any(_does(node, role) for node in up):
            drained = [node.name for node in facts.nodes if _does(node, role) and node.draining]
            remedy = f"start one: systemctl start acceptd-{role}@NAME"
            if drained:
                remedy = f"acceptd fleet undrain {drained[0]}, or start another"
            does = {
                "intake": "nothing is taken from an inbox",
                "worker": "nothing is examined",
                "promoter": "nothing is ordered, decided or promoted",
            }[role]
            found.append(Trouble(role, f"no {role} is up: {does}", remedy))
    promoters = [node.name for node in up if _does(node, "promoter")]
    if len(promoters) > 1:
        says = f"{', '.join(promoters)} are up at once, and one ledger has one key"
        found.append(Trouble("promoter", says, "stop all but the one you mean"))
    return found


def _queues(facts: Facts) -> list[Trouble]:
    found = []
    for name, depth in facts.queues.items():
        if depth.waiting and not serving(facts, name):
            asked = [node.name for node in facts.nodes if _takes(node, name) and node.draining]
            remedy = "start a worker with this queue ([fleet] queues in its acceptd.toml)"
            if name.startswith(INTAKE_QUEUES):
                remedy = f"start the intake {name.removeprefix(INTAKE_QUEUES)}: its drops are on its own disk"
            elif name == PROMOTER:
                remedy = "start the promoter"
            if asked:
                remedy = f"acceptd fleet undrain {asked[0]}"
            says = f"{depth.waiting} wait, and no node that is up takes them"
            found.append(Trouble(f"queue {name}", says, remedy))
        if depth.stalled:
            found.append(
                Trouble(
                    f"queue {name}",
                    f"{depth.stalled} run at a worker that is not heard of",
                    "nothing: they are given to another; look at the worker that is late or gone",
                )
            )
    return found


def _lost(facts: Facts) -> list[Trouble]:
    found = []
    for node in facts.nodes:
        if node.status not in {"late", "gone"} or node.stopped:
            continue
        remedy = "look at its host, its network and its log"
        if node.status == "gone":
            remedy += f"; acceptd fleet forget {node.name} when it will not come back"
        found.append(Trouble(node.name, f"was last seen {span(node.age)} ago", remedy))
    return found


def _said(facts: Facts) -> list[Trouble]:
    return [
        Trouble(node.name, node.told.standing, _remedy(node))
        for node in facts.nodes
        if node.told.standing and node.status in {"up", "draining"}
    ]


def _remedy(node: Node) -> str:
    if node.told.standing.startswith(STORE_AWAY):
        return f"look at the store, and at the network between; acceptd doctor on {node.name} asks it again"
    return f"look at the log of {node.name}"


def _policies(facts: Facts) -> list[Trouble]:
    wanted = policy_of(facts)
    return [
        Trouble(
            node.name,
            f"has the policy {short(node.told.policy)}, the promoter {short(wanted)}: its evidence is refused",
            f"bring {node.name} the promoter's policies directory, then reload it (SIGHUP)",
        )
        for node in facts.nodes
        if wanted and node.told.policy and node.told.policy != wanted and node.status in {"up", "draining"}
    ]


def _profiles(facts: Facts) -> list[Trouble]:
    """Of nodes that have the promoter's policy, and not its profiles."""
    wanted: dict[str, str] = {}
    for node in _up(facts):
        if _does(node, "promoter"):
            wanted |= node.told.profiles
    found = []
    for node in facts.nodes:
        if node.status not in {"up", "draining"}:
            continue
        other = sorted(name for name, digest in node.told.profiles.items() if wanted.get(name, digest) != digest)
        if other:
            found.append(
                Trouble(
                    node.name,
                    f"has another profile {', '.join(other)} than the promoter: its evidence is refused",
                    f"bring {node.name} the promoter's policies directory, then reload it (SIGHUP)",
                )
            )
    return found


def _schemas(facts: Facts) -> list[Trouble]:
    found = [
        Trouble(
            node.name,
            f"works on schema {facts.schema} with acceptd {node.version}, which knows schema {node.schema}",
            "drain it, upgrade it, undrain it",
        )
        for node in facts.nodes
        if facts.schema and node.schema < facts.schema and node.status != "gone"
    ]
    versions = Counter(node.version for node in facts.nodes if node.status != "gone")
    if len(versions) > 1 and not found:
        told = ", ".join(f"{version} on {count}" for version, count in sorted(versions.items()))
        found.append(Trouble("versions", told, "finish the upgrade: docs/fleet.md"))
    return found


def _still(facts: Facts) -> list[Trouble]:
    """Submissions about which nothing was done for long, while somebody is up who should."""
    found = []
    for state, (count, oldest) in facts.states.items():
        if state in FINAL_STATES or oldest < STILL_SECONDS:
            continue
        who = _NEEDS.get(state, "intake")
        if any(_does(node, who) for node in _up(facts)):
            found.append(
                Trouble(
                    f"state {state}",
                    f"{count} submissions, the oldest unchanged for {span(oldest)}",
                    f"acceptd status names them; the log of the {who} says why",
                )
            )
    return found


def short(digest: str) -> str:
    """Return the beginning of a digest."""
    return digest[:_SHORT]


def span(seconds: float) -> str:
    """Return a length of time for people: ``3 s``, ``12 min``, ``5 h``, ``3 d``."""
    if seconds == float("inf"):
        return "long"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
