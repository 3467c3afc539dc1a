"""The signers of releases, and the envelopes they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from acceptd.errors import ConfigError
from acceptd.policy.manifest import Table
from acceptd.record import attest
from acceptd.record.canonical import canonical
from acceptd.record.keys import Keyring, Signer, load_keyring, load_signer


class Verifying(Protocol):
    """Whoever can check a signature: :class:`ReleaseKeys`, or an auditor without private keys."""

    @property
    def keyring(self) -> Keyring:
        """The public keys."""
        ...


@dataclass(frozen=True, slots=True)
class Auditor:
    """Public keys alone."""

    keyring: Keyring


@dataclass(frozen=True, slots=True)
class ReleaseKeys:
    """The private keys of this room. ``revocation`` is None where that key is kept offline."""

    release: Signer
    revocation: Signer | None
    keyring: Keyring
    """Public keys, to check what lies on disk before anything is built upon it."""

    @classmethod
    def load(cls, state: Path) -> ReleaseKeys:
        """Load the keys of a state directory; raise ConfigError for a missing or an exposed release key."""
        keyring = load_keyring(state)
        revocation = None
        if (state / "keys" / "revocation.pem").exists():
            revocation = load_signer(state, "revocation")
        keys = cls(load_signer(state, "release"), revocation, keyring)
        for signer in (keys.release, keys.revocation):
            if signer is not None and signer.public_key() not in keyring.keys:
                raise ConfigError(
                    f"the {signer.role} key {signer.key_id} is not in the keyring; no loader would trust it"
                )
        return keys


def seal_document(document: Table, payload_type: str, signer: Signer) -> bytes:
    """Return the file of a signed document: a DSSE envelope around its RFC 8785 bytes, and a newline."""
    payload = canonical(document.model_dump(mode="json", by_alias=True))
    return canonical(attest.sign(payload_type, payload, signer)) + b"\n"
