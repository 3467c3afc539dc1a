"""Every JSON Schema of acceptd by its name: of what people write, and of what is signed. Pure.

The texts are made from the code; ``docs/<name>.schema.json`` are the same, and so are those that a wheel has
in ``acceptd/schemas/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from acceptd.advisories import document as advisories
from acceptd.policy import schemas
from acceptd.release import receipt_schema
from acceptd.release import schemas as documents
from acceptd.statement import schemas as statements

TEXTS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        **dict.fromkeys(schemas.KINDS, schemas.schema_text),
        **dict.fromkeys(statements.KINDS, statements.schema_text),
        **dict.fromkeys(documents.KINDS, documents.schema_text),
        "receipt": receipt_schema.schema_text,
        "advisories": advisories.schema_text,
    }
)
"""Name to the function that gives its text."""


def schema_text(name: str) -> str:
    """Return the JSON Schema ``name`` as indented ASCII JSON. Raises KeyError for a name that is not in TEXTS."""
    return TEXTS[name](name)
