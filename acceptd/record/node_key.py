"""The key of one node of a fleet: a file in ``keys/`` like the others, or behind a command.

``keys/node.pem`` (0600 in 0700) is the private key, ``keys/node.pub`` the public half where the private one is
behind ``[keys.node] command``. No keyring names it: the policy does (``[[fleet.trust]]``), so a node needs no
other key of the instance, and a worker's state has none.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError, StateError
from acceptd.intake.files import fsync_dir, replace_file, write_exclusive
from acceptd.record.key_command import PROBE, KeyCommand
from acceptd.record.keys import DIRECTORY, NODE, PublicKey, Signer, load_signer, private_pem
from acceptd.record.keystore import command_of, has_file, read_public, seconds_of

PUBLIC: Final = "node.pub"
MAKE: Final = "acceptd key node --make"


def node_signer(state: Path) -> Signer:
    """Return this node's key. Raises ConfigError where there is none, or others may read it or have written it."""
    if has_file(state, NODE):
        return load_signer(state, NODE)
    if not command_of(state, NODE):
        raise ConfigError(f"{state / DIRECTORY / 'node.pem'}: this node has no key", remedy=f"run `{MAKE}`")
    place = state / DIRECTORY / PUBLIC
    if not os.path.lexists(place):
        raise ConfigError(
            f"{place}: the public half of the key behind keys.node.command is not here",
            remedy=f"run `{MAKE} --public FILE`",
        )
    return _behind(state, read_public(place, NODE)).signer()


def has_node_key(state: Path) -> bool:
    """Whether a key of this node is here, or the public half of one behind a command."""
    return has_file(state, NODE) or os.path.lexists(state / DIRECTORY / PUBLIC)


def make_node_key(state: Path, *, public: PublicKey | None = None, replace: bool = False) -> PublicKey:
    """Make this node's key, or take note of the ``public`` half of one behind the command; return the public half.

    With ``replace`` a key that is there goes: what it signed counts as long as the policy names it. Raises
    StateError where there is one and it is not to be replaced, ConfigError where no command is configured.
    """
    directory = state / DIRECTORY
    there = has_node_key(state)
    if there and not replace:
        raise StateError(
            f"{directory}: this node has a key, and it is not overwritten",
            remedy="`acceptd key node` prints it; --replace makes a new one, which the policy has to name",
        )
    if public is not None:
        if not command_of(state, NODE):
            raise ConfigError(
                f"keys.node.command is not set in {state / 'acceptd.toml'}",
                remedy="name the command that holds the private key: [keys.node] command = [...]",
            )
        _behind(state, public).signer().sign(PROBE)  # it answers, and with this key
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
            fsync_dir(state)
        if public is not None:
            replace_file(directory, PUBLIC, public.raw, 0o644)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(directory / "node.pem")
            fsync_dir(directory)
            return public
        private = Ed25519PrivateKey.generate()
        if there:
            replace_file(directory, "node.pem", private_pem(private), 0o600)
        else:
            write_exclusive(directory, "node.pem", private_pem(private), 0o600)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(directory / PUBLIC)
        fsync_dir(directory)
    except OSError as error:
        raise StateError(f"{directory}: the node's key cannot be written: {error.strerror}") from error
    return load_signer(state, NODE).public_key()


def _behind(state: Path, key: PublicKey) -> KeyCommand:
    return KeyCommand.of(command_of(state, NODE), seconds_of(state, NODE), key)
