"""Whose model signatures the acceptor trusts (``[signatures]`` of a policy): public keys, written out in full."""

from __future__ import annotations

from typing import Annotated, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.names import Name
from acceptd.policy.table import Short, Table

CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")


def public_key(pem: str) -> EllipticCurvePublicKey:
    """Return the key of a PEM text; raise ValueError where it is none that model signatures are made with."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError("no public key in PEM (-----BEGIN PUBLIC KEY-----)") from error
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in CURVES:
        raise ValueError("no ECDSA key on the curve P-256, P-384 or P-521, as OpenSSF model signatures need")
    return key


def _pem(value: str) -> str:
    public_key(value)
    return value.strip() + "\n"


class SignerTable(Table):
    """One key whose signature counts, and for which teams' bundles."""

    name: Short
    key: Annotated[str, Field(max_length=4096), AfterValidator(_pem)]
    """PEM, SubjectPublicKeyInfo."""
    teams: Annotated[list[Name], Field(max_length=256)] = []
    """Empty: every team's."""


class SignaturesTable(Table):
    """OpenSSF model signatures (``model.sig``) that come with a bundle."""

    required: bool = False
    """Whether a bundle without a good one is held."""
    signers: Annotated[list[SignerTable], Field(max_length=64)] = []

    @model_validator(mode="after")
    def _sound(self) -> SignaturesTable:
        if self.required and not self.signers:
            raise ValueError("required: no signer is named, so that nothing could ever be accepted")
        names = [one.name for one in self.signers]
        if len(set(names)) != len(names):
            raise ValueError("signers: two of them have one name")
        return self

    def of(self, team: str) -> list[SignerTable]:
        """Return the signers that count for a team."""
        return [one for one in self.signers if not one.teams or team in one.teams]
