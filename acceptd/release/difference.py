"""What differs between two releases, key by key. Pure.

Both are verified documents; what stands in their manifests is the submitter's word, shown through an escape.
Rows of a list that have a name (a model, an input, a profile) are compared with the row of that name; where the
order alone differs, that is said. Everything else that is a list is compared as a whole, so labels in another
order differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from acceptd.release.book import Row
from acceptd.release.trust import File

MOST: Final = 2000
"""Lines of one part: a manifest of 64 KiB has fewer, a bundle may have more files."""
_PARTS: Final = ("options", "profiles", "runtimes", "preprocessing", "labels", "decisions")
_NAMES: Final = ("path", "name", "profile", "file", "sets")
"""What the rows of a list are told apart by: the first key that all have, each with another text."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two releases."""

    model_id: str
    channel: str
    number: int
    kind: str
    at: str
    by: str
    version: str
    bundle_digest: str
    release_digest: str
    decisions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs. ``first`` or ``second`` is None where that release has none."""

    part: str
    """``files``, or a key of ``release.json``: ``manifest``, ``profiles``, ``labels``, …"""
    key: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """Two releases, and every key in which they differ."""

    first: Side
    second: Side
    changes: tuple[Change, ...]
    left_off: int = 0
    """Changes beyond :data:`MOST` of a part."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


def side(row: Row, document: Mapping[str, Any]) -> Side:
    """Return what is said of a release beside its content."""
    bundle = document.get("manifest", {}).get("bundle")
    return Side(
        row.model_id, row.channel, row.number, row.kind, row.activated_at or row.intent_at, row.by,
        str(bundle.get("version", "")) if isinstance(bundle, dict) else "", row.digest, row.release_digest,
        tuple(document.get("decisions") or ()),
    )  # fmt: skip


def difference(
    first: Side,
    first_document: Mapping[str, Any],
    first_files: Sequence[File],
    second: Side,
    second_document: Mapping[str, Any],
    second_files: Sequence[File],
) -> Difference:
    """Compare two releases: files, manifest, session options, profiles, runtimes, identities, decisions."""
    pairs: list[tuple[str, Any, Any]] = [("files", _files(first_files), _files(second_files))]
    documents = first_document, second_document
    # The options are the first profile's: told once.
    parts = [part for part in _PARTS if part != "options" or not all(one.get("profiles") for one in documents)]
    pairs += [(part, documents[0].get(part), documents[1].get(part)) for part in ("manifest", *parts)]
    found: list[Change] = []
    left_off = 0
    for part, one, other in pairs:
        changes = [Change(part, key, left, right) for key, left, right in _compared(one, other, "")]
        found += changes[:MOST]
        left_off += len(changes[MOST:])
    return Difference(first, second, tuple(found), left_off)


def _files(files: Sequence[File]) -> list[dict[str, Any]]:
    return [{"path": file.path, "sha256": file.sha256, "size": file.size} for file in files]


def _compared(left: Any, right: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield key and both values of every leaf that differs; a table or row that only one has is one leaf."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for part in [*left, *(part for part in right if part not in left)]:
            yield from _compared(left.get(part), right.get(part), f"{key}.{part}" if key else str(part))
        return
    named = _named(left, right)
    if named is None:
        if not _same(left, right):
            yield key, left, right
        return
    one, other = named
    for name in [*one, *(name for name in other if name not in one)]:
        yield from _compared(one.get(name), other.get(name), f"{key}[{name}]")
    common = [name for name in one if name in other]
    if common != (moved := [name for name in other if name in one]):
        yield f"{key} (order)", common, moved


def _named(left: Any, right: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the rows of both lists by name; None where they are no lists of rows with names."""
    if not isinstance(left, list) or not isinstance(right, list) or not (left or right):
        return None
    if not all(isinstance(row, Mapping) for row in (*left, *right)):
        return None
    for name in _NAMES:
        sides = [{str(row[name]): row for row in rows if name in row} for rows in (left, right)]
        if [len(sides[0]), len(sides[1])] == [len(left), len(right)]:
            return sides[0], sides[1]
    return None


def _same(left: Any, right: Any) -> bool:
    """Say whether two leaves are the same; 1 is neither 1.0 nor true."""
    return type(left) is type(right) and bool(left == right)
