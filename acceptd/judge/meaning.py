"""What two manifests of one bundle declare otherwise: field by field, with the old and the new value. Pure.

Two kinds are kept apart. ``meaning``: how a caller has to read an answer or write an input (labels, their order,
kind, range, whether the port is there at all). ``terms``: all else that is declared. The graph and the weights
may be byte-equal all the while. Texts are quoted as JSON, so that no label can pose as two, and capped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from acceptd.evidence import Declared, DeclaredModel
from acceptd.judge.difference import Change
from acceptd.policy.manifest import InputSpec, OutputSpec

MAX_CHANGES: Final = 64
MAX_ITEMS: Final = 8
MAX_ITEM: Final = 60
MAX_VALUE: Final = 300
_MEANING: Final = ("labels", "order of labels", "kind", "range", "port")
"""The first is shown first, so that many changes of the others do not push it out of a capped list."""


@dataclass(frozen=True, slots=True)
class Said:
    """The changes of one model, or of the bundle; each list has at most ``MAX_CHANGES`` and a rest."""

    meaning: tuple[Change, ...] = ()
    terms: tuple[Change, ...] = ()


def of_model(old: DeclaredModel, new: DeclaredModel) -> Said:
    """Return what ``new`` declares about inputs and outputs otherwise than ``old``."""
    found = [*_ports("input", old.inputs, new.inputs), *_ports("output", old.outputs, new.outputs)]
    return _said(found)


def of_bundle(old: Declared, new: Declared) -> Said:
    """Return what ``new`` declares otherwise than ``old`` about the whole bundle, models that came or went too."""
    found: list[tuple[str, Change]] = []
    before, after = {one.name for one in old.models}, {one.name for one in new.models}
    for name in sorted(before ^ after):
        found.append(("port", Change(f"model {_text(name)}", *_there(name in before, name in after))))
    for name in dict.fromkeys([*old.dims, *new.dims]):
        pair = [None if one is None else [one.min, one.max] for one in (old.dims.get(name), new.dims.get(name))]
        if pair[0] != pair[1]:
            bounds = ["none" if one is None else f"{one[0]} to {one[1]}" for one in pair]
            found.append(("dims", Change(f"dims.{_text(name)}", *bounds)))
    for what, value, other in (
        ("preprocessing", _dump(old.preprocessing), _dump(new.preprocessing)),
        ("labels", _dump(old.labels), _dump(new.labels)),
        ("bundle", {"license": old.license}, {"license": new.license}),
        ("bundle", {"purpose": old.purpose}, {"purpose": new.purpose}),
    ):
        for key in dict.fromkeys([*value, *other]):
            if value.get(key) != other.get(key):
                shown = (_value(value.get(key)), _value(other.get(key)))
                found.append(("terms", Change(f"{what}.{key}", *shown)))
    found += [("terms", one) for one in _uses(old.prohibited_uses, new.prohibited_uses)]
    return _said(found)


def _said(found: Sequence[tuple[str, Change]]) -> Said:
    meaning = sorted((one for one in found if one[0] in _MEANING), key=lambda one: _MEANING.index(one[0]))
    terms = [one for one in found if one[0] not in _MEANING]
    return Said(_capped([one for _, one in meaning]), _capped([one for _, one in terms]))


def _capped(changes: list[Change]) -> tuple[Change, ...]:
    rest = len(changes) - MAX_CHANGES
    return (*changes[:MAX_CHANGES], *([Change("further fields", "", f"{rest} more changed")] if rest > 0 else []))


def _ports(
    what: str, old: Sequence[InputSpec | OutputSpec], new: Sequence[InputSpec | OutputSpec]
) -> Iterator[tuple[str, Change]]:
    before, after = {one.name: one for one in old}, {one.name: one for one in new}
    for name in dict.fromkeys([*before, *after]):
        place = f"{what} {_text(name)}"
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield "port", Change(place, *_there(was is not None, now is not None))
            continue
        left, right = was.model_dump(), now.model_dump()
        for key in left:
            if left[key] == right.get(key):
                continue
            if key == "labels":
                yield _labels(place, left[key], right[key])
            else:
                yield key, Change(f"{place}: {key}", _value(left[key]), _value(right[key]))


def _there(before: bool, after: bool) -> tuple[str, str]:
    return ("declared" if before else "none"), ("declared" if after else "none")


def _labels(place: str, old: list[str] | None, new: list[str] | None) -> tuple[str, Change]:
    if old is None or new is None:
        sides = ["none" if one is None else f"{len(one)}: {_list(one)}" for one in (old, new)]
        return "labels", Change(f"{place}: labels", sides[0], sides[1])
    field = "order of labels" if sorted(old) == sorted(new) else "labels"
    size = max(len(old), len(new))
    other = [index for index in range(size) if old[index : index + 1] != new[index : index + 1]]
    sides = [_entries(one, other) for one in (old, new)]
    return field, Change(f"{place}: {field} ({len(other)} of {size})", sides[0], sides[1])


def _entries(labels: Sequence[str], places: Sequence[int]) -> str:
    shown = [f"{index}: {_text(labels[index])}" if index < len(labels) else f"{index}: none" for index in places]
    return _joined(shown)


def _uses(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if gone or come:
        before = _list([*gone.elements()]) if gone else "not there"
        yield Change("bundle.prohibited_uses", before, _list([*come.elements()]) if come else "removed")


def _list(items: Sequence[Any]) -> str:
    return _joined([_text(one) for one in items])


def _joined(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - MAX_ITEMS} more" if len(shown) > MAX_ITEMS else ""
    return ", ".join(shown[:MAX_ITEMS]) + more


def _text(value: str) -> str:
    """Return one text as JSON has it, cut with its length, where two long ones may have one beginning."""
    if len(value) > MAX_ITEM:
        return f"{json.dumps(value[:MAX_ITEM], ensure_ascii=False)}… ({len(value)} characters)"
    return json.dumps(value, ensure_ascii=False)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= MAX_VALUE else f"{shown[:MAX_VALUE]}… ({len(shown)} characters)"


def _dump(value: Any) -> dict[str, Any]:
    return {} if value is None else dict(value.model_dump())
