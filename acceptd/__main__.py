"""``python -m acceptd``, and the script ``acceptd``."""

from __future__ import annotations

import os
import signal


def _interrupted(_number: int, _frame: object) -> None:
    """End at once: nothing has begun yet, and an exception would come out of the middle of some import."""
    os.write(2, b"acceptd: interrupted\n")
    os._exit(130)


def run() -> None:
    """Run the command line. Until it is loaded (0.4 s), Ctrl-C is one line and exit code 130, as it is later."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background job keeps that
        signal.signal(signal.SIGINT, _interrupted)
    from acceptd.cli.main import main

    main()


if __name__ == "__main__":
    run()
