"""What becomes of a cell that is being built when acceptd is killed: it ends, whole.

``--die-with-parent`` is too late for the first moments. bubblewrap's first process asks the kernel for it once it
has made its child, and that child waits for a word of it before it asks too: a kill in between leaves the child
waiting for ever, for nobody. So bubblewrap starts beside a guard, in one process group: a shell that reads a pipe
whose only other end is ours. A word on it, and the guard goes: the cell stands, and everybody has asked. Its end
without a word is our death, and the guard kills the group.

Source: bubblewrap.c, ``handle_die_with_parent`` and ``child_wait_fd``; it ignores children that it did not make.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from typing import Final

CONTROL: Final = 4
"""The number under which the command finds what was given as its standard output: the control socket."""
SHELL: Final = "/bin/sh"
SCRIPT: Final = f"""\
exec 3<&0 {CONTROL}<&1 </dev/null >/dev/null
{{ read -r stands <&3 || kill -s KILL -- -$$; }} {CONTROL}<&- 2>/dev/null &
unset PWD OLDPWD SHLVL
exec "$@" 3<&-
"""
"""The guard holds the pipe alone: not the socket, whose end tells us of the parent's, nor what the cell complains
into. The command gets the socket and no pipe. ``$$`` leads the group: no other group can be hit."""


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command line that runs ``command`` beside its guard.

    It needs a pipe as standard input, the control socket as standard output and a process group of its own.
    """
    return [SHELL, "-c", SCRIPT, "sh", *command]


def stands(process: subprocess.Popen[bytes]) -> None:
    """Let the guard go: from here on everything in the cell dies with us by itself."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it was killed; so was the cell, and who asks it learns that
        process.stdin.write(b"\n")
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None  # `communicate` would flush it
