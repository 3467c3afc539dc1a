"""The ledger's word inside ``release.json``: that this promotion was entered before it was signed. Pure.

The proof carries the exact leaf of the ``intent`` entry, its audit path and the root (RFC 9162, 2.1.3.2).
What the leaf says must be what the release says, so a proof of another promotion is of no use.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from acceptd.errors import DigestMismatchError, MalformedError
from acceptd.record.merkle import leaf_hash, verify_inclusion
from acceptd.release.trust import ReleaseFacts, parse_json

PROVED = "unsigned"
"""The proof holds below the root that ``release.json`` names; no checkpoint of the log is attached."""
ABSENT = "absent"


def verify(facts: ReleaseFacts) -> str:
    """Return :data:`PROVED` or :data:`ABSENT`; raise MalformedError or DigestMismatchError for a bad proof."""
    inclusion = facts.document.get("inclusion")
    if inclusion is None:
        return ABSENT
    try:
        leaf = base64.b64decode(inclusion["leaf"], validate=True)
        seq, size = inclusion["seq"], inclusion["size"]
        root, path = bytes.fromhex(inclusion["root"]), [bytes.fromhex(step) for step in inclusion["path"]]
        entry = parse_json(leaf, "the ledger entry of release.json")
        body: dict[str, Any] = entry["body"]
        said = (entry["type"], entry["seq"], *(body[key] for key in ("model", "channel", "number", "digest")))
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise MalformedError(f"release.json carries a malformed proof: {error!r:.120}") from None
    if type(seq) is not int or type(size) is not int:
        raise MalformedError("release.json carries a proof without whole numbers")
    if said != ("intent", seq, facts.model_id, facts.channel, facts.number, facts.bundle_digest):
        raise DigestMismatchError("the ledger entry that release.json proves is about another promotion")
    if not verify_inclusion(leaf_hash(leaf), seq, size, path, root):
        raise DigestMismatchError("release.json: the inclusion proof of its ledger entry does not hold")
    return PROVED
