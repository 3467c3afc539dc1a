"""Which execution provider was asked for, which one ran the nodes, what is new beside the current release. Pure.

A run that fell back to the CPU is recorded and never satisfies the profile of an accelerator. What a job says of
its placement is its word: it may reject or hold, and what it says in its own favour is proved by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import JobRecord, PlacementSummary, Prior
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import Jobs, place
from acceptd.judge.words import make, printable
from acceptd.placement_facts import CPU, summary
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile

SHOWN = 8


def summarised(jobs: Jobs, model: ModelSpec, profile: Profile) -> PlacementSummary | None:
    """Return what the placement of one model comes to under a profile; None where it did not run so far."""
    record = jobs.last("run", model)
    if record is None or record.placement is None:
        return None
    profiled = jobs.last("run", model, "profiled")
    session = record.schema_.providers if record.schema_ is not None else []
    return summary(
        record.placement, profiled.profiled if profiled is not None else None, profile.providers, session
    )


def placement(
    jobs: Jobs, model: ModelSpec, profile: Profile, policy: Policy, prior: Prior | None
) -> Iterator[Finding]:
    """Yield what the placement of one model says, for the run as the profile says."""
    record = jobs.last("run", model)
    told = summarised(jobs, model, profile)
    if record is None or record.placement is None or told is None:
        return
    yield from _providers(record, told, profile)
    yield from _operators(record, told, profile, policy)
    if told.requested_provider != CPU:
        yield from _beside(record, told, profile, _before(prior, model, profile))


def _providers(record: JobRecord, told: PlacementSummary, profile: Profile) -> Iterator[Finding]:
    where = place(record)
    session = list(record.schema_.providers) if record.schema_ is not None else []
    shows = {
        "requested": list(profile.providers),
        "requested_provider": told.requested_provider,
        "selected_provider": told.selected_provider,
        "used_cpu_fallback": told.used_cpu_fallback,
        "nodes": told.nodes,
    }
    for provider in sorted({*told.nodes, *session} - set(profile.providers)):
        message = f"{told.nodes.get(provider, 0)} nodes on {provider}; asked for {', '.join(profile.providers)}"
        if provider != CPU:
            yield make("placement/provider-mismatch", "run", where, message, shows)
        elif not told.nodes.get(CPU):
            continue  # onnxruntime always appends the CPU provider to a session's list
        elif profile.allow_cpu_fallback:
            yield make("placement/cpu-fallback", "run", where, message, shows)
        else:
            yield make("placement/provider-mismatch", "run", where, message, shows)
    if record.placement is not None and not record.placement.available:
        yield make("placement/unknown", "run", where, told.note, shows)
    elif told.nodes and told.requested_provider != CPU and not told.nodes.get(told.requested_provider):
        message = f"no node ran on {told.requested_provider}"
        yield make("placement/provider-unused", "run", where, message, shows)


def _operators(record: JobRecord, told: PlacementSummary, profile: Profile, policy: Policy) -> Iterator[Finding]:
    """Hold what runs on the CPU against the operators that may, where the profile asks for another provider."""
    own = profile.cpu_operators
    allowed = own if own is not None else policy.placement.cpu_operators
    if allowed is None:
        return
    strangers = {name: count for name, count in told.cpu_operators.items() if count and name not in allowed}
    if strangers:
        listed = ", ".join(f"{count} {printable(name, 80)}" for name, count in list(strangers.items())[:SHOWN])
        message = (
            f"on the CPU under {told.requested_provider}: {listed}; not among the operators that may fall back"
        )
        yield make("placement/cpu-operator", "run", place(record), message, {"operators": strangers})


def _before(prior: Prior | None, model: ModelSpec, profile: Profile) -> PlacementSummary | None:
    """Return the placement of the current release's model of the same name under a profile of the same name."""
    models = prior.models if prior is not None and prior.status == "found" else []
    before = next((one for one in models if one.name == model.name), None)
    placements = before.placements if before is not None else []
    found = next((one.summary for one in placements if one.profile == profile.name), None)
    return found if found is not None and found.requested_provider == profile.providers[0] else None


def _beside(
    record: JobRecord, told: PlacementSummary, profile: Profile, before: PlacementSummary | None
) -> Iterator[Finding]:
    """A new island on the CPU, or more partitions, fails whatever the numbers say: another plan of execution."""
    if before is None:
        return
    where = place(record)
    shows = {
        "before": before.model_dump(include={"partitions", "cpu_islands", "cpu_operators", "copies"}),
        "now": told.model_dump(include={"partitions", "cpu_islands", "cpu_operators", "copies"}),
        "profile": profile.name,
    }
    fresh = sorted(
        name for name, count in told.cpu_operators.items() if count and not before.cpu_operators.get(name)
    )
    more = (
        told.cpu_islands is not None and before.cpu_islands is not None and told.cpu_islands > before.cpu_islands
    )
    if fresh or more:
        parts = [f"{told.cpu_islands} islands on the CPU, the release has {before.cpu_islands}"] if more else []
        if fresh:
            names = ", ".join(printable(name, 80) for name in fresh[:SHOWN])
            parts.append(f"on the CPU now, and not in the release: {names}")
        yield make("placement/new-cpu-island", "run", where, "; ".join(parts), shows)
    if told.partitions is None or before.partitions is None:
        if told.partitions != before.partitions:
            message = f"partitions cannot be compared with the release: {told.note or before.note}"
            yield make("placement/not-compared", "run", where, message, shows)
    elif told.partitions > before.partitions:
        message = f"{told.partitions} partitions, the release has {before.partitions}"
        yield make("placement/more-partitions", "run", where, message, shows)
