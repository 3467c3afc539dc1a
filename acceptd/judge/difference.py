"""What differs in structure between two models as they were inspected. Pure, over facts alone.

For the current release against a submission, and for a model against an independent export of it. Facts are a
job's word: what a list has no room for is said to be not compared, never taken for equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from acceptd.evidence import Facts, SelectionShape, Snapshot, Structure, ValueInfo
from acceptd.judge.words import printable, safe

MAX_NAMES: Final = 24
MAX_SELECTIONS: Final = 64
_KEY: Final = 2000


Weights = Literal["", "equal", "differ", "unknown"]
"""Whether the values of weights are the same, as far as digests say. ``unknown``: the model file or its data has
another digest, and nothing tells weights from other bytes. Empty: no digest was there to compare."""


@dataclass(frozen=True, slots=True)
class NewSelection:
    """Selections of one kind of which the newer model has ``count`` more than the older one.

    ``places`` are those that stand in no known way: exactly the new ones, unless something further up changed
    too; then the new ones are among them. Each is (where, the value that decides).
    """

    op_type: str
    driven: str
    input: str
    path: tuple[str, ...]
    count: int
    places: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that both have, otherwise."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What one model has otherwise than an older one. Lists of names are capped; the counts are not."""

    model: str
    same_structure: bool
    """Whether the canonical hashes without weights are equal."""
    operators_added: tuple[str, ...] = ()
    operators_removed: tuple[str, ...] = ()
    domains_added: tuple[str, ...] = ()
    domains_removed: tuple[str, ...] = ()
    versions: tuple[Change, ...] = ()
    functions_added: tuple[str, ...] = ()
    functions_removed: tuple[str, ...] = ()
    functions_added_count: int = 0
    functions_removed_count: int = 0
    initializers_added: tuple[str, ...] = ()
    initializers_removed: tuple[str, ...] = ()
    initializers_added_count: int = 0
    initializers_removed_count: int = 0
    interface: tuple[Change, ...] = ()
    sizes: tuple[Change, ...] = ()
    selections_new: tuple[NewSelection, ...] = ()
    selections_new_count: int = 0
    selections_changed: int = 0
    """Of a kind that was there before, decided by something that is computed otherwise."""
    selections_gone: int = 0
    not_compared: tuple[str, ...] = ()
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Operators that both have, in another number: (before, after)."""
    domain_uses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Nodes by the domain of their operator, where their number differs: (before, after)."""
    meaning: tuple[Change, ...] = ()
    """What is declared otherwise about how to read or write values: see :mod:`acceptd.judge.meaning`."""
    terms: tuple[Change, ...] = ()
    """What else is declared otherwise."""
    weights: Weights = ""
    digests: tuple[Change, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether nothing differs but the values of weights."""
        empty = Difference(self.model, self.same_structure)
        return self.same_structure and replace(self, weights="", digests=()) == empty

    def document(self) -> dict[str, Any]:
        """Return the difference as JSON data, every text printable."""
        document: dict[str, Any] = safe(asdict(self))
        for key in ("counts", "domain_uses"):  # keys that are cut would fall together where their beginnings do
            document[key] = {printable(name, _KEY): [*pair] for name, pair in getattr(self, key).items()}
        return document


def compare(old: Snapshot, new: Snapshot) -> Difference:
    """Return what ``new`` has otherwise than ``old``."""
    before, after = _uses(old.facts), _uses(new.facts)
    added, removed = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    domains = [{name.partition("::")[0] for name in uses} for uses in (before, after)]
    functions = [set(one.facts.functions) for one in (old, new)]
    gained, lost, compared = _initializers(old.structure, new.structure)
    selections, gone, changed = _selections(old.structure, new.structure)
    not_compared = [] if compared else ["names of initializers"]
    for side, one in (("before", old.structure), ("now", new.structure)):
        if one.selection_shapes > len(one.selections):
            not_compared.append(f"{one.selection_shapes - len(one.selections)} kinds of selections ({side})")
    same = old.structure.topology_sha256 == new.structure.topology_sha256
    if not same and (cut := _cut(old.structure, new.structure)):
        not_compared.append(f"places of {cut} kinds of selections that both have")
    shared = {name: (before[name], after[name]) for name in sorted(before.keys() & after.keys())}
    return Difference(
        model=new.name,
        same_structure=same,
        operators_added=tuple(f"{name} ({after[name]})" for name in added),
        operators_removed=tuple(f"{name} ({before[name]})" for name in removed),
        domains_added=tuple(sorted(domains[1] - domains[0])),
        domains_removed=tuple(sorted(domains[0] - domains[1])),
        versions=tuple(_versions(old.facts, new.facts)),
        functions_added=tuple(sorted(functions[1] - functions[0])[:MAX_NAMES]),
        functions_removed=tuple(sorted(functions[0] - functions[1])[:MAX_NAMES]),
        functions_added_count=len(functions[1] - functions[0]),
        functions_removed_count=len(functions[0] - functions[1]),
        initializers_added=tuple(gained[:MAX_NAMES]),
        initializers_removed=tuple(lost[:MAX_NAMES]),
        initializers_added_count=len(gained),
        initializers_removed_count=len(lost),
        interface=tuple(
            change
            for what, pair in (
                ("input", (old.facts.inputs, new.facts.inputs)),
                ("output", (old.facts.outputs, new.facts.outputs)),
            )
            for change in _interface(what, *pair)
        ),
        sizes=tuple(_sizes(old, new)),
        selections_new=tuple(selections[:MAX_SELECTIONS]),
        selections_new_count=sum(one.count for one in selections),
        selections_changed=changed,
        selections_gone=gone,
        not_compared=tuple(not_compared),
        counts={name: pair for name, pair in shared.items() if pair[0] != pair[1]},
        domain_uses=_domain_uses(before, after),
        weights=_weights(old, new),
        digests=tuple(_digests(old, new)),
    )


def _uses(facts: Facts) -> Counter[str]:
    uses: Counter[str] = Counter()
    for use in facts.operators:
        uses[f"{use.domain or 'ai.onnx'}::{use.op_type}"] += use.count
    return uses


def _domain_uses(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    found: dict[str, list[int]] = {}
    for side, uses in enumerate((before, after)):
        for name, count in uses.items():
            found.setdefault(name.partition("::")[0], [0, 0])[side] += count
    return {domain: (one, other) for domain, (one, other) in sorted(found.items()) if one != other}


def _versions(old: Facts, new: Facts) -> Iterable[Change]:
    if old.ir_version != new.ir_version:
        yield Change("IR version", str(old.ir_version), str(new.ir_version))
    for domain in sorted({*old.opsets, *new.opsets}):
        before, after = old.opsets.get(domain), new.opsets.get(domain)
        if before != after:
            yield Change(f"opset of {domain}", _or_none(before), _or_none(after))


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


def _initializers(old: Structure, new: Structure) -> tuple[list[str], list[str], bool]:
    """Return (added, removed, whether the lists were whole)."""
    if old.initializers_sha256 == new.initializers_sha256:
        return [], [], True
    before, after = Counter(old.initializers), Counter(new.initializers)
    whole = all(len(one.initializers) == one.initializer_count for one in (old, new))
    if not whole:  # what a cut list lacks may stand in the other one all the same
        return [], [], False
    return sorted((after - before).elements()), sorted((before - after).elements()), True


def _interface(what: str, old: list[ValueInfo], new: list[ValueInfo]) -> Iterable[Change]:
    before = {value.name: _type(value) for value in old}
    after = {value.name: _type(value) for value in new}
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield Change(f"{what} {name}", _or_none(before.get(name)), _or_none(after.get(name)))
    if [*before] != [*after] and sorted(before) == sorted(after):
        yield Change(f"order of {what}s", ", ".join(before)[:200], ", ".join(after)[:200])


def _type(value: ValueInfo) -> str:
    shape = "[...]" if value.shape is None else f"[{', '.join(str(dim) for dim in value.shape)}]"
    replaceable = ", a caller may replace it" if value.overridable else ""
    return f"{value.detail or value.dtype}{shape}{replaceable}"


def _sizes(old: Snapshot, new: Snapshot) -> Iterable[Change]:
    pairs = (
        ("bytes of the model file", old.bytes, new.bytes),
        ("bytes of weights", old.facts.initializer_bytes, new.facts.initializer_bytes),
        ("parameters", old.structure.parameters, new.structure.parameters),
        ("initializers", old.structure.initializer_count, new.structure.initializer_count),
        ("nodes", old.facts.nodes, new.facts.nodes),
        ("graphs and functions", old.facts.scopes, new.facts.scopes),
    )
    return (Change(what, str(before), str(after)) for what, before, after in pairs if before != after)


def _weights(old: Snapshot, new: Snapshot) -> Weights:
    """Return what digests tell. Values by name are not in the facts, so no initializer can be named."""
    if not (old.sha256 and new.sha256):
        return ""
    if old.sha256 == new.sha256 and old.data_sha256 and old.data_sha256 == new.data_sha256:
        return "equal"
    graphs = (old.structure.graph_sha256, new.structure.graph_sha256)
    if all(graphs) and old.structure.topology_sha256 == new.structure.topology_sha256:
        return "equal" if graphs[0] == graphs[1] else "differ"
    return "unknown"


def _digests(old: Snapshot, new: Snapshot) -> Iterable[Change]:
    pairs = (
        ("sha256 of the model file", old.sha256, new.sha256),
        ("sha256 of external data", old.data_sha256, new.data_sha256),
    )
    for what, before, after in pairs:
        if before != after:
            yield Change(what, before[:16] or "not known", after[:16] or "not known")


def _selections(old: Structure, new: Structure) -> tuple[list[NewSelection], int, int]:
    """Return (new ones, driven by an input first; how many are gone; how many are decided otherwise)."""
    before, after = _by_key(old.selections), _by_key(new.selections)
    found: list[NewSelection] = []
    changed = 0
    for key, shape in after.items():
        known = before.get(key)
        exact = {place.exact for place in known.places} if known else set()
        more = shape.count - (known.count if known else 0)
        fresh = [place for place in shape.places if place.exact not in exact] or shape.places
        if known and len(shape.places) == shape.count and len(known.places) == known.count:
            changed += max(0, sum(place.exact not in exact for place in shape.places) - max(0, more))
        if more > 0:
            places = tuple((place.where, place.condition) for place in fresh)
            path = tuple(shape.path)
            found.append(NewSelection(shape.op_type, shape.driven, shape.input, path, more, places))
    gone = sum(max(0, shape.count - (after[key].count if key in after else 0)) for key, shape in before.items())
    order = {"input": 0, "unknown": 1, "none": 2}
    return sorted(found, key=lambda one: (order[one.driven], one.places)), gone, changed


def _cut(old: Structure, new: Structure) -> int:
    """Return of how many kinds, no more often in the newer one, some place is not listed and may be another."""
    before, after = _by_key(old.selections), _by_key(new.selections)
    both = [(before[key], after[key]) for key in before.keys() & after.keys()]
    unseen = [pair for pair in both if any(one.count > len(one.places) for one in pair)]
    return sum(first.count >= second.count for first, second in unseen)


def _by_key(shapes: list[SelectionShape]) -> dict[str, SelectionShape]:
    """Return the shapes by key; a job that names a key twice counts once, with the later shape."""
    return {shape.key: shape for shape in shapes}
