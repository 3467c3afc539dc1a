"""Which limits a comparison breaks: one row of statistics against one tolerance. Pure.

The same question whatever was compared: an expected value, a reference, another run, the current release.
What a breach weighs is the caller's to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from acceptd.evidence import OutputStats
from acceptd.judge.tolerance import Resolved
from acceptd.kind_facts import CLASSES, Place
from acceptd.policy.tolerance import LIMITS, least

MAX_INDEX: Final = 16
TIE: Final = 1e-6
"""Where no element differs by more, two computations agree: a class or a direction changed by rounding alone."""
WHOLE: Final = frozenset({"boxes", "sequence", "embedding", "audio"})
"""Kinds that are more than their elements, also where two computations of one model stand against each other."""
_UNRANKED: Final = frozenset({"top1", "min_topk", "min_neighbours"})
"""Figures of ranks: among answers to noise, ranks change by rounding."""
_UNIT: Final = 1e-12
"""Slack for shares and sums that were computed in float64."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One limit that is broken.

    ``figure``: ``elements``, ``top1``, ``range``, ``tokens``, ``end``, or a name of
    :data:`acceptd.policy.tolerance.LIMITS`. ``value`` is what was measured (a string where it is not finite),
    ``bound`` what it must keep; ``place`` shows the worst element, row or box. ``text`` is one plain sentence.
    """

    figure: str
    value: float | str
    bound: float
    place: Place
    text: str

    def shown(self) -> dict[str, Any]:
        """Return the breach as JSON data for the evidence of a finding."""
        return {
            "figure": self.figure,
            "value": self.value,
            "bound": self.bound,
            "index": list(self.place.index[:MAX_INDEX]),
            "expected": self.place.expected,
            "got": self.place.got,
        }


@dataclass(frozen=True, slots=True)
class _Figure:
    """A measured figure beside its limit."""

    value: float | str | None
    place: Place | None = field(default_factory=Place)


def breaches(row: OutputStats, held: Resolved) -> tuple[Breach, ...]:
    """Return every limit of ``held`` that ``row`` breaks, elements first; empty for full agreement.

    A row that is not comparable (``row.comparable`` false) has no figures: it gives nothing here, and its
    ``note`` says why. Elements were counted by the comparer against the row's own ``rtol`` and ``atol``. A
    figure that is None has no meaning for these values and breaks nothing; NaN breaks its limit.
    """
    if not row.comparable:
        return ()
    return (*_elements(row), *_classes(row, held), *_range(row), *_tokens(row), *_limited(row, held))


def apart(row: OutputStats, held: Resolved) -> tuple[Breach, ...]:
    """Return in what two computations of one model differ: elements, and the figures of the :data:`WHOLE` kinds.

    Boxes are matched whatever their order, tokens are exact. Of vectors and sound that differ by no more than
    :data:`TIE` anywhere, angles and ratios say nothing: those may be of next to nothing.
    """
    found = breaches(row, held)
    if row.boxes is None and row.sequence is None:
        ratios = row.embedding is not None or row.audio is not None
        if not ratios or (isinstance(row.max_abs, int | float) and row.max_abs <= TIE):
            return tuple(one for one in found if one.figure == "elements")
    return tuple(one for one in found if one.figure not in _UNRANKED)


def _elements(row: OutputStats) -> Iterator[Breach]:
    if row.exceeding and row.sequence is None and row.note != CLASSES:  # these have a figure of their own
        place = Place(index=row.worst_index, expected=row.worst_expected, got=row.worst_got)
        text = f"{row.exceeding} of {row.n} elements beyond atol {row.atol:g} + rtol {row.rtol:g}"
        yield Breach("elements", row.max_abs, row.atol, place, f"{text}; {worst(place)}")


def _classes(row: OutputStats, held: Resolved) -> Iterator[Breach]:
    if held.top1 is None or not row.top1_mismatches:
        return
    share = 1.0 - row.top1_mismatches / row.top1_total if row.top1_total else 0.0
    if share < held.top1:
        place = row.ranking.top1_worst if row.ranking is not None and row.ranking.top1_worst else Place()
        text = f"{row.top1_mismatches} of {row.top1_total} rows have another top class than expected"
        yield Breach("top1", share, held.top1, place, text + (f"; {first(place)}" if place.index else ""))


def _range(row: OutputStats) -> Iterator[Breach]:
    found = row.distribution
    if found is not None and found.outside:
        place = found.outside_worst or Place()
        text = f"{found.outside} value{'' if found.outside == 1 else 's'} outside [0, 1]; {worst(place)}"
        yield Breach("range", found.outside, 0, place, text)


def _tokens(row: OutputStats) -> Iterator[Breach]:
    found = row.sequence
    if found is None:
        return
    if found.exact < found.rows:
        place = found.token_worst or Place()
        text = f"{found.rows - found.exact} of {found.rows} rows have another token; {first(place)}"
        yield Breach("tokens", found.rows - found.exact, 0, place, text)
    if found.unterminated:
        place = found.end_worst or Place()
        text = f"{found.unterminated} of {found.rows} rows end elsewhere; {first(place)}"
        yield Breach("end", found.unterminated, 0, place, text)


def _limited(row: OutputStats, held: Resolved) -> Iterator[Breach]:
    for name, bound in held.limits.items():
        found = _figure(row, name)
        if found.value is None or _keeps(name, found.value, bound):
            continue
        if name == "max_sum_error" and row.distribution is not None and not row.distribution.sum_violations:
            continue  # within the rounding that the element type cannot avoid
        place = found.place or Place()
        shown = f"{found.value:.6g}" if isinstance(found.value, int | float) else found.value
        side = "less" if least(name) else "more"
        text = f"{LIMITS[name].what} is {shown}, {side} than {bound:g}"
        yield Breach(name, found.value, bound, place, text + (f"; {worst(place)}" if place.expected else ""))


def measured(row: OutputStats, name: str) -> float | str | None:
    """Return the figure of :data:`acceptd.policy.tolerance.LIMITS` of one row; None where it has no meaning."""
    return _figure(row, name).value


def _figure(row: OutputStats, name: str) -> _Figure:
    ranking, spread = row.ranking, row.distribution
    if name == "min_topk" and ranking is not None and ranking.rows:
        return _Figure(1.0 - ranking.topk_mismatches / ranking.rows, ranking.topk_worst)
    if name == "max_sum_error" and spread is not None:
        return _Figure(spread.max_sum_error, spread.sum_worst)
    if name == "max_divergence" and spread is not None:
        return _Figure(spread.max_divergence, spread.divergence_worst)
    if row.embedding is not None:
        vector = row.embedding
        return {
            "min_cosine": _Figure(vector.min_cosine, vector.cosine_worst),
            "max_norm_error": _Figure(vector.max_norm_error, vector.norm_worst),
            "min_neighbours": _Figure(vector.neighbours, vector.neighbours_worst),
        }.get(name, _Figure(None))
    if row.boxes is not None:
        box = row.boxes
        return {
            "min_iou": _Figure(box.min_iou, box.iou_worst),
            "min_matched": _Figure(box.share, box.unmatched_worst),
            "min_classes": _Figure(box.class_share, box.class_worst),
            "max_score_error": _Figure(box.max_score_error, box.score_worst),
        }.get(name, _Figure(None))
    if row.audio is not None:
        sound = row.audio
        return {
            "min_snr_db": _Figure(sound.min_snr_db, sound.snr_worst),
            "max_lsd_db": _Figure(sound.max_lsd_db, sound.lsd_worst),
        }.get(name, _Figure(None))
    return _Figure(None)


def _keeps(name: str, value: float | str, bound: float) -> bool:
    number = float(value)
    if math.isnan(number):
        return False
    return number >= bound - _UNIT if least(name) else number <= bound + _UNIT


def worst(place: Place) -> str:
    """Return a place in words: ``worst at [0, 2]: expected 0.3, got 0.5``."""
    return f"worst {_at(place)}"


def first(place: Place) -> str:
    """Return a place in words, where what is wrong has no degree and the first one is shown."""
    return f"first {_at(place)}"


def _at(place: Place) -> str:
    return f"at {place.index[:MAX_INDEX]}: expected {place.expected}, got {place.got}"
