"""The walls that a job puts around itself, as direct Linux calls through ctypes.

Each function does one wall and raises :class:`OSError` when the kernel refuses. Nothing here reads
a submitted byte. Order matters and is held by :mod:`sandbox.init`: namespaces and private root
(which need capabilities), rlimits, Landlock, capabilities, seccomp.

Sources: clone(2), user_namespaces(7), pivot_root(2), landlock(7), capabilities(7), seccomp(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
# PyDLL keeps the GIL during clone, so that the child owns it when it returns.
_LIBC_GIL: Final = ctypes.PyDLL(None, use_errno=True)
for _library, _names in (_LIBC, "mount prctl signal syscall umount2"), (_LIBC_GIL, "syscall _Fork"):
    for _name in _names.split():
        getattr(_library, _name, None)  # ctypes looks a function up at its first use: here, and not in each job

_MACHINE: Final = platform.machine()
_NR_CLONE: Final = {"x86_64": 56, "aarch64": 220}.get(_MACHINE, -1)
_NR_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}.get(_MACHINE, -1)
_NR_CLOSE_RANGE: Final = 436
_NR_LANDLOCK_CREATE: Final = 444
_NR_LANDLOCK_ADD: Final = 445
_NR_LANDLOCK_RESTRICT: Final = 446
_NR_CAPSET: Final = {"x86_64": 126, "aarch64": 91}.get(_MACHINE, -1)

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
CLONE_PIDFD: Final = 0x00001000
ALL_NAMESPACES: Final = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_MNT_DETACH: Final = 2

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAP_AMBIENT = 4, 24, 38, 22, 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x20080522

_ACCESS_FS_READ_FILE: Final = 1 << 2
_ACCESS_FS_MAKING: Final = 1 << 1 | 1 << 8 | 1 << 14
"""WRITE_FILE, MAKE_REG and TRUNCATE (the last from ABI 3 on)."""
_FS_RIGHTS_BY_ABI: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many file-system rights each Landlock ABI knows; later ABIs keep 16."""


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def clone_into_namespaces() -> tuple[int, int]:
    """Fork into fresh user, pid, mount, net, ipc and uts namespaces with one call.

    Returns (pid, pidfd) in the parent and (0, -1) in the child, which is pid 1 of its namespace.
    Measured: one clone with all flags costs what a plain fork costs. Only safe with one thread.
    """
    pidfd = ctypes.c_int(-1)
    flags = ALL_NAMESPACES | CLONE_PIDFD | signal.SIGCHLD
    arguments = [ctypes.c_ulong(flags), ctypes.c_void_p(None), ctypes.byref(pidfd), ctypes.c_void_p(None)]
    result = _LIBC_GIL.syscall(ctypes.c_long(_NR_CLONE), *arguments, ctypes.c_void_p(None))
    _check(result, "clone")
    return (result, pidfd.value) if result else (0, -1)


def fork() -> int:
    """Fork without Python's handlers; return the child's pid, 0 in the child. Only safe with one thread.

    They make locks anew, of which one thread needs none, and seed :mod:`random`, which no job uses; and they
    dirty 200 pages, each of which the kernel copies (measured). glibc's ``_Fork`` (2.34) keeps its own
    account of the thread, without which abort() would signal nobody; an older one forks as Python does.
    """
    plain = getattr(_LIBC_GIL, "_Fork", None)
    return os.fork() if plain is None else _check(plain(), "fork")


def map_own_user(uid: int, gid: int) -> None:
    """Map the caller's ids to 0 in its new user namespace (user_namespaces(7))."""
    _check(_LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl dumpable")
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    _check(_LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl dumpable")


def forbid_user_namespaces() -> None:
    """Allow no further user namespace below the caller's own, for ever (namespaces(7), max_user_namespaces).

    The limit belongs to the user namespace of the writer, who needs CAP_SYS_RESOURCE in it; dropping the
    capabilities afterwards makes it final. Needs /proc, so it comes before the private root.
    """
    descriptor = os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if item is None else os.fsencode(item) for item in (source, target, kind, data)]
    result = _LIBC.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(result, f"mount {target}")


def private_root(
    staging: str, files: list[tuple[str, str]], *, proc_fd: bool = False, scratch: tuple[str, int] | None = None
) -> None:
    """Pivot into a fresh read-only tmpfs that holds only ``files``.

    Args:
        staging: an empty directory of the outer root to mount on.
        files: (path inside, beginning with a slash; path in the outer root). Sources lie on
            read-only mounts, and a bind inherits that. A source may be a directory.
        proc_fd: bind the caller's own ``/proc/self/fd``, and nothing else of /proc. What a magic link there
            leads to is still held by Landlock and by seccomp (openat reads only).
        scratch: path inside and bytes of a directory that may be written to, the only one.
    """
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount(
        "tmpfs",
        staging,
        "tmpfs",
        _MS_NOSUID | _MS_NODEV | _MS_NOEXEC,
        f"size=4m,nr_inodes={len(files) * 18 + 64},mode=0755",
    )
    made: set[str] = {staging}
    for inside, source in files:
        target = staging + inside
        parts = inside.strip("/").split("/")[:-1]
        if ".." in parts or "." in parts:
            raise OSError(22, f"not a plain path: {inside}")
        folder = staging
        for part in parts:
            folder = f"{folder}/{part}"
            if folder not in made:
                os.mkdir(folder, 0o755)
                made.add(folder)
        if os.path.isdir(source):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444))
        _mount(source, target, None, _MS_BIND)
    if proc_fd:
        target = f"{staging}/proc/self/fd"
        os.makedirs(target, 0o755)
        _mount("/proc/self/fd", target, None, _MS_BIND)
    if scratch is not None:
        os.mkdir(staging + scratch[0], 0o700)
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        _mount("tmpfs", staging + scratch[0], "tmpfs", flags, f"size={scratch[1]},nr_inodes=8,mode=0700")
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _mount(None, staging, None, flags)
    os.chdir(staging)
    # pivot_root(2), "pivot_root(".", ".")": no directory for the old root is needed.
    _check(_LIBC.syscall(ctypes.c_long(_NR_PIVOT_ROOT), b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", _MNT_DETACH), "umount old root")
    os.chdir("/")


def rlimits(*, cpu: int, data: int, address_space: int, file_size: int, open_files: int, tasks: int) -> None:
    """Set hard limits: seconds of CPU, bytes, bytes, bytes, descriptors, tasks. No core file, no locked memory.

    From Linux 5.14 on RLIMIT_NPROC counts per user namespace, and every job has its own (measured).
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    for name in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(name, (0, 0))


def landlock_abi() -> int:
    """Return the kernel's Landlock ABI, 0 where there is none (landlock_create_ruleset(2))."""
    result = _LIBC.syscall(ctypes.c_long(_NR_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(int(result), 0)


def landlock(readable: list[str], scratch: str = "") -> int:
    """Allow reading of ``readable`` (files or directories, below) and nothing else; return the ABI used.

    In the directory ``scratch``, where one is named, files may be made, written and read.

    With ABI 4 TCP bind and connect are refused, with ABI 6 abstract sockets and signals to outside.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(95, "Landlock is not enabled in this kernel")
    rights = (1 << _FS_RIGHTS_BY_ABI.get(abi, 16)) - 1
    attribute = struct.pack("=Q", rights)
    if abi >= 4:
        attribute += struct.pack("=Q", 0b11)
    if abi >= 6:
        attribute += struct.pack("=Q", 0b11)
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    ruleset = _check(
        _LIBC.syscall(
            ctypes.c_long(_NR_LANDLOCK_CREATE), buffer, ctypes.c_size_t(len(attribute)), ctypes.c_uint(0)
        ),
        "landlock_create_ruleset",
    )
    try:
        for path in [*readable, *([scratch] if scratch else [])]:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                allowed = _ACCESS_FS_READ_FILE
                if path == scratch:
                    allowed |= _ACCESS_FS_MAKING & rights
                if os.path.isdir(path):
                    allowed |= 1 << 3  # LANDLOCK_ACCESS_FS_READ_DIR
                rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, descriptor), 12)
                arguments = (ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
                _check(_LIBC.syscall(ctypes.c_long(_NR_LANDLOCK_ADD), *arguments), "landlock_add_rule")
            finally:
                os.close(descriptor)
        no_new_privileges()
        _check(
            _LIBC.syscall(ctypes.c_long(_NR_LANDLOCK_RESTRICT), ctypes.c_int(ruleset), ctypes.c_uint(0)),
            "landlock_restrict_self",
        )
    finally:
        os.close(ruleset)
    return abi


def drop_capabilities() -> None:
    """Empty the bounding, ambient, effective, permitted and inheritable sets (capabilities(7))."""
    for capability in range(64):
        if _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            if ctypes.get_errno() == 22:  # EINVAL: past the last capability of this kernel
                break
            _check(-1, f"drop capability {capability} from the bounding set")
    _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    data = ctypes.create_string_buffer(bytes(24), 24)
    _check(_LIBC.syscall(ctypes.c_long(_NR_CAPSET), header, data), "capset")


def no_new_privileges() -> None:
    """Set no_new_privs (prctl(2)): no exec can gain anything, and seccomp may be applied."""
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def not_dumpable() -> None:
    """No core file, no ptrace and no /proc/self/mem by a process of the same uid."""
    _check(_LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl dumpable")


def seccomp(program: bytes) -> None:
    """Apply a compiled BPF filter (``struct sock_filter`` array, 8 bytes an instruction) for ever."""
    count = len(program) // 8
    buffer = ctypes.create_string_buffer(program, len(program))
    address = ctypes.addressof(buffer)
    fprog = ctypes.create_string_buffer(struct.pack("@HxxxxxxQ", count, address), 16)
    result = _LIBC.prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.c_void_p(ctypes.addressof(fprog)), 0, 0
    )
    _check(result, "seccomp")


def close_from(first: int, last: int = 0xFFFFFFFF) -> None:
    """Close every descriptor from ``first`` on, up to ``last`` (close_range(2)); none where that is lower."""
    if first <= last:
        bounds = ctypes.c_uint(first), ctypes.c_uint(last)
        _check(_LIBC.syscall(ctypes.c_long(_NR_CLOSE_RANGE), *bounds, ctypes.c_uint(0)), "close_range")


def default_signals(numbers: tuple[int, ...]) -> None:
    """Give signals their default action (signal(2)). By libc: Python's own way there dirties more pages."""
    for number in numbers:
        _LIBC.signal(number, ctypes.c_void_p(None))
