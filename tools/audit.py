"""Known vulnerabilities of every pinned version, by pip-audit: ``python -m tools.audit`` (``make audit``).

Reads every ``*.lock`` of the repository and installs nothing. Exit 0: every pin was looked up, and nothing is
known; 1: something is known; 75: at least one pin could not be looked up, and nothing is known of the rest.
pip-audit itself ends with 0 where its service knows none of the packages, and says "no known vulnerabilities": a
mirror that does not carry the advisories would pass for good news. So one pin is asked about first, and a skipped
pin is never a clean one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]
CLEAN, KNOWN, NOT_ASKED = 0, 1, 75
REMEDY: Final = (
    "run `make audit` where the advisories can be reached; SERVICE=osv asks another service, and pip's own"
    " settings (proxy, certificate) hold"
)
_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?==[^\s;\\]+)", re.MULTILINE)


@dataclass
class Found:
    """What came of asking: names with versions, and why not where that is so."""

    clean: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    known: dict[str, list[str]] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The exit code."""
        return KNOWN if self.known else NOT_ASKED if self.skipped or not self.clean else CLEAN


def locks(root: Path = HERE) -> list[Path]:
    """Return the lock files of the repository."""
    hidden = {".venv", ".venvs", ".cache", ".git", "site", "dist", "var"}
    tops = [one for one in root.iterdir() if one.name not in hidden]
    below = [file for top in tops if top.is_dir() for file in top.rglob("*.lock")]
    return sorted([*below, *(one for one in tops if one.suffix == ".lock")])


def pins(files: Iterable[Path]) -> list[str]:
    """Return every ``name==version`` of these files once, whatever its marker: other machines install it."""
    return sorted({pin for file in files for pin in _PIN.findall(file.read_text("utf-8"))}, key=str.lower)


def read(answer: str) -> Found:
    """Return what pip-audit's JSON says."""
    found = Found()
    document: dict[str, Any] = json.loads(answer)
    for one in document["dependencies"]:
        if "skip_reason" in one:
            found.skipped[one["name"]] = str(one["skip_reason"])
        elif one["vulns"]:
            name = f"{one['name']} {one['version']}"
            found.known.setdefault(name, []).extend(_words(vulnerability) for vulnerability in one["vulns"])
        else:
            found.clean.append(f"{one['name']} {one['version']}")
    return found


def _words(vulnerability: dict[str, Any]) -> str:
    fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no version"
    return f"{vulnerability['id']} (fixed in {fixed})"


def unreachable(said: str) -> Found:
    """Return what a pip-audit that gave no answer comes to."""
    last = (said.strip().splitlines() or ["no answer"])[-1]
    return Found(skipped={"": last[:200]})


def ask(python: str, wanted: Sequence[str], service: str) -> Found:
    """Ask pip-audit about pins. Nothing is resolved, downloaded or installed."""
    with tempfile.TemporaryDirectory() as scratch:
        # pip-audit takes one version of a package for each file: another marker may pin another one.
        rounds: list[dict[str, str]] = []
        for pin in wanted:
            name = pin.partition("==")[0].partition("[")[0].lower()
            free = next((one for one in rounds if name not in one), None)
            if free is None:
                rounds.append(free := {})
            free[name] = re.sub(r"\[[^\]]*\]", "", pin)
        merged = Found()
        for number, one in enumerate(rounds):
            file = Path(scratch, f"{number}.txt")
            file.write_text("\n".join(one.values()) + "\n")
            command = [
                python, "-m", "pip_audit", "-r", str(file), "--disable-pip", "--no-deps", "-s", service,
                "-f", "json", "--progress-spinner", "off", "--cache-dir", str(Path(scratch, "cache")),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
            try:
                found = read(done.stdout)
            except (ValueError, KeyError, TypeError):
                found = unreachable(done.stderr or done.stdout)
            merged.clean += found.clean
            merged.skipped |= found.skipped
            merged.known |= found.known
    return merged


def told(found: Found, files: int, wanted: int) -> str:
    """Return what is printed."""
    lines = [f"{name}: {', '.join(words)}" for name, words in sorted(found.known.items())]
    if found.skipped:
        name, reason = next(iter(sorted(found.skipped.items())))
        lines.append(
            f"audit: {len(found.skipped)} could not be looked up, the first: {name or 'the service'}: {reason}"
        )
        lines.append(f"audit: not audited is not clean; {REMEDY}")
    lines.append(
        f"audit: {files} lock files, {wanted} pins: {len(found.clean)} clean, {len(found.known)} with known"
        f" vulnerabilities, {wanted - len(found.clean) - len(found.known)} not looked up"
    )
    return "\n".join(lines)


def main() -> int:
    """Audit every lock file; one pin first, and no more where the service does not know that one."""
    service = os.environ.get("SERVICE") or "pypi"
    files = locks()
    wanted = pins(files)
    first = [one for one in wanted if one.startswith("numpy==")][:1] or wanted[:1]
    found = ask(sys.executable, first, service)
    if not found.skipped:
        found = ask(sys.executable, wanted, service)
    print(told(found, len(files), len(wanted)), file=sys.stderr if found.code else sys.stdout)
    return found.code


if __name__ == "__main__":
    sys.exit(main())
