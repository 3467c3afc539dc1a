"""What a node says of itself in everything that it signs."""

from __future__ import annotations

import platform
import socket

from acceptd import __version__
from acceptd.report.escape import line
from acceptd.statement.fleet import Node


def this_node(name: str) -> Node:
    """Return this host under its name in the fleet."""
    return Node(
        name=name,
        host=line(socket.gethostname(), 253),
        kernel=line(f"{platform.system()} {platform.release()}", 200),
        machine=line(platform.machine(), 64),
        acceptd=__version__,
    )
