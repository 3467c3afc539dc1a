"""What is shipped for systemd: taken by its own tools, as hard as the manual says, true in what it leaves out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "systemd"
UNIT = FOLDER / "acceptd.service"
TEXT = UNIT.read_text(encoding="utf-8")
ACTIVE = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
LEFT_OUT = (
    "RestrictNamespaces",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectProc",
    "ProcSubset",
    "PrivateUsers",
)
CAPABILITIES = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_DAC_OVERRIDE", "CAP_FOWNER"}


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"no {tool} here")


def value(key: str) -> str:
    (found,) = [line.partition("=")[2] for line in ACTIVE if line.startswith(f"{key}=")]
    return found


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_unit_signals_the_daemon_alone_and_allows_its_namespaces() -> None:
    assert "KillMode=mixed" in ACTIVE
    for name in (*LEFT_OUT, "DynamicUser", "StateDirectory"):
        assert not any(line.startswith(name) for line in ACTIVE), name
        assert name in TEXT, f"{name}: the unit says why it is left out"


def test_the_daemon_is_no_root_and_cells_are_somebody_else() -> None:
    assert (value("User"), value("SupplementaryGroups")) == ("acceptd", "acceptd-cell")
    assert set(value("CapabilityBoundingSet").split()) == set(value("AmbientCapabilities").split()) == CAPABILITIES
    explained = TEXT.partition("# What the daemon needs")[2].partition("\nCapabilityBoundingSet")[0]
    for name in CAPABILITIES:
        assert name.removeprefix("CAP_") in explained, name
    assert "NoNewPrivileges=yes" in ACTIVE


def test_no_filter_takes_what_bubblewrap_and_the_drop_need() -> None:
    denied = set(value("SystemCallFilter").removeprefix("~").split())
    assert value("SystemCallFilter").startswith("~")
    assert denied.isdisjoint({"@mount", "@privileged", "@resources", "@setuid", "@process", "@system-service"})


def test_ready_and_the_watchdog_are_spoken() -> None:
    assert value("Type") == "notify"
    assert value("WatchdogSec") == "5min"
    # As soon as the daemon waits for what runs it asks for 30 s more at a time: less would end it before.
    assert value("TimeoutStopSec") == "90s"


@needs("systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", TEXT, flags=re.MULTILINE), encoding="utf-8")
    drop_in = tmp_path / f"{UNIT.name}.d" / "cgroup.conf"
    drop_in.parent.mkdir()
    shutil.copy(FOLDER / "acceptd-cgroup.conf", drop_in)
    done = run("systemd-analyze", "verify", str(copy))
    assert (done.returncode, done.stderr) == (0, "")
    drop_in.write_text("[Service]\nDelegat=memory\n")  # the drop-in is read
    assert "Delegat" in run("systemd-analyze", "verify", str(copy)).stderr


@needs("systemd-analyze")
def test_the_exposure_is_not_above_what_the_manual_says() -> None:
    said = re.search(r"acceptd.service` says (\d\.\d)", (ROOT / "docs/operations.md").read_text("utf-8"))
    assert said is not None
    level = float(said[1])
    words = ("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={round(level * 10)}")
    done = run(*words, str(UNIT))
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@needs("systemd-sysusers")
def test_the_users_are_made_and_acceptd_is_of_the_cells_group(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    done = run("systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "acceptd.sysusers.conf"))
    assert done.returncode == 0, done.stderr
    users = {line.split(":")[0]: line.split(":") for line in (tmp_path / "etc/passwd").read_text().splitlines()}
    assert len({users[name][2] for name in ("acceptd", "acceptd-cell", "acceptd-compare")}) == 3
    assert all(users[name][6] == "/usr/sbin/nologin" for name in ("acceptd", "acceptd-cell", "acceptd-compare"))
    groups = dict(line.split(":")[::3] for line in (tmp_path / "etc/group").read_text().splitlines())
    assert set(groups["acceptd-cell"].split(",")) == {"acceptd", "acceptd-worker"}


@needs("systemd-tmpfiles")
def test_the_state_is_made_for_acceptd_and_nothing_ages(tmp_path: Path) -> None:
    text = (FOLDER / "acceptd.tmpfiles.conf").read_text()
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert ["d", "/var/lib/acceptd", "0711", "acceptd", "acceptd", "-"] in lines
    assert all(line[5] == "-" for line in lines)
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "acceptd.sysusers.conf"))
    done = run("systemd-tmpfiles", "--create", f"--root={tmp_path}", str(FOLDER / "acceptd.tmpfiles.conf"))
    made = tmp_path / "var/lib/acceptd"
    if not made.is_dir():
        pytest.skip(f"systemd-tmpfiles makes nothing here: {done.stderr}")
    assert made.stat().st_mode & 0o7777 == 0o711
