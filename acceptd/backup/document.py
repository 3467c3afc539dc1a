"""``backup.json``: what a backup holds, file by file. Whoever may write a backup may write this too.

So it guards against damage, not against a forger: a restored ledger and its releases are verified by signatures.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from acceptd.errors import StateError

NAME: Final = "backup.json"
FILES: Final = "state"
"""Below the backup: the files, as they lie below the state directory."""
_MOST: Final = 1 << 30
_LINKS: Final = re.compile(r"\d{6}|(?:\.\./){5}store/sha256/[0-9a-f]{64}", re.ASCII)
"""What ``current`` and ``bundle`` of a release may point at; no other link is ever made."""
_MODEL = ConfigDict(frozen=True, strict=True, extra="forbid")


class Kept(BaseModel):
    """One file, by its path below the state directory; ``link`` is its target where it is a link."""

    model_config = _MODEL

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    size: Annotated[int, Field(ge=0)] = 0
    mode: Annotated[int, Field(ge=0, le=0o777)] = 0o600
    link: str = ""


class Document(BaseModel):
    """The whole of it. ``entries`` and ``root`` are the ledger's head when its snapshot was taken."""

    model_config = _MODEL

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    made_at: str
    version: str
    origin: str
    entries: Annotated[int, Field(ge=1)]
    root: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    with_keys: bool
    files: Annotated[list[Kept], Field(max_length=10_000_000)]

    def text(self) -> bytes:
        """Return the file's bytes."""
        return (json.dumps(self.model_dump(by_alias=True), ensure_ascii=True, indent=0) + "\n").encode()


def read(backup: Path) -> Document:
    """Return what ``backup`` says that it holds; StateError where it is none, or names what no state has."""
    path = backup / NAME
    try:
        with path.open("rb") as file:
            data = file.read(_MOST + 1)
        found = Document.model_validate_json(data)
    except OSError as error:
        raise StateError(
            f"{path}: {error.strerror}", remedy="name a directory that `acceptd backup` made"
        ) from error
    except ValidationError as error:
        raise StateError(f"{path}: not a backup of this version", remedy="take another one") from error
    for one in found.files:
        if not plain(one.path) or (one.link and not _LINKS.fullmatch(one.link)):
            raise StateError(f"{path}: names {one.path!r:.200}, which no state has", remedy="take another one")
    return found


def plain(path: str) -> bool:
    """Say whether a path stays below the directory it is meant for, and is spelled as a backup spells it."""
    parts = PurePosixPath(path).parts
    return "/".join(parts) == path != "" and not path.startswith("/") and ".." not in parts and "\0" not in path
