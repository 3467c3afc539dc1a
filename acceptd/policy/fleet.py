"""Which nodes of a fleet the acceptor trusts with what: ``[fleet]`` of a policy (``docs/threat-model.md``)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.names import Moment, Name
from acceptd.policy.table import Short, Table
from acceptd.policy.walls import Wall
from acceptd.weak_keys import refuse_weak

NodeRole = Literal["intake", "worker"]
_KEY: Final = 44
"""Characters of base64 of 32 bytes."""


def raw_key(text: str) -> bytes:
    """Return the 32 bytes of a public key as ``acceptd key node`` prints it; raise ValueError where it is none."""
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("no base64: give the public key as `acceptd key node` prints it") from error
    if len(raw) != 32 or base64.b64encode(raw).decode() != text:
        raise ValueError("no Ed25519 public key: base64 of 32 bytes is needed, as `acceptd key node` prints it")
    return refuse_weak(raw)


def _key(value: str) -> str:
    raw_key(value)
    return value


class TrustTable(Table):
    """One node in one role: its key, and what its word counts for."""

    name: Name
    """The node's name, as ``[fleet] name`` of its acceptd.toml says it."""
    role: NodeRole
    """``intake``: whose drops are taken. ``worker``: who may run a model."""
    key: Annotated[str, Field(max_length=_KEY), AfterValidator(_key)]
    """Base64 of the 32 bytes of its Ed25519 public key, as ``acceptd key node`` prints it."""
    profiles: Annotated[list[Name], Field(max_length=16)] = []
    """Of a worker: the profiles that it may examine under; at least one."""
    heldout: bool = False
    """Of a worker: whether it may evaluate held-out vectors, which it must have."""
    walls: Annotated[list[Wall], Field(max_length=9)] = []
    """Of a worker: walls that must have stood there, beside ``required_walls``."""
    expires: Moment | None = None
    """From then on its word does not count."""
    revoked: Short | None = None
    """Why its word does not count any more, for nothing that is not judged yet; leave the key here."""

    @property
    def key_id(self) -> str:
        """Return the key's id: SHA-256 of its 32 bytes, in hex."""
        return hashlib.sha256(raw_key(self.key)).hexdigest()

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.role == "worker" and not self.profiles:
            raise ValueError("profiles: a worker that may examine under none is of no use; name them")
        if self.role == "intake" and (self.profiles or self.heldout or self.walls):
            raise ValueError("profiles, heldout and walls belong to a worker; an intake examines nothing")
        if len(set(self.profiles)) != len(self.profiles):
            raise ValueError("profiles: one of them stands twice")
        return self


class FleetPolicyTable(Table):
    """Whose word about a bundle counts where one machine takes it in, others run it and another one judges."""

    valid_seconds: Annotated[int, Field(ge=60, le=31_536_000)] = 86_400
    """Evidence and seals that are older when they are judged by do not count."""
    trust: Annotated[list[TrustTable], Field(max_length=1024)] = []

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names: dict[str, str] = {}
        seen: set[tuple[str, NodeRole]] = set()
        for one in self.trust:
            if names.setdefault(one.key, one.name) != one.name:
                raise ValueError(f"trust: {names[one.key]} and {one.name} have one key; each node has its own")
            if (one.name, one.role) in seen:
                raise ValueError(f"trust: {one.name} stands twice as {one.role}")
            seen.add((one.name, one.role))
        return self
