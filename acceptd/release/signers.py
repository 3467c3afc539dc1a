"""The signers of releases, and the envelopes they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from acceptd.config import load_settings
from acceptd.errors import ConfigError, StateError
from acceptd.policy.manifest import Table
from acceptd.record import attest
from acceptd.record.anchor import Anchor, open_anchor
from acceptd.record.canonical import canonical
from acceptd.record.key_command import PROBE
from acceptd.record.keys import Keyring, Signer
from acceptd.record.keystore import in_force, is_here, open_signer, own_history
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.record.succession import History


class Verifying(Protocol):
    """Whoever can check a signature: :class:`ReleaseKeys`, or an auditor without private keys."""

    @property
    def keyring(self) -> Keyring:
        """The public keys."""
        ...

    def at(self, seq: int, /) -> Keyring:
        """The public keys that count for the entry ``seq``."""
        ...


@dataclass(frozen=True, slots=True)
class Auditor:
    """Public keys alone."""

    keyring: Keyring
    history: History | None = None

    def at(self, seq: int, /) -> Keyring:
        """Return the keys that count for the entry ``seq``."""
        return self.history.at(seq) if self.history is not None else self.keyring

    @classmethod
    def of(cls, history: History) -> Auditor:
        """Return the auditor who trusts what ``history`` vouches for."""
        return cls(history.ever, history)


@dataclass(frozen=True, slots=True)
class ReleaseKeys:
    """The private keys of this room. ``revocation`` is None where that key is kept offline."""

    release: Signer
    revocation: Signer | None
    keyring: Keyring
    """Public keys, to check what lies on disk before anything is built upon it: earlier ones too."""
    history: History | None = None
    beside: tuple[Signer, ...] = ()
    """Keys of before that sign as well while a rotation is under way: who knows them alone goes on."""
    ledger: Signer | None = None
    """To sign the checkpoint that a release's proof leads to; None where that key is not here."""
    anchor: Anchor | None = None
    """Where checkpoints are kept outside the state."""

    def at(self, seq: int, /) -> Keyring:
        """Return the keys that count for the entry ``seq``."""
        return self.history.at(seq) if self.history is not None else self.keyring

    def answering(self) -> None:
        """Raise SigningError where the release key does not sign: before a number is taken for nothing."""
        self.release.sign(PROBE)

    @classmethod
    def load(cls, state: Path, ledger: Ledger | None = None) -> ReleaseKeys:
        """Load the keys of a state directory; ``ledger`` is its log, opened here where it is not given.

        Raises ConfigError for a missing or an exposed release key, StateError while a rotation is half done,
        LedgerError for a key that the log has rotated out.
        """
        history = _history(state, ledger)
        revocation = open_signer(state, "revocation") if is_here(state, "revocation") else None
        keys = cls(open_signer(state, "release"), revocation, history.ever, history, (), *sealer(state))
        for signer in (keys.release, keys.revocation):
            if signer is not None:
                in_force(history, signer)
        return keys


def sealer(state: Path) -> tuple[Signer | None, Anchor | None]:
    """Return the ledger's key for checkpoints, and their anchor.

    None and none where that key is not here, is refused, or its rotation is half done: releases then carry no
    checkpoint.
    """
    try:
        if is_here(state, "ledger"):
            return open_signer(state, "ledger"), open_anchor(load_settings(state).checkpoint.anchor, state)
    except (ConfigError, StateError):
        pass
    return None, None


def _history(state: Path, ledger: Ledger | None) -> History:
    if ledger is not None:
        return own_history(state, ledger)
    if not (place := Place.of(state)).exists():
        raise StateError(f"{place} is missing", remedy=f"run `acceptd init --state {state}`")
    with Ledger.open(state, create=False) as opened:
        return own_history(state, opened)


def seal_document(document: Table, payload_type: str, signer: Signer, *more: Signer) -> bytes:
    """Return the file of a signed document: a DSSE envelope around its RFC 8785 bytes, and a newline."""
    payload = canonical(document.model_dump(mode="json", by_alias=True))
    return canonical(attest.sign(payload_type, payload, signer, *more)) + b"\n"
