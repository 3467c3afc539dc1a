"""Codes of a contract's life: who signed the version in force, whether its file says so, how long it holds."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.reasons_files import Reasons

TABLE: Final[Table] = {
    "contract/defaults-changed": Code(
        "info",
        "reviewer",
        "The defaults that the contract inherits from give other values now; those that were signed are in force.",
        "Sign a new version to take the new values over, or put the old ones back.",
    ),
    "contract/edited": Code(
        "hold",
        "reviewer",
        "The contract's file is not the version that reviewers signed, and the policy wants signed ones. The "
        "signed version is in force.",
        "Put the signed text back (`acceptd contract show MODEL --toml`), or sign what the file says now.",
    ),
    "contract/edited-accepted": Code(
        "warn",
        "reviewer",
        "The contract's file is not the version that reviewers signed; the signed version is in force.",
        "Put the signed text back (`acceptd contract show MODEL --toml`), or sign what the file says now.",
    ),
    "contract/expired": Code(
        "hold",
        "reviewer",
        "The contract was valid until a time that has passed.",
        "A reviewer looks at it again and signs a version with a later valid_until.",
    ),
    "contract/expiring": Code(
        "warn",
        "reviewer",
        "The contract ends soon; from then on every bundle of the model is held.",
        "A reviewer looks at it again and signs a version with a later valid_until.",
    ),
    "contract/unchecked": Code(
        "info",
        "reviewer",
        "A local check has no ledger, so it does not know whether reviewers signed the contract.",
        "Nothing to do; the daemon looks.",
    ),
    "contract/unsigned": Code(
        "hold",
        "reviewer",
        "Too few reviewers have signed the contract, and the policy wants signed ones.",
        "Prepare, sign and install it: `acceptd contract sign FILE` (docs/contracts.md).",
    ),
    "contract/unsigned-accepted": Code(
        "info",
        "reviewer",
        "Too few reviewers have signed the contract; the policy takes unsigned ones.",
        "Nothing to do; contracts.unsigned of the policy would hold it.",
    ),
    "contract/unverified": Code(
        "hold",
        "reviewer",
        "The newest version of the contract on record does not verify, so nobody knows what was agreed on.",
        "See `acceptd ledger verify`; put its signers back into reviewers.toml, or find out who wrote the entry.",
    ),
}

REASONS: Final[Reasons] = {
    "contract/defaults-changed": (
        "One file that many models inherit from must not change what people signed for each of them.",
        ("CWE-471",),
    ),
    "contract/edited": (
        "Whoever may write the file would decide what a model is measured by, and nobody would have agreed.",
        ("CWE-345", "CWE-471"),
    ),
    "contract/edited-accepted": (
        "Who edited the file believes that it is in force, and it is not.",
        ("CWE-471",),
    ),
    "contract/expired": (
        "What was agreed for a time is not agreed for ever: nobody has looked whether it still fits.",
        ("CWE-672",),
    ),
    "contract/expiring": ("A release that is due on that day would wait for a signature.", ("CWE-672",)),
    "contract/unchecked": ("What a check on a desk accepts may still be held by the daemon.", ("CWE-345",)),
    "contract/unsigned": (
        "Tolerances and ceilings decide what passes: one person with an editor would decide it alone.",
        ("CWE-345",),
    ),
    "contract/unsigned-accepted": (
        "Whoever may write the file decides what the model is measured by.",
        ("CWE-345",),
    ),
    "contract/unverified": (
        "An entry with a contract that no reviewer signed was written by somebody else, or its signer is gone.",
        ("CWE-347",),
    ),
}
