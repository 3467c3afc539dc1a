"""What there is to tell about an instance's keys: places, ages, pending rotations, whether commands answer."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptd.errors import AcceptdError
from acceptd.record.entry import moment_of
from acceptd.record.key_command import PROBE
from acceptd.record.keys import DIRECTORY, KEYRING, NODE, ROLES, PublicKey, load_keyring
from acceptd.record.keystore import any_signer, command_of, has_file, in_force, own_history, pending
from acceptd.record.log import Ledger
from acceptd.record.node_key import has_node_key, node_signer
from acceptd.record.succession import History, Tenure

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key of the log."""

    role: str
    key_id: str
    public: bytes
    """32 bytes."""
    standing: str
    """``in use``, ``given up`` or ``compromised``."""
    place: str
    """Of the private key that is in use: a file, ``behind`` a command, or ``not here``."""
    since: int | None
    """The first entry that it may have signed; None for a node's, which signs none."""
    since_at: str
    until: int | None
    """The first entry for which its word does not count."""
    problem: str = ""

    def since_words(self) -> str:
        """Return the entries for which it counts, for a person; for a node's key who says so."""
        if self.since is None:
            return "as the policy says"
        until = f" until {self.until}" if self.until is not None else ""
        return f"entry {self.since} ({self.since_at[:10]}){until}"

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "role": self.role,
            "key_id": self.key_id,
            "public": base64.b64encode(self.public).decode("ascii"),
            "standing": self.standing,
            "place": self.place,
            "since": self.since,
            "since_at": self.since_at,
            "until": self.until,
            "problem": self.problem,
        }


def rows(state: Path, ledger: Ledger) -> list[KeyRow]:
    """Return every key that the state's keyring vouches for, by role, the oldest first.

    Raises ConfigError where the keyring is refused: malformed, a stranger's, one key for two roles.
    """
    history = own_history(state, ledger)
    return [_row(state, ledger, history, one) for one in history.tenures]


def node_rows(state: Path) -> list[KeyRow]:
    """Return this node's own key, where it has one, with why it cannot sign."""
    if not has_node_key(state):
        return []
    place, problem = _place(state, NODE), ""
    try:
        signer = node_signer(state)
        key = signer.public_key()
        signer.sign(PROBE)
    except AcceptdError as error:
        problem = str(error)
        key = PublicKey(NODE, "", b"")
    return [KeyRow(NODE, key.key_id, key.raw, "in use", place, None, "", None, problem)]


def every_row(state: Path) -> list[KeyRow]:
    """Return the keys of the instance as far as they are here, and this node's own.

    A worker's state has no keyring: it is asked for nothing but the node's. Raises as :func:`rows`.
    """
    mine = node_rows(state)
    if mine and not os.path.lexists(state / KEYRING):
        return mine
    with Ledger.open(state, create=False) as ledger:
        return [*rows(state, ledger), *mine]


def _row(state: Path, ledger: Ledger, history: History, one: Tenure) -> KeyRow:
    role, in_use = one.key.role, one.until is None
    standing = "in use" if in_use else "compromised" if one.compromised else "given up"
    return KeyRow(
        role, one.key.key_id, one.key.raw, standing, _place(state, role) if in_use else "",
        one.since, ledger.entry(one.since).at, one.until, _problem(state, history, role) if in_use else "",
    )  # fmt: skip


def _place(state: Path, role: str) -> str:
    if has_file(state, role):
        return f"{DIRECTORY}/{role}.pem"
    command = command_of(state, role)
    return f"behind {command[0]}" if command else "not here"


def _problem(state: Path, history: History, role: str) -> str:
    """Return why this role cannot sign here, by trying; empty where it can, or its key is kept elsewhere."""
    if pending(state, role):
        return "a rotation was interrupted: start the daemon, or acceptd key rotate ROLE --resume"
    if not has_file(state, role) and not command_of(state, role):
        return "" if role == "revocation" else "its private key is not here"
    try:
        signer = any_signer(state, role)
        in_force(history, signer)
        signer.sign(PROBE)
    except AcceptdError as error:
        return str(error)
    return ""


def examine(state: Path, ledger: Ledger, now: float) -> dict[str, str]:
    """Return one line for each role, for ``acceptd doctor``, and one that says whether the roles are apart."""
    mine = {f"key {row.role}": row.problem or f"{row.key_id[:16]}, {row.place}" for row in node_rows(state)}
    if mine and not os.path.lexists(state / KEYRING):
        return mine
    try:
        load_keyring(state)
        found = [row for row in rows(state, ledger) if row.standing == "in use"]
    except AcceptdError as error:
        return {"keys": f"refused: {error}", **mine}
    told = {"keys": "distinct, one for each role"}
    for role in ROLES:
        its = [row for row in found if row.role == role]
        if len(its) != 1:
            told["keys"] = f"{len(its)} {role} keys are in use; one is meant"
        for row in its:
            days = max(0, int((now - moment_of(row.since_at)) / _DAY))
            words = f"{row.key_id[:16]}, {row.place}, {days} days old"
            told[f"key {role}"] = f"{words}: {row.problem}" if row.problem else words
    return told | mine
