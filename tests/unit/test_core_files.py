"""A process that dies leaves no core file: its memory holds private keys, or what teams dropped."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import ROOT

pytestmark = pytest.mark.unit

PROGRAM = """
import resource, sys
from acceptd.cli import main
sys.argv = ["acceptd", "--version"]
try:
    main.main()
except SystemExit as ended:
    print(ended.code, resource.getrlimit(resource.RLIMIT_CORE))
"""
SIGNER = """#!/bin/sh
echo "core files of $(ulimit -H -c) blocks" >&2
exit 1
"""


def allowed() -> None:
    """Let a core file be written, as far as this process may: what a login or a debugging host may set."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=allowed
    )


def test_a_command_that_dies_writes_its_keys_into_no_core_file() -> None:
    assert "0 (0, 0)" in run("-c", PROGRAM).stdout


def test_nor_does_the_operators_program_that_signs_for_it(tmp_path: Path) -> None:
    state, script, public = tmp_path / "state", tmp_path / "sign", tmp_path / "key.pub"
    state.mkdir()
    script.write_text(SIGNER)
    script.chmod(0o755)
    public.write_bytes(bytes(range(2, 34)))
    (state / "acceptd.toml").write_text(f'[keys.release]\ncommand = ["{script}"]\n')
    ended = run("-m", "acceptd", "init", "--state", str(state), "--public", f"release={public}")
    assert "core files of 0 blocks" in ended.stderr, ended.stderr
