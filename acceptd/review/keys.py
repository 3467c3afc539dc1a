"""A reviewer's own private key: made on their machine, kept there, read from a file that nobody else can read."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError, UsageError
from acceptd.record.keys import Signer, private_pem, read_owned
from acceptd.review.decision import ROLE

_REMEDY: Final = "name your private key (`review keygen`)"


def make(path: Path) -> Signer:
    """Write a new key (PKCS8 PEM, 0600) to a file that must not exist; raise UsageError where it does."""
    private = Ed25519PrivateKey.generate()
    pem = private_pem(private)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{path} exists", remedy="keys are never overwritten: name another file") from error
    with open(descriptor, "wb") as file:
        file.write(pem)
    return Signer.of(ROLE, private)


def load(path: Path) -> Signer:
    """Return the key in a file; raise ConfigError for a link, one that others may read, or no Ed25519 key."""
    data = read_owned(path, None, forbidden=0o077, remedy=_REMEDY)
    try:
        private = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: no private key in PKCS8 PEM without a password", remedy=_REMEDY) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigError(f"{path}: not an Ed25519 key", remedy=_REMEDY)
    return Signer.of(ROLE, private)


def public_text(signer: Signer) -> str:
    """Return the public half as ``reviewers.toml`` holds it."""
    return base64.b64encode(signer.public).decode()
