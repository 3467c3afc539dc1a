"""For which runtimes a release holds, and which of them a loader means. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from acceptd.errors import DigestMismatchError, LedgerError, MalformedError, ProfileRefusedError
from acceptd.record.canonical import digest
from acceptd.release.trust import ReleaseFacts

_BEFORE: Final = "cpu"
"""The profile of a release whose options name none: there was no other then."""


class Held(NamedTuple):
    """One profile that the release holds for, and all of their names."""

    profile: str
    options: Mapping[str, Any]
    names: tuple[str, ...]
    runtime_identity: str = ""
    """Of the runtime that the bundle was accepted on; empty where it was not measured."""


def names(facts: ReleaseFacts) -> tuple[str, ...]:
    """Return the names of the profiles that a release holds for. Raises MalformedError: one stands twice."""
    found = tuple(str(one["profile"]) for one in facts.profiles) or (str(facts.options.get("profile", _BEFORE)),)
    if len(set(found)) != len(found):
        raise MalformedError("release.json names a profile twice")
    return found


def chosen(facts: ReleaseFacts, wanted: str | None) -> Held:
    """Return the profile that a loader means: ``wanted``, or the only one there is.

    Raises ProfileRefusedError where the release does not hold for it, or holds for several and none was named.
    """
    known = names(facts)
    place = f"{facts.model_id} number {facts.number}"
    if wanted is None and len(known) > 1:
        raise ProfileRefusedError(f"{place} holds for the profiles {', '.join(known)}: say which one runs here")
    name = known[0] if wanted is None else wanted
    if name not in known:
        raise ProfileRefusedError(
            f"{place} does not hold for the profile {name[:80]!r}; it was accepted under {', '.join(known)}"
        )
    if not facts.profiles:
        return Held(name, facts.options, known, str(facts.options.get("runtime_identity") or ""))
    row = facts.profiles[known.index(name)]
    return Held(name, row["options"], known, str(row.get("runtime_identity") or ""))


def runtime(facts: ReleaseFacts, under: Held) -> Mapping[str, Any] | None:
    """Return the record of the runtime that the bundle was accepted on; None where the release has none.

    Raises MalformedError for another form, DigestMismatchError where it is not that of the runtime identity.
    """
    found = record(facts, under)
    if found is None:
        return None
    try:
        libraries = sorted(found["libraries"], key=lambda one: (one["name"], one["sha256"]))
        identity = digest({**found, "libraries": libraries})
    except (KeyError, TypeError) as error:
        raise MalformedError("release.json: a library of a runtime has no name or digest") from error
    except LedgerError as error:
        raise MalformedError(f"release.json: a runtime that no document can hold: {error}") from error
    if identity != under.runtime_identity:
        raise DigestMismatchError("release.json: a runtime is not the one of its runtime identity")
    return found


def record(facts: ReleaseFacts, under: Held) -> Mapping[str, Any] | None:
    """Return that record as it stands there, whatever its identity. Raises MalformedError for another form."""
    rows = facts.document.get("runtimes", [])
    for row in rows if isinstance(rows, list) else [None]:
        known: dict[str, Any] = row if isinstance(row, dict) else {}
        found = known.get("record")
        if not isinstance(found, dict) or not isinstance(found.get("libraries"), list):
            raise MalformedError("release.json: a runtime has no record with libraries")
        if known.get("profile") == under.profile:
            return found
    return None
