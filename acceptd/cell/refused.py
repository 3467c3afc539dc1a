"""Why a host, a container or a cluster refuses the outer wall, from bubblewrap's own last words. Pure."""

from __future__ import annotations

from typing import Final

PAGE: Final = "docs/clusters.md says what holds where"
_UNSHARE: Final = (
    "namespaces are forbidden to this process: as root it needs CAP_SYS_ADMIN, as an ordinary user a kernel, an"
    " AppArmor profile and (in a container) a seccomp profile that allow user namespaces"
)
_WORDS: Final = (
    (
        "max_*_namespaces",
        "a limit forbids more namespaces: sysctl user.max_user_namespaces=10000 (and of the other kinds)",
    ),
    ("No permissions to create new namespace", _UNSHARE),
    ("Creating new namespace failed", _UNSHARE),
    (
        "mount proc",
        (
            "parts of /proc are hidden here, as container runtimes do, and the kernel lets no user namespace mount"
            " another: procMount: Unmasked, or root with CAP_SYS_ADMIN and CAP_NET_ADMIN"
        ),
    ),
    (
        "RTM_NEWADDR",
        "a network namespace was made, and its loopback may not be brought up: root needs CAP_NET_ADMIN as well",
    ),
    (
        "pivot_root",
        "the seccomp profile forbids pivot_root, with CAP_SYS_ADMIN too: Unconfined, or a profile that has it",
    ),
)


def remedy(reason: str) -> str:
    """Return what would let the outer wall stand, empty where the reason is none of those that are known."""
    return next((f"{words}; {PAGE}" for sign, words in _WORDS if sign in reason), "")
