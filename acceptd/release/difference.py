"""What differs between two releases, key by key. Pure.

Both are verified documents; what stands in their manifests is the submitter's word, shown through an escape.
Rows of a list that have a name (a model, an input, a profile) are compared with the row of that name; where the
order alone differs, that is said. Everything else that is a list is compared as a whole, so labels in another
order differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from acceptd.release.book import Row
from acceptd.release.trust import File

_PARTS: Final = ("options", "profiles", "runtimes", "preprocessing", "labels", "decisions")
_RULES: Final = ("acceptd", "verdict", "inferred", "policy", "policy_digest", "contract_digest")
"""What is compared of the two verdicts. The profiles' digests stand in ``release.json``, but in early ones."""
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
    """``files``, a key of ``release.json`` (``manifest``, ``profiles``, ``labels``, …), or ``verdict``."""
    key: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """Two releases, and every key in which they differ."""

    first: Side
    second: Side
    changes: tuple[Change, ...]
    """All of them."""
    same: tuple[str, ...] = ()
    """Parts that both have and that do not differ."""
    same_verdict: tuple[str, ...] = ()
    """Keys of the verdicts, likewise."""
    inspected: Mapping[str, Any] = field(default_factory=dict)
    """What the recorded facts of the two bundles say (:func:`acceptd.judge.successor.between`)."""
    notes: tuple[str, ...] = ()
    """How the releases were chosen, and what could not be compared: a line each."""

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


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one release: its verified documents, and what the record says of its verdict."""

    side: Side
    document: Mapping[str, Any]
    files: Sequence[File]
    verdict: Mapping[str, Any] = field(default_factory=dict)
    """As a ledger key signed it; empty where it could not be had."""


def difference(
    first: Known, second: Known, inspected: Mapping[str, Any] | None = None, notes: Sequence[str] = ()
) -> Difference:
    """Compare two releases: files, manifest, options, profiles, runtimes, identities, decisions, verdicts."""
    pairs: list[tuple[str, Any, Any]] = [("files", _files(first.files), _files(second.files))]
    documents = first.document, second.document
    # The options are the first profile's: told once.
    parts = [part for part in _PARTS if part != "options" or not all(one.get("profiles") for one in documents)]
    pairs += [(part, documents[0].get(part), documents[1].get(part)) for part in ("manifest", *parts)]
    changes = [
        Change(part, key, left, right)
        for part, one, other in pairs
        for key, left, right in _compared(one, other, "")
    ]
    differing = {change.part for change in changes}
    same = [part for part, one, other in pairs if one and other and part not in differing]
    same_verdict: list[str] = []
    if first.verdict and second.verdict:
        early = () if all(one.get("profiles") for one in documents) else ("profile", "profile_digest")
        for key in (*_RULES, *early):
            one, other = first.verdict.get(key), second.verdict.get(key)
            found = [Change("verdict", at, left, right) for at, left, right in _compared(one, other, key)]
            changes += found
            same_verdict += [key] if one and not found else []
    return Difference(
        first.side, second.side, tuple(changes), tuple(same), tuple(same_verdict), inspected or {}, tuple(notes)
    )


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
