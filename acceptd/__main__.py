"""``python -m acceptd``, and the script ``acceptd``."""

from __future__ import annotations

import gc
import os
import signal
import sys

from acceptd import first_word


def _interrupted(_number: int, _frame: object) -> None:
    """End at once: nothing has begun yet, and an exception would come out of the middle of some import."""
    first_word.unsay()
    os.write(2, b"acceptd: interrupted\n")
    os._exit(130)


def _early(_number: int, _frame: object) -> None:
    """Do nothing about a reload that is asked for before the policy was read for the first time."""


def run() -> None:
    """Run the command line. Until it is loaded (0.4 s), Ctrl-C is one line and exit code 130, as it is later.

    The daemon lives through a SIGHUP that comes as early: without a handler it would be its death.
    """
    if sys.argv[1:2] == ["daemon"]:
        signal.signal(signal.SIGHUP, _early)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background job keeps that
        signal.signal(signal.SIGINT, _interrupted)
    first_word.say(sys.argv[1:])
    # Nothing outside acceptd hooks into its validation; and the search for such hooks costs 50 ms.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    gc.disable()  # until the command is assembled: what an import makes stays, and to search it costs 0.1 s
    from acceptd.cli.main import main

    try:
        main()
    finally:
        first_word.unsay()


if __name__ == "__main__":
    run()
