"""The signed versions of contracts in one ledger: found, verified again each time, and put on record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from acceptd.contracts import version as versions
from acceptd.contracts.difference import changes, tightens
from acceptd.contracts.version import Opened
from acceptd.errors import DuplicateEntryError, LedgerError, LoaderError, SignatureError, UsageError
from acceptd.evidence import ContractSigner
from acceptd.judge.contracts import wanting
from acceptd.policy.policy import ContractsTable
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record.attest import Envelope
from acceptd.record.auditing.report import Difference
from acceptd.record.canonical import plain
from acceptd.record.entry import Appended, Entry, contract_key
from acceptd.record.log import Ledger
from acceptd.record.tables import entries
from acceptd.release.layout import model_lock
from acceptd.review.decision import of_record

ENTRY = "contract-version"
MAX_STEP = 1_000_000
"""Between two versions. Who signs the last possible number would leave no other after it."""


@dataclass(frozen=True, slots=True)
class Signed:
    """One version on record that verifies. ``tightens``: it loosens nothing of the one before."""

    entry: Entry
    opened: Opened
    signers: tuple[Reviewer, ...]
    tightens: bool

    @property
    def people(self) -> list[ContractSigner]:
        """Who signed it, as evidence holds them."""
        return [ContractSigner(name=one.name, team=one.team) for one in self.signers]


@dataclass(frozen=True, slots=True)
class Register:
    """The versions in one ledger, with the people whose signatures count."""

    ledger: Ledger
    reviewers: Reviewers

    def newest(self, model: str) -> Entry | None:
        """Return the entry of the newest version of a model's contract, verified or not; None without one."""
        return newest(self.ledger, model)

    def entries(self, model: str = "") -> list[Entry]:
        """Return the entries of all versions, of one model or of all, oldest first."""
        found = self.ledger.entries(kind=ENTRY)
        return [entry for entry in found if not model or entry.body.get("model") == model]

    def read(self, entry: Entry) -> Signed:
        """Return a version as it was signed.

        Raises LoaderError or LedgerError where a signature does not verify, the entry says something else than
        what was signed, or it does not follow the version before it.
        """
        opened, signers = versions.opened(entry.body.get("envelope"), self.reviewers)
        for difference in _differences(opened, signers, entry, self.ledger.origin):
            raise SignatureError(difference)
        before = self._before(entry, opened)
        return Signed(entry, opened, signers, before is not None and _tightens(before, opened))

    def _before(self, entry: Entry, opened: Opened) -> Opened | None:
        """Return the version before, by the digest that was signed: what it says needs no other signature."""
        earlier = newest(self.ledger, opened.said.model, below=opened.said.version)
        if (earlier.body.get("digest") if earlier is not None else None) != opened.said.supersedes:
            there = f"version {earlier.body['version']}" if earlier is not None else "no version"
            raise SignatureError(f"it does not supersede what is before it: {there}")
        if earlier is None:
            return None
        if earlier.seq > entry.seq:
            raise SignatureError(f"the version that it supersedes is entry {earlier.seq}, after it")
        found = versions.payload_of(earlier.body.get("envelope"))
        if found.said.digest != opened.said.supersedes:
            raise SignatureError(f"entry {earlier.seq} does not hold the contract whose digest it gives")
        return found

    def install(
        self, state: Path, envelope: Envelope, table: ContractsTable, *, first: bool
    ) -> tuple[Opened, Appended]:
        """Verify a signed version and put it on record: it is in force from there on.

        ``first`` says that there must be no version yet; else there must be one. Raises SignatureError or
        MalformedError for one that does not count, UsageError where it does not follow what is on record, too few
        people have signed it by the policy, or it is there already.
        """
        opened, signers = versions.opened(envelope, self.reviewers)
        said = opened.said
        for one in signers:
            if one.left:
                raise UsageError(f"{one.name} is no reviewer any more", remedy="somebody else has to sign")
        if said.log != self.ledger.origin:
            raise UsageError("it was signed for another instance", remedy="prepare it here, and sign that")
        with model_lock(state, said.model):
            before = self.newest(said.model)
            _follows(opened, before, first=first)
            earlier = versions.payload_of(before.body.get("envelope")) if before is not None else None
            tight = earlier is not None and _tightens(earlier, opened)
            people = [ContractSigner(name=one.name, team=one.team) for one in signers]
            if lacking := wanting(people, table, said.model, tightens=tight):
                raise UsageError(
                    f"{said.model} version {said.version}: {lacking}",
                    remedy="have others sign the same bytes, and give all signed files",
                )
            body = {
                "model": said.model,
                "version": said.version,
                "digest": said.digest,
                "supersedes": said.supersedes,
                "reason": said.reason,
                "signers": [one.model_dump() for one in people],
                "envelope": of_record(envelope, self.reviewers),
            }
            try:
                return opened, self.ledger.append(ENTRY, plain(body))
            except DuplicateEntryError as error:  # pragma: no cover - the lock and the look before leave no gap
                raise UsageError(f"version {said.version} is on record already") from error

    def examine(self) -> list[Difference]:
        """Return the versions on record that do not verify."""
        found = []
        for entry in self.ledger.entries(kind=ENTRY):
            try:
                self.read(entry)
            except (LoaderError, LedgerError) as error:
                found.append(Difference("contract", f"entry {entry.seq}", str(error)))
        return found


def newest(ledger: Ledger, model: str, *, below: int | None = None) -> Entry | None:
    """Return the entry of the newest version of a model's contract, or of the newest one below a version."""
    key, column = contract_key(model), entries.c.unique_key
    end = key[:-1] + "0" if below is None else f"{key}{below:010d}"  # "0" follows "/"
    with ledger.reading() as connection:
        seq = connection.execute(
            select(entries.c.seq).where(column > key, column < end).order_by(column.desc()).limit(1)
        ).scalar()
    return ledger.entry(int(seq)) if seq is not None else None


def _tightens(before: Opened, after: Opened) -> bool:
    """Each version has held-out evaluations of its own: one for sets that were there before is more of them."""
    return not before.effective.holds_out and tightens(changes(before.effective, after.effective))


def _follows(opened: Opened, before: Entry | None, *, first: bool) -> None:
    said = opened.said
    if before is None:
        if not first:
            raise UsageError(f"{said.model} has no version to supersede", remedy="acceptd contract install")
        if said.supersedes is not None:
            raise UsageError("it supersedes a version that is not on record here", remedy="prepare it again")
        return
    number, digest = before.body["version"], before.body["digest"]
    if said.digest == digest and said.version == number:
        raise UsageError(
            f"{said.model} version {number} is on record already, entry {before.seq}",
            remedy=f"nothing is to be done: see `acceptd contract show {said.model}`",
        )
    if first:
        raise UsageError(f"{said.model} has version {number} already", remedy="acceptd contract supersede")
    if said.version <= number:
        raise UsageError(
            f"{said.model} version {said.version}: version {number} is in force",
            remedy=f"to go back, sign the old text again as version {number + 1}",
        )
    if said.version - number > MAX_STEP:
        raise UsageError(
            f"{said.model} version {said.version}: version {number} is in force, and numbers come to an end",
            remedy=f"write version = {number + 1}",
        )
    if said.supersedes != digest:
        raise UsageError(
            f"{said.model}: it supersedes {said.supersedes or 'nothing'}, and version {number} is {digest}",
            remedy="prepare it again: what its signers compared it with is not in force",
        )


def _differences(opened: Opened, signers: Sequence[Reviewer], entry: Entry, log: str) -> Iterator[str]:
    """Yield what an entry says otherwise than what was signed."""
    said, body = opened.said, entry.body
    if said.log != log:
        yield f"it was signed for the log {said.log}"
    for key in ("model", "version", "digest", "supersedes", "reason"):
        if body.get(key) != getattr(said, key):
            yield f"{key} is {body.get(key)!r:.80}, the signed one is {getattr(said, key)!r:.80}"
    told = body.get("signers")
    names = [one.get("name") for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    if names != [one.name for one in signers]:
        yield f"it names {names!r:.80} as signers"
