"""Read models for people: what is current where, and how a channel came to where it is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import LedgerError, LoaderError, ReleaseError
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import held
from acceptd.release.book import Row, read_book
from acceptd.release.layout import checked
from acceptd.release.signers import Verifying


@dataclass(frozen=True, slots=True)
class CurrentRelease:
    """One line of ``release list``. ``problem`` is empty where a loader would open it now."""

    model_id: str
    channel: str
    number: int
    bundle_digest: str
    version: str
    """The bundle's own version; empty where ``release.json`` does not verify."""
    activated_at: str
    expires_at: str
    problem: str
    profiles: tuple[str, ...] = ()
    """The profiles that it holds for; none where ``release.json`` does not verify."""
    frozen: str = ""
    """Why nothing is promoted to its channel now; empty where something may be."""
    pinned: str = ""
    """Why it stays current; empty where it is not pinned."""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line of ``release history``, newest first: a release, or something that people held or let go."""

    number: int | None
    """None where it is no release."""
    kind: str
    """``promote``, ``rollback``, ``rekey``; ``frozen``, ``unfrozen``, ``pinned``, ``unpinned``."""
    state: str
    """``active``, ``superseded``, ``abandoned`` (the number is burnt), ``intent`` (under way); else empty."""
    bundle_digest: str
    version: str
    reason: str
    at: str
    verdict_seq: int
    intent_seq: int
    revoked: str
    """Why its bundle was revoked; empty where it was not."""
    profiles: tuple[str, ...] = ()
    by: str = ""
    """Who had it done (:mod:`acceptd.release.who`); empty in entries that do not say."""
    decided: tuple[str, ...] = ()
    """What people signed about it, as ``approve ada``; none where the verdict alone accepted it."""
    glass: bool = False
    """Whether somebody broke the glass for it."""


def current_releases(
    state: Path,
    ledger: Ledger,
    keys: Verifying,
    *,
    clock: channels.Clock = time.time,
    places: Iterable[tuple[str, str]] | None = None,
) -> list[CurrentRelease]:
    """Return the current release of every channel, or of the (model, channel) ``places``, by model and channel."""
    book = read_book(ledger)
    found: list[CurrentRelease] = []
    for model_id, channel in sorted(book.channels if places is None else places):
        row = book.current(model_id, channel)
        if row is None:
            continue
        facts = channels.read(state, keys, model_id, channel)
        version, profiles, _ = _read(state, keys, row)
        problem = ""
        if row.digest in book.revoked:
            problem = f"revoked: {book.revoked[row.digest].reason}"
        elif facts is None:
            problem = "channel.json is missing or not signed by this instance"
        elif (facts.number, facts.release_digest) != (row.number, row.release_digest):
            problem = f"channel.json names number {facts.number}"
        elif facts.expires <= clock():
            problem = "channel.json has expired"
        elif version is None:
            problem = "release.json does not verify"
        expires_at = facts.expires_at if facts else ""
        line = CurrentRelease(
            model_id, channel, row.number, row.digest, version or "", row.activated_at, expires_at, problem,
            profiles,
            frozen="; ".join(one.reason for one in book.holds.frozen(model_id, channel)),
            pinned=pin.reason if (pin := book.holds.exactly("pinned", model_id, channel, row.digest)) else "",
        )  # fmt: skip
        found.append(line)
    return found


def history(
    state: Path,
    ledger: Ledger,
    keys: Verifying,
    model_id: str,
    channel: str,
    *,
    before: int | None = None,
    most: int | None = None,
) -> list[HistoryLine]:
    """Return every number that one channel ever took, and every hold on it, newest first.

    ``before`` leaves out what came with that entry or later, ``most`` all but the newest so many of the rest.
    Raises ReleaseError where there is nothing.
    """
    model_id, channel = checked(model_id, channel)
    book = read_book(ledger)
    rows = book.rows(model_id, channel)
    holds = [one for one in book.holds.entries if one.concerns(model_id, channel)]
    if not rows and not holds:
        raise ReleaseError(f"{model_id} has no release on {channel}")
    # Chosen before anything is read: each release is a file with a signature.
    all_seqs = sorted([row.intent_seq for row in rows] + [one.seq for one in holds], reverse=True)
    chosen = set([seq for seq in all_seqs if before is None or seq < before][:most])
    rows = [row for row in rows if row.intent_seq in chosen]
    holds = [one for one in holds if one.seq in chosen]
    read = {row.number: _read(state, keys, row) for row in rows}
    lines = [
        HistoryLine(
            number=row.number,
            kind=row.kind,
            state=row.state,
            bundle_digest=row.digest,
            version=read[row.number][0] or "",
            profiles=read[row.number][1],
            reason=row.reason,
            at=row.activated_at or row.intent_at,
            verdict_seq=row.verdict_seq,
            intent_seq=row.intent_seq,
            revoked=book.revoked[row.digest].reason if row.digest in book.revoked else "",
            by=row.by,
            decided=_people(ledger, read[row.number][2]),
            glass=row.glass,
        )
        for row in rows
    ]
    lines += [
        HistoryLine(
            number=None,
            kind=one.kind,
            state="",
            bundle_digest=one.digest,
            version="",
            reason=one.reason if one.model_id else f"all models: {one.reason}",
            at=one.at,
            verdict_seq=-1,
            intent_seq=one.seq,
            revoked="",
            by=one.by,
        )
        for one in holds
    ]
    return sorted(lines, key=lambda one: one.intent_seq, reverse=True)


def _people(ledger: Ledger, decisions: tuple[int, ...]) -> tuple[str, ...]:
    """Return what the entries of decisions say, as ``approve ada``."""
    found = []
    for seq in decisions:
        with suppress(LedgerError):
            body = ledger.entry(seq).body
            found.append(f"{body.get('decision')} {body.get('reviewer')}"[:160])
    return tuple(dict.fromkeys(found))


def _read(state: Path, keys: Verifying, row: Row) -> tuple[str | None, tuple[str, ...], tuple[int, ...]]:
    """Return bundle version, profiles and decisions of a release; None and none where it does not verify."""
    if not row.release_digest:
        return None, (), ()
    try:
        facts, _ = channels.read_release(state, keys, row, row.release_digest)
        profiles = held.names(facts)
    except (LoaderError, OSError):
        return None, (), ()
    bundle = facts.manifest.get("bundle")
    version = str(bundle.get("version", "")) if isinstance(bundle, dict) else ""
    return version, profiles, tuple(facts.document.get("decisions", ()))
