"""Every key of a file that people write, out of the model that validates it: type, default, meaning.

The meaning is the docstring below the field in the code; where there is none, the comment above the key in the
X
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_KEY = re.compile(r'^(?:# ?)?("?[\w./:-]+"?) = ')
_TABLE = re.compile(r"^\[{1,2}([\w.\"/-]+)\]{1,2}$")


@dataclass(frozen=True)
class Key:
    """One key; ``path`` has ``[]`` behind a list of tables and ``<name>`` for a name that the writer chooses."""

    path: str
    kind: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Group:
    """One table with what it is about and its own keys; ``path`` is empty for the top of the file."""

    path: str
    about: str
    keys: tuple[Key, ...]


def plain(text: str) -> str:
    """Return a docstring's text as one paragraph of Markdown."""
    told = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(text.split()))
    return told.replace("``", "`").replace("|", "\\|")


@cache
def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return what stands below the fields of a model and of its bases, by field."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        (body,) = (
            one.body for one in ast.parse(textwrap.dedent(inspect.getsource(base))).body if hasattr(one, "body")
        )
        for field, below in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            ):  # fmt: skip
                found[field.target.id] = str(below.value.value)
    return found


def comments(file: Path) -> dict[str, str]:
    """Return the comment above each key and table of an explained file, by path; keys may be commented out."""
    found: dict[str, str] = {}
    table, pending = "", []
    for line in file.read_text(encoding="utf-8").splitlines():
        if key := _KEY.match(line):
            path = f"{table}.{key[1]}".lstrip(".")
            found.setdefault(path, " ".join(pending) or _beside(line))
            if not line.startswith("#"):
                pending = []
        elif heading := _TABLE.match(line.removeprefix("# ")):
            table = heading[1]
            found.setdefault(table, " ".join(pending))
            pending = []
        elif line.startswith("#"):
            pending.append(line.removeprefix("#").strip())
        elif not line.strip():
            pending = []
    return found


def _beside(line: str) -> str:
    return line.partition("  # ")[2].strip()


def tables(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each model that an annotation holds, with how it is written: nothing, ``[]`` or ``.<name>``."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from tables(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for one in get_args(annotation):
            yield from tables(one)
    elif origin is list:
        yield from (("[]" + rest, model) for rest, model in tables(get_args(annotation)[0]))
    elif origin is dict:
        yield from ((".<name>" + rest, model) for rest, model in tables(get_args(annotation)[1]))
    elif isinstance(annotation, type) and annotation is not NoneType and issubclass(annotation, BaseModel):
        yield "", annotation


def kind_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a JSON Schema in words that fit a table's cell."""
    if "$ref" in schema:
        return kind_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        values = schema["enum"]
        return "one of " + ", ".join(f"`{one}`" for one in values[:30])
    if "anyOf" in schema:
        words = [kind_of(one, definitions) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    name = schema.get("type", "value")
    if name == "array":
        within = kind_of(schema.get("items", {}), definitions)
        return f"list of {within}" if within != "value" else "list"
    if name == "object":
        if schema.get("properties"):
            return "table"
        within = kind_of(schema.get("additionalProperties") or {}, definitions)
        return f"table of {within}" if within != "value" else "table"
    return {"string": "text", "boolean": "`true` or `false`"}.get(name, name) + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if most is not None and most >= 1 << 31:
        most = None  # no bound that anybody meets
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    if least is not None:
        return f", at least {least:,}"
    if above is not None:
        return f", above {above:,}"
    return f", at most {most:,}" if most is not None else ""


def _default(field: FieldInfo, given: Any) -> str:
    if field.is_required() and given is ...:
        return "required"
    if given is None:
        return "none"
    if isinstance(given, bool | int | float | str | list | tuple | dict):
        text = json.dumps(given, ensure_ascii=False, default=str)
        return f"`{text}`".replace("|", "\\|") if text not in ('""', "[]", "{}") else "empty"
    return "see below"


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def groups(model: type[BaseModel], explained: Mapping[str, str]) -> list[Group]:
    """Return the tables of a file in the order of its model; ``explained`` are :func:`comments`."""
    return list(_groups(model, "", ..., explained, ()))


def _groups(
    model: type[BaseModel], path: str, given: Any, explained: Mapping[str, str], above: tuple[type, ...]
) -> Iterator[Group]:
    schema = _schema(model)
    below, keys, told = [], [], docstrings(model)
    for name, field in model.model_fields.items():
        alias = field.alias or name
        whole = f"{path}.{alias}".lstrip(".")
        default = (
            getattr(given, name) if isinstance(given, BaseModel) else field.get_default(call_default_factory=True)
        )
        default = ... if field.is_required() and not isinstance(given, BaseModel) else default
        nested = [(how, one) for how, one in tables(field.annotation) if one not in above]
        for how, one in nested:
            below.append((whole + how, one, default))
        if nested and not any(one.get("type") != "null" and "$ref" not in one for one in _forms(schema, alias)):
            continue
        bare = re.sub(r"\[\]|\.<name>", "", whole)
        meaning = told.get(name) or explained.get(bare) or explained.get(alias) or ""
        keys.append(
            Key(
                whole,
                kind_of(schema["properties"][alias], schema.get("$defs", {})),
                _default(field, default),
                plain(meaning),
            )
        )
    about = explained.get(re.sub(r"\[\]|\.<name>", "", path)) or inspect.getdoc(model) or ""
    if path or keys:
        yield Group(path, plain(about), tuple(keys))
    for where, one, default in below:
        yield from _groups(one, where, default, explained, (*above, model))


def _forms(schema: Mapping[str, Any], alias: str) -> list[Mapping[str, Any]]:
    """Return the forms that a key may have, references to tables (also in lists and by name) as such."""
    one = schema["properties"][alias]
    forms = one.get("anyOf", [one])
    return [form.get("items") or form.get("additionalProperties") or form for form in forms]
