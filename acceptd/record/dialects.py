"""Where SQLite and PostgreSQL say the same differently: text as it lies there, and two functions.

PostgreSQL's text compares by the database's locale and holds no NUL; ours compares byte by byte, as SQLite's does,
and may hold whatever a submitter put there.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Boolean, ColumnElement, Dialect, FunctionElement, Integer, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeDecorator

_ESCAPE: Final = "\x01"
_NUL: Final = "\x00"
_JSON_NUL, _JSON_BLANK = r"\u0000", r"\u0020"


class PlainText(TypeDecorator[str]):
    """PostgreSQL's text under collation C. NUL is kept as 0x01 "0", and 0x01 itself as 0x01 "1"."""

    impl = String(collation="C")
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the text as it is stored."""
        return None if value is None else stored_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the text as it was given."""
        return None if value is None else given_text(value)


def stored_text(value: str) -> str:
    """Return a text without NUL from which :func:`given_text` makes ``value`` again."""
    if _NUL in value or _ESCAPE in value:
        return value.replace(_ESCAPE, _ESCAPE + "1").replace(_NUL, _ESCAPE + "0")
    return value


def given_text(value: str) -> str:
    """Return what :func:`stored_text` was given; a stray escape, which it never makes, stays as it is."""
    if _ESCAPE in value:
        return value.replace(_ESCAPE + "0", _NUL).replace(_ESCAPE + "1", _ESCAPE)
    return value


class Place(FunctionElement[int]):
    """Where the second value begins in the first, counted from 1; 0 where it is not in it. Text or bytes."""

    type = Integer()
    inherit_cache = True
    name = "acceptd_place"


@compiles(Place, "sqlite")
def _place_sqlite(element: Place, compiler: SQLCompiler, **more: Any) -> str:
    return f"instr({compiler.process(element.clauses, **more)})"


@compiles(Place, "postgresql")
def _place_postgresql(element: Place, compiler: SQLCompiler, **more: Any) -> str:
    whole, part = element.clauses
    return f"position({compiler.process(part, **more)} IN {compiler.process(whole, **more)})"


class Observed(FunctionElement[bool]):
    """Whether a submission's working fields (JSON) say that it was only observed."""

    type = Boolean()
    inherit_cache = True
    name = "acceptd_observed"


@compiles(Observed, "sqlite")
def _observed_sqlite(element: Observed, compiler: SQLCompiler, **more: Any) -> str:
    return f"(json_extract({compiler.process(element.clauses, **more)}, '$.observed') IS TRUE)"


@compiles(Observed, "postgresql")
def _observed_postgresql(element: Observed, compiler: SQLCompiler, **more: Any) -> str:
    # PostgreSQL reads no JSON with an escaped NUL in it; an escape of another character stands as well anywhere.
    plain = f"replace({compiler.process(element.clauses, **more)}, '{_JSON_NUL}', '{_JSON_BLANK}')"
    return f"(({plain}::json ->> 'observed') IS NOT DISTINCT FROM 'true')"


class InEntryOrder(ColumnElement[int]):
    """By entry: SQLite's row id, which its indexes end in, so that nothing is sorted; elsewhere ``seq``."""

    type = Integer()
    inherit_cache = True


@compiles(InEntryOrder, "sqlite")
def _order_sqlite(_element: InEntryOrder, _compiler: SQLCompiler, **_more: Any) -> str:
    return "rowid"


@compiles(InEntryOrder, "postgresql")
def _order_postgresql(_element: InEntryOrder, _compiler: SQLCompiler, **_more: Any) -> str:
    return "seq"
