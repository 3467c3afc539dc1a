"""Ctrl-C while the command line is still loading: one line and exit code 130, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent.parent
INTERRUPTS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfrom _real import *\n"
SCRIPT = "from acceptd.__main__ import run; run()"


def _foreground() -> None:
    """A run in the background ignores the first, one under nohup the second."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def run(words: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *words], cwd=path, capture_output=True, text=True, check=False, env=environment,
        preexec_fn=_foreground,
    )  # fmt: skip


@pytest.mark.parametrize("entry", [["-m", "acceptd"], ["-c", SCRIPT]], ids=["module", "script"])
@pytest.mark.parametrize("module", ["typer", "rich/table"], ids=["first import", "a command's import"])
def test_an_interrupt_during_an_import_is_one_line(entry: list[str], module: str, tmp_path: Path) -> None:
    package, _, inner = module.partition("/")
    place = tmp_path / (f"{package}/{inner}.py" if inner else f"{package}.py")
    place.parent.mkdir(exist_ok=True)
    place.write_text(INTERRUPTS)
    if inner:  # the rest of the package is the real one
        (place.parent / "__init__.py").write_text(
            "import importlib.util, pathlib, sys\n"
            "real = next(pathlib.Path(p) / 'rich' for p in sys.path if 'site-packages' in p)\n"
            "__path__.append(str(real))\n"
            "exec((real / '__init__.py').read_text())\n"
        )
    done = run([*entry, "status", "--state", str(tmp_path)], tmp_path)
    assert (done.returncode, done.stderr) == (130, "acceptd: interrupted\n"), done.stderr


def test_both_ways_to_install_the_script_use_the_entry_that_is_tested_here() -> None:
    assert 'acceptd = "acceptd.__main__:run"' in (ROOT / "pyproject.toml").read_text()
    assert "from acceptd.__main__ import run\\n\\nrun()" in (ROOT / "tools/setup.sh").read_text()


def test_once_loaded_an_interrupt_raises_as_before(tmp_path: Path) -> None:
    code = (
        "import signal, sys\n"
        "sys.argv = ['acceptd', '--version']\n"
        "from acceptd.__main__ import run\n"
        "try: run()\n"
        "except SystemExit: print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = run(["-c", code], tmp_path)
    assert done.stdout.splitlines()[-1] == "True", done.stderr


def test_a_daemon_lives_through_a_reload_that_comes_before_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import os, signal, sys\nos.kill(os.getpid(), signal.SIGHUP)\nprint('alive', flush=True)\nos._exit(0)\n"
    )
    done = run(["-m", "acceptd", "daemon"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n")
    assert run(["-m", "acceptd", "status"], tmp_path).returncode == -signal.SIGHUP
