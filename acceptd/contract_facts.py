"""What the trusted side found out about the contract that a bundle is judged by: frozen models with caps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.values import Count, Evidence, Text

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ContractSigner(Evidence):
    """A person whose signature verified, and their team."""

    name: Annotated[str, Field(max_length=64)]
    team: Annotated[str, Field(max_length=64)]


class ContractStanding(Evidence):
    """Where the contract comes from, and who stands for it.

    ``signed``: the newest version on record, whose signatures verify. ``edited``: that version too, and the file
    in its place says something else. ``unsigned``: a file, and no version on record. ``unverified``: a version on
    record that does not verify; what was judged by is the file, where there is one. ``unchecked``: a file, judged
    where there is no ledger.
    """

    status: Literal["signed", "edited", "unsigned", "unverified", "unchecked"]
    place: Text = ""
    """The file, as the acceptor names it."""
    reason: Text = ""
    version: Count = 0
    """The contract's own; 0: there is none."""
    entry: Count | None = None
    """Number of the entry with the signatures."""
    digest: Digest | None = None
    """Of the signed version, as it was signed."""
    signers: Annotated[list[ContractSigner], Field(max_length=16)] = []
    tightens: bool = False
    """Whether every change against the version before is tighter."""
    inherited: Annotated[dict[Text, Text], Field(max_length=20_000)] = {}
    """Keys that were inherited, and from where."""
    defaults_changed: bool = False
    """Whether the defaults give other values now than those that were signed."""
