"""The cell's own test job: runs attacker code under all walls, so that each wall is proved from inside.

In the table of job kinds only when the parent was started for testing (``ACCEPTD_CELL_TESTING=1``,
which the launcher sets for the test suites and for ``acceptd doctor``, never for a daemon).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import threading
import time
from typing import Any

from sandbox import messages


def body(order: dict[str, Any], channel: messages.Channel, blobs: dict[str, int]) -> dict[str, float]:
    """Execute ``spec["source"]`` with ``note(...)`` sending a ``note`` frame, and common modules at hand."""
    scope: dict[str, Any] = {
        "channel": channel,
        "blobs": blobs,
        "spec": order["spec"],
        "note": lambda **facts: channel.send("note", {"facts": facts}),
        "MODEL_DIR": messages.MODEL_DIR,
    }
    for module in (ctypes, errno, fcntl, mmap, os, resource, select, signal, socket, struct, threading, time):
        scope[module.__name__] = module
    exec(compile(order["spec"]["source"], "attack", "exec"), scope)  # noqa: S102 - attacker code is the point
    return {}
