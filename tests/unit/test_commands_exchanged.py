"""A command of the operator runs with the daemon's rights: nobody else may be able to put another in its place.

Whoever may write a directory may rename what lies in it, whoever that belongs to: a file's own mode says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError
from acceptd.export.hook import Hook
from acceptd.export.settings import HookTable
from acceptd.record.anchor import open_anchor
from acceptd.record.key_command import KeyCommand
from acceptd.record.keys import Signer

pytestmark = pytest.mark.unit

Opened = Callable[[Path, Path], object]
KEY = Signer.of("release", Ed25519PrivateKey.generate()).public_key()


def as_key(program: Path, _state: Path) -> object:
    return KeyCommand.of([str(program)], 1.0, KEY)


def as_anchor(program: Path, state: Path) -> object:
    return open_anchor([str(program)], state)


def as_hook(program: Path, state: Path) -> object:
    return Hook.of(HookTable(name="deploy", command=[str(program)]), state)


every_command = pytest.mark.parametrize("opened", [as_key, as_anchor, as_hook])


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@every_command
def test_a_program_in_a_directory_that_others_write_is_refused(tmp_path: Path, opened: Opened) -> None:
    program = made(tmp_path / "shared")
    opened(program, tmp_path)
    program.parent.chmod(0o777)
    with pytest.raises(ConfigError, match=r"shared: can be written by its group or by others"):
        opened(program, tmp_path)
    program.parent.chmod(0o1777)  # as /tmp: what is ours stays where it is
    opened(program, tmp_path)


@every_command
def test_so_is_one_that_lies_far_below_such_a_directory(tmp_path: Path, opened: Opened) -> None:
    program = made(tmp_path / "shared" / "own" / "bin")
    program.parent.parent.parent.chmod(0o775)
    with pytest.raises(ConfigError, match=r"shared: can be written by its group or by others"):
        opened(program, tmp_path)


@every_command
def test_so_is_a_link_of_ours_to_one_that_lies_there(tmp_path: Path, opened: Opened) -> None:
    program = made(tmp_path / "shared" / "own")
    program.parent.parent.chmod(0o777)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "program").symlink_to(program)
    (tmp_path / "way").symlink_to(program.parent)
    for named in (tmp_path / "bin" / "program", tmp_path / "way" / "program"):
        with pytest.raises(ConfigError, match=r"shared: can be written by its group or by others"):
            opened(named, tmp_path)


@every_command
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_so_is_one_below_the_directory_of_another_user(tmp_path: Path, opened: Opened) -> None:
    program = made(tmp_path / "theirs")
    os.chown(program.parent, 12345, -1)
    with pytest.raises(ConfigError, match=r"theirs: is owned by uid 12345"):
        opened(program, tmp_path)
