"""Start a command from a small process and tell what it used: ``python -I -S measured.py FD COMMAND ...``.

The kernel counts into a process's greatest resident set what its parent held when it was started (exec keeps the
mark of the memory that was shared until then), so whoever starts a tool from a large process measures itself.
Written to FD: the wait status, the greatest resident set in KiB and the microseconds of processor time.
"""

import os
import resource
import sys


def main() -> None:
    """Run it."""
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    child = os.fork()
    if child == 0:
        try:
            os.execvp(sys.argv[2], sys.argv[2:])
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.write(report, b"%d %d %d" % (status, used.ru_maxrss, (used.ru_utime + used.ru_stime) * 1e6))
    os._exit(0)


if __name__ == "__main__":
    main()
