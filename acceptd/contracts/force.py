"""Which contract a model is judged by: the newest signed version on record, else the file."""

from __future__ import annotations

from acceptd.contracts.effective import Agreed as Agreed
from acceptd.contracts.effective import effective, of_file, place_of, sources
from acceptd.contracts.register import Register, Signed, newest
from acceptd.contracts.version import payload_of
from acceptd.errors import LedgerError, LoaderError
from acceptd.evidence import ContractStanding
from acceptd.policy import load
from acceptd.policy.contract import Contract
from acceptd.policy.reviewers import Reviewers
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.rules import Rules


def in_force(rules: Rules, model: str, ledger: Ledger) -> Agreed:
    """Return the contract that ``model`` is judged by.

    Raises ConfigError for a file, or the reviewers', that is refused: a broken contract is not a missing one.
    """
    own = load.load_contract(rules.directory / "contracts", model)
    entry = newest(ledger, model)
    if entry is None:
        return of_file(rules, own, ContractStanding(status="unsigned"))
    try:
        signed = Register(ledger, load.load_reviewers(rules.directory)).read(entry)
    except (LoaderError, LedgerError) as error:
        reason = f"version {entry.body.get('version')} on record: {error}"[:4000]
        refused = ContractStanding(status="unverified", reason=reason, entry=entry.seq)
        if own is None:
            return Agreed(standing=refused)
        return of_file(rules, own, refused)
    return _of_record(rules, own, signed, ledger)


def _of_record(rules: Rules, own: Contract | None, signed: Signed, ledger: Ledger) -> Agreed:
    said, opened = signed.opened.said, signed.opened
    edited = "" if own is None or own == opened.own else _edited(own, signed, ledger)
    now = effective(opened.own, rules.directory, rules.policy)
    standing = ContractStanding(
        status="edited" if edited else "signed",
        place=str(place_of(rules.directory, said.model)),
        reason=edited,
        version=said.version,
        entry=signed.entry.seq,
        digest=said.digest,
        signers=signed.people,
        tightens=signed.tightens,
        inherited=sources(said.inherited),
        defaults_changed=now.whole != opened.effective,
    )
    return Agreed(opened.effective, load.digest(opened.effective), standing)


def _edited(own: Contract, signed: Signed, ledger: Ledger) -> str:
    """Say what the file is instead of the version in force. What it says is compared, not its comments."""
    in_force_ = f"version {signed.opened.said.version} is in force (entry {signed.entry.seq})"
    for entry in Register(ledger, Reviewers()).entries(own.id):
        if entry.seq != signed.entry.seq and _holds(entry, own):
            return f"the file is version {entry.body['version']}; {in_force_}"
    return f"the file (version {own.version}) is no version that was signed; {in_force_}"


def _holds(entry: Entry, own: Contract) -> bool:
    try:
        return payload_of(entry.body.get("envelope")).own == own
    except LoaderError:
        return False
