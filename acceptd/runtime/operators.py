"""Custom-operator libraries of a profile: who may write them, and whether they are the listed bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import ConfigError
from acceptd.policy.trusted import check_file
from acceptd.runtime.libraries import digests


@dataclass(frozen=True, slots=True)
class Listed:
    """One library as a profile lists it: absolute path, SHA-256 in lowercase hex."""

    path: str
    sha256: str


def check(listed: Sequence[Listed]) -> None:
    """Raise ConfigError unless each is a file that only root and we can write, with the listed bytes."""
    for one in listed:
        check_file("profile.custom_operators", Path(one.path))
        try:
            (found,) = digests([one.path])
        except OSError as error:
            raise ConfigError(
                f"profile.custom_operators: {one.path}: {error.strerror}", remedy="install the library there"
            ) from error
        if found.sha256 != one.sha256:
            raise ConfigError(
                f"profile.custom_operators: {one.path} has the SHA-256 {found.sha256}, listed is {one.sha256}",
                remedy="restore the reviewed library, or review this one and list its digest",
            )
