"""Which system calls a job may make, and why: an allowlist, compiled here on the trusted side.

Compiling costs about 5 ms and needs libseccomp, which cannot be found inside a minimal root; the
job only applies the finished program (0.1 ms). Whatever is in no list ends with EPERM; what is in
:data:`KILL` ends the process with SIGSYS, because no honest library tries it.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import signal
import tempfile
from typing import Final

from acceptd.errors import CellUnavailableError

ALLOW: Final[dict[str, str]] = {
    # files: only the named ones exist in the private root
    "read": "files, and the order on the job's socket",
    "pread64": "onnxruntime reads models and weights by position",
    "readv": "buffered readers",
    "write": "frames, result blobs, stderr",
    "writev": "C++ streams writing to stderr",
    "close": "descriptors",
    "fstat": "open files",
    "stat": "onnx and onnxruntime look at paths",
    "lstat": "std::filesystem canonical paths",
    "newfstatat": "glibc's stat",
    "statx": "newer glibc's stat",
    "lseek": "file readers",
    "access": "existence checks",
    "faccessat": "existence checks",
    "faccessat2": "onnx.checker with external data",
    "readlink": "std::filesystem canonical paths",
    "readlinkat": "std::filesystem canonical paths",
    "getcwd": "path resolution",
    "getdents64": "listing a golden set's directory",
    "fadvise64": "read-ahead hints",
    # memory: never shared and writable
    "munmap": "freeing",
    "mprotect": "thread stacks, guard pages",
    "mremap": "realloc",
    "madvise": "allocators",
    "brk": "allocator",
    # threads and time
    "futex": "locks",
    "set_robust_list": "thread start",
    "rseq": "thread start",
    "set_tid_address": "thread start",
    "sched_yield": "spin locks",
    "sched_getaffinity": "thread pools",
    "clock_gettime": "timing, where the vdso has none",
    "clock_getres": "timing",
    "clock_nanosleep": "waits of thread pools",
    "nanosleep": "waits of thread pools",
    "gettimeofday": "timing",
    "times": "timing",
    "getrusage": "CPU time of a case",
    "getcpu": "allocator caches",
    # signals to oneself, exit
    "rt_sigaction": "interpreter",
    "rt_sigprocmask": "thread start, abort()",
    "rt_sigreturn": "return from a handler",
    "sigaltstack": "fault handlers",
    "restart_syscall": "the kernel's own, after a stop",
    "exit": "end of a thread",
    "exit_group": "end of the job",
    # identity and randomness
    "getpid": "abort()",
    "gettid": "abort(), thread names",
    "getuid": "interpreter",
    "geteuid": "interpreter",
    "getgid": "interpreter",
    "getegid": "interpreter",
    "getrandom": "hash seeds, std::random_device",
    "uname": "platform facts",
    "sysinfo": "memory size of thread pools",
}

KILL: Final[tuple[str, ...]] = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_open", "pidfd_getfd",
    "pidfd_send_signal", "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key",
    "request_key", "userfaultfd", "perf_event_open", "mount", "umount2", "pivot_root", "chroot", "move_mount",
    "open_tree", "fsopen", "fsmount", "fsconfig", "fspick", "mount_setattr", "unshare", "setns", "init_module",
    "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct",
    "quotactl", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "capset",
    "personality", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "lookup_dcookie", "iopl", "ioperm",
    "modify_ldt", "vm86", "syslog", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
    "setdomainname", "execve", "execveat", "fork", "vfork",
)  # fmt: skip
"""The dangerous: an attempt is an attack, and the process dies of SIGSYS."""

_PROT_WRITE, _MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWSDOWN = 0x2, 0x1, 0x20, 0x100
_OPEN_WRITES: Final = (
    os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)
)
_MAKES: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD: Final = 0x00010000
_FCNTL_ALLOWED: Final = {"F_GETFD": 1, "F_SETFD": 2, "F_GETFL": 3, "F_DUPFD_CLOEXEC": 1030}
JOB_PID: Final = 2
"""The job is pid 2 of its namespace, always: abort() needs tgkill to itself, or ends as SIGSEGV."""


def available() -> str:
    """Return an empty string where libseccomp can be used, else the reason."""
    try:
        import pyseccomp  # noqa: F401 - the import itself looks for the C library
    except Exception as error:  # noqa: BLE001 - ctypes raises whatever the loader raises
        return f"libseccomp cannot be loaded: {error}"
    return ""


@functools.cache
def compiled(*, scratch: bool = False) -> bytes:
    """Return the BPF program for :data:`ALLOW`, :data:`KILL` and the argument checks.

    ``scratch`` lets a job make files for writing, in the one directory that Landlock and the mounts leave it: for
    onnxruntime's profiler. Never for reading and writing at once, so that none can be mapped shared: that would
    be memory which RLIMIT_DATA does not count.

    Raises:
        CellUnavailableError: libseccomp is missing.
    """
    reason = available()
    if reason:
        raise CellUnavailableError(reason, remedy="install Debian's libseccomp2 (apt-get install libseccomp2)")
    import pyseccomp as sc

    program = sc.SyscallFilter(sc.ERRNO(errno.EPERM))
    for name in ALLOW:
        _add(program, sc.ALLOW, name)
    for name in KILL:
        _add(program, sc.KILL_PROCESS, name)
    # No shared writable memory: it would evade RLIMIT_DATA, and outlive the job in a mapped file.
    # A private mapping (bit MAP_SHARED clear) may be writable; a shared one only without PROT_WRITE.
    # MAP_SHARED_VALIDATE (3) has the same bit set. Shared anonymous memory never: mprotect could make
    # it writable later; a shared file cannot, because every file is opened read-only.
    # MAP_GROWSDOWN makes a stack of it, which RLIMIT_DATA does not count.
    program.add_rule(sc.ALLOW, "mmap", sc.Arg(3, sc.MASKED_EQ, _MAP_SHARED | _MAP_GROWSDOWN, 0))
    program.add_rule(
        sc.ALLOW,
        "mmap",
        sc.Arg(3, sc.MASKED_EQ, _MAP_SHARED | _MAP_ANONYMOUS | _MAP_GROWSDOWN, _MAP_SHARED),
        sc.Arg(2, sc.MASKED_EQ, _PROT_WRITE, 0),
    )
    # Reading only, whatever the path: a magic link in /proc/self/fd would reopen a descriptor for writing.
    program.add_rule(sc.ALLOW, "openat", sc.Arg(2, sc.MASKED_EQ, _OPEN_WRITES, 0))
    if platform.machine() == "x86_64":
        program.add_rule(sc.ALLOW, "open", sc.Arg(1, sc.MASKED_EQ, _OPEN_WRITES, 0))
    if scratch:
        program.add_rule(sc.ALLOW, "openat", sc.Arg(2, sc.MASKED_EQ, _OPEN_WRITES, _MAKES))
        if platform.machine() == "x86_64":
            program.add_rule(sc.ALLOW, "open", sc.Arg(1, sc.MASKED_EQ, _OPEN_WRITES, _MAKES))
    # Threads only; clone3 hides its flags behind a pointer, and glibc falls back at ENOSYS.
    program.add_rule(sc.ALLOW, "clone", sc.Arg(0, sc.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
    program.add_rule(sc.ERRNO(errno.ENOSYS), "clone3")
    # Only abort(): a job that kills itself with SIGKILL would pass for one that a stranger killed.
    program.add_rule(sc.ALLOW, "tgkill", sc.Arg(0, sc.EQ, JOB_PID), sc.Arg(2, sc.EQ, signal.SIGABRT))
    # Leases and locks on sealed files stall the daemon's own open: descriptor flags only.
    for number in _FCNTL_ALLOWED.values():
        program.add_rule(sc.ALLOW, "fcntl", sc.Arg(1, sc.EQ, number))
    program.add_rule(sc.ALLOW, "prlimit64", sc.Arg(2, sc.EQ, 0))  # reading limits, not setting them
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def _add(program: object, action: object, name: str) -> None:
    try:
        program.add_rule(action, name)  # type: ignore[attr-defined]
    except OSError as error:
        # EINVAL: this architecture or libseccomp does not know the call (open on aarch64); then the
        # default, EPERM, stands.
        if error.errno != errno.EINVAL:
            raise
