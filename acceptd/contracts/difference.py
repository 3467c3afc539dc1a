"""What differs between two contracts, key by key, and whether the second is looser there. Pure.

Looser: a bundle that the first one refuses may pass the second. What cannot be told, or says something else rather
than more or less (another label, another dtype), is ``other``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from acceptd.policy.contract import Contract

Tendency = Literal["looser", "tighter", "other"]
_HEAD: Final = frozenset({"schema", "id", "version"})
_NAMED: Final = {
    "models": ("name",),
    "inputs": ("name",),
    "outputs": ("name",),
    "quality": ("output", "slice", "label"),
}
"""Lists whose elements are told apart by what they are called."""
_FREE: Final = frozenset({"dims", "opsets"})
"""Tables whose keys are names."""
_MODEL: Final = "models[]."
_ASKED: Final = frozenset(
    {
        "preprocessing_sha256", "label_schema_version", f"{_MODEL}inputs[].range", f"{_MODEL}outputs[].labels",
        f"{_MODEL}quality[]",
    }
)  # fmt: skip
"""Where a contract that says nothing asks for nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs, and what the second contract is there against the first."""

    key: str
    first: Any
    second: Any
    tendency: Tendency

    def text(self) -> str:
        """Return the change in plain words."""
        return f"{self.key}: {_word(self.first)} → {_word(self.second)}{_why(self)}"


def changes(first: Contract, second: Contract) -> list[Change]:
    """Return what differs, in the order of the keys; what is looser comes first."""
    left, right = (one.model_dump(mode="json", by_alias=True) for one in (first, second))
    found = [
        Change(key, one, other, _tendency(form, one, other))
        for key, form, one, other in _pairs(left, right, "", "")
        if key not in _HEAD and one != other
    ]
    rank = {"looser": 0, "other": 1, "tighter": 2}
    return sorted(found, key=lambda change: rank[change.tendency])


def tightens(found: Sequence[Change]) -> bool:
    """Say whether every change is tighter, so that nothing that was refused can pass."""
    return all(one.tendency == "tighter" for one in found)


_Leaf = tuple[str, str, Any, Any]
"""Key as it is shown, its form (names are ``[]`` or ``*``, so that none is taken for a key), both values."""


def _pairs(left: Any, right: Any, key: str, form: str) -> Iterator[_Leaf]:
    """Yield every leaf; a table or element that only one contract has is one, and so is a range."""
    name = form.rpartition(".")[2]
    tables = isinstance(left, dict) and isinstance(right, dict)
    if tables and (name in _FREE or not (_is_range(left) and _is_range(right))):
        for part in [*left, *(part for part in right if part not in left)]:
            shown, known = _part(part), "*" if name in _FREE else part
            yield from _pairs(
                left.get(part),
                right.get(part),
                f"{key}.{shown}" if key else shown,
                f"{form}.{known}" if form else known,
            )
    elif name in _NAMED and isinstance(left, list) and isinstance(right, list):
        yield from _named(left, right, key, form)
    else:
        yield key, form, left, right


def _named(left: list[Any], right: list[Any], key: str, form: str) -> Iterator[_Leaf]:
    by = _NAMED[form.rpartition(".")[2]]

    def names(elements: list[Any]) -> dict[tuple[Any, ...], Any]:
        return {tuple(one.get(part) for part in by): one for one in elements}

    one, other = names(left), names(right)
    if len(one) != len(left) or len(other) != len(right):  # two floors of one name: told as a whole
        yield key, form, left, right
        return
    shared = [name for name in one if name in other]
    if shared != [name for name in other if name in one]:
        yield (
            f"{key} (order)",
            f"{form} (order)",
            [_called(name) for name in one],
            [_called(name) for name in other],
        )
    for name in [*one, *(name for name in other if name not in one)]:
        yield from _pairs(one.get(name), other.get(name), f"{key}[{_called(name)}]", f"{form}[]")


def _called(name: Sequence[Any]) -> str:
    """Return a name as it is shown; two may look alike: output ``a/b``, and slice ``b`` of the output ``a``."""
    return "/".join(str(part) for part in name if part is not None)


def _part(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'


def _is_range(value: dict[str, Any]) -> bool:
    return value.keys() == {"min", "max"}


def _tendency(form: str, one: Any, other: Any) -> Tendency:
    name = form.rpartition(".")[2]
    if form.startswith(f"{_MODEL}outputs[].tolerance"):
        return _tolerance(name, one, other)
    if form in _ASKED and None in (one, other):
        return "tighter" if one is None else "looser"
    if form.startswith(f"{_MODEL}quality[]."):
        return _bound(one, other, least=name.startswith("min_"))
    if form.startswith("ceilings.") or form in {"max_rtol", "max_atol", "valid_until"}:
        return _bound(one, other, least=False)
    if form in {f"{_MODEL}ir_version", f"{_MODEL}opsets"} or form == f"{_MODEL}opsets.*":
        return _versions(one, other, of_domain=form.endswith("*"))
    return _lists(one, other) if form == f"{_MODEL}heldout" else "other"


def _bound(one: Any, other: Any, *, least: bool) -> Tendency:
    """A bound; none bounds nothing. A floor's other keys are its name, and differ in no pair."""
    if one is None or other is None:
        return "tighter" if one is None else "looser"
    return "tighter" if (other > one) == least else "looser"


def _tolerance(name: str, one: Any, other: Any) -> Tendency:
    """A tolerance that only one contract gives: the policy's is there instead, which may be more or less."""
    if not all(isinstance(value, int | float) for value in (one, other)):
        return "other"
    least = name == "top1" or name.startswith("min_")
    return "tighter" if (other > one) == least else "looser"


def _versions(one: Any, other: Any, *, of_domain: bool) -> Tendency:
    if one is None or other is None:
        if of_domain:
            return "other"  # a domain more or less: another model altogether
        return "tighter" if one is None else "looser"
    try:
        (low, high), (new_low, new_high) = _range(one), _range(other)
    except (KeyError, TypeError):
        return "other"
    if new_low >= low and new_high <= high:
        return "tighter"
    return "looser" if new_low <= low and new_high >= high else "other"


def _range(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value["min"], value["max"])


def _lists(one: Any, other: Any) -> Tendency:
    before, after = list(one or ()), list(other or ())
    if all(item in after for item in before):
        return "tighter"
    return "looser" if all(item in before for item in after) else "other"


def _why(change: Change) -> str:
    one, other = change.first, change.second
    if change.tendency == "other" or isinstance(one, bool) or isinstance(other, bool):
        return ""
    if isinstance(one, int | float) and isinstance(other, int | float) and one > 0 and other > 0:
        factor = max(one, other) / min(one, other)
        return f" ({factor:.3g} times {'as much' if other > one else 'less'})"
    if other is None:
        return " (not asked any more)"
    return " (was not asked)" if one is None else ""


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} {_word(item)}" for key, item in value.items() if item not in (None, {}, []))
        return f"{{{inside}}}"
    if isinstance(value, list):
        shown = ", ".join(_word(item) for item in value[:12])
        return f"[{shown}{f', and {len(value) - 12} more' if len(value) > 12 else ''}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
