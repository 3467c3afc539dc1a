"""A daemon that is not root but may change uids: cells and comparer get uids of their own, none of its power."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd import powers
from acceptd.powers import DAC_OVERRIDE, KILL, SETGID, SETUID, may_drop

pytestmark = pytest.mark.cell

ROOT = Path(__file__).resolve().parents[2]
UID, GROUP = 58_232, 59_917
"""A user without an account, in the group that cells have where no user acceptd-cell exists."""
PROGRAM = """
import json, os, sys
from pathlib import Path
from acceptd import powers
powers.keep_to_oneself()
from acceptd.cell import doctor, launcher
from acceptd.compare.client import Comparer
from acceptd.intake.child import Child
def status(pid):
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    uid, groups = int(rows["Uid"].split()[0]), rows["Groups"].split()
    return {"uid": uid, "groups": groups, "effective": int(rows["CapEff"], 16)}
told = {"own": status("self"), "cell": launcher.cell_ids(), "ambient": powers.held("CapAmb")}
told["walls"] = {one.name: [one.state, one.seen] for one in doctor.examine()}
with Comparer() as comparer:
    told["healthy"], told["comparer"] = comparer.healthy(), status(comparer.pid)
    process = comparer._process
told["ended"] = process.wait(60) is not None
sealer = Child()
while "S" != Path(f"/proc/{sealer._process.pid}/stat").read_text().rpartition(")")[2].split()[0]:
    pass  # its new program has its own credentials before it first sleeps
told["sealer"] = status(sealer._process.pid)
sealer.kill()
told["after"] = powers.held("CapAmb")
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def interpreter() -> Iterator[str]:
    """Give an interpreter that any user may run, with our libraries: acceptd's own may lie below a 0700 home."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give a process some capabilities, with setpriv")
    system = shutil.which(f"python{sys.version_info[0]}.{sys.version_info[1]}", path="/usr/bin:/bin")
    if system is None:
        pytest.skip("no interpreter of this version that another user may run")
    with tempfile.TemporaryDirectory(prefix="acceptd-powers-", dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        subprocess.run([system, "-m", "venv", "--without-pip", name], check=True)
        (packages,) = Path(name).glob("lib/python3*/site-packages")
        (packages / "ours.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
        made = f"{name}/bin/python"
        words = ["setpriv", "--reuid", str(GROUP), "--regid", str(GROUP), "--clear-groups", "env", "-i", made]
        if subprocess.run([*words, "-c", "import acceptd.errors, structlog"], check=False).returncode != 0:
            pytest.skip("another user may not read this checkout")
        yield made


@pytest.fixture(scope="module")
def told(interpreter: str) -> dict[str, Any]:
    start = ["env", "-i", "PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", interpreter, "-P"]
    some = "+setuid,+setgid,+kill,+dac_override"
    given = [f"--{name}-caps=-all,{some}" for name in ("inh", "ambient")] + [f"--bounding-set=-all,{some}"]
    words = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--groups", str(GROUP), *given, "--no-new-privs"]
    done = subprocess.run([*words, *start, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_cells_have_a_uid_of_their_own_and_every_wall_stands(told: dict[str, Any]) -> None:
    assert told["own"]["uid"] == UID
    assert told["cell"][0] not in {UID, 0}
    due = ("namespaces", "root", "network", "landlock", "seccomp", "capabilities", "rlimits", "separate_uid")
    assert {name: told["walls"][name][0] for name in due} == dict.fromkeys(due, "enforced"), told["walls"]


def test_the_comparer_is_nobody_and_nothing_is_inherited(told: dict[str, Any]) -> None:
    assert told["healthy"]
    assert told["comparer"] == {"uid": 65534, "groups": [], "effective": 0}
    assert told["ambient"] == told["after"] == 0
    assert told["own"]["effective"] >> SETUID & 1


def test_the_daemon_can_end_what_has_another_uid(told: dict[str, Any]) -> None:
    assert told["ended"]


def test_who_copies_drops_is_lent_one_capability(told: dict[str, Any]) -> None:
    assert told["sealer"]["uid"] == UID
    assert told["sealer"]["effective"] == 1 << DAC_OVERRIDE


@pytest.mark.parametrize("lacking", [SETUID, SETGID, KILL])
def test_without_one_of_the_three_no_separate_uid_is_claimed(lacking: int) -> None:
    every = 1 << SETUID | 1 << SETGID | 1 << KILL
    assert may_drop(every, 1000)
    assert not may_drop(every & ~(1 << lacking), 1000)
    assert may_drop(0, 0)


def test_an_ordinary_user_lends_and_empties_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(powers, "held", lambda _name="CapEff": 0)
    monkeypatch.setattr(powers, "_ambient", lambda *_: pytest.fail("no capability is touched"))
    powers.keep_to_oneself()
    with powers.lent(DAC_OVERRIDE):
        pass
