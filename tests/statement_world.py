"""Holds every signed statement that a test's ledger has against the shipped JSON Schema of its predicate."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from acceptd.record.attest import FIRST_VERDICT_TYPE
from acceptd.statement.schemas import KINDS

DOCS = Path(__file__).resolve().parents[1] / "docs"


@functools.cache
def validator(predicate_type: str) -> Draft202012Validator:
    """Return the validator of a predicate type, from the file that is shipped."""
    kind = {uri: kind for kind, uri in KINDS.items()}[predicate_type]
    schema = json.loads((DOCS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    assert schema["$id"] == predicate_type
    return Draft202012Validator(schema)


def payload_of(envelope: dict[str, Any]) -> dict[str, Any]:
    """Return the statement in an envelope, unverified."""
    value = json.loads(base64.b64decode(envelope["payload"]))
    assert isinstance(value, dict)
    return value


def troubles(statement: dict[str, Any]) -> list[str]:
    """Return what of a statement's predicate is not what its schema says."""
    found = validator(statement["predicateType"]).iter_errors(statement["predicate"])
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in found]


def check_statements(entries: Iterable[dict[str, Any]], *, old: bool = False) -> int:
    """Check all statements of exported entries; return how many. ``old``: verdicts of the first form may be there.

    A verdict's statement names its own entry, and a release's the entries that it rests on.
    """
    rows = list(entries)
    hashes = {entry["seq"]: entry["leaf_hash"] for entry in rows}
    count = 0
    for entry in rows:
        envelope = entry["body"].get("statement")
        if envelope is None:
            assert entry["type"] not in {"verdict", "activated"}, entry
            continue
        statement = payload_of(envelope)
        if old and statement["predicateType"] == FIRST_VERDICT_TYPE:
            continue
        assert troubles(statement) == [], (entry["seq"], troubles(statement))
        predicate = statement["predicate"]
        if entry["type"] == "verdict":
            assert predicate["entry"]["number"] == entry["seq"]
        else:
            for place in (predicate["entry"], predicate["verdict"], *predicate["decisions"]):
                assert hashes[place["number"]] == place["leaf_hash"]
        count += 1
    return count
