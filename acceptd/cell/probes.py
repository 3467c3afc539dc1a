"""What an attacker tries from inside a job, as data: the escape set of ``tests/cell`` and ``acceptd selftest``.

A source sets ``escaped`` where the attack worked. It runs inside a job under the walls, and in the tests
also outside, where it must succeed (the positive control). ``spec`` names files: ``model`` (the job's own),
``other`` (another submission's), ``expected`` (the golden), ``scratch`` (a directory one may write to).
Raw system calls are in :mod:`acceptd.cell.probes_calls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Group = Literal[
    "files",
    "expected outputs",
    "other submissions",
    "writes",
    "network",
    "processes",
    "signals",
    "memory",
    "descriptors",
    "kernel interfaces",
    "limits",
]
GROUPS: Final[tuple[Group, ...]] = (
    "files", "expected outputs", "other submissions", "writes", "network", "processes", "signals", "memory",
    "descriptors", "kernel interfaces", "limits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Probe:
    """One attack.

    ``ending`` is how the job must end: ``refused`` (an errno, and the job goes on), ``SIGSYS``, or the name
    of a limit. ``needs_root``: outside, only root gets past the kernel's own EPERM, so that an ordinary
    user has no positive control.
    """

    name: str
    group: Group
    source: str
    ending: str = "refused"
    needs_root: bool = False


_LIBC: Final = "libc = ctypes.CDLL(None, use_errno=True)\n"
_FAILED: Final = "\nif result < 0: raise OSError(ctypes.get_errno(), 'refused')\nescaped = True"


def _prctl(*words: str) -> str:
    return f"{_LIBC}result = libc.prctl({', '.join(words)}){_FAILED}"


def _libc(call: str) -> str:
    return f"{_LIBC}result = libc.{call}{_FAILED}"


def _written(directory: str) -> str:
    path = f"path = '{directory}/acceptd-escape-' + str(os.getpid()); "
    return path + "open(path, 'w').close(); os.unlink(path); escaped = True"


_MODEL_FD: Final = "fd = os.open(spec['model'], os.O_RDONLY); "
_FOLDER: Final = "os.path.dirname(spec['model'])"

_SOURCES: Final[dict[Group, dict[str, str]]] = {
    "files": {
        "read a host file": "escaped = bool(open('/etc/passwd').read())",
        "read a host file by a path that climbs": (
            f"escaped = bool(open({_FOLDER} + '/..' * 12 + '/etc/passwd').read())"
        ),
        "read a host file through proc": "escaped = bool(open('/proc/self/root/etc/passwd').read())",
        "map a host file": (
            "fd = os.open('/etc/passwd', os.O_RDONLY); mmap.mmap(fd, 0, prot=mmap.PROT_READ); escaped = True"
        ),
        "look at a host file": "os.stat('/etc/passwd'); escaped = True",
        "hold a host directory by O_PATH": "os.open('/etc', os.O_PATH); escaped = True",
        "list the root": "escaped = 'etc' in os.listdir('/')",
        "list the libraries": "escaped = bool(os.listdir('/usr'))",
        "open a device": "escaped = bool(open('/dev/zero', 'rb').read(1))",
        "go to another directory": "os.chdir('/usr'); escaped = True",
        "measure the file system": "os.statvfs('/usr'); escaped = True",
        "read the environment through proc": "escaped = open('/proc/self/environ', 'rb').read() is not None",
        "read the mounts": "escaped = bool(open('/proc/self/mountinfo').read())",
        "read the command line of pid 1": "escaped = open('/proc/1/cmdline', 'rb').read() is not None",
    },
    "expected outputs": {
        "read the expected output": "escaped = bool(open(spec['expected']).read())",
        "read the expected output beside the model": (
            f"escaped = bool(open({_FOLDER} + '/test_data_set_0/output_0.pb').read())"
        ),
        "list the golden sets": f"escaped = bool(os.listdir({_FOLDER} + '/test_data_set_0'))",
        "ask whether the golden is there": "os.stat(spec['expected']); escaped = True",
    },
    "other submissions": {
        "read another submission": "escaped = bool(open(spec['other']).read())",
        "read another submission by a relative path": (
            f"escaped = bool(open({_FOLDER} + '/../other/model.onnx').read())"
        ),
        "list the other submissions": f"escaped = 'other' in os.listdir({_FOLDER} + '/..')",
        "ask whether another submission is there": "os.stat(spec['other']); escaped = True",
    },
    "writes": {
        "write beside the model": f"open({_FOLDER} + '/x', 'w').write('x'); escaped = True",
        "write to the temporary directory": _written("/tmp"),  # noqa: S108 - text for the attacker
        "write to shared memory": _written("/dev/shm"),  # noqa: S108
        "overwrite the model": "os.close(os.open(spec['model'], os.O_WRONLY)); escaped = True",
        "append to the model": "os.open(spec['model'], os.O_WRONLY | os.O_APPEND); escaped = True",
        "truncate the model": "os.truncate(spec['model'], os.stat(spec['model']).st_size); escaped = True",
        "remove the model": (
            "os.rename(spec['model'], spec['model'] + '2')\nos.rename(spec['model'] + '2', spec['model'])\n"
            "escaped = True"
        ),
        "link a file": "os.symlink('/etc/passwd', spec['scratch'] + '/link'); escaped = True",
        "link the model under another name": f"os.link(spec['model'], {_FOLDER} + '/hard'); escaped = True",
        "make a directory": "os.mkdir(spec['scratch'] + '/folder'); escaped = True",
        "make a FIFO": "os.mkfifo(spec['scratch'] + '/fifo'); escaped = True",
        "make an unnamed file": "os.open(spec['scratch'], os.O_TMPFILE | os.O_RDWR); escaped = True",
        "change a mode": "os.chmod(spec['model'], 0o777); escaped = True",
        "change an owner": "os.chown(spec['model'], -1, -1); escaped = True",
        "change the times": "os.utime(spec['model']); escaped = True",
        "flush the host's disk": f"{_MODEL_FD}\n{_libc('syncfs(fd)')}",
    },
    "network": {
        "open a TCP socket": "socket.socket(socket.AF_INET, socket.SOCK_STREAM); escaped = True",
        "open a TCP socket for IPv6": "socket.socket(socket.AF_INET6, socket.SOCK_STREAM); escaped = True",
        "open a UDP socket": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM); escaped = True",
        "open a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); escaped = True",
        "open a Unix socket": "socket.socket(socket.AF_UNIX); escaped = True",
        "listen on an abstract socket": "socket.socket(socket.AF_UNIX).bind('\\0acceptd-escape'); escaped = True",
        "make a socket pair": "socket.socketpair(); escaped = True",
        "resolve a name": "escaped = bool(socket.getaddrinfo(b'localhost', 80))",
        "list the network devices": "escaped = bool(socket.if_nameindex())",
        "read the routes": "escaped = bool(open('/proc/net/route').read())",
    },
    "processes": {
        "fork": "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0); escaped = True",
        "fork by a raw clone": (
            f"{_LIBC}result = libc.syscall(ctypes.c_long(56), ctypes.c_long(17), None, None, None, None)\n"
            "if result == 0: os._exit(0)" + _FAILED
        ),
        "start a program": "escaped = os.posix_spawn('/bin/true', ['true'], {}) > 0",
        "read the status of its parent": "escaped = open(f'/proc/{os.getppid()}/status').read() != ''",
        "open the memory of its parent": "open(f'/proc/{os.getppid()}/mem', 'rb'); escaped = True",
        "leave its session": "os.setsid(); escaped = True",
        "make a process group": "os.setpgid(0, 0); escaped = True",
        "schedule itself away": "os.sched_setaffinity(0, {0}); escaped = True",
        "change its scheduler": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); escaped = True",
        "renice": "os.setpriority(os.PRIO_PROCESS, 0, 19); escaped = True",
        "adopt orphans": _prctl("36", "1", "0", "0", "0"),
        "name a thread by prctl": _prctl("15", "b'evil'", "0", "0", "0"),
        "make itself dumpable": _prctl("4", "1", "0", "0", "0"),
        "keep capabilities over a change of user": _prctl("8", "1", "0", "0", "0"),
    },
    "signals": {
        "signal its parent": "os.kill(os.getppid(), 0); escaped = True",
        "signal itself by kill": "os.kill(os.getpid(), 0); escaped = True",
        "signal everybody": "os.kill(-1, 0); escaped = True",
        "signal itself by tgkill": _libc("syscall(ctypes.c_long(234), os.getpid(), threading.get_native_id(), 0)"),
        "set an alarm": "signal.setitimer(signal.ITIMER_REAL, 1000); escaped = True",
        "die by a signal of its own choice, with the parent": _prctl("1", "9", "0", "0", "0"),
    },
    "memory": {
        "make shared writable memory": "mmap.mmap(-1, 4096, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS); escaped = True",
        "make shared memory and protect it later": (
            "mmap.mmap(-1, 4096, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ); escaped = True"
        ),
        "make a memfd": "os.memfd_create('x'); escaped = True",
        "make a mapping that grows down": (
            f"{_LIBC}libc.mmap.restype = ctypes.c_void_p\n"
            "result = libc.mmap(None, ctypes.c_size_t(1 << 20), 3, 0x122, -1, ctypes.c_long(0))\n"
            "if result in (None, 2**64 - 1): raise OSError(ctypes.get_errno(), 'refused')\nescaped = True"
        ),
        "open its own memory": "open('/proc/self/mem', 'r+b'); escaped = True",
        "read its own map": "escaped = bool(open('/proc/self/maps').read())",
        "lock memory": f"{_LIBC}page = ctypes.create_string_buffer(1 << 16)\n"
        f"result = libc.mlock(page, ctypes.c_size_t(1 << 16)){_FAILED}",
    },
    "descriptors": {
        "list its descriptors": "escaped = bool(os.listdir('/proc/self/fd'))",
        "reopen a descriptor for writing": (
            f"{_MODEL_FD}os.open(f'/proc/self/fd/{{fd}}', os.O_RDWR); escaped = True"
        ),
        "take a lease on the sealed file": f"{_MODEL_FD}fcntl.fcntl(fd, 1024, 0); escaped = True",  # F_SETLEASE
        "lock the sealed file": f"{_MODEL_FD}fcntl.flock(fd, fcntl.LOCK_SH); escaped = True",
        "lock a range of the sealed file": f"{_MODEL_FD}fcntl.lockf(fd, fcntl.LOCK_SH); escaped = True",
        "ask for signals on a descriptor": f"{_MODEL_FD}fcntl.fcntl(fd, fcntl.F_SETOWN, 0); escaped = True",
        "change the flags of an open file": (
            f"{_MODEL_FD}fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK); escaped = True"
        ),
        "control a descriptor": f"{_MODEL_FD}fcntl.ioctl(fd, 0x5451); escaped = True",  # FIOCLEX
        "make a pipe": "os.pipe(); escaped = True",
        "make an eventfd": "os.eventfd(0); escaped = True",
        "make an epoll": "select.epoll(); escaped = True",
        "watch a directory": _libc("inotify_init1(0)"),
        "make a timer descriptor": _libc("timerfd_create(1, 0)"),
        "move a descriptor over another": f"{_MODEL_FD}os.dup2(fd, 60); escaped = True",
    },
    "kernel interfaces": {},
    "limits": {
        "raise its own limits": f"{_LIBC}result = libc.setrlimit(4, struct.pack('QQ', 0, 0)){_FAILED}",
        "take more memory than its budget": (
            "keep = [bytearray(64 << 20) for _ in range(10)]; escaped = len(keep) == 10"
        ),
        "start more threads than allowed": (
            "gate = threading.Event()\n"
            "for _ in range(40): threading.Thread(target=gate.wait, daemon=True).start()\nescaped = True"
        ),
        "open more descriptors than allowed": (
            f"{_MODEL_FD}keep = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0) for _ in range(300)]; escaped = True"
        ),
    },
}  # fmt: skip

_LIMITED: Final = (
    Probe(
        "use more processor time than allowed",
        "limits",
        "while time.process_time() < 2.5: pass\nescaped = True",
        "cpu",
    ),
    Probe(
        "flood standard error",
        "limits",
        "for _ in range(4096): os.write(2, b'x' * 4096)\nescaped = True",
        "stderr",
    ),
)

PYTHON: Final[tuple[Probe, ...]] = (
    *(Probe(name, group, source) for group, some in _SOURCES.items() for name, source in some.items()),
    *_LIMITED,
)
"""Attacks in Python; :data:`acceptd.cell.probes_calls.CALLS` has the raw calls."""
