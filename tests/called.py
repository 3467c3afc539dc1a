"""Commands in the process of the test: what ``acceptd.cli.main`` makes of them, at a tenth of the cost.

For those that end by themselves and start nothing. What they leave in a process is put back as it was.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from unittest.mock import patch

from acceptd.cli import main as entry


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; return its exit code and what it said on either stream."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.getsignal(number))
        for name in ("registered_commands", "registered_groups"):
            stack.enter_context(patch.object(entry.app, name, list(getattr(entry.app, name))))
        stack.callback(os.umask, os.umask(0o022))
        stack.enter_context(patch.object(sys, "argv", ["acceptd", *words]))
        stack.enter_context(patch.object(gc, "freeze"))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        try:
            entry.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return subprocess.CompletedProcess(["acceptd", *words], code, out.getvalue(), err.getvalue())
