"""Build wheel and sdist of this checkout into ``dist/``, twice, and hold the two against each other.

``python -m tools.wheel``; needs the environment of ``tools/wheel.lock``. The time in both is that of the last
commit (SOURCE_DATE_EPOCH), so the same commit gives the same bytes everywhere. Prints the files' SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
DIST = HERE / "dist"


def _commit_time() -> str:
    """Return SOURCE_DATE_EPOCH: the caller's, else the time of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    asked = ["git", "-C", str(HERE), "log", "-1", "--format=%ct"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def _run(*words: str, **variables: str) -> None:
    command = [sys.executable, "-m", *words]
    done = subprocess.run(
        command, check=False, cwd=HERE, env=os.environ | variables, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def build(target: Path, epoch: str, umask: int) -> dict[str, str]:
    """Build both archives into ``target``, the wheel from the sdist; return their SHA-256 by name."""
    before = os.umask(umask)
    try:
        _run("build", "--no-isolation", "--outdir", str(target), SOURCE_DATE_EPOCH=epoch)
    finally:
        os.umask(before)
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in sorted(target.iterdir())}


def main() -> int:
    epoch = _commit_time()
    with tempfile.TemporaryDirectory() as scratch:
        first = build(Path(scratch, "first"), epoch, 0o022)
        second = build(Path(scratch, "second"), epoch, 0o077)
        for name in sorted(first.keys() | second.keys()):
            if first.get(name) != second.get(name):
                print(f"{name}: two builds differ: {first.get(name)} and {second.get(name)}", file=sys.stderr)
                return 1
        files = [str(Path(scratch, "first", name)) for name in first]
        _run("twine", "check", "--strict", *files)
        _run("check_wheel_contents", *[one for one in files if one.endswith(".whl")])
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(Path(scratch, "first"), DIST)
    for name, digest in first.items():
        print(f"{digest}  dist/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
