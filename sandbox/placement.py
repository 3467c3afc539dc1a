"""Which execution provider took which nodes, as counts. Pure but for the session that it asks."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from sandbox.messages import text_of

MAX_ROWS: Final = 8192


def placement(session: Any) -> dict[str, Any]:
    """Return the ``placement`` frame's body: nodes by provider, domain and operator.

    The session needs ``session.record_ep_graph_assignment_info=1``. Nodes are those after graph
    optimisation, so fused ones count once; nodes inside subgraphs are counted too where the runtime
    lists them. ``available`` is false, with a note, where the runtime cannot say.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    try:
        for part in session.get_provider_graph_assignment_info():
            for node in part.get_nodes():
                counts[str(part.ep_name), str(node.domain) or "ai.onnx", str(node.op_type)] += 1
    except Exception as error:  # noqa: BLE001 - bindings raise many types; not to know is a fact of its own
        return {"nodes": [], "available": False, "note": text_of(str(error))}
    return {"nodes": rows(counts), "available": True, "note": _note(len(counts))}


def rows(counts: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return the counts as ``PlacedNode`` JSON data, sorted, at most :data:`MAX_ROWS`."""
    ordered = sorted(counts.items())[:MAX_ROWS]
    return [
        {"provider": provider, "domain": domain, "op_type": op_type, "count": count}
        for (provider, domain, op_type), count in ordered
    ]


def _note(kinds: int) -> str:
    return f"{kinds - MAX_ROWS} more kinds of nodes are not listed" if kinds > MAX_ROWS else ""
