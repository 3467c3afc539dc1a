"""The lists of advisories in one ledger: the newest is in force, and is verified again each time it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import select

from acceptd.advisories.document import AdvisoryList, opened
from acceptd.advisories.match import hits
from acceptd.advisory_facts import AdvisoryStanding
from acceptd.errors import ConfigError, DuplicateEntryError, LedgerError, LoaderError, SignatureError, UsageError
from acceptd.policy.load import load_reviewers
from acceptd.policy.reviewers import Reviewers
from acceptd.record.attest import Envelope
from acceptd.record.auditing.report import Difference
from acceptd.record.canonical import digest, plain
from acceptd.record.entry import ADVISORIES, Appended, Entry, advisories_key, utc_now
from acceptd.record.log import Ledger
from acceptd.record.tables import entries
from acceptd.review.decision import of_record
from acceptd.rules import Rules
from acceptd.runtime.identity import RuntimeRecord


def newest(ledger: Ledger) -> Entry | None:
    """Return the entry with the highest number, verified or not; None where there is none."""
    key, column = advisories_key(), entries.c.unique_key
    with ledger.reading() as connection:
        seq = connection.execute(
            select(entries.c.seq).where(column > key, column < key[:-1] + "0").order_by(column.desc()).limit(1)
        ).scalar()
    return ledger.entry(int(seq)) if seq is not None else None


def verified(entry: Entry, reviewers: Reviewers) -> AdvisoryList:
    """Return the list in an entry; raise LoaderError or LedgerError where it is not what was signed."""
    said, signer = opened(entry.body.get("envelope"), reviewers)
    told = {"number": said.number, "signer": signer.name, "expires_at": said.expires_at, "digest": _digest(said)}
    for key, due in told.items():
        if entry.body.get(key) != due:
            raise SignatureError(
                f"entry {entry.seq}: {key} is {entry.body.get(key)!r:.80}, the signed one is {due!r}"
            )
    return said


def install(
    ledger: Ledger, envelope: Envelope, reviewers: Reviewers, now: str = ""
) -> tuple[AdvisoryList, Appended]:
    """Verify a signed list and put it on record: it is in force from there on.

    Raises SignatureError or MalformedError for one that does not count, UsageError where it is expired, its signer
    is no reviewer any more, or its number does not rise.
    """
    said, signer = opened(envelope, reviewers)
    if signer.left:
        raise UsageError(f"{signer.name} is no reviewer any more", remedy="somebody else has to sign")
    if said.expires_at <= (now or utc_now()):
        raise UsageError(f"the list {said.number} expired at {said.expires_at}", remedy="install a newer one")
    before = newest(ledger)
    if before is not None and said.number <= before.body["number"]:
        raise UsageError(
            f"the list {said.number} does not replace {before.body['number']}, in force (entry {before.seq})",
            remedy="a newer list has a higher number",
        )
    body = {
        "number": said.number,
        "digest": _digest(said),
        "expires_at": said.expires_at,
        "signer": signer.name,
        "envelope": of_record(envelope, reviewers),
    }
    try:
        return said, ledger.append(ADVISORIES, plain(body))
    except DuplicateEntryError as error:  # another command was quicker
        raise UsageError(f"the list {said.number} is on record already") from error


def standing(ledger: Ledger, rules: Rules, records: Sequence[RuntimeRecord]) -> AdvisoryStanding | None:
    """Return what the list in force says of these runtimes; None where none was ever installed."""
    entry = newest(ledger)
    if entry is None:
        return None
    try:
        said = verified(entry, load_reviewers(rules.directory))
    except (LoaderError, LedgerError, ConfigError) as error:
        return AdvisoryStanding(
            status="unverified", number=int(entry.body["number"]), entry=entry.seq, reason=f"{error}"[:2000]
        )
    return AdvisoryStanding(
        status="installed",
        number=said.number,
        entry=entry.seq,
        expires_at=said.expires_at,
        hits=hits(said, records),
    )


def examine(ledger: Ledger, reviewers: Reviewers) -> Iterator[Difference]:
    """Yield the lists on record that do not verify, for the audit."""
    for entry in ledger.entries(kind=ADVISORIES):
        try:
            verified(entry, reviewers)
        except (LoaderError, LedgerError) as error:
            yield Difference("advisories", f"entry {entry.seq}", str(error))


def _digest(said: AdvisoryList) -> str:
    return digest(said.model_dump(mode="json", by_alias=True))
