"""An agent that holds private keys in a process of its own, and the command that asks it: an example.

The agent reads key files once, listens on a Unix socket that its own user alone can reach, and signs for a role
only what that role signs: a stolen socket makes a release key sign no revocation.

    python examples/key_agent.py serve /run/acceptd-keys/socket release=/etc/acceptd-keys/release.pem
    python examples/key_agent.py public /etc/acceptd-keys/release.pem > release.pub

In ``acceptd.toml``, for the role whose key the agent has:

    [keys.release]
    command = ["/usr/bin/python3", "/opt/acceptd/examples/key_agent.py", "ask", "/run/acceptd-keys/socket"]

acceptd adds ``sign ROLE KEY_ID``, gives the bytes to sign on standard input, and takes 64 raw bytes from
standard output. Any program that does so will do: a wrapper of an HSM's tool, of a cloud's key service.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import struct
import sys
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

MAX_BYTES: Final = 128 << 20
_HEAD: Final = struct.Struct(">16s64sQ")
"""Role, key id in hex, and the number of bytes that follow."""
_ALLOWED: Final = {
    "ledger": (
        rb"DSSEv1 \d+ application/vnd\.(in-toto|acceptd\.(key-rotation|fleet-order))\+json |acceptd/[0-9a-f]{32}\n"
    ),
    "release": rb"DSSEv1 \d+ application/vnd\.(in-toto|acceptd\.(release|channel|key-rotation))\+json ",
    "node": rb"DSSEv1 \d+ application/vnd\.in-toto\+json ",
    "revocation": rb"DSSEv1 \d+ application/vnd\.acceptd\.(revocations|key-rotation)\+json ",
}
_PROBES: Final = re.compile(rb"acceptd (key probe v1\n|probe seed v1)")


def load(path: Path) -> Ed25519PrivateKey:
    """Return the Ed25519 key in a PEM file that nobody else can read."""
    if path.stat().st_mode & 0o077:
        raise SystemExit(f"{path}: readable or writable by group or others; chmod 600 {path}")
    private = load_pem_private_key(path.read_bytes(), None)
    if not isinstance(private, Ed25519PrivateKey):
        raise SystemExit(f"{path}: not an Ed25519 key")
    return private


def may_sign(role: str, data: bytes) -> bool:
    """Say whether ``data`` is something that ``role`` signs: domain separation, on the key's side too."""
    allowed = _ALLOWED.get(role)
    return allowed is not None and bool(re.match(allowed, data) or _PROBES.fullmatch(data))


def serve(place: Path, keys: dict[tuple[str, str], Ed25519PrivateKey]) -> None:
    """Answer one question after another, for this user and root, without end."""
    os.umask(0o177)
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(place))
        listener.listen(64)
        sys.stderr.write(f"{len(keys)} keys at {place}\n")
        sys.stderr.flush()
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5.0)
                try:
                    connection.sendall(_answer(connection, keys))
                except OSError as error:
                    sys.stderr.write(f"{error}\n")


def _answer(connection: socket.socket, keys: dict[tuple[str, str], Ed25519PrivateKey]) -> bytes:
    """Return a signature, or one line that begins with ``!``."""
    peer = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if peer[1] not in {0, os.getuid()}:
        return b"!a stranger asks\n"
    role, key_id, size = _HEAD.unpack(_exactly(connection, _HEAD.size))
    if size > MAX_BYTES:
        return b"!too many bytes\n"
    data, name = _exactly(connection, size), role.rstrip(b"\0").decode("ascii", "replace")
    private = keys.get((name, key_id.decode("ascii", "replace")))
    if private is None:
        return b"!no such key\n"
    return private.sign(data) if may_sign(name, data) else b"!that is nothing that this role signs\n"


def ask(place: str, role: str, key_id: str, data: bytes) -> bytes:
    """Return the agent's answer: 64 bytes; end with 1 and its word where it gives none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(place)
        connection.sendall(_HEAD.pack(role.encode(), key_id.encode(), len(data)) + data)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    if answer.startswith(b"!") and len(answer) != 64:
        raise SystemExit(answer[1:].decode().strip())
    return answer


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(1 << 20, size - len(data)))
        if not part:
            raise OSError("the question ended early")
        data += part
    return bytes(data)


def _public(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def main(words: list[str]) -> None:
    """Serve, ask, or print a public key."""
    if words[:1] == ["serve"] and len(words) > 2:
        keys = {}
        for word in words[2:]:
            role, _, file = word.partition("=")
            private = load(Path(file))
            keys[role, hashlib.sha256(_public(private)).hexdigest()] = private
        serve(Path(words[1]), keys)
    elif words[:1] == ["ask"] and len(words) == 5 and words[2] == "sign":
        sys.stdout.buffer.write(ask(words[1], words[3], words[4], sys.stdin.buffer.read()))
    elif words[:1] == ["public"] and len(words) == 2:
        sys.stdout.write(base64.b64encode(_public(load(Path(words[1])))).decode() + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
