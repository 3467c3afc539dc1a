"""What tests draw at random is the same in every run, and commands that draw keys anew still do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import commands, steady

pytestmark = pytest.mark.unit


def keyring(home: Path, **environment: str) -> bytes:
    done = commands.run("init", "--state", str(home), **environment)
    assert done.returncode == 0, done.stderr
    return (home / "keyring.json").read_bytes()


def test_the_keys_of_a_tests_state_directory_are_alike_and_no_others_are(tmp_path: Path) -> None:
    alike = {steady.KEYS: "1"}
    assert keyring(tmp_path / "one", **alike) == keyring(tmp_path / "two", **alike)
    assert len({keyring(tmp_path / "three"), keyring(tmp_path / "four")}) == 2
