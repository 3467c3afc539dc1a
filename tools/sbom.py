"""The SBOM of the wheel: ``dist/*.whl`` with what it needs at run time, as CycloneDX 1.6, beside the wheel.

``python -m tools.sbom`` in the environment of ``tools/sbom.lock``, after ``make wheel``. cyclonedx-py reads
``.venv`` (names, versions, licences); ``tools/wheel_needs.py`` says what of it the wheel needs; this adds the
SHA-256 of each file that ``requirements.lock`` accepts, and that of the wheel. It is made twice, under two hash
seeds, and refused where a byte differs, where the schema does not hold, or where ``.venv`` is not what the lock
says. Its time is that of the commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]
DIST: Final = HERE / "dist"
LOCK: Final = HERE / "requirements.lock"
SPECIFICATION: Final = "1.6"
KEPT_LINKS: Final = ("vcs",)
"""Of the links that a package states, only that to its source is kept."""

Pins = Mapping[tuple[str, str], tuple[str, ...]]
"""Canonical name and version to the SHA-256 of every file that the lock accepts for it."""


class SbomError(Exception):
    """What is wrong, with the remedy."""


@dataclass(frozen=True)
class Root:
    """What is described: the project's name, the wheel's file name and SHA-256, the SHA-256 of the lock file."""

    name: str
    wheel: str
    digest: str
    lock: str


def canonical(name: str) -> str:
    """Return a package's name as the lock has it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(component: Mapping[str, Any], pins: Pins) -> dict[str, Any]:
    """Return a component with the hashes of its pin; raise :class:`SbomError` where it has none."""
    name, version = canonical(component["name"]), component["version"]
    if not pins.get((name, version)):
        raise SbomError(f"{name} {version} of .venv is not in requirements.lock with a hash; run `make setup`")
    links = [one for one in component.get("externalReferences", ()) if one["type"] in KEPT_LINKS]
    files = [
        {
            "type": "distribution",
            "url": component["purl"],
            "comment": "a file that requirements.lock accepts for this version",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for digest in sorted(pins[name, version])
    ]
    return {**component, "externalReferences": [*links, *files]}


def composed(scan: Mapping[str, Any], needs: Mapping[str, list[str]], pins: Pins, root: Root) -> dict[str, Any]:
    """Return the wheel's SBOM of a scanned environment; ``needs`` is the graph of ``tools/wheel_needs.py``."""
    stated = {"acceptd:file": root.wheel, "acceptd:requirements.lock": root.lock}
    component = {
        **scan["metadata"]["component"],
        "purl": f"pkg:pypi/{root.name}@{scan['metadata']['component']['version']}",
        "hashes": [{"alg": "SHA-256", "content": root.digest}],
        "properties": [{"name": name, "value": value} for name, value in stated.items()],
    }
    tools = scan["metadata"].get("tools", {}).get("components", ())
    installed = {canonical(one["name"]): one for one in scan["components"]}
    if missing := set(needs) - set(installed) - {root.name}:
        raise SbomError(f"needed and not installed: {', '.join(sorted(missing))}; run `make setup`")
    refs = {name: one["bom-ref"] for name, one in installed.items()} | {root.name: component["bom-ref"]}
    return {
        **scan,
        "metadata": {
            **scan["metadata"],
            "component": component,
            "tools": {
                "components": [{k: v for k, v in one.items() if k != "externalReferences"} for one in tools]
            },
        },
        "components": [pinned(installed[name], pins) for name in sorted(needs) if name != root.name],
        "dependencies": [
            {"ref": refs[name]} | ({"dependsOn": [refs[one] for one in needs[name]]} if needs[name] else {})
            for name in sorted(needs)
        ],
    }


def text_of(bom: Mapping[str, Any]) -> str:
    """Return the bytes' one form: sorted keys, an indent of two, a line feed at the end."""
    return json.dumps(bom, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def locked(lock: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the pins of a lock file, read by pip's own parser."""
    from pip_requirements_parser import RequirementsFile

    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for one in RequirementsFile.from_file(str(lock)).requirements:
        version = next(iter(one.specifier)).version
        hashes = [text.partition("sha256:")[2] for text in one.hash_options]
        found[canonical(one.name), version] = tuple(sorted(hashes))
    return found


def needed() -> dict[str, list[str]]:
    """Return who needs whom, as ``.venv`` says."""
    command = [str(HERE / ".venv" / "bin" / "python"), "-m", "tools.wheel_needs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    if done.returncode:
        raise SbomError(f"{done.stderr.strip().splitlines()[-1]}; run `make setup`")
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def scanned(epoch: str, seed: str) -> dict[str, Any]:
    """Return what cyclonedx-py says of ``.venv``."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch, "scanned.json")
        command = [
            sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(HERE / "pyproject.toml"),
            "--mc-type", "application", "--output-reproducible", "--sv", SPECIFICATION, "--of", "JSON",
            "-o", str(target), str(HERE / ".venv" / "bin" / "python"),
        ]  # fmt: skip
        environment = os.environ | {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE, env=environment)
        if done.returncode:
            raise SbomError(f"cyclonedx-py: exit {done.returncode}\n{done.stderr.strip()}")
        found: dict[str, Any] = json.loads(target.read_text("utf-8"))
        return found


def validated(text: str) -> None:
    """Raise :class:`SbomError` where the strict JSON Schema of CycloneDX does not hold."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.from_version(SPECIFICATION)).validate_str(text)
    if error is not None:
        raise SbomError(f"not CycloneDX {SPECIFICATION}: {error}")


def _commit_time() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    asked = ["git", "-C", str(HERE), "log", "-1", "--format=%ct"]
    return given or subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Write ``dist/<wheel>.cdx.json``."""
    wheels = sorted(DIST.glob("*.whl"))
    if len(wheels) != 1:
        print(f"sbom: {len(wheels)} wheels in dist/, one is needed; run `make wheel`", file=sys.stderr)
        return 2
    wheel, epoch = wheels[0], _commit_time()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    root = Root("acceptd", wheel.name, digest, hashlib.sha256(LOCK.read_bytes()).hexdigest())
    pins = locked(LOCK)
    try:
        graph = needed()
        texts = [text_of(composed(scanned(epoch, seed), graph, pins, root)) for seed in ("1", "2")]
        if texts[0] != texts[1]:
            raise SbomError(
                "two of one commit differ; whatever depends on the order of a set has to be sorted here"
            )
        validated(texts[0])
    except SbomError as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    target = wheel.with_name(wheel.name + ".cdx.json")
    target.write_text(texts[0], "utf-8")
    count = len(json.loads(texts[0])["components"])
    print(f"{hashlib.sha256(target.read_bytes()).hexdigest()}  dist/{target.name}")
    print(f"CycloneDX {SPECIFICATION}, valid: acceptd and the {count} packages that it needs, with their hashes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
