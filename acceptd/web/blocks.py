"""What pages are made of: plain data, in order; the templates alone make markup of it, and escape every text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode


@dataclass(frozen=True)
class Cell:
    """One value. ``look`` is how it is shown: a verdict or severity, ``code``, ``number``, ``soft``, ``bad``."""

    text: Any
    href: str = ""
    look: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its caption. Cells are :class:`Cell`, or plain values."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str = "nothing"
    kind: str = "table"


@dataclass(frozen=True)
class Facts:
    """Names and values; rows without a value are left out."""

    rows: Sequence[tuple[str, Any]]
    kind: str = "facts"


@dataclass(frozen=True)
class Text:
    """A paragraph. ``look``: empty, ``soft``, ``good``, ``bad``.

    ``own``: words of this program alone, in which backticks mean code; in others they are what somebody wrote.
    """

    text: str
    look: str = ""
    own: bool = False
    kind: str = "text"


@dataclass(frozen=True)
class Links:
    """Places to go on to: (words, address)."""

    rows: Sequence[tuple[str, str]]
    kind: str = "links"


@dataclass(frozen=True)
class Raw:
    """Text as it is, line by line: a command's words, JSON. ``label`` says what it is."""

    label: str
    text: str
    kind: str = "raw"


@dataclass(frozen=True)
class Finding:
    """One finding as the report has it."""

    row: Mapping[str, Any]
    kind: str = "finding"


@dataclass(frozen=True)
class Field:
    """One field of a form. With ``options`` a choice of (value, words); ``type`` as HTML has it."""

    name: str
    label: str
    value: str = ""
    options: Sequence[tuple[str, str]] = ()
    hint: str = ""
    type: str = "text"
    most: int = 200
    required: bool = False


@dataclass(frozen=True)
class Form:
    """A form. ``post`` ones carry the session's word; the others are filters, whose address can be kept."""

    action: str
    button: str
    fields: Sequence[Field]
    title: str = ""
    post: bool = False
    upload: bool = False
    hidden: Mapping[str, str] = field(default_factory=dict)
    kind: str = "form"


@dataclass(frozen=True)
class Pager:
    """The way to older rows, and what was looked at."""

    older: str = ""
    newest: str = ""
    note: str = ""
    kind: str = "pager"


@dataclass(frozen=True)
class Mark:
    """One event of a timeline: where along it (0 to 1000), its look, its words."""

    at: int
    look: str
    words: str


@dataclass(frozen=True)
class Lane:
    """One line of a timeline; ``words`` say in short what its marks show."""

    name: str
    words: str
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Timeline:
    """Events of several lanes over one span of time."""

    caption: str
    lanes: Sequence[Lane]
    first: str
    last: str
    kind: str = "timeline"


@dataclass(frozen=True)
class Section:
    """A heading with blocks."""

    title: str
    blocks: Sequence[Any]
    kind: str = "section"


@dataclass(frozen=True)
class Page:
    """One page. ``nav`` is the entry of the navigation that it stands under."""

    title: str
    blocks: Sequence[Any]
    nav: str = ""
    look: str = ""
    above: str = ""


def choices(values: Iterable[str], none: str = "any") -> list[tuple[str, str]]:
    """Return the options of a choice: none of them first."""
    return [("", none), *((one, one) for one in values)]


def where(*parts: object, **query: object) -> str:
    """Return an address of this console: parts quoted, parameters without a value left out."""
    path = "/" + "/".join(quote(str(part), safe="", errors="replace") for part in parts)
    given = {key: str(value) for key, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def model_at(model: object) -> str:
    """Return the address of a model's page."""
    return where("models", *str(model).split("/", 1))


def digest_cell(digest: str | None) -> Cell:
    """Return the beginning of a bundle digest, with the way to its page; empty where there is none."""
    return Cell(f"{digest[:12]}…", where("releases", "digest", digest), "code") if digest else Cell("")
