"""What inspection measured of a model's graph: weights, cost, quantisation, functions; as data and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.evidence import Facts
from acceptd.report.escape import markup, size
from acceptd.report.tables import code, table

_FUNCTIONS: Final = 20
_TRIPS: Final = 8


def graph(facts: Facts) -> dict[str, Any]:
    """Return the report's part on one model's graph."""
    largest = sorted(facts.function_facts, key=lambda one: -one.expanded)[:_FUNCTIONS]
    cost = facts.cost.model_dump() if facts.cost is not None else None
    if cost is not None:
        cost["trips"] = cost["trips"][:_TRIPS]
    return {
        "scopes": facts.scopes,
        "subgraph_depth": facts.subgraph_depth,
        "initializers": facts.initializers,
        "initializer_bytes": facts.initializer_bytes,
        "module_scopes": facts.module_scopes,
        "weights": [one.model_dump() for one in facts.weights],
        "cost": cost,
        "quantisation": facts.quantisation.model_dump() if facts.quantisation is not None else None,
        "functions": [one.model_dump() for one in largest],
        "function_count": len(facts.function_facts),
    }


def graph_section(model: Mapping[str, Any]) -> str:
    """Return the section's content for one model; empty where nothing was inspected."""
    found = model.get("graph")
    if not found:
        return ""
    lines = [
        (
            f"graphs and functions: {markup(found['scopes'])}, subgraphs {markup(found['subgraph_depth'])} deep; "
            f"initializers: {markup(found['initializers'])} of {size(found['initializer_bytes'])} in all"
        ),
        _quantisation(found.get("quantisation")),
        _cost(found.get("cost")),
    ]
    text = "".join(f'<p class="soft">{line}</p>' for line in lines if line)
    return f"<h3>{markup(model['name'])}</h3>{text}{_weights(found['weights'])}{_functions(found)}"


def _weights(rows: list[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    head = ("weights", "tensors", "looked into", "elements", "least", "greatest", "NaN", "infinite")
    return table(head, [_weight(row) for row in rows], right=(1, 2, 3, 4, 5, 6, 7))


def _weight(row: Mapping[str, Any]) -> tuple[str, ...]:
    least, greatest = (_number(row[name]) for name in ("least", "greatest"))
    counts = tuple(markup(row[name]) for name in ("tensors", "read", "elements"))
    return (code(row["dtype"]), *counts, least, greatest, markup(row["nan"]), markup(row["infinite"]))


def _number(value: Any) -> str:
    return "" if value is None else markup(f"{value:.6g}" if isinstance(value, float) else value)


def _quantisation(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    if found["method"] == "none":
        return "not quantised"
    scales = {True: "per channel", False: "per tensor", None: "scales not constant"}[found["per_channel"]]
    weights, activations = (", ".join(found[name]) or "?" for name in ("weight_types", "activation_types"))
    kind = f"{found['method']} quantisation, {found['format']}, {scales}"
    return markup(f"{kind}: weights {weights}, activations {activations}")


def _cost(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "cost unknown: functions do not end"
    text = (
        f"at least {size(found['peak_bytes'])} of values alive at once, by {markup(found['known'])} known sizes "
    )
    text += f"({markup(found['unknown'])} are not known before it runs)"
    if found["largest"]:
        one = found["largest"]
        text += f"; the largest {size(one['bytes'])}, {markup(one['op_type'])} at {code(one['where'])}"
    for trip in found["trips"]:
        times = "an unknown number of" if trip["trips"] is None else markup(trip["trips"])
        text += f"; {markup(trip['op_type'])} at {code(trip['where'])} turns {times} times"
        text += "" if trip["certain"] else ", unless its condition ends it"
    return text


def _functions(found: Mapping[str, Any]) -> str:
    rows = [
        (code(one["name"]), markup(one["nodes"]), markup(one["expanded"]), markup(one["calls"]))
        for one in found["functions"]
    ]
    if not rows:
        return ""
    more = found["function_count"] - len(rows)
    note = f'<p class="soft">and {markup(more)} more</p>' if more > 0 else ""
    return table(("function", "nodes", "expanded", "calls"), rows, right=(1, 2, 3)) + note
