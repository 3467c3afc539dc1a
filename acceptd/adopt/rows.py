"""What is said of each adopted model: goldens and what they prove, verdict, what needs a person. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from acceptd.policy.manifest import Manifest
from acceptd.policy.table import Table
from acceptd.report.observed_list import Seen, decisive

State = Literal["made", "refreshed", "unchanged", "failed", "skipped"]
_NUMBERS: Final = ("float", "bfloat", "int", "uint")
_SHOWN: Final = 4
PROVES: Final = {
    "parity": "parity: an independent computation gives the same",
    "undeclared": "nobody says where the expected values come from",
    "regression": "regression: onnxruntime still gives what it gave",
    "smoke": "that it runs: there is nothing to compare with",
}
"""What a golden set shows at best, by :mod:`acceptd.report.golden`'s words."""


class Row(Table):
    """One model, bundle or skipped file. Texts may be a submitter's: they are escaped where they are shown."""

    path: str
    kind: Literal["model", "bundle", "skipped"]
    state: State
    name: str = ""
    model: str = ""
    """The model id that its manifest gives."""
    version: str = ""
    verdict: str = ""
    """Of a check in the cell, or of the daemon where it was submitted; empty where there is none."""
    reason: str = ""
    decisive: list[tuple[str, str, str]] = []
    """(code, severity, message) of what decided against it."""
    goldens: dict[str, int] = {}
    """How many sets show what (:data:`PROVES`)."""
    said: str = ""
    """What there is to say of the golden sets: how they were made, or why there are none."""
    contract: bool = False
    """Whether a contract is proposed."""
    edited: list[str] = []
    """Files that a person changed, and that were left alone."""
    needs: list[str] = []
    """What needs a person, one line each."""
    submission: str = ""
    seconds: Annotated[float, Field(ge=0)] = 0.0

    @property
    def proves(self) -> str:
        """What its golden sets prove, in a word or two."""
        found = [f"{count} {word}" for word in PROVES if (count := self.goldens.get(word, 0))]
        return ", ".join(found) or "none"

    def seen(self, policy: str, policy_digest: str) -> Seen:
        """Return it as a verdict to be listed by finding."""
        return Seen(
            name=self.model or self.name or self.path,
            team=self.model.partition("/")[0] or "?",
            version=self.version,
            verdict=self.verdict,
            reason=self.reason,
            judged_at="",
            submission=self.submission,
            policy=policy,
            policy_digest=policy_digest,
            decisive=tuple(self.decisive),
        )


def judged(row: Row, report: Mapping[str, Any]) -> Row:
    """Return the row with what a report says."""
    counts: Counter[str] = Counter()
    for one in report["goldens"]["models"]:
        counts.update({word: int(one.get(word, 0)) for word in PROVES})
    verdict = str(report["verdict"])
    return row.model_copy(
        update={
            "model": str(report.get("bundle_id") or row.model),
            "version": str(report.get("bundle_version") or ""),
            "verdict": verdict,
            "reason": str(report["reason"]),
            "decisive": list(decisive(verdict, report["findings"], str(report["reason"]))),
            "goldens": dict(counts),
        }
    )


def needs(manifest: Manifest | None, row: Row, guessed: Sequence[str]) -> list[str]:
    """Return what needs a person. ``guessed`` is what the proposal guessed, where nobody has edited it since."""
    found = list(guessed)
    if manifest is not None:
        if manifest.bundle.license is None:
            found.append("no licence: bundle.license, as an SPDX expression")
        found += _interface(manifest)
    if not any(row.goldens.values()):
        found.append("no golden set: acceptd bundle vectors, or real inputs with expected outputs")
    elif row.goldens.get("undeclared"):
        found.append("golden sets without an origin: say where their expected values come from")
    elif not row.goldens.get("parity"):
        found.append("no golden set shows parity: bring expected values of the framework that trained it")
    if row.edited:
        found.append(f"edited by hand and left alone: {', '.join(row.edited[:_SHOWN])}{_more(row.edited)}")
    return list(dict.fromkeys(found))


def _interface(manifest: Manifest) -> Iterator[str]:
    inputs = [one for model in manifest.models for one in model.inputs]
    open_ = [one.name for one in inputs if one.range is None and one.dtype.startswith(_NUMBERS)]
    if open_:
        yield f"no range, so nothing but golden sets is tried: {_names(open_)}"
    loose = [one.name for one in inputs if one.shape is None or "?" in one.shape]
    if loose:
        yield f"unbounded dimensions: {_names(loose)}"
    values = [
        one.name
        for model in manifest.models
        for one in model.outputs
        if one.kind == "values" and one.dtype.startswith(("float", "bfloat"))
    ]
    if values:
        yield f"kind of output not known, compared element by element: {_names(values)}"
    classes = [
        one.name
        for model in manifest.models
        for one in model.outputs
        if one.kind in {"logits", "probabilities"} and one.labels is None
    ]
    if classes:
        yield f"classes without labels: {_names(classes)}"


def _names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_SHOWN])}{_more(names)}"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""


def summary(rows: Sequence[Row]) -> str:
    """Return one line: how many were found, proposed, judged to what."""
    states: Counter[str] = Counter(row.state for row in rows)
    there = [row for row in rows if row.state not in {"failed", "skipped"}]
    verdicts: Counter[str] = Counter(row.verdict for row in there if row.verdict)
    parts = [f"{len(rows)} found: {len(there)} bundles"]
    parts += [f"{states[word]} {word}" for word in ("failed", "skipped") if states[word]]
    head = ", ".join(parts)
    told = ", ".join(
        f"{verdicts[word]} {word}" for word in ("accepted", "held", "rejected", "inconclusive") if verdicts[word]
    )
    return f"{head}; {told}" if told else head
