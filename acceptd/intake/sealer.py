"""The sealer process: seals one drop after another on request, so that a read that hangs can be killed.

Started by :mod:`acceptd.intake.client` as ``python -m acceptd.intake.sealer FD``. One JSON object a
line in, one a line out, over a socket pair; at its end of file the process exits at once, also in
the middle of a drop, so that none outlives its daemon.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
from pathlib import Path
from typing import Any

from acceptd.errors import SealError, StateError
from acceptd.intake.seal import copy_archive, seal_directory
from acceptd.policy.limits import LimitsTable
from acceptd.threads import Thread


def handle(order: dict[str, Any]) -> dict[str, Any]:
    """Carry out one order and return the reply: ``sealed``, ``archive``, ``refused`` or ``storage``."""
    source, target, limits = Path(order["source"]), Path(order["target"]), LimitsTable(**order["limits"])
    # What is not kept is judged for whoever runs `acceptd check`; a daemon seals for those who drop.
    how: dict[str, Any] = {"temporary": order["temporary"], "for_owner": order.get("durable", True)}
    try:
        if order["archive"] is None:
            sealed = seal_directory(source, target, limits, durable=order["durable"], **how)
            return {"sealed": sealed.model_dump()}
        copy = copy_archive(source, target, limits, order["archive"], **how)
    except SealError as error:
        return {"refused": [error.code, error.where, error.message]}
    except StateError as error:
        return {"storage": [error.message, error.remedy]}
    return {"archive": [copy.sha256, copy.size]}


def _read(connection: socket.socket, orders: queue.SimpleQueue[bytes]) -> None:
    try:
        with connection.makefile("rb") as stream:
            for line in stream:
                orders.put(line)
    finally:  # not only an end of file: a daemon that died with a reply unread resets the connection (ECONNRESET)
        os._exit(0)


def main(argv: list[str]) -> int:
    """Serve orders from the inherited socket ``argv[1]`` until it ends."""
    connection = socket.socket(fileno=int(argv[1]))
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    Thread(_read, args=(connection, orders), name="sealer-orders").start()
    while True:
        reply = handle(json.loads(orders.get()))
        connection.sendall(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
