"""Parts of addresses that only some texts can be: anything else is no page, and asks nothing of the database."""

from __future__ import annotations

from typing import Any

from starlette.convertors import register_url_convertor


class _Part:
    """One form of a part; what Starlette asks of a convertor."""

    def __init__(self, regex: str, read: Any) -> None:
        self.regex = regex
        self.convert = read
        self.to_string = str


def register() -> None:
    """Make the forms known: ``seq`` an entry's number, ``sha256`` a digest, ``word`` a name or an id."""
    register_url_convertor("seq", _Part("0|[1-9][0-9]{0,14}", int))
    register_url_convertor("sha256", _Part("[0-9a-f]{64}", str))
    register_url_convertor("word", _Part("[A-Za-z0-9][A-Za-z0-9._-]{0,127}", str))
