"""Frames between the trusted side and the comparer: length-prefixed JSON, descriptors beside the first byte.

Both ends are acceptd's own; only the values in the files are hostile. Unix stream socket; one
request at a time; the descriptors of a request travel by SCM_RIGHTS with its header (unix(7)).
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, Final

HEADER: Final = struct.Struct("!IB")
"""Payload length, number of descriptors."""
MAX_FRAME: Final = 64 << 20
MAX_DESCRIPTORS: Final = 200
"""Below the kernel's SCM_MAX_FD of 253."""


class ClosedError(Exception):
    """The other side has closed the socket, or broke the framing."""


def send(sock: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    """Send one message. Raises OSError, ValueError for one that is too large."""
    payload = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    fds = descriptors or []
    if len(payload) > MAX_FRAME or len(fds) > MAX_DESCRIPTORS:
        raise ValueError(f"a message of {len(payload)} bytes and {len(fds)} descriptors is too large")
    head = HEADER.pack(len(payload), len(fds))
    sent = socket.send_fds(sock, [head], fds) if fds else sock.send(head)
    if sent < len(head):
        sock.sendall(head[sent:])
    sock.sendall(payload)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return one message and its descriptors (close-on-exec). Raises ClosedError, OSError, TimeoutError."""
    head, fds, _, _ = socket.recv_fds(sock, HEADER.size, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if not head:
        raise ClosedError("end of stream")
    head += _exactly(sock, HEADER.size - len(head))
    length, count = HEADER.unpack(head)
    if length > MAX_FRAME or count != len(fds):
        raise ClosedError("a frame that is too large or lost its descriptors")
    try:
        message = json.loads(_exactly(sock, length))
    except (ValueError, RecursionError) as error:
        raise ClosedError("a message that is no JSON") from error
    if not isinstance(message, dict):
        raise ClosedError("a message is a JSON object")
    return message, fds


def _exactly(sock: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = sock.recv(min(1 << 20, length - len(parts)))
        if not part:
            raise ClosedError("end of stream inside a message")
        parts += part
    return bytes(parts)
