"""Which execution provider was asked for, and which one ran the nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import JobRecord
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import place
from acceptd.judge.words import make
from acceptd.policy.profile import Profile

CPU = "CPUExecutionProvider"


def placement(record: JobRecord, profile: Profile) -> Iterator[Finding]:
    """Yield where requested and actual providers part, for the run as the profile says."""
    if record.placement is None:
        return
    where = place(record)
    counts: dict[str, int] = {}
    for node in record.placement.nodes:
        counts[node.provider] = counts.get(node.provider, 0) + node.count
    session = list(record.schema_.providers) if record.schema_ is not None else []
    shows = {
        "requested": list(profile.providers),
        "requested_provider": profile.providers[0],
        "selected_provider": session[0] if session else None,
        "used_cpu_fallback": bool(counts.get(CPU)) and CPU not in profile.providers,
        "nodes": dict(sorted(counts.items())),
    }
    strangers = sorted({*counts, *session} - set(profile.providers))
    for provider in strangers:
        told = f"{counts.get(provider, 0)} nodes on {provider}; asked for {', '.join(profile.providers)}"
        if provider != CPU:
            yield make("placement/provider-mismatch", "run", where, told, shows)
        elif not counts.get(CPU):
            continue  # onnxruntime always appends the CPU provider to a session's list
        elif profile.allow_cpu_fallback:
            yield make("placement/cpu-fallback", "run", where, told, shows)
        else:
            yield make("placement/provider-mismatch", "run", where, told, shows)
    if not record.placement.available:
        yield make("placement/unknown", "run", where, record.placement.note or "no placement was reported")
    elif counts and profile.providers[0] != CPU and not counts.get(profile.providers[0]):
        told = f"no node ran on {profile.providers[0]}"
        yield make("placement/provider-unused", "run", where, told, shows)
