"""Raw system calls that a job must not make, with arguments that do no harm where they go through.

Pointers are 1, descriptors -1, flags unknown: where nothing forbids the call, the kernel looks at the
arguments and answers with another errno than EPERM (the positive control). Numbers are those of x86-64.
"""

from __future__ import annotations

from typing import Final

from acceptd.cell.probes import Probe

_ALL: Final = 0xFFFFFFFF

KILLED: Final[dict[str, tuple[int, ...]]] = {
    "ptrace": (101, 0xFFFF, 0, 0, 0),
    "process_vm_readv": (310, -1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, -1, 0, 0, 0, 0, 0),
    "process_madvise": (440, -1, 1, 1, 0, 0),
    "pidfd_open": (434, -1, 0),
    "pidfd_getfd": (438, -1, 0, 0),
    "pidfd_send_signal": (424, -1, 0, 0, 0),
    "bpf": (321, 0xFFFF, 1, 4096),
    "io_uring_setup": (425, 0, 1),
    "io_uring_enter": (426, -1, 0, 0, 0, 0, 0),
    "io_uring_register": (427, -1, 0xFFFF, 0, 0),
    "keyctl": (250, 0xFFFF, 0, 0, 0, 0),
    "add_key": (248, 1, 1, 0, 0, 0),
    "request_key": (249, 1, 1, 0, 0),
    "userfaultfd": (323, 0xFFFF),
    "perf_event_open": (298, 1, 0, -1, -1, 0),
    "mount": (165, 1, 1, 1, 0, 0),
    "umount2": (166, 1, 0xFFFF),
    "pivot_root": (155, 1, 1),
    "chroot": (161, 1),
    "move_mount": (429, -1, 1, -1, 1, 0),
    "open_tree": (428, -1, 1, 0),
    "fsopen": (430, 1, 0),
    "fsmount": (432, -1, 0, 0),
    "fsconfig": (431, -1, 0xFFFF, 0, 0, 0),
    "fspick": (433, -1, 1, 0),
    "mount_setattr": (442, -1, 1, 0xFFFFF, 0, 0),
    "unshare": (272, 0),
    "setns": (308, -1, 0),
    "init_module": (175, 1, 1, 1),
    "finit_module": (313, -1, 1, _ALL),
    "delete_module": (176, 1, 0),
    "kexec_load": (246, 0, 0, 0, 0x7FFF),
    "kexec_file_load": (320, -1, -1, 0, 0, 0x7FFF),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, 1, 0),
    "swapoff": (168, 1),
    "acct": (163, 1),
    "quotactl": (179, _ALL, 1, 0, 0),
    "setuid": (105, -1),
    "setgid": (106, -1),
    "setreuid": (113, -1, -1),
    "setregid": (114, -1, -1),
    "setresuid": (117, -1, -1, -1),
    "setresgid": (119, -1, -1, -1),
    "setgroups": (116, 0x7FFFFFFF, 0),
    "capset": (126, 1, 0),
    "personality": (135, _ALL),
    "open_by_handle_at": (304, -1, 1, 0),
    "name_to_handle_at": (303, -1, 1, 1, 1, 0x7FFF),
    "fanotify_init": (300, _ALL, 0),
    "iopl": (172, 99),
    "ioperm": (173, -1, -1, 0),
    "modify_ldt": (154, 0xFFFF, 0, 0),
    "syslog": (103, 0xFFFF, 0, 0),
    "settimeofday": (164, 1, 0),
    "clock_settime": (227, 0, 1),
    "adjtimex": (159, 1),
    "clock_adjtime": (305, 0, 1),
    "sethostname": (170, 1, -1),
    "setdomainname": (171, 1, -1),
    "execve": (59, 1, 0, 0),
    "execveat": (322, -1, 1, 0, 0, 0),
}
"""Calls at which the process dies of SIGSYS."""

DENIED: Final[dict[str, tuple[int, ...]]] = {
    "shmget": (29, 0, 0, 0),
    "shmat": (30, -1, 0, 0),
    "semget": (64, 0, -1, 0),
    "msgget": (68, 1, 0),
    "mq_open": (240, 1, 0, 0, 0),
    "io_setup": (206, 0, 1),
    "memfd_secret": (447, _ALL),
    "rt_sigqueueinfo": (129, -1, 0, 1),
    "rt_tgsigqueueinfo": (297, -1, -1, 0, 1),
    "tkill": (200, -1, 0),
    "kcmp": (312, -1, -1, 0, 0, 0),
    "seccomp": (317, 0xFFFF, 0, 0),
    "landlock_create_ruleset": (444, 1, 8, 0),
    "landlock_add_rule": (445, -1, 0xFFFF, 0, 0),
    "ioprio_set": (251, 0xFFFF, 0, 0),
    "mbind": (237, 1, 1, 0xFFFF, 0, 0, 0),
    "set_mempolicy": (238, 0xFFFF, 0, 0),
    "migrate_pages": (256, -1, 0, 1, 1),
    "move_pages": (279, -1, 1, 1, 1, 1, 0),
    "remap_file_pages": (216, 1, 0, 1, 0, 0),
    "mlockall": (151, 0xFFFF),
    "copy_file_range": (326, -1, 0, -1, 0, 1, 0xFFFF),
    "splice": (275, -1, 0, -1, 0, 1, 0),
    "vmsplice": (278, -1, 1, 1, 0xFFFF),
    "sendfile": (40, -1, -1, 0, 1),
    "fallocate": (285, -1, 0, 0, 1),
    "setxattr": (188, 1, 1, 1, 1, 0),
    "statmount": (457, 1, 1, 1, 0xFFFF),
    "listmount": (458, 1, 1, 1, 0xFFFF),
    "openat2": (437, -1, 1, 1, 24),
    "sendmsg": (46, -1, 1, 0),
    "recvmsg": (47, -1, 1, 0),
    "connect": (42, -1, 1, 16),
    "timer_create": (222, 0xFFFF, 1, 1),
    "sched_setattr": (314, 0, 1, 0xFFFF),
    "membarrier": (324, 0x7FFF, 0xFFFF, 0),
    "wait4": (61, -1, 0, 0x7FFFFFFF, 0),
    "ioctl": (16, -1, 0x5410, 1),
    "x32 getpid": (0x40000000 | 39,),
}
"""Calls that end with EPERM because they are in no list, or whose arguments are not the allowed ones."""

NEEDS_ROOT: Final = frozenset({
    "pivot_root", "move_mount", "fsopen", "fsmount", "fspick", "reboot", "swapon", "swapoff", "acct", "setgroups",
    "fanotify_init", "syslog", "sethostname", "setdomainname",
})  # fmt: skip
"""Refused by the kernel itself to everybody but root, before it looks at an argument."""


def raw(number: int, *arguments: int) -> str:
    """Return the source of a raw call; it has escaped where the errno is another than EPERM."""
    words = "".join(f", ctypes.c_long({argument})" for argument in arguments)
    return (
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"result = libc.syscall(ctypes.c_long({number}){words})\n"
        "code = ctypes.get_errno() if result < 0 else 0\n"
        "if code == errno.EPERM: raise PermissionError(code, 'refused')\n"
        "escaped = True"
    )


CALLS: Final[tuple[Probe, ...]] = (
    *(
        Probe(f"call {name}", "kernel interfaces", raw(*words), "SIGSYS", name in NEEDS_ROOT)
        for name, words in KILLED.items()
    ),
    *(
        Probe(f"call {name}", "kernel interfaces", raw(*words), needs_root=name in NEEDS_ROOT)
        for name, words in DENIED.items()
    ),
)
