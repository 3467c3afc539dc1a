"""The contract itself: signed by enough people, unchanged since, and not past its time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acceptd.evidence import ContractSigner, ContractStanding
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.contract import Contract
from acceptd.policy.names import seconds_until
from acceptd.policy.policy import ContractsTable, Policy


def findings(
    model: str,
    contract: Contract | None,
    policy: Policy,
    standing: ContractStanding | None,
    judged_at: str,
) -> Iterator[Finding]:
    """Yield what is wrong with the contract of the model id ``model``. ``judged_at`` is UTC, RFC 3339."""
    if standing is not None and standing.status == "unverified":
        yield make("contract/unverified", "judge", f"entry {standing.entry}", standing.reason)
    if contract is None:
        return
    yield from _time(contract, policy.contracts, judged_at)
    if standing is None:
        # Evidence from before there were signatures: nobody can have signed.
        if policy.contracts.unsigned == "hold":
            yield make("contract/unsigned", "judge", model, "no version of this contract is signed")
    elif standing.status == "unchecked":
        yield make("contract/unchecked", "judge", standing.place or model, "signatures were not looked for")
    elif standing.status != "unverified":
        yield from _signed(model, policy.contracts, standing)


def _signed(model: str, table: ContractsTable, standing: ContractStanding) -> Iterator[Finding]:
    held = table.unsigned == "hold"
    place = standing.place or model
    if standing.status == "unsigned":
        code = "contract/unsigned" if held else "contract/unsigned-accepted"
        yield make(code, "judge", place, "no version of this contract is signed")
        return
    if lacking := wanting(standing.signers, table, model, tightens=standing.tightens):
        code = "contract/unsigned" if held else "contract/unsigned-accepted"
        yield make(code, "judge", place, f"version {standing.version}, entry {standing.entry}: {lacking}")
    if standing.status == "edited":
        code = "contract/edited" if held else "contract/edited-accepted"
        yield make(code, "judge", place, standing.reason)
    if standing.defaults_changed:
        message = f"version {standing.version} was signed with other inherited values"
        yield make("contract/defaults-changed", "judge", place, message)


def wanting(signers: Sequence[ContractSigner], table: ContractsTable, model: str, *, tightens: bool) -> str:
    """Say which signatures a version still lacks by the policy; empty where there are enough.

    Each person counts once. Members of the model's own team count only for a version that ``tightens``: whose
    every change is tighter. A first version loosens: without it there is no promise at all.
    """
    own = model.partition("/")[0]
    counted = {
        one.name
        for one in signers
        if (not table.teams or one.team in table.teams) and (tightens or one.team != own)
    }
    missing = table.signers - len(counted)
    if missing <= 0:
        return ""
    of = f" of a member of {', '.join(table.teams)}" if table.teams else ""
    but = "" if tightens else f"; members of {own} do not count, for it does more than tighten"
    return f"{missing} more of {table.signers} signature{'s' if table.signers > 1 else ''} needed{of}{but}"


def _time(contract: Contract, table: ContractsTable, judged_at: str) -> Iterator[Finding]:
    end = contract.valid_until
    if end is None:
        return
    where = f"{contract.id} version {contract.version}: valid_until"
    left = seconds_until(end, judged_at)
    if left <= 0:
        yield make("contract/expired", "judge", where, f"it was valid until {end}")
    elif left <= table.warn_days * 86_400:
        yield make("contract/expiring", "judge", where, f"it is valid until {end}: {left // 86_400:.0f} days")
