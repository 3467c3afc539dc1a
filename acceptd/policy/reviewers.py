"""Who may decide (``policies/reviewers.toml``): people by name and team, each with a key of their own."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.names import Name
from acceptd.policy.table import Table
from acceptd.weak_keys import refuse_weak


def _key(value: str) -> str:
    try:
        raw = base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("a key is base64") from error
    if len(raw) != 32:
        raise ValueError(f"an Ed25519 public key has 32 bytes, this one {len(raw)}")
    try:
        refuse_weak(raw)
    except ValueError as error:
        raise ValueError(f"{error}: put the one here that `acceptd review keygen` printed") from error
    return value


class Reviewer(Table):
    """One person. ``key`` is the raw Ed25519 public key (RFC 8032) in base64; see ``acceptd review keygen``."""

    name: Name
    team: Name
    key: Annotated[str, Field(max_length=64), AfterValidator(_key)]
    uid: Annotated[int, Field(ge=0, lt=(1 << 32) - 1)] | None = None
    """The person's own kernel uid, where they may also drop bundles: what they dropped they do not decide."""
    left: bool = False
    """Decides nothing any more: what is on record still verifies, and a rejection stands; nothing else counts."""

    @property
    def raw(self) -> bytes:
        """The 32 bytes of the key."""
        return base64.b64decode(self.key)


class Reviewers(Table):
    """The whole file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    reviewers: Annotated[list[Reviewer], Field(max_length=1024)] = []

    @model_validator(mode="after")
    def _distinct(self) -> Reviewers:
        for what in ("name", "key"):
            # Of a key its bytes: base64 writes one key in several ways.
            values = [one.raw if what == "key" else one.name for one in self.reviewers]
            if twice := next((value for value in values if values.count(value) > 1), None):
                raise ValueError(f"reviewers: two have the {what} {twice!r:.64}")
        return self
