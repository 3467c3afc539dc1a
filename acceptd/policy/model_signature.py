"""OpenSSF model signatures, v1.0: the signed bytes, written anew from sealed digests, and who signed them. Pure.

The format is that of model_signing 1.1 (github.com/sigstore/model-transparency): a Sigstore bundle (JSON) with a
DSSE envelope of an in-toto Statement whose predicate lists each file. What is signed is the statement's text, so
it is not read here: it is written, in the layout that a job told, and the signature tells whether it is the same.
Keys alone; certificates and keyless signatures are not verified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from acceptd.policy.signatures import SignerTable, public_key
from acceptd.signature_facts import SignatureFacts, SignedLayout

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_HASHES: Final[dict[int, hashes.HashAlgorithm]] = {
    256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512(),
}  # fmt: skip
_SEPARATORS: Final = {"indented": (2, (",", ": ")), "spaced": (None, (", ", ": ")), "compact": (None, (",", ":"))}


def payload(layout: SignedLayout, files: Iterable[tuple[str, str]]) -> bytes:
    """Return the statement about ``files`` (path, SHA-256 in hex) as a signer with that layout writes it."""
    key = (lambda row: row[0].split("/")) if layout.sorted_by == "parts" else (lambda row: row[0])
    rows = sorted(files, key=key)
    root = hashlib.sha256(b"".join(bytes.fromhex(sha256) for _, sha256 in rows)).hexdigest()
    values: dict[str, Any] = {
        "_type": STATEMENT_TYPE,
        "predicateType": PREDICATE_TYPE,
        "subject": [_keyed(layout.subject, {"name": layout.name, "digest": {"sha256": root}})],
        "predicate": _keyed(
            layout.predicate,
            {
                "serialization": _keyed(
                    layout.serialization,
                    {
                        "method": "files",
                        "hash_type": "sha256",
                        "allow_symlinks": layout.allow_symlinks,
                        "ignore_paths": list(layout.ignore_paths),
                    },
                ),
                "resources": [
                    _keyed(layout.resource, {"name": path, "algorithm": "sha256", "digest": sha256})
                    for path, sha256 in rows
                ],
            },
        ),
    }
    indent, separators = _SEPARATORS[layout.style]
    text = json.dumps(
        _keyed(layout.statement, values), indent=indent, separators=separators, ensure_ascii=layout.ascii
    )
    return text.encode("utf-8", "surrogatepass")


def _keyed(order: Iterable[str], values: dict[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in order if key in values}


def encoded(data: bytes) -> bytes:
    """Return the DSSE pre-authentication encoding (protocol v1) of a payload."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(data), data)


def hash_of(key: ec.EllipticCurvePublicKey) -> hashes.HashAlgorithm:
    """Return the hash that goes with a curve in this format."""
    return _HASHES[key.curve.key_size]


def signer(
    facts: SignatureFacts, files: Iterable[tuple[str, str]], signers: Iterable[SignerTable]
) -> SignerTable | None:
    """Return whose key signed exactly these files (path, SHA-256 in hex); None where nobody's did."""
    if facts.layout is None or facts.problem or not _whole(facts.layout):
        return None
    signed = encoded(payload(facts.layout, files))
    signature = utils.encode_dss_signature(int(facts.r, 16), int(facts.s, 16))
    for one in signers:
        key = public_key(one.key)
        try:
            key.verify(signature, signed, ec.ECDSA(hash_of(key)))
        except InvalidSignature:
            continue
        return one
    return None


def _whole(layout: SignedLayout) -> bool:
    """Say whether every key is there once: a statement that lacks one says less than it should."""
    return all(
        sorted(order) == sorted(wanted)
        for order, wanted in (
            (layout.statement, ("_type", "subject", "predicateType", "predicate")),
            (layout.subject, ("name", "digest")),
            (layout.predicate, ("serialization", "resources")),
            (layout.resource, ("name", "algorithm", "digest")),
            ([one for one in layout.serialization if one != "ignore_paths"],
             ("method", "hash_type", "allow_symlinks")),
        )
    )  # fmt: skip
