"""Whether the ledger accepted exactly what is to be promoted, as a key signed it, or people decided so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from acceptd.errors import LedgerError, LoaderError, ReleaseError
from acceptd.record.attest import statement_differences, verify_statement
from acceptd.record.canonical import document_digest
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release.model import Decided
from acceptd.release.order import Order
from acceptd.release.signers import ReleaseKeys

_AUDIT: Final = "the queue was changed since; run `acceptd ledger verify`, and submit the bundle again"


def accepted_by(
    ledger: Ledger, keys: ReleaseKeys, order: Order, decide: Callable[[Entry], Decided] | None
) -> Decided:
    """Return what people decided about it: the entries that the promotion rests on.

    Raises ReleaseError unless the ledger entry accepted exactly this digest, manifest and model, signed, or
    people decided so about it. Nothing that was only observed is promoted, whatever people say.
    """
    try:
        entry = ledger.entry(order.verdict_seq)
    except LedgerError as error:
        raise ReleaseError(f"there is no ledger entry {order.verdict_seq} that accepted {order.digest}") from error
    body = _signed(entry, keys, ledger.origin)
    accepted = body.get("verdict") == "accepted"
    if (entry.type, body.get("bundle_digest")) != ("verdict", order.digest) or not (accepted or decide):
        raise ReleaseError(f"ledger entry {order.verdict_seq} did not accept {order.digest}")
    if body.get("observed"):
        remedy = "submit it again where the policy does not observe it (docs/adoption.md)"
        raise ReleaseError(f"ledger entry {order.verdict_seq} was made in observe mode", remedy=remedy)
    # Weighed is what was signed, and not what stands beside it in the database.
    decided = decide(replace(entry, body=body)) if decide is not None else Decided("")
    if decided.refusal:
        remedy = "acceptd review show says what is missing"
        raise ReleaseError(f"{order.digest} may not be promoted: {decided.refusal}", remedy=remedy)
    bundle = order.manifest.get("bundle")
    named = bundle.get("id") if isinstance(bundle, dict) else None
    for model in (named, body.get("model", body.get("bundle_id", order.model_id))):
        if model != order.model_id:
            raise ReleaseError(f"the bundle {order.digest} is one of {model!r:.140}, not of {order.model_id}")
    if body.get("inferred") and not decided.by:
        raise ReleaseError(f"{order.digest} was accepted by an inferred manifest, which nobody declared")
    options = order.options
    # An earlier version knew fewer options: what it did not write stays at its default.
    forms = [options.model_dump(mode="json"), options.model_dump(mode="json", exclude_unset=True)]
    runtimes = [
        [one.model_dump(mode="json", exclude_unset=unset) for one in order.profiles] for unset in (False, True)
    ]
    body.setdefault("profiles_digest", document_digest([]))  # a verdict that speaks of no profiles accepted none
    judged: dict[str, list[Any]] = {"manifest": [order.manifest], "options": list(forms), "profiles": runtimes}
    for what, given in judged.items():
        digests = [document_digest(form) for form in given]
        if body.get(f"{what}_digest", digests[0]) not in digests:
            raise ReleaseError(f"{order.digest} was judged with other {what}", remedy=_AUDIT)
    return decided


def _signed(entry: Entry, keys: ReleaseKeys, log: str) -> dict[str, Any]:
    """Return what a verdict says, as a ledger key signed it: who can write to the database has no key."""
    said = dict(entry.body)
    if entry.type == "verdict":
        try:
            statement = verify_statement(entry.body.get("statement"), keys.at(entry.seq))
        except LoaderError as error:
            problem = f"ledger entry {entry.seq} has no signed verdict: {error}"
            raise ReleaseError(problem, remedy=_AUDIT) from error
        for difference in statement_differences(statement, entry.submission, entry.body, log, entry.seq):
            raise ReleaseError(f"ledger entry {entry.seq}: its statement {difference}", remedy=_AUDIT)
        said |= statement["predicate"]
    return said
