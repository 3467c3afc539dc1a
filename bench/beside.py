"""What other tools say of the same bundles, for ``docs/comparison.md``.

Usage: ``python -m bench.beside PYTHON``, where PYTHON's environment has modelscan, modelaudit, picklescan and onnx
(``make bench-beside``). Each tool gets the bundle's directory, onnx.checker the model file; each has a minute.
A tool "objects" where it ends with another code than for the honest bundle; what it did say stands in OUT.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from examples import evidence_classifier, hostile_bundles

SECONDS: Final = 60.0
CASES: Final = (
    "external-parent", "payload-in-weight", "payload-beside", "functions-expand", "loops", "allocates-at-run",
    "divides-at-load", "unknown-operator", "weights-nan", "goldens-wrong", "drift-renamed-input", "wire-flood",
    "wire-two-models",
)  # fmt: skip
OUT: Final = Path(".cache/beside")


class _RunsACommand:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("id",)


def bundles(place: Path) -> list[Path]:
    """Write the honest bundle first, one with a pickle beside the model, then one for each case."""
    made = [
        evidence_classifier.write_bundle(place / "honest"),
        evidence_classifier.write_bundle(place / "pickle-beside"),
    ]
    (place / "pickle-beside" / "scaler.pkl").write_bytes(pickle.dumps(_RunsACommand()))
    return made + [hostile_bundles.BY_NAME[name].write(place / name) for name in CASES]


def commands(python: Path, bundle: Path) -> dict[str, list[str]]:
    """Return what each tool is called with."""
    there = python.parent
    check = f"import onnx; onnx.checker.check_model({str(bundle / 'model.onnx')!r}, full_check=True)"
    return {
        "onnx.checker": [str(python), "-c", check],
        "modelscan": [str(there / "modelscan"), "-p", str(bundle)],
        "picklescan": [str(there / "picklescan"), "-p", str(bundle)],
        "modelaudit": [str(there / "modelaudit"), "scan", str(bundle)],
        "acceptd": [str(Path(sys.executable).with_name("acceptd")), "check", str(bundle), "--all"],
    }


def asked(command: list[str], kept: Path) -> tuple[int | None, float]:
    """Run one tool and keep what it said; None: it did not end in time."""
    quiet = {**os.environ, "PROMPTFOO_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    started = time.monotonic()
    with kept.open("wb") as file:
        try:
            done = subprocess.run(command, stdout=file, stderr=file, timeout=SECONDS, env=quiet, check=False)
        except subprocess.TimeoutExpired:
            return None, SECONDS
    return done.returncode, time.monotonic() - started


def main() -> None:
    """Print a row for each bundle: each tool's exit code and seconds."""
    python = Path(sys.argv[1]).absolute()
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="acceptd-beside-") as place:
        Path(place).chmod(0o755)
        for number, bundle in enumerate(bundles(Path(place))):
            tools = commands(python, bundle)
            if number == 0:
                print("| bundle | " + " | ".join(tools) + " |\n|---|" + "---|" * len(tools))
            cells = []
            for name, command in tools.items():
                code, seconds = asked(command, OUT / f"{bundle.name}.{name}.txt")
                cells.append(f"no end in {SECONDS:.0f} s" if code is None else f"{code} ({seconds:.1f} s)")
            print(f"| {bundle.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
