"""An order: what the promoter wants examined, and by which rules. Signed, since others may write where it lies.

A worker examines by it; the promoter judges by it again and by nothing that it cannot derive itself or has not
signed. ``round`` numbers the orders of one submission: evidence counts for the order that it was made for.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from acceptd.contracts.effective import Agreed
from acceptd.errors import LedgerError, MalformedError
from acceptd.evidence import ContractStanding
from acceptd.policy.contract import Contract
from acceptd.policy.names import Name, Sha256
from acceptd.policy.profile import Profile
from acceptd.record import attest
from acceptd.record.canonical import canonical, digest, parse
from acceptd.record.keys import Keyring, Signer

TYPE: Final = "application/vnd.acceptd.fleet-order+json"
ROLE: Final = "ledger"
"""The role of the key that signs orders."""
_MAX_BYTES: Final = 4 << 20
_Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


class Order(BaseModel):
    """One order. Digests are SHA-256 in hex; empty: there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    submission: Annotated[str, Field(max_length=128)]
    round: Annotated[int, Field(ge=1, le=1000)]
    model: Annotated[str, Field(max_length=129)] = ""
    """The id that the manifest gives, as the intake read it; empty: none that counts."""
    bundle: Sha256
    policy: Sha256
    profiles: Annotated[dict[Name, Sha256], Field(min_length=1, max_length=16)]
    """What it is examined under: digests by name."""
    contract: dict[str, Any] | None = None
    """The contract in force, whole."""
    contract_digest: _Digest = ""
    standing: ContractStanding | None = None
    seed: Sha256
    """Of the probes."""
    prior: _Digest = ""
    """The blob that says which release it is compared with."""
    heldout: Annotated[int, Field(ge=0)] = 0
    """The number of the held-out evaluation that this order is for; 0: it is for an examination."""
    examined: _Digest = ""
    """Of such an order: the blob of the whole examination before, as the promoter put it together."""

    nodes: Annotated[list[dict[str, str]], Field(max_length=16)] = []
    """Of such an order: whose evidence that examination rests on, as a verdict names it."""

    @property
    def agreed(self) -> Agreed:
        """Return the contract in force."""
        contract = None if self.contract is None else Contract.model_validate(self.contract, strict=False)
        return Agreed(contract, self.contract_digest, self.standing)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the document: evidence names the order that it was made for by it."""
        return digest(self.model_dump(mode="json", by_alias=True))

    def signed(self, signer: Signer) -> dict[str, Any]:
        """Return the DSSE envelope."""
        document = self.model_dump(mode="json", by_alias=True)
        return attest.sign(TYPE, canonical(document), signer)

    @classmethod
    def opened(cls, envelope: Any, keys: Keyring) -> Self:
        """Return the order that a key of the ledger signed; raise LoaderError for any other envelope."""
        return cls._read(attest.verify(envelope, TYPE, keys, ROLE))

    @classmethod
    def told(cls, envelope: Any) -> Self:
        """Return what an envelope says, whoever signed it: a worker examines by it, and the promoter looks again.

        Raises MalformedError.
        """
        return cls._read(attest.unverified(envelope)[0])

    @classmethod
    def _read(cls, payload: bytes) -> Self:
        if len(payload) > _MAX_BYTES:
            raise MalformedError(f"an order of {len(payload)} bytes")
        try:
            found = cls.model_validate(parse(payload))
            found.agreed  # noqa: B018 - a contract that is none is found out here, and not by who examines by it
            return found
        except (ValidationError, LedgerError) as error:
            raise MalformedError(f"no order: {error}"[:400]) from error


def queue_of(profile: Profile) -> str:
    """Return the queue of a profile: its name, since a worker's word counts by profiles.

    >>> queue_of(Profile())
    'cpu'
    """
    return profile.name
