"""What a job says of an OpenSSF model signature that came with a bundle: frozen models with caps.

A job is hostile, and nothing passes by what it says: the trusted side writes the signed bytes itself, from the
sealed digests and the layout that is told here, and verifies the two numbers over them. A lie can only fail.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.values import Evidence, Text

Scalar = Annotated[str, Field(pattern=r"^[0-9a-f]{1,132}$")]
"""One half of an ECDSA signature in hex; P-521 needs 132 digits."""
Order = Annotated[list[Literal["name", "digest", "algorithm"]], Field(max_length=3)]


class SignedLayout(Evidence):
    """How the signer's JSON writer wrote the statement: keys in their order, separators, order of the files.

    ``style``: ``indented`` by two spaces, ``spaced`` (``", "`` and ``": "``) or ``compact``. ``sorted_by``: path
    parts (as model_signing does), or the whole path.
    """

    name: Text
    """The model's name as the signer gave it: it is signed, and says nothing."""
    statement: Annotated[list[Literal["_type", "subject", "predicateType", "predicate"]], Field(max_length=4)]
    subject: Order
    predicate: Annotated[list[Literal["serialization", "resources"]], Field(max_length=2)]
    serialization: Annotated[
        list[Literal["method", "hash_type", "allow_symlinks", "ignore_paths"]], Field(max_length=4)
    ]
    resource: Order
    allow_symlinks: bool
    ignore_paths: Annotated[list[Text], Field(max_length=256)] = []
    style: Literal["indented", "spaced", "compact"]
    ascii: bool
    sorted_by: Literal["parts", "path"]


class SignatureFacts(Evidence):
    """``signature``: what ``model.sig`` holds, or why that cannot be said (``problem``)."""

    problem: Text = ""
    layout: SignedLayout | None = None
    r: Scalar = "0"
    s: Scalar = "0"
