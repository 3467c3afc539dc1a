"""An S3-compatible server (moto) in a process of its own, and a proxy before it that fails as a test orders."""

from __future__ import annotations

import contextlib
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "acceptd-tests",
    "AWS_SECRET_ACCESS_KEY": "acceptd-tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""What a process needs to reach :class:`S3`; it knows no other credentials."""
_SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address=sys.argv[1], port=int(sys.argv[2]), verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


def interpreter() -> str | None:
    """Return the Python that has moto: `make test-fleet` makes one; None where there is none."""
    for place in (ROOT / ".venvs/fleet/bin/python", Path(sys.executable)):
        if (
            place.exists()
            and subprocess.run([place, "-c", "import moto.server"], capture_output=True).returncode == 0
        ):
            return str(place)
    return None


class S3:
    """One server on loopback, or on ``host``. ``endpoint`` is its URL; buckets are made by :meth:`bucket`."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        python = interpreter()
        assert python is not None, "run `make test-fleet`: it makes an environment with moto"
        self._process = subprocess.Popen(
            [python, "-c", _SERVE, host, str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | ENVIRONMENT,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline().split()
        assert line, "the S3-compatible server did not start"
        self.host, self.port = line[0], int(line[1])
        self.endpoint = f"http://{self.host}:{self.port}"
        self._count = 0

    def bucket(self, name: str = "") -> str:
        """Make an empty bucket and return its name."""
        self._count += 1
        name = name or f"acceptd-{os.getpid()}-{self._count}"
        self.request("PUT", f"/{name}")
        return name

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Ask the server something, past every check of ours."""
        connection = HTTPConnection(self.host, self.port, timeout=60)
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=acceptd-tests/20260101/us-east-1/s3/aws4_request"}
        try:
            connection.request(method, path, body, headers | signed)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def get(self, bucket: str, key: str) -> bytes:
        """Return an object's bytes."""
        status, data = self.request("GET", f"/{bucket}/{key}")
        assert status == 200, (status, data)
        return data

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object over what is there, as an attacker with the bucket's rights would."""
        status, told = self.request("PUT", f"/{bucket}/{key}", data)
        assert status == 200, (status, told)

    def delete(self, bucket: str, key: str) -> None:
        """Remove an object."""
        assert self.request("DELETE", f"/{bucket}/{key}")[0] in {200, 204}

    def keys(self, bucket: str) -> list[str]:
        """Return every key of a bucket, sorted."""
        import re

        _, data = self.request("GET", f"/{bucket}?list-type=2&max-keys=1000")
        return sorted(re.findall(r"<Key>([^<]*)</Key>", data.decode()))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@dataclass
class Asked:
    """One request as the proxy saw it."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Reply:
    """What the server answered, for a fault to change. ``length``: what Content-Length will say; None: nothing."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    length: int | None
    pause: float = 0.0
    """Seconds between pieces of the body."""
    piece: int = 1 << 16
    endless: bool = False
    reset: bool = False
    """Close the connection after the body, whatever the length said."""


Fault = Callable[[Asked, Reply], None]


@dataclass
class Proxy:
    """Passes requests on and lets ``fault`` change each reply; ``before`` may answer without asking the server."""

    server: S3
    fault: Fault | None = None
    before: Callable[[Asked], Reply | None] | None = None
    seen: list[Asked] = field(default_factory=list)
    cut: bool = False
    """Accept nothing: connections end at once."""

    def __post_init__(self) -> None:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                asked = Asked(self.command, self.path, {key.lower(): value for key, value in self.headers.items()})
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.seen.append(asked)
                if proxy.cut:
                    self.close_connection = True
                    return
                reply = (proxy.before(asked) if proxy.before else None) or proxy._passed(asked, body)
                if proxy.fault is not None:
                    proxy.fault(asked, reply)
                self._answer(reply)

            def _answer(self, reply: Reply) -> None:
                self.send_response_only(reply.status)
                skipped = {"content-length", "connection", "transfer-encoding"}
                for key, value in reply.headers:
                    if key.lower() not in skipped:
                        self.send_header(key, value)
                if reply.length is not None:
                    self.send_header("Content-Length", str(reply.length))
                else:
                    self.send_header("Connection", "close")
                self.end_headers()
                if self.command == "HEAD":
                    return
                with contextlib.suppress(OSError):
                    at = 0
                    while at < len(reply.body) or reply.endless:
                        piece = reply.body[at : at + reply.piece] or b"\0" * reply.piece
                        self.wfile.write(piece)
                        at += len(piece)
                        if reply.pause:
                            proxy._stopped.wait(reply.pause)
                        if proxy._stopped.is_set():
                            break
                if reply.length is None or reply.reset or reply.length != len(reply.body):
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _do

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None:
                """Clients of this proxy go away as they like."""

        self._stopped = threading.Event()
        self._listener = Server((self.server.host, 0), Handler)
        self.endpoint = f"http://{self.server.host}:{self._listener.server_address[1]}"
        threading.Thread(target=self._listener.serve_forever, name="s3-proxy", daemon=True).start()

    def _passed(self, asked: Asked, body: bytes) -> Reply:
        connection = HTTPConnection(self.server.host, self.server.port, timeout=60)
        try:
            connection.request(asked.method, asked.path, body or None, asked.headers)
            reply = connection.getresponse()
            data = reply.read()
            length = reply.getheader("Content-Length")
            told = int(length) if length is not None and asked.method == "HEAD" else len(data)
            return Reply(reply.status, reply.getheaders(), data, told)
        finally:
            connection.close()

    def close(self) -> None:
        """End it."""
        self._stopped.set()
        self._listener.shutdown()
        self._listener.server_close()
