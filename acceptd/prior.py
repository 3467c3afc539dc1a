"""The release that a submission is compared with, as evidence: facts of the accepted submission that made it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.model_facts import Facts
from acceptd.structure_facts import Structure
from acceptd.values import Count, Evidence, Text


class Snapshot(Evidence):
    """One model as it was inspected: what two of them are compared by. ``bytes`` is the size of the model file."""

    name: str
    file: str = ""
    bytes: Count
    facts: Facts
    structure: Structure


class Prior(Evidence):
    """The current release of the same model id and channel, when the submission was judged.

    ``none``: there is none, or nobody could know of one (``reason``). ``same``: it is this very bundle. ``found``:
    its facts are in ``models``. ``unknown``: there is one, and its facts could not be had or not be trusted.
    """

    status: Literal["none", "same", "found", "unknown"]
    reason: Text = ""
    channel: str = ""
    number: Count = 0
    bundle_digest: str = ""
    version: str = ""
    verdict_seq: Count = 0
    evidence_digest: str = ""
    models: Annotated[list[Snapshot], Field(max_length=32)] = []


def same_or(prior: Prior, digest: str) -> Prior:
    """Return what a bundle is compared with: nothing where it is the very same one."""
    if prior.status == "found" and prior.bundle_digest == digest:
        return prior.model_copy(update={"status": "same", "reason": "this is the same bundle", "models": []})
    return prior


NO_LEDGER = Prior(status="none", reason="judged without a ledger: there is no prior release to compare with")


def pruned(facts: Facts) -> Facts:
    """Return the facts without what is never compared, so that evidence that holds them stays small."""
    left_out = ("external", "problems", "initializer_names", "weights", "function_facts")
    uses = [use.model_copy(update={"types": []}) for use in facts.operators]
    return facts.model_copy(update={**{key: [] for key in left_out}, "operators": uses, "cost": None})
