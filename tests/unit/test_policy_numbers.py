"""No whole number of a policy, profile, contract, manifest or list is beyond what RFC 8785 can write.

A table that holds one has no digest: it failed where it was hashed, far from the line that was wrong.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import annotated_types
import pytest

import acceptd.policy
from acceptd.policy import load
from acceptd.policy.contract import Contract
from acceptd.policy.table import Table

pytestmark = pytest.mark.unit

EXACT = (1 << 53) - 1


def tables(kind: type[Table] = Table) -> Iterator[type[Table]]:
    """Return every table of what an operator or a submitter writes."""
    for module in pkgutil.iter_modules(acceptd.policy.__path__):
        importlib.import_module(f"acceptd.policy.{module.name}")
    for one in kind.__subclasses__():
        if one.__module__.startswith("acceptd.policy."):
            yield one
        yield from tables(one)


def whole(annotation: object, rules: tuple[object, ...] = ()) -> Iterator[list[object]]:
    """Return the rules of each whole number that an annotation allows."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *more = typing.get_args(annotation)
        yield from whole(inner, (*rules, *more))
    elif annotation is int:
        yield [part for rule in rules for part in (*getattr(rule, "metadata", ()), rule)]
    else:
        for part in typing.get_args(annotation):
            yield from whole(part, rules)


def bounds(rules: list[object]) -> tuple[float, float]:
    """Return the least and the greatest whole number that the rules let through."""
    least, most = -math.inf, math.inf
    for rule in rules:
        match rule:
            case annotated_types.Le(le=int(number)):
                most = min(most, number)
            case annotated_types.Lt(lt=int(number)):
                most = min(most, number - 1)
            case annotated_types.Ge(ge=int(number)):
                least = max(least, number)
            case annotated_types.Gt(gt=int(number)):
                least = max(least, number + 1)
    return least, most


def test_every_whole_number_of_every_table_has_a_bound_that_json_keeps_exactly() -> None:
    found = [
        (table.__name__, name, *bounds(rules))
        for table in set(tables())
        for name, field in table.model_fields.items()
        for rules in whole(field.annotation, tuple(field.metadata))
    ]
    assert len(found) > 100
    assert [one for one in found if one[2] < -EXACT or one[3] > EXACT] == []


@pytest.mark.parametrize("line", ["peak_memory_bytes", "model_bytes"])
def test_a_ceiling_beyond_every_machine_is_refused_at_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "contract.toml"
    text = Path("policies/contracts/mosaic/evidence-disposition.toml.example").read_text()
    text, changed = re.subn(f"(?m)^{line} = .*$", f"{line} = 0xffffffffffffffffffff", text)
    assert changed == 1
    file.write_text(text)
    file.chmod(0o644)
    _, troubles = load.read_table(file, Contract)
    assert [one.key for one in troubles] == [f"ceilings.{line}"], troubles
    assert text.splitlines()[troubles[0].line - 1].startswith(line)
    assert "1208925819614629174706175" in troubles[0].message
