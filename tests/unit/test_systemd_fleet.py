"""The units of a fleet: each role with what it needs and no more, and no secret in a file of its user."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "systemd"
ROLES = ("intake", "worker", "promoter")
CELLS = (
    *("RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs"),
    *("ProtectProc", "ProcSubset", "PrivateUsers"),
)
"""What breaks a cell, and holds where there is none."""
ALWAYS = {
    "Type=notify", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
    "KillMode=mixed",
    "PrivateDevices=yes", "MemoryDenyWriteExecute=yes", "IPAddressDeny=any", "StartLimitIntervalSec=0",
    "RestartPreventExitStatus=2", "ProtectKernelModules=yes", "SystemCallArchitectures=native",
}  # fmt: skip


def text(role: str) -> str:
    return (FOLDER / f"acceptd-{role}@.service").read_text(encoding="utf-8")


def active(role: str) -> list[str]:
    return [line for line in text(role).splitlines() if line and not line.startswith("#")]


def values(role: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in active(role) if line.startswith(f"{key}=")]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"no {tool} here")


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_its_own_state_and_what_all_must_have(role: str) -> None:
    assert set(active(role)) >= ALWAYS
    (start,) = values(role, "ExecStart")
    assert start.endswith(f"daemon --role {role} --state /var/lib/acceptd-%i")
    assert "PrivateNetwork=" in text(role)
    assert not values(role, "PrivateNetwork")  # the database is elsewhere, and the unit says so


def test_the_promoter_has_no_power_and_every_wall_that_a_cell_would_break() -> None:
    assert values("promoter", "CapabilityBoundingSet") == [""]
    assert values("promoter", "AmbientCapabilities") == values("promoter", "SupplementaryGroups") == []
    for key in CELLS:
        assert values("promoter", key), key
    assert values("promoter", "SystemCallFilter")[0] == "@system-service"
    assert "AF_NETLINK" not in values("promoter", "RestrictAddressFamilies")[0]


@pytest.mark.parametrize("role", ["intake", "worker"])
def test_who_has_cells_may_make_them_and_the_unit_says_what_it_leaves_out(role: str) -> None:
    for key in (*CELLS, "DynamicUser"):
        assert not values(role, key), key
        assert f"{key}=" in text(role), f"{key}: the unit says why it is left out"
    assert "AF_NETLINK" in values(role, "RestrictAddressFamilies")[0]
    for allowed in ("@mount", "@privileged", "@resources", "@setuid"):
        assert allowed not in values(role, "SystemCallFilter")[0]


def test_a_worker_reads_no_drop_and_no_two_roles_share_a_user() -> None:
    held = {role: set(" ".join(values(role, "CapabilityBoundingSet")).split()) for role in ROLES}
    assert held["worker"] == {"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
    assert held["intake"] - held["worker"] == {"CAP_DAC_OVERRIDE", "CAP_FOWNER"}
    users = [values(role, "User")[0] for role in ROLES]
    assert len(set(users)) == 3
    made = (FOLDER / "acceptd.sysusers.conf").read_text("utf-8")
    assert all(re.search(rf"^u {user} ", made, re.MULTILINE) for user in users)
    assert "m acceptd-promoter" not in made


@pytest.mark.parametrize("role", ROLES)
def test_secrets_are_credentials_and_libpq_is_given_no_file_that_it_would_ignore(role: str) -> None:
    names = [one.partition(":")[0] for one in values(role, "LoadCredential")]
    variables = " ".join(values(role, "Environment"))
    assert sorted(names) == ["objects", "pg_service.conf"]
    assert all(f"=%d/{name}" in variables for name in names)
    assert "PGPASSFILE" not in variables
    assert not re.search(r"(?i)password|secret", " ".join(active(role)))


@needs("systemd-analyze")
@pytest.mark.parametrize("role", ROLES)
def test_systemd_takes_the_unit(role: str, tmp_path: Path) -> None:
    copy = tmp_path / f"acceptd-{role}@x1.service"
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text(role), flags=re.MULTILINE), "utf-8")
    drop_in = tmp_path / f"{copy.name}.d" / "network.conf"
    drop_in.parent.mkdir()
    shutil.copy(FOLDER / "acceptd-fleet-network.conf", drop_in)
    done = run("systemd-analyze", "verify", str(copy))
    assert (done.returncode, done.stderr) == (0, "")
    drop_in.write_text("[Service]\nIPAddressAlow=10.0.0.1\n")
    assert "IPAddressAlow" in run("systemd-analyze", "verify", str(copy)).stderr


@needs("systemd-analyze")
@pytest.mark.parametrize("role", ROLES)
def test_the_exposure_is_not_above_what_the_manual_says(role: str) -> None:
    said = re.search(rf"`acceptd-{role}@.service` (\d\.\d)", (ROOT / "docs/fleet.md").read_text("utf-8"))
    assert said is not None
    threshold = f"--threshold={round(float(said[1]) * 10)}"
    words = ("systemd-analyze", "security", "--offline=true", "--no-pager", threshold)
    done = run(*words, str(FOLDER / f"acceptd-{role}@.service"))
    assert done.returncode == 0, done.stdout.splitlines()[-1]
