"""Secrets that are the same in every run, in place of those that acceptd draws: probes follow from them.

A probe's values follow from a secret and the bundle's digest. Under another secret in each run, a test that
counts the rows of a label would pass or fail by chance.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import types

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd import tools

RANDOM = os.environ.get("ACCEPTD_TEST_RANDOM", "") == "1"
KEYS = "ACCEPTD_TEST_STEADY_KEYS"
"""Tells a command of :mod:`tests.commands` to make the keys of a state directory with :func:`signing_keys`."""


def secrets() -> None:
    """Let every cell that is opened without a secret have the same one."""
    tools.__dict__["secrets"] = types.SimpleNamespace(token_bytes=lambda count: _drawn("probes")[:count])


def signing_keys() -> None:
    """Let `acceptd init` make the same three keys each time: a daemon's secret follows from one of them."""

    numbers = itertools.count(1)
    steady = staticmethod(lambda: Ed25519PrivateKey.from_private_bytes(_drawn(f"key {next(numbers)}")))
    setattr(Ed25519PrivateKey, "generate", steady)  # noqa: B010 (mypy lets nobody assign to a method)


def _drawn(name: str) -> bytes:
    return hashlib.sha256(f"acceptd tests: {name}".encode()).digest()
