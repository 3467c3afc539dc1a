"""Where a submission is worse than the current release, by the limits of ``[regression]``. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from acceptd.evidence import Submission
from acceptd.judge import slower
from acceptd.judge.finding import Finding, Severity
from acceptd.judge.operators_beside import Profiles, words
from acceptd.judge.outputs_beside import LabelLoss, Output
from acceptd.judge.parity import RANKED
from acceptd.judge.regression import Comparison, Cost, comparisons
from acceptd.judge.words import make, safe
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.regression import Limits, RegressionTable

CHANCE: Final = 0.01
BY_ELEMENT: Final = frozenset({"values", "audio"})
"""Kinds whose elements mean something one by one; the others have figures of their own."""


def regression(manifest: Manifest, policy: Policy, submission: Submission) -> Iterator[Finding]:
    """Yield what the comparison with the release shows, for every model of a submission."""
    for one in comparisons(manifest, policy, submission):
        where = f"models.{one.model}"
        table = policy.regression
        if one.status == "compared":
            yield from _judged(one, table.limits(quantised=one.quantised), table, where)
        elif one.status == "failed":
            yield make("regression/release-failed", "run", where, one.reason)
        else:
            code = "release-unavailable" if one.status == "unavailable" else "not-comparable"
            yield _owed(f"regression/{code}", where, one.reason, table)
        for name, reason in one.skipped.items() if one.status == "compared" else ():
            yield _owed("regression/not-comparable", f"{where}: {name}", reason, table)


def _owed(code: str, where: str, message: str, table: RegressionTable) -> Finding:
    finding = make(code, "compare", where, message)
    return finding.model_copy(update={"severity": "hold"}) if table.required else finding


def _judged(one: Comparison, limits: Limits, table: RegressionTable, where: str) -> Iterator[Finding]:
    for output in one.outputs:
        place = f"{where}: {output.output}"
        if output.incomparable:
            told = f"{output.incomparable} of {output.inputs + output.incomparable} outputs: {output.note}"
            yield make("regression/differs", "compare", place, f"not what the release gives: {told}")
        if output.rows:  # classes of the release are classes, whatever the submission calls them
            yield from _classes(output, limits, place)
            yield from _labels(output, limits, table, place, quantised=one.quantised)
        if output.kind not in RANKED and limits.values is not None:
            yield from _values(output, limits, place)
        yield from _accuracy(output, place)
    if one.unanswered:
        shown = ", ".join(one.unanswered[:8])
        message = f"{len(one.unanswered)} inputs that the release answers: {shown}"
        yield make("regression/not-answered", "run", where, message, {"inputs": list(one.unanswered[:32])})
    for cost in one.cost:
        if cost.what != slower.WHAT:
            yield from _cost(cost, limits, table, where)
    if one.latency is not None:
        yield from _latency(one.latency, where)
    if one.moved and one.quantised:
        message = "; ".join(f"{name}: {before} → {now}" for name, before, now in one.moved[:8])
        yield make("regression/moved", "run", where, f"{message} (told from {one.basis})")
    if one.profiles is not None and one.profiles.lost:
        yield _operators(one.profiles, where)


def _operators(both: Profiles, where: str) -> Finding:
    """Name what lost time or moved, and how much: by the jobs' word, so that it never decides."""
    parts = {
        scope: [words(one)[:160] for one in both.lost if one.scope == scope] for scope in ("operator", "layer")
    }
    told = "; ".join(f"{scope} {text}" for scope, found in parts.items() for text in found[:1])
    total = (
        f"all nodes {both.release:.3g} ms in the release, now {both.now:.3g} ms by the profiler, the jobs' word"
    )
    message = f"{total}; {len(both.lost)} lost time or moved, as {told}"
    shows = {"runs": list(both.runs), "lost": [safe(asdict(one)) for one in both.lost]}
    return make("regression/operators", "run", where, message, shows)


def _classes(output: Output, limits: Limits, place: str) -> Iterator[Finding]:
    rows, counted = output.rows - output.corrected, output.mismatches - output.corrected
    if beyond_chance(counted, rows, 1.0 - limits.class_agreement):
        agreement = 1.0 - counted / rows
        message = (
            f"{counted} of {rows} rows have another class than the release gives them: "
            f"agreement {agreement:.4f}, least {limits.class_agreement:g}"
        )
        shows = {"rows": rows, "mismatches": counted, "agreement": round(agreement, 6)}
        yield make("regression/class-changed", "compare", place, message, shows | _lost(output.labels))


def _labels(
    output: Output, limits: Limits, table: RegressionTable, place: str, *, quantised: bool
) -> Iterator[Finding]:
    for label in output.labels:
        rows, missed = label.rows - label.corrected, label.missed - label.corrected
        if rows < table.label_rows or not missed:
            continue
        shows = {"label": label.label, "rows": rows, "missed": missed}
        where = f"{place}: {label.label}"
        if missed == rows:
            message = f"none of the {rows} rows that the release gives this label has it"
            gone = make("regression/label-gone", "compare", where, message, shows)
            # The same model in fewer bits has no reason to lose a class; a new one may have been meant to.
            severity: Severity = "reject" if quantised else gone.severity
            yield gone.model_copy(update={"severity": severity})
        elif beyond_chance(missed, rows, limits.false_negatives):
            share = missed / rows
            message = (
                f"{missed} of the {rows} rows that the release gives this label have another: "
                f"{share:.4f}, most {limits.false_negatives:g}"
            )
            yield make("regression/false-negatives", "compare", where, message, shows | {"share": round(share, 6)})


def _values(output: Output, limits: Limits, place: str) -> Iterator[Finding]:
    if output.broken:
        message = f"{len(output.broken)} inputs or figures beyond the policy's limits; first {output.broken[0]}"
        yield make("regression/differs", "compare", place, message, {"broken": list(output.broken[:8])})
    if output.sequences:
        if output.exact < limits.within * output.sequences:
            message = (
                f"{output.exact} of {output.sequences} rows have the release's tokens, least {limits.within:g}"
            )
            yield make("regression/differs", "compare", place, message)
        return
    within = 1.0 - output.beyond / output.elements if output.elements else 1.0
    if within < limits.within and limits.values is not None and output.kind in BY_ELEMENT:
        message = (
            f"{output.beyond} of {output.elements} elements beyond atol {limits.values.atol:g} + rtol "
            f"{limits.values.rtol:g}; within {within:.4f}, least {limits.within:g}; worst at {output.worst.set} "
            f"{list(output.worst.index)}: release {output.worst.release}, now {output.worst.now}"
        )
        shows = {"max_abs": output.max_abs, "within": round(within, 6), "n": output.elements}
        yield make("regression/differs", "compare", place, message, shows)


def _accuracy(output: Output, place: str) -> Iterator[Finding]:
    if output.wrong > output.release_wrong:
        message = f"{output.wrong} rows of goldens have a wrong class; the release has {output.release_wrong}"
        yield make("regression/less-accurate", "compare", place, message)


def _cost(cost: Cost, limits: Limits, table: RegressionTable, where: str) -> Iterator[Finding]:
    code, most, slack = {
        "size": ("regression/larger", limits.size_ratio, table.size_slack_bytes),
        "peak memory": ("regression/more-memory", limits.memory_ratio, table.memory_slack_bytes),
    }[cost.what]
    if most is not None and cost.now > cost.release * most and cost.now - cost.release > slack:
        shows = {"release": cost.release, "now": cost.now, "ratio": cost.ratio}
        ratio = f"{cost.ratio:.2f} times" if cost.ratio is not None else "more than"
        message = (
            f"{cost.what}: {cost.now:g} {cost.unit}, {ratio} the release's {cost.release:g}; most {most:g} times"
        )
        yield make(code, "judge", where, message, shows)


def _latency(found: slower.Latency, where: str) -> Iterator[Finding]:
    """Only a difference that stands out in alternating jobs holds; what stays unclear is told."""
    if found.outcome not in {"over", "unclear"} or found.value is None:
        return
    code = "regression/slower" if found.outcome == "over" else "regression/slower-unclear"
    message = (
        f"the median inference takes {found.value:.2f} times the release's, most {found.limit:g}; "
        f"timed in {found.rounds} job{'' if found.rounds == 1 else 's'} each"
    )
    shows = {"ratio": round(found.value, 4), "limit": found.limit, "rounds": found.rounds, "low": found.low}
    yield make(code, "judge", where, message, shows)


def _lost(labels: tuple[LabelLoss, ...]) -> dict[str, Any]:
    return {"labels": [[one.label, one.rows, one.missed] for one in labels[:16] if one.missed]}


def beyond_chance(found: int, rows: int, share: float) -> bool:
    """Say whether ``found`` of ``rows`` is more than a true ``share`` would give by chance in one of 100 cases.

    The draws are a sample: a submission at the limit must not be held for the luck of the draw, and one far from
    it is held by few rows. The upper tail of the binomial distribution (Clopper and Pearson, Biometrika 26, 1934).
    """
    if found <= share * rows:
        return False
    if share <= 0.0:
        return True
    # ln C(n, k) + k ln p + (n - k) ln (1 - p), summed from the largest term, which stands first
    base = math.lgamma(rows + 1)
    tail = 0.0
    for count in range(found, rows + 1):
        choose = base - math.lgamma(count + 1) - math.lgamma(rows - count + 1)
        term = math.exp(choose + count * math.log(share) + (rows - count) * math.log1p(-share))
        tail += term
        if tail >= CHANCE:
            return False
        if term <= tail * 1e-12:
            break
    return True
