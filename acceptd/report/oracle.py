"""What onnx's own evaluator proved of each model: inputs compared, largest difference, rows of another class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acceptd.evidence import Submission
from acceptd.judge import oracle
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import Jobs
from acceptd.policy.manifest import Manifest
from acceptd.report.escape import markup
from acceptd.report.tables import BAD, code, table


def proofs(submission: Submission, manifest: Manifest | None, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return one entry per model that was run; none where the evaluator was never asked."""
    statistics = submission.statistics
    if manifest is None or statistics is None or not manifest.declared:
        return []
    jobs = Jobs(tuple(submission.jobs))
    said = {one.where: one.message for one in findings if one.code == "reference/unavailable"}
    result = []
    for model in manifest.models:
        asked = jobs.last("reference", model) is not None
        if asked or model.name in said:
            left = "" if asked else said[model.name]
            result.append(oracle.proof(model, jobs, statistics.outputs, left).document())
    return result


def oracle_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a line per model for the terminal; escaped by the caller."""
    return [("reference", _line(one)) for one in report.get("reference") or ()]


def _line(proof: Mapping[str, Any]) -> str:
    outputs = [one for one in proof["outputs"] if one["inputs"]]
    if not outputs:
        return f"{proof['model']}: not evaluated: {proof['reason'] or 'nothing could be compared'}"
    differing = [one["output"] for one in outputs if one["differing"]]
    most = max((one["max_abs"] for one in outputs), key=_size)
    words = f"{proof['model']}: {_inputs(proof)}, {len(outputs)} of {len(proof['outputs'])} outputs, "
    words += f"at most {_number(most)} apart"
    return f"{words}; {', '.join(differing[:4])} disagree" if differing else words


def _inputs(proof: Mapping[str, Any]) -> str:
    sets = f"{proof['sets']} of {proof['of_sets']} golden sets"
    return f"{sets} and {proof['draws']} of {proof['of_draws']} probes evaluated"


def _size(value: float | str) -> float:
    return float("inf") if isinstance(value, str) else float(value)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def oracle_section(report: Mapping[str, Any]) -> str:
    """Return the HTML of all proofs, or an empty string."""
    return "".join(_block(proof) for proof in report.get("reference") or ())


def _block(proof: Mapping[str, Any]) -> str:
    head = f"<h3>{markup(proof['model'])}</h3>"
    reason = markup(proof["reason"], 400)
    if not any(one["inputs"] for one in proof["outputs"]):
        return f'{head}<p class="soft">Not evaluated: {reason or "nothing could be compared"}</p>'
    more = f" Not all: {reason}." if proof["reason"] else ""
    rows = [
        (
            code(one["output"]),
            str(one["inputs"]) if one["inputs"] else f"none: another {markup(one['unlike'] or 'kind', 20)}",
            str(one["elements"]),
            _number(one["max_abs"]) if one["inputs"] else "",
            f"{one['top1_mismatches']} of {one['top1_total']}" if one["top1_total"] else "",
            f"{BAD}{one['differing']}" if one["differing"] else "0",
        )
        for one in proof["outputs"]
    ]
    titles = (
        "output",
        "inputs",
        "elements",
        "largest difference",
        "rows of another class",
        "inputs that disagree",
    )
    return f"{head}<p>{_inputs(proof)}.{more}</p>" + table(titles, rows, (1, 2, 3, 4, 5))
