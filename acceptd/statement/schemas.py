"""Which predicates there are, who signs them, and what of one is not as its model says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

from acceptd.policy.schemas import shipped
from acceptd.policy.troubles import Trouble, first
from acceptd.record.attest import FIRST_VERDICT_TYPE, RELEASE_STATEMENT_TYPE, VERDICT_TYPE
from acceptd.statement.fleet import EVIDENCE_TYPE, SEAL_TYPE, EvidencePredicate, SealPredicate
from acceptd.statement.release import ReleasePredicate
from acceptd.statement.verdict import VerdictPredicate

ROLES: Final[Mapping[str, str]] = MappingProxyType(
    {VERDICT_TYPE: "ledger", FIRST_VERDICT_TYPE: "ledger", RELEASE_STATEMENT_TYPE: "release"}
)
"""Predicate type to the role of the key of the keyring that must have signed it; the policy names nodes' keys."""
MODELS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {
        VERDICT_TYPE: VerdictPredicate,
        RELEASE_STATEMENT_TYPE: ReleasePredicate,
        EVIDENCE_TYPE: EvidencePredicate,
        SEAL_TYPE: SealPredicate,
    }
)
"""Predicate type to its model. The first form of verdicts had none."""


def trouble(model: type[BaseModel], predicate: Mapping[str, Any]) -> str:
    """Return where and why a predicate is not what its schema says; empty where it is."""
    found = first(dict(predicate), model)
    return f"{found.key or 'the whole'}: {found.message}" if isinstance(found, Trouble) else ""


KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "verdict-statement": VERDICT_TYPE,
        "release-statement": RELEASE_STATEMENT_TYPE,
        "evidence-statement": EVIDENCE_TYPE,
        "seal-statement": SEAL_TYPE,
    }
)
"""Kind of schema, as files and commands name it, to predicate type."""


def schema_text(kind: str) -> str:
    """Return the JSON Schema of one predicate as indented ASCII JSON; raise KeyError for a word not in KINDS."""
    uri = KINDS[kind]
    title = f"the predicate of acceptd's {kind.replace('-', ' ')}"
    return shipped(MODELS[uri], title, identifier=uri)
