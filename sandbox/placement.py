"""Which execution provider took which nodes, as counts. Pure but for the session that it asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

from sandbox.messages import text_of
from sandbox.session import CPU

MAX_ROWS: Final = 8192


def placement(session: Any, requested: Sequence[str] = (CPU,)) -> dict[str, Any]:
    """Return the ``placement`` frame's body: nodes by provider, domain and operator.

    ``requested`` are the profile's providers. The session needs ``session.record_ep_graph_assignment_info=1``.
    Nodes are those after graph optimisation, so fused ones count once; nodes inside subgraphs are counted too
    where the runtime lists them. ``available`` is false, with a note, where the runtime cannot say.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    try:
        for part in session.get_provider_graph_assignment_info():
            for node in part.get_nodes():
                counts[str(part.ep_name), str(node.domain) or "ai.onnx", str(node.op_type)] += 1
    except Exception as error:  # noqa: BLE001 - bindings raise many types; not to know is a fact of its own
        return {"nodes": [], "available": False, "note": text_of(str(error))} | _asked(session, requested, None)
    held = {provider for provider, _, _ in counts}
    return {"nodes": rows(counts), "available": True, "note": _note(len(counts))} | _asked(
        session, requested, held
    )


def _asked(session: Any, requested: Sequence[str], held: Collection[str] | None) -> dict[str, Any]:
    """Return what was asked for, the session's first provider that holds a node, and whether the CPU helped."""
    try:
        taken = [str(name) for name in session.get_providers()]
    except Exception:  # noqa: BLE001 - as above
        taken = []
    wanted = str(requested[0]) if requested else CPU
    return {
        "requested_provider": wanted,
        "selected_provider": next((name for name in taken if held and name in held), taken[0] if taken else ""),
        "used_cpu_fallback": None if held is None else wanted != CPU and CPU in held,
    }


def rows(counts: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return the counts as ``PlacedNode`` JSON data, sorted, at most :data:`MAX_ROWS`."""
    ordered = sorted(counts.items())[:MAX_ROWS]
    return [
        {"provider": provider, "domain": domain, "op_type": op_type, "count": count}
        for (provider, domain, op_type), count in ordered
    ]


def _note(kinds: int) -> str:
    return f"{kinds - MAX_ROWS} more kinds of nodes are not listed" if kinds > MAX_ROWS else ""
