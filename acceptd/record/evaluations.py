"""How often held-out vectors were evaluated: counted in the ledger before each evaluation starts.

An entry says that one was spent; what came of it stands in no entry. A kill afterwards leaves it counted.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from acceptd.policy.contract import Contract
from acceptd.record.entry import heldout_key
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger, Transaction
from acceptd.record.tables import entries


def spend(ledger: Ledger, submission: str, contract: Contract, digest: str, *, most: int) -> int:
    """Return the number of this submission's evaluation, counting it durably first; 0 where ``most`` are spent.

    A submission that was counted before keeps its number: it has one verdict, however often a daemon died over
    it. ``digest`` is the contract's. Raises LedgerError.
    """
    known = next(ledger.entries(kind="heldout", submission=submission), None)
    if known is not None:
        return int(known.body["number"])

    def do(change: Transaction) -> int:
        number = _spent(change.connection, contract) + 1
        if number > most:
            return 0
        body = {
            "model": contract.id,
            "contract_version": contract.version,
            "contract_digest": digest,
            "number": number,
        }
        change.append("heldout", body, submission=submission)
        return number

    number = ledger.change(do)
    if number:
        failpoint("record.heldout.spent")
    return number


def spent(ledger: Ledger, contract: Contract) -> int:
    """Return how many evaluations of this version of the contract are spent."""
    return ledger.look(lambda connection: _spent(connection, contract))


def _spent(connection: Connection, contract: Contract) -> int:
    key = heldout_key(contract.id, contract.version)
    column = entries.c.unique_key
    query = select(func.count()).where(column > key, column < key[:-1] + "0")  # "0" follows "/"
    return int(connection.execute(query).scalar() or 0)
