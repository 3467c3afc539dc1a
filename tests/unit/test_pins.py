"""What is installed to build, test or measure acceptd is what was looked at: by version and hash, and by lock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("acceptd", "bench", "docs", "fuzz", "oms", "policies", "tests", "tools")
LOCKS = sorted([*ROOT.glob("*.lock"), *(path for place in PLACES for path in (ROOT / place).rglob("*.lock"))])
_INSTALL = re.compile(r"\bpip install\b")
_PIN = re.compile(r"^(?P<pin>[A-Za-z0-9][^\s;\\]*)(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)


def installs() -> list[str]:
    """Return every line of the Makefile and of scripts that has pip install something, continued lines as one."""
    scripts = [ROOT / "Makefile", ROOT / ".ci" / "run", *(ROOT / "tools").glob("*.sh")]
    text = "\n".join(path.read_text("utf-8").replace("\\\n", " ") for path in scripts)
    return [line.strip() for line in text.splitlines() if _INSTALL.search(line)]


def test_no_install_of_ours_takes_what_has_no_hash() -> None:
    found = installs()
    assert len(found) > 5
    assert [line for line in found if "--require-hashes" not in line] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_pin_of_a_lock_has_a_version_and_a_hash(lock: Path) -> None:
    pins = list(_PIN.finditer(lock.read_text("utf-8")))
    assert pins
    for match in pins:
        assert "==" in match["pin"], match["pin"]
        assert "--hash=sha256:" in match["rest"], match["pin"]


def test_every_list_of_requirements_has_its_lock_and_none_lies_elsewhere() -> None:
    """A file of another ending would be installed by a habit of hand, and looked at by no audit."""
    asked = [*ROOT.glob("*.in"), *(path for place in PLACES for path in (ROOT / place).rglob("*.in"))]
    missing = [path.relative_to(ROOT).as_posix() for path in asked if not path.with_suffix(".lock").exists()]
    assert missing == []
    stray = [
        path.relative_to(ROOT).as_posix()
        for place in PLACES
        for path in (ROOT / place).rglob("*.txt")
        if re.search(r"^[A-Za-z0-9._-]+==\d", path.read_text("utf-8", "replace"), re.MULTILINE)
    ]
    assert stray == []
