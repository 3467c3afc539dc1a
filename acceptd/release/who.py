"""Who had something done: the user of the system that a command runs as."""

from __future__ import annotations

import os
import pwd
from typing import Final

DAEMON: Final = "acceptd"
"""By itself: the policy promotes what is accepted."""


def operator() -> str:
    """Return the user that this process runs as: the name of the real uid, and the number.

    What ``sudo`` or an environment says is no proof of anybody and is not read; people sign decisions.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name[:64]
    except (KeyError, OSError):
        return f"uid {uid}"
    return f"{name} (uid {uid})"
