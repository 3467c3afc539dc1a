"""Only what a busy host let fail is forgiven: a fault fails alone too, and many failures are no chance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import once_more

pytestmark = pytest.mark.unit
ROOT = Path(once_more.__file__).resolve().parent.parent


def run(home: Path, text: str, files: int = 1) -> subprocess.CompletedProcess[str]:
    for number in range(files):
        (home / f"test_{number}.py").write_text(text)
    (home / "pytest.ini").write_text("[pytest]\n")
    words = ["-p", "tests.once_more", "-p", "no:cacheprovider", "-q", "."]
    beside = ["-p", "xdist", "-n2", "--dist", "loadfile"] if files > 1 else []
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *beside, *words]
    return subprocess.run(command, cwd=home, env=variables, capture_output=True, text=True, check=False)


ONCE = """
import pathlib

def test_first():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    there = seen.exists()
    seen.touch()
    assert there
"""


def test_what_passes_alone_is_told_and_forgiven(tmp_path: Path) -> None:
    done = run(tmp_path, ONCE)
    assert done.returncode == 0, done.stdout
    assert "failed beside others: test_0.py::test_first" in done.stdout
    assert "passed alone" in done.stdout


def test_a_fault_fails_again_and_ends_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_wrong():\n    assert 0\n")
    assert done.returncode == 1
    assert "failed alone" in done.stdout


def test_an_error_of_a_fixture_is_no_less_a_failure(tmp_path: Path) -> None:
    text = "import pytest\n\n@pytest.fixture\ndef broken():\n    raise OSError\n\ndef test_it(broken):\n    pass\n"
    done = run(tmp_path, text)
    assert done.returncode == 1
    assert "failed alone" in done.stdout


def test_many_failures_are_no_chance(tmp_path: Path) -> None:
    done = run(tmp_path, ONCE, files=once_more.MOST + 1)
    assert done.returncode == 1
    assert "alone" not in done.stdout


def test_what_failed_in_one_of_several_processes_is_forgiven_too(tmp_path: Path) -> None:
    (tmp_path / "test_9.py").write_text("def test_right():\n    pass\n")
    done = run(tmp_path, ONCE, files=2)
    assert done.returncode == 0, done.stdout
    assert "test_0.py, test_1.py once more, alone" in done.stdout
