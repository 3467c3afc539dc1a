"""Install the wheel of ``dist/`` into a fresh environment and use it far from this checkout.

``python -m tools.wheel_installed`` prints a line for each thing that works, and ends with 1 at the first that
does not. No checkout is on the path: the policies, profiles, schemas and migrations are the wheel's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Mapping
from pathlib import Path

from acceptd.json_schemas import TEXTS

HERE = Path(__file__).resolve().parents[1]
MODEL = "mosaic/evidence-disposition"

IMPORTED = """
import importlib.util, json, acceptd, sandbox
from importlib import metadata, resources
from acceptd.config import Settings, policies_directory
schemas = sorted(one.name for one in resources.files("acceptd").joinpath("schemas").iterdir())
scripts = [one.value for one in metadata.entry_points(group="console_scripts") if one.name == "acceptd"]
typed = [resources.files(name).joinpath("py.typed").is_file() for name in ("acceptd", "sandbox")]
places = [acceptd.__file__, sandbox.__file__, str(policies_directory(Settings()))]
print(json.dumps({"schemas": schemas, "scripts": scripts, "typed": typed, "places": places}))
"""


class Place:
    """A directory of its own with an environment in which only the wheel and what it needs is installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "venv" / "bin"
        kept = {name: value for name, value in os.environ.items() if name in {"HOME", "LANG", "TMPDIR"}}
        path = f"{self.bin}:{os.environ['PATH']}"
        self.environment = kept | {"PATH": path, "ACCEPTD_STATE": str(root / "state"), "COLUMNS": "80"}

    def run(self, *words: str, code: int = 0, variables: Mapping[str, str] | None = None) -> str:
        """Run a command there and return what it printed; end this test where the exit code is another."""
        environment = self.environment | dict(variables or {})
        done = subprocess.run(words, check=False, cwd=self.root, env=environment, capture_output=True, text=True)
        if done.returncode != code:
            raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def _say(what: str, begun: float) -> None:
    print(f"ok {what} ({time.monotonic() - begun:.2f} s)", flush=True)


def _install(place: Place, wheel: Path) -> None:
    venv.create(place.root / "venv", with_pip=True)
    pip = [str(place.bin / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    lock = str(HERE / "requirements.lock")
    # The versions of the lock, of which only those that the wheel names are installed.
    names = place.root / "constraints.txt"
    lines = [one.split(" \\")[0] for one in Path(lock).read_text("utf-8").splitlines() if "==" in one]
    names.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # pip's own settings (an index, a cache) are the machine's, not this environment's.
    subprocess.run([*pip, "-c", str(names), str(wheel)], check=True, cwd=place.root)
    place.run(str(place.bin / "python"), "-m", "pip", "check")


def _imported(place: Place, kinds: int) -> None:
    facts = json.loads(place.run("python", "-c", IMPORTED))
    inside = str(place.root)
    assert all(one.startswith(inside) for one in facts["places"]), facts["places"]
    assert len(facts["schemas"]) == kinds, facts["schemas"]
    assert all(one.endswith(".schema.json") for one in facts["schemas"]), facts["schemas"]
    assert facts["scripts"] == ["acceptd.__main__:run"], facts["scripts"]
    assert facts["typed"] == [True, True], facts["typed"]


def _daemon(place: Place) -> None:
    """Init, daemon, submit --wait, ledger verify, stop."""
    place.run("acceptd", "init", "--team", "mosaic")
    with (place.root / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen(
            [str(place.bin / "acceptd"), "daemon"], cwd=place.root, env=place.environment, stderr=log
        )
        late = threading.Timer(300, daemon.kill)  # a daemon that never answers ends the test, not the machine
        late.start()
        try:
            said = place.run("acceptd", "submit", "bundle", "--wait")
            assert "ACCEPTED" in said, said
            listed = place.run("acceptd", "release", "list")
            assert MODEL in listed, listed
        finally:
            late.cancel()
            daemon.terminate()
            code = daemon.wait()
    assert code == 0, (code, (place.root / "daemon.log").read_text("utf-8")[-2000:])
    place.run("acceptd", "ledger", "verify")
    place.run("acceptd", "ledger", "migrate")


def main() -> int:
    wheels = sorted((HERE / "dist").glob("*.whl"))
    if len(wheels) != 1:
        print("dist/ holds no wheel, or several: run make wheel", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="acceptd-wheel-") as scratch:
        os.chmod(scratch, 0o755)  # jobs run as another user, and their interpreter is here
        place = Place(Path(scratch))
        begun = time.monotonic()
        _install(place, wheels[0])
        _say("pip install in a fresh environment", begun)
        begun = time.monotonic()
        _imported(place, len(TEXTS))
        _say("policies, schemas, entry point and types are the wheel's own", begun)
        subprocess.run(
            [sys.executable, "-m", "examples.evidence_classifier", str(place.root / "bundle")],
            check=True, cwd=HERE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        for words in (["acceptd"], ["python", "-m", "acceptd"]):
            begun = time.monotonic()
            assert "ACCEPTED" in place.run(*words, "check", "bundle")
            _say(f"{' '.join(words)} check", begun)
        begun = time.monotonic()
        place.run("acceptd", "doctor")
        _say("acceptd doctor", begun)
        begun = time.monotonic()
        _daemon(place)
        _say("acceptd init, daemon, submit --wait, release list, ledger verify, a stop in order", begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
