"""Runs a command as a container or a cluster would: capabilities, seccomp, user namespaces and /proc taken away.

Run as a module it puts one of these on and becomes the command:

    python -m tests.fleet.confined fence WHAT... -- COMMAND      the calls that a runtime's default profile denies
    python -m tests.fleet.confined mapped BASE -- COMMAND        root of a new user namespace, uids BASE.. outside

What the profiles deny is taken from moby's and containerd's own (profiles/seccomp/default.json,
contrib/seccomp/seccomp_default.go): not all of it, but what a cell calls.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
USER: Final = 1234
BASE: Final = 100_000
DEFAULT_CAPABILITIES: Final = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service"),
    *("net_raw", "sys_chroot", "mknod", "audit_write", "setfcap"),
)
"""Of a container by default (moby, oci/caps/defaults.go)."""
CLONE_NEW: Final = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
DENIED: Final = ("unshare", "mount", "umount2", "setns", "move_mount", "open_tree", "fsopen", "fsmount", "fspick")
"""Without CAP_SYS_ADMIN."""
MASKED: Final = """
mount -t tmpfs -o ro,size=4k none /proc/acpi 2>/dev/null || true
for one in /proc/kcore /proc/keys /proc/timer_list; do mount --bind /dev/null $one 2>/dev/null || true; done
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys
exec "$@"
"""
"""Hides parts of /proc as container runtimes do."""


def here(*words: str) -> list[str]:
    """Return a command that runs this module."""
    return [sys.executable, "-m", "tests.fleet.confined", *words, "--"]


def capabilities(*more: str, user: bool = False) -> list[str]:
    """Return a command that keeps a container's capabilities and ``more``; as a user none, and no way to more."""
    if user:
        ids = f"--reuid={USER} --regid={USER} --clear-groups --bounding-set=-all --no-new-privs".split()
        return ["setpriv", *ids]
    kept = ",".join(f"+{name}" for name in (*DEFAULT_CAPABILITIES, *more))
    return ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]


def masked() -> list[str]:
    """Return a command that hides parts of /proc, in a mount namespace of its own."""
    return ["unshare", "-m", "sh", "-c", MASKED, "sh"]


def mapped(*, proc: bool = True) -> list[str]:
    """Return a command that is root in a user namespace alone, as a pod with ``hostUsers: false``."""
    own = ["unshare", "-m", "-p", "-f", "--mount-proc"] if proc else []
    return [*here("mapped", str(BASE)), *own]


def doctor(prefix: list[str], *, policies: Path | None = None) -> tuple[int, dict[str, dict[str, str]]]:
    """Run ``acceptd doctor --json`` so confined; return its exit code and the checks by name."""
    environment = {**os.environ, "PYTHONPATH": search_path(), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"}
    if policies is not None:
        environment["ACCEPTD_POLICIES"] = str(policies)
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "acceptd", "doctor", "--state", "/nonexistent", "--json"],
        capture_output=True, text=True, env=environment, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    try:
        body = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}") from None
    return done.returncode, {one["name"]: one for one in body.get("checks", [])}


def search_path() -> str:
    """Return where this process finds its modules, for an interpreter that is not the environment's."""
    return os.pathsep.join([str(ROOT), *(one for one in sys.path if one.endswith("site-packages"))])


def fence(what: list[str]) -> None:
    """Deny what the profile denies; without no_new_privs, as a runtime that is root does."""
    import pyseccomp

    rules: Any = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    denied = pyseccomp.ERRNO(errno.EPERM)
    if "namespaces" in what:
        for name in DENIED:
            rules.add_rule(denied, name)
        for bit in CLONE_NEW:
            rules.add_rule(denied, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, bit, bit))
        rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    if "pivot_root" in what:
        rules.add_rule(denied, "pivot_root")
    rules.set_attr(pyseccomp.Attr.CTL_NNP, 0)
    rules.load()


def enter(base: int, command: list[str]) -> int:
    """Become root of a user namespace whose 65,536 uids are ``base`` and above outside; return the exit code."""
    ready, going = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready[0])
        if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) != 0:
            os._exit(125)
        os.write(ready[1], b"\0")
        os.read(going[0], 1)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        os.execvp(command[0], command)
    os.close(ready[1])
    if os.read(ready[0], 1):
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text(f"0 {base} 65536")
    os.write(going[1], b"\0")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    """See the module."""
    at = sys.argv.index("--")
    words, command = sys.argv[1:at], sys.argv[at + 1 :]
    if words[0] == "mapped":
        sys.exit(enter(int(words[1]), command))
    fence(words[1:])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
