"""What a model takes and gives, and which operators of which domains it uses: as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.report.escape import markup, shape
from acceptd.report.tables import code, table

_SEEN: Final = {"runtime": "as the runtime loaded it", "inspection": "as inspected", "manifest": "as declared"}


def interface_section(report: Mapping[str, Any]) -> str:
    """Return the inputs and outputs of each model."""
    return "".join(_interface(model) for model in report.get("models", []))


def operators_section(report: Mapping[str, Any]) -> str:
    """Return the operators of each model by domain, the most used first."""
    return "".join(_operators(model) for model in report.get("models", []))


def _interface(model: Mapping[str, Any]) -> str:
    rows = [
        (
            direction,
            code(value["name"]),
            markup(value["type"]),
            markup(value["dtype"]),
            code(shape(value["shape"])),
        )
        for direction, key in (("input", "inputs"), ("output", "outputs"))
        for value in model.get(key, [])
    ]
    if not rows:
        return ""
    file = f" <code>{markup(model['file'])}</code>" if model.get("file") else ""
    seen = _SEEN.get(model["seen_by"], "")
    caption = f'<h3>{markup(model["name"])}{file} <span class="soft">{seen}</span></h3>'
    return caption + table(("direction", "name", "type", "dtype", "shape"), rows, names=False)


def _operators(model: Mapping[str, Any]) -> str:
    operators = model.get("operators")
    if operators is None:
        return ""
    opsets = ", ".join(f"{markup(domain, 100)} {markup(version)}" for domain, version in model["opsets"].items())
    placed = "; ".join(
        f"{markup(name)}: {markup(count)} nodes" for name, count in model.get("placement", {}).items()
    )
    about = f"{markup(model['nodes'])} nodes, IR version {markup(model['ir_version'])}, opsets {opsets}"
    rows = [(code(use["op_type"]), markup(use["domain"]), markup(use["count"])) for use in operators]
    return (
        f'<h3>{markup(model["name"])}</h3><p class="soft">{about}{f"; placed on {placed}" if placed else ""}</p>'
        + table(("operator", "domain", "count"), rows, right=(2,))
    )
