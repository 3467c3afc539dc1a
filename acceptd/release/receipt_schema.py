"""The JSON Schema (2020-12) of one line of receipts, made of the very patterns and caps that are enforced. Pure.

Beyond it :func:`acceptd.release.receipt.parse` holds: the digest, real moments, threshold text that is the
shortest, the bytes of all tensor names together, and that a decision has index and label or neither.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from acceptd.release import receipt
from acceptd.release.grammar import NAME, SHA256, STAMP
from acceptd.release.trust import MAX_NUMBER

IDENTIFIER: Final = "https://acceptd.dev/receipt/v1"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a receipt."""
    sha256 = _text(SHA256)
    index = {"type": "integer", "minimum": 0, "maximum": 2**31}
    tensors = {"type": "object", "maxProperties": receipt.MAX_TENSORS, "additionalProperties": sha256}
    decision = _table(
        row=index,
        output={"type": "string", "minLength": 1, "maxLength": 1024},
        index=_perhaps(index),
        label=_perhaps({"type": "string", "minLength": 1, "maxLength": 256}),
        threshold=_perhaps(_text(receipt.DECIMAL)),
    )
    bound = _table(
        request_id=_text(receipt.REQUEST_ID),
        at=_text(STAMP),
        model_id=_text(receipt.MODEL_ID),
        model=_text(NAME),
        channel=_text(NAME),
        number={"type": "integer", "minimum": 1, "maximum": MAX_NUMBER},
        release_digest=sha256,
        bundle_digest=sha256,
        profile=_text(NAME),
        runtime_identity=sha256,
        preprocessing=_perhaps(sha256),
        raw_input=_perhaps(sha256),
        inputs=tensors,
        outputs=tensors,
        decision=_perhaps(decision),
    )
    duration = _perhaps({"type": "integer", "minimum": 0, "maximum": receipt.MAX_MICROSECONDS})
    beside = _table(
        durations=_table(queue=duration, preprocess=duration, run=duration, postprocess=duration),
        requested_provider=_text(receipt.PROVIDER),
        provider=_text(receipt.PROVIDER),
        validation={"enum": list(receipt.VALIDATIONS)},
        timeout={"enum": list(receipt.TIMEOUTS)},
        error=_text(receipt.ERROR_CLASS),
    )
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTIFIER,
        "title": "a receipt of acceptd: one line",
    }
    return {**head, **_table(schema={"const": receipt.SCHEMA}, bound=bound, beside=beside, digest=sha256)}


def schema_text(_kind: str = "receipt") -> str:
    """Return the JSON Schema as indented ASCII JSON, the same for the same version."""
    return json.dumps(schema(), indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def _text(pattern: re.Pattern[str]) -> dict[str, Any]:
    # Python's `$`, and so most validators', also stands before a last newline; JSON Schema's (ECMA 262) does not.
    return {"type": "string", "pattern": f"^(?:{pattern.pattern})$(?!\\n)"}


def _perhaps(form: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, form]}


def _table(**members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": sorted(members),
        "additionalProperties": False,
    }
