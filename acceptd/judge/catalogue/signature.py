"""Codes of the model signature that comes with a bundle, and why they matter."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.reasons_files import Reasons

TABLE: Final[Table] = {
    "signature/invalid": Code(
        "hold",
        "team",
        "The model signature (model.sig) could not be read, or no signer of the policy signed exactly the files "
        "of this bundle with it.",
        "Sign the finished bundle with a key that the policy names, and put nothing in afterwards; docs/bundle.md "
        "says which signatures are verified.",
    ),
    "signature/missing": Code(
        "hold",
        "team",
        "The policy wants a model signature, and the bundle carries none.",
        "Sign the bundle (docs/bundle.md has the command) and add model.sig at its top.",
    ),
    "signature/unchecked": Code(
        "info",
        "team",
        "The bundle carries a model signature, and the policy names no signer: nobody verified it.",
        "Nothing to do; an operator may name signers in [signatures] of the policy.",
    ),
    "signature/verified": Code(
        "info",
        "team",
        "A signer of the policy signed exactly the files of this bundle.",
        "Nothing to do.",
    ),
}
_EXCHANGED: Final = (
    "Between whoever made the model and the inbox anybody could have exchanged a file; only a signature by a key "
    "that they do not have shows it."
)
REASONS: Final[Reasons] = {
    "signature/invalid": (_EXCHANGED, ("CWE-345", "CWE-1357")),
    "signature/missing": (_EXCHANGED, ("CWE-345", "CWE-1357")),
    "signature/unchecked": ("A signature that nobody verifies protects nothing.", ("CWE-345",)),
    "signature/verified": (
        "It names the key that stands for these bytes, and no other claim of origin does.",
        ("CWE-345",),
    ),
}
