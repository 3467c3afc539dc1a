"""An OpenSSF model signature of a promoted bundle, for consumers that verify with model_signing.

That format knows ECDSA keys alone, so it needs a key of its own beside the Ed25519 ones of acceptd; the key is
read from a file that nobody else can read, and stays with whoever runs the command.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from acceptd.errors import ConfigError
from acceptd.policy.model_signature import PAYLOAD_TYPE, encoded, hash_of, payload
from acceptd.policy.signatures import public_key
from acceptd.record.keys import read_owned
from acceptd.signature_facts import SignedLayout

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key in a file; raise ConfigError where others may read it, or it is none for this format."""
    data = read_owned(path, None, forbidden=0o077, remedy="name an ECDSA key in PEM")
    try:
        private = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: no private key in PEM without a password") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path}: not an ECDSA key", remedy="openssl ecparam -name prime256v1 -genkey -noout")
    try:
        public_key(_public(private).decode())
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return private


def sign(name: str, files: Sequence[tuple[str, str]], private: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the file ``model.sig`` over all ``files`` (path, SHA-256 in hex): JSON of a Sigstore bundle, v0.3."""
    layout = SignedLayout(
        name=name,
        statement=["_type", "subject", "predicateType", "predicate"],
        subject=["name", "digest"],
        predicate=["serialization", "resources"],
        serialization=["method", "hash_type", "allow_symlinks"],
        resource=["name", "algorithm", "digest"],
        allow_symlinks=False,
        style="indented",
        ascii=True,
        sorted_by="parts",
    )
    data = payload(layout, files)
    signature = private.sign(encoded(data), ec.ECDSA(hash_of(private.public_key())))
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {
            "publicKey": {"hint": hashlib.sha256(_public(private)).hexdigest()},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(data).decode("ascii"),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode("ascii"), "keyid": ""}],
        },
    }
    return json.dumps(bundle).encode("ascii") + b"\n"


def _public(private: ec.EllipticCurvePrivateKey) -> bytes:
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
