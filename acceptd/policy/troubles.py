"""What is wrong in a policy, contract or profile: every error, with line, key, words and remedy. No I/O."""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from acceptd.policy import tomlfile
from acceptd.policy.lines import Place, line_of, locate

T = TypeVar("T", bound=BaseModel)
_AT_LINE: Final = re.compile(r" \(at line ([0-9]+), column ([0-9]+)\)")
_IMMUTABLE: Final = re.compile(r"Cannot mutate immutable namespace \((?:.*, )?'([^'\n]{1,80})',?\)")
_AT_END: Final = " (at end of document)"
_NAMED: Final = re.compile(r"([a-z_]+(?:[.\[][^:\s]+)?): (.*)", re.DOTALL)
_WORDS_SHOWN: Final = 12
_COMPARED: Final = 80
"""Characters of a given word that are compared with the known ones; it may be a submitter's."""
_KINDS: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text in quotes",
    "list": "a list in [ ]",
    "dict": "a table",
    "model": "a table",
}
_TOML: Final = {
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


@dataclass(frozen=True, slots=True, order=True)
class Trouble:
    """One error. ``key`` is dotted, empty where the file as a whole is meant; ``line`` counts from 1."""

    line: int
    key: str
    message: str
    remedy: str = ""

    def text(self, origin: object) -> str:
        """Return ``file:line: key: message``, the form that editors and CI systems read."""
        return f"{origin}:{self.line}: {f'{self.key}: ' if self.key else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file as a document, with the place of each key."""

    document: dict[str, Any]
    lines: Mapping[Place, int]

    def place(self, key: str) -> Place:
        """Return the place that a dotted key means, or the nearest around it; keys may hold dots themselves."""
        fits = [place for place in self.lines if place and _begins(key, dotted(place))]
        return max(fits, key=len, default=())

    def trouble(self, place: Place, message: str, remedy: str = "") -> Trouble:
        """Return the trouble at a place."""
        return Trouble(line_of(self.lines, place), dotted(place), message, remedy)


def read(content: bytes) -> Source | Trouble:
    """Return TOML bytes as a document, or why they are none."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return Trouble(line, "", f"not UTF-8 at byte {error.start}", "save it as UTF-8")
    try:
        document = tomlfile.document(text)
    except tomllib.TOMLDecodeError as error:
        words = str(error)
        found = _AT_LINE.search(words)
        line = int(found[1]) if found else text.count("\n") + 1
        message = words.replace(found[0], f", column {found[2]}") if found else words.removesuffix(_AT_END)
        return Trouble(line, "", f"not TOML: {message}", _twice(words) or "correct the TOML")
    except ValueError as error:
        return Trouble(1, "", str(error), "correct the TOML")
    return Source(document, locate(text))


def _twice(words: str) -> str:
    """Return the remedy where a table's header meets a value of the same key; empty: it is something else."""
    found = _IMMUTABLE.search(words)
    if not found:
        return ""
    return f"its value stands above already: take the line `{found[1]} = …` out, or write all of it there"


def validated(source: Source, kind: type[T], remedy: str) -> T | list[Trouble]:
    """Return the table of a document, or everything that is wrong with it, in the order of the file."""
    try:
        return kind.model_validate(source.document)
    except ValidationError as error:
        merged: dict[tuple[int, str], Trouble] = {}
        for item in error.errors(include_url=False):
            one = _trouble(source, kind, item, remedy)
            known = merged.get((one.line, one.key))
            if known is None:
                merged[one.line, one.key] = one
            elif one.message != known.message:  # each branch of a union says its own
                words = one.message.rpartition("; ")[2] or one.message
                joined = f"{known.message}, or {words}" if words not in known.message else known.message
                merged[one.line, one.key] = Trouble(one.line, one.key, joined, known.remedy)
        return sorted(merged.values())


def first(document: dict[str, Any], kind: type[T]) -> T | Trouble:
    """Return the table of a document whose text is not at hand, or what is wrong with it in one trouble.

    The words are those of :func:`validated`; a suggestion stands in the message, and so do the places of what
    else is wrong. The line means nothing. What was given is shown escaped and cut short.
    """
    found = validated(Source(document, {}), kind, "")
    if not isinstance(found, list):
        return found
    one, *others = found
    message = f"{one.message}; {one.remedy}" if one.remedy else one.message
    if others:
        names = ", ".join(other.key[:60] or "the top" for other in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        message = f"{message} (also wrong: {names}{more})"
    return Trouble(one.line, one.key, message, one.remedy)


def dotted(place: Place) -> str:
    """Return a place as it is named in messages: ``models[0].inputs[1].dtype``. Odd characters are escaped."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part[:300] if part[:300].isprintable() else repr(part[:300])[1:-1]
            text += f".{shown}" if text else shown
    return text[:300]


def _begins(key: str, start: str) -> bool:
    return key == start or key.startswith((f"{start}.", f"{start}["))


def closest(given: str, words: Sequence[str]) -> str:
    """Return the known word that a given one was most likely meant to be, the first of equals; empty for none."""
    near = set(get_close_matches(given[:_COMPARED], words, n=max(1, len(words))))
    ratios = {one: SequenceMatcher(None, one, given[:_COMPARED]).ratio() for one in words if one in near}
    return max(ratios, key=ratios.__getitem__, default="")


def _trouble(source: Source, kind: type[BaseModel], item: Any, remedy: str) -> Trouble:
    place: Place = tuple(item["loc"])
    sort, given = str(item["type"]), item.get("input")
    if sort == "extra_forbidden":
        message, hint = _unknown(kind, place)
        return source.trouble(place, message, hint or remedy)
    if sort == "missing":
        return source.trouble(place, "is missing", remedy.replace("correct the key", "add the key"))
    while place and place not in source.lines and not _is_value(source, place):
        place = place[:-1]  # what remains names no branch of a union
    if sort == "literal_error":
        allowed = re.findall(r"'((?:[^'\\]|\\.)*)'|(\b[0-9]+\b)", str(item["ctx"]["expected"]))
        words = [first or second for first, second in allowed]
        close = closest(given, words) if isinstance(given, str) else ""
        may = str(item["ctx"]["expected"])
        if len(words) > _WORDS_SHOWN:
            may = f"{', '.join(words[:_WORDS_SHOWN])} and {len(words) - _WORDS_SHOWN} more"
        message = f"is {_shown(given)}; it may be {may}"
        return source.trouble(place, message, f"did you mean {close}?" if close else remedy)
    wanted = _KINDS.get(sort.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float"))
    if wanted and sort.endswith(("_type", "_parsing", "_from_float")):
        is_now = _TOML.get(type(given), "of another type")
        shown = "" if isinstance(given, dict) else f", {_shown(given)}"
        return source.trouble(place, f"is {is_now}{shown}; {wanted} is needed", remedy)
    words_ = str(item["msg"]).removeprefix("Value error, ")
    if sort == "value_error" and (found := _NAMED.fullmatch(words_)) and _first_key(found[1]) in source.document:
        line = line_of(source.lines, source.place(found[1]))
        return Trouble(line, found[1], found[2][:400], remedy)
    if words_.startswith(("Input should", "String should")):
        words_ = f"is {_shown(given)}; it {words_.partition(' ')[2]}"
    return source.trouble(place, words_[:400], remedy)


def _is_value(source: Source, place: Place) -> bool:
    value: Any = source.document
    for part in place:
        if (isinstance(value, dict) and part not in value) or not isinstance(value, dict | list):
            return False
        if isinstance(value, list) and not (isinstance(part, int) and part < len(value)):
            return False
        value = value[part]  # type: ignore[index]
    return True


def _first_key(key: str) -> str:
    return re.split(r"[.\[]", key, maxsplit=1)[0]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        value = value[:100]
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _unknown(kind: type[BaseModel], place: Place) -> tuple[str, str]:
    name = str(place[-1])
    shown = _shown(name)
    table = _table_at(kind, place[:-1])
    names = keys_of(table) if table is not None else []
    where = f"[{dotted(place[:-1])}] has" if len(place) > 1 else "there is"
    message = f"{where} no key {shown}"
    elsewhere = [key for key in all_keys(kind) if key.rpartition(".")[2] == name]
    if elsewhere:
        home = elsewhere[0].rpartition(".")[0]
        return message, f"it belongs to [{home}]" if home else "it belongs to the top, before every [table]"
    close = closest(name, names)
    return message, f"did you mean {close}?" if close else ""


def _table_at(kind: type[BaseModel], place: Place) -> type[BaseModel] | None:
    table: type[BaseModel] | None = kind
    free = False  # the next part is a key of a free-form table
    for part in place:
        if isinstance(part, int) or free or table is None:
            free = False
            continue
        field = next((one for name, one in table.model_fields.items() if (one.alias or name) == part), None)
        if field is None:
            return None
        free = _has_dict(field.annotation)
        table = next(iter(tables_in(field.annotation)), None)
    return table


def _has_dict(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is dict:
        return True
    if origin in {Annotated, Union, types.UnionType}:
        return any(_has_dict(one) for one in get_args(annotation))
    return False


def tables_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the tables that a key's type speaks of, inside lists, free-form tables and alternatives too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [table for one in get_args(annotation) for table in tables_in(one)]


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of one table as they are written in TOML."""
    return [field.alias or name for name, field in model.model_fields.items()]


def all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return every dotted key of a schema, tables of tables included; free-form tables count as one key."""
    result: list[str] = []
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            result += all_keys(kind, f"{key}.")
        else:
            result.append(key)
    return result
