"""The predicate of a release, ``https://acceptd.dev/release/v1``: which bytes a channel offers, and by whose word.

It says in the form of in-toto what ``release.json`` says to a loader, with the hashes of the log's entries that it
rests on. A loader does not need it. ``docs/statements.md`` explains every field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from acceptd import __version__
from acceptd.record.attest import RELEASE_STATEMENT_TYPE, statement
from acceptd.record.entry import Entry
from acceptd.release.model import Kind, Number, Prior, Reason, ReleasedProfile, SessionOptions
from acceptd.statement.parts import Count, Digest, Leaf, Log, Part, Stamp, Word


class Judged(Leaf):
    """The verdict's entry, and the submission that it was about."""

    submission: Word


class Decision(Leaf):
    """One decision of a person that the release rests on; whose and why, the entry says."""

    decision: Word


class Intended(Leaf):
    """The entry that took the release's number."""

    log: Log


class ReleasePredicate(Part):
    """The whole predicate. Digests are SHA-256 in lowercase hex."""

    acceptd: Word
    model_id: Word
    channel: Word
    number: Number
    kind: Kind
    reason: Reason
    released_at: Stamp
    bundle_digest: Digest
    release_digest: Digest
    """Of ``release.json``."""
    total_bytes: Count
    entry: Intended
    verdict: Judged
    decisions: Annotated[list[Decision], Field(max_length=256)]
    options: SessionOptions
    profiles: Annotated[list[ReleasedProfile], Field(max_length=16)]
    prior: Prior | None


def release_statement(
    document: Mapping[str, Any],
    release_digest: str,
    log: str,
    intent: Entry,
    verdict: Entry,
    decisions: Sequence[Entry],
) -> dict[str, Any]:
    """Return the statement of a release: about its bundle digest and each promoted file.

    ``document`` is the payload of ``release.json`` and ``release_digest`` that file's SHA-256; the entries are
    those that it names, of the log ``log``.
    """
    same = (
        "model_id", "channel", "number", "kind", "reason", "released_at", "bundle_digest", "options", "prior",
    )  # fmt: skip
    predicate = {key: document[key] for key in same} | {
        "acceptd": __version__,
        "release_digest": release_digest,
        "total_bytes": sum(file["size"] for file in document["files"]),
        "profiles": document.get("profiles", []),
        "entry": {"log": log, **_leaf(intent)},
        "verdict": {"submission": verdict.submission or "", **_leaf(verdict)},
        "decisions": [{"decision": str(one.body.get("decision", "")), **_leaf(one)} for one in decisions],
    }
    files = [(file["path"], file["sha256"]) for file in document["files"]]
    subjects = [(document["model_id"], document["bundle_digest"]), *files]
    return statement(subjects, predicate, RELEASE_STATEMENT_TYPE)


def release_differences(said: Mapping[str, Any], due: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words what a verified statement says otherwise than the one that is due now.

    The version of acceptd that made it is its own.
    """
    if said["subject"] != due["subject"]:
        yield "is about other files than release.json"
    found, wanted = said["predicate"], due["predicate"]
    for key in sorted({*found, *wanted} - {"acceptd"}):
        if found.get(key) != wanted.get(key):
            yield f"{key} is {found.get(key)!r:.80}, release.json and the ledger say {wanted.get(key)!r:.80}"


def _leaf(entry: Entry) -> dict[str, Any]:
    return {"number": entry.seq, "leaf_hash": entry.leaf_hash.hex()}
