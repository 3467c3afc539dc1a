"""A ledger, reviewers, a policies directory and contracts: what the tests of a contract's life stand on."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.contracts import version as versions
from acceptd.contracts.effective import effective
from acceptd.contracts.propose import text_of
from acceptd.contracts.register import Register
from acceptd.policy.contract import Contract
from acceptd.policy.policy import ContractsTable, Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record.attest import Envelope
from acceptd.record.entry import Appended
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger
from acceptd.rules import Rules
from tests.judge_world import contract_document

MODEL = "mosaic/evidence-disposition"
Person = tuple[Signer, Reviewer]
Document = dict[str, Any]


def person(name: str, team: str = "security", *, left: bool = False) -> Person:
    signer = Signer.of("reviewer", Ed25519PrivateKey.generate())
    key = base64.b64encode(signer.public).decode()
    return signer, Reviewer(name=name, team=team, key=key, left=left)


ADA, BEN, EVE = person("ada"), person("ben", "safety"), person("eve", "mosaic")


def looser(document: Document) -> None:
    document["ceilings"]["load_ms"] = 9000.0


def tighter(document: Document) -> None:
    document["ceilings"]["load_ms"] = 10.0


def a_contract(version: int = 1, change: Callable[[Document], None] | None = None) -> Contract:
    document = contract_document() | {"version": version}
    if change is not None:
        change(document)
    return Contract.model_validate(document)


@dataclass(frozen=True)
class Instance:
    """One instance; ``table`` is the policy's ``[contracts]``."""

    home: Path
    ledger: Ledger
    reviewers: Reviewers
    table: ContractsTable

    @property
    def register(self) -> Register:
        return Register(self.ledger, self.reviewers)

    @property
    def rules(self) -> Rules:
        policy = Policy(contracts=self.table)
        return Rules(policy, "0" * 64, Profile(), "1" * 64, self.home / "policies")

    @property
    def file(self) -> Path:
        return self.home / "policies" / "contracts" / f"{MODEL}.toml"

    def write(self, contract: Contract, place: Path | None = None) -> Path:
        """Write a contract's file as an operator does."""
        place = place or self.file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text_of(contract, ["by hand"]), encoding="utf-8")
        return place

    def defaults(self, where: str, text: str) -> None:
        """Write a file of defaults: ``teams/mosaic`` or ``kinds/probabilities``."""
        place = self.home / "policies" / "contracts" / "defaults" / f"{where}.toml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"schema = 1\n{text}\n", encoding="utf-8")

    def bytes_of(self, contract: Contract, supersedes: str | None = "now") -> bytes:
        """Return the bytes to sign of a contract."""
        if supersedes == "now":
            newest = self.register.newest(contract.id)
            supersedes = newest.body["digest"] if newest is not None else None
        found = effective(contract, self.rules.directory, self.rules.policy)
        made = versions.prepared(contract, found.values, self.ledger.origin, supersedes, "agreed")
        return versions.to_sign(made.said)

    def signed(self, contract: Contract, *people: Person, **more: Any) -> Envelope:
        """Return a contract's version, signed by people."""
        payload = self.bytes_of(contract, **more)
        return versions.joined([versions.sign(payload, signer) for signer, _ in people or (ADA,)])

    def install(self, envelope: Envelope) -> Appended:
        """Put a signed version on record, the first or a later one."""
        first = self.register.newest(MODEL) is None
        return self.register.install(self.home, envelope, self.table, first=first)[1]


def an_instance(home: Path, *people: Person, **table: Any) -> Instance:
    """Return an instance whose reviewers are ``people`` (default: ada, ben and eve of the model's own team)."""
    (home / "policies").mkdir(parents=True)
    reviewers = Reviewers(reviewers=[one for _, one in people or (ADA, BEN, EVE)])
    lines = ["schema = 1"]
    for one in reviewers.reviewers:
        lines += ["[[reviewers]]", f'name = "{one.name}"', f'team = "{one.team}"', f'key = "{one.key}"']
        lines += ["left = true"] if one.left else []
    (home / "policies" / "reviewers.toml").write_text("\n".join(lines) + "\n")
    return Instance(home, Ledger.open(home), reviewers, ContractsTable.model_validate(table))
