"""Where the figures are shown: a file for node_exporter, and an address on this host alone.

The daemon has no network under its unit (PrivateNetwork=): the file is the usual way, a socket file the other.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import socketserver
import stat
import threading
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from acceptd.config import MetricsTable
from acceptd.errors import ConfigError
from acceptd.intake.files import replace_file
from acceptd.threads import Thread

_PATIENCE: Final = 5.0
"""Seconds for one who asks: they come one after the other."""
log = structlog.get_logger("acceptd.metrics")


class Exposition:
    """Writes and answers until it is stopped. One that cannot is a line of the log, never the daemon's end."""

    def __init__(self, table: MetricsTable, registry: CollectorRegistry) -> None:
        self._table, self._registry = table, registry
        self._stop = threading.Event()
        self._server: socketserver.TCPServer | None = None
        self._threads: list[Thread] = []
        self._told = ""

    def start(self) -> None:
        """Begin; raise ConfigError for an address that cannot be listened at."""
        works = [self._write] if self._table.file else []
        if self._table.listen:
            self._server = _server(self._table.listen, self._registry)
            works.append(self._server.serve_forever)
        for work in works:
            thread = Thread(work, name="metrics")
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End; the file stays as it was last written: its age tells that the daemon is gone."""
        self._stop.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        place = Path(self._table.file)
        while True:
            try:
                replace_file(place.parent, place.name, generate_latest(self._registry), 0o644)
                self._told = ""
            except OSError as error:
                if str(error) != self._told:
                    self._told = str(error)
                    log.error("metrics not written", error=str(error))  # noqa: TRY400 - it says all
            if self._stop.wait(self._table.seconds):
                return


class _Unix(socketserver.TCPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        """Take the name, also after a daemon that was killed; never that of anything but a socket."""
        name = str(self.server_address)
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(name).st_mode):
                os.unlink(name)
        self.socket.bind(name)
        os.chmod(name, 0o660)


class _Six(socketserver.TCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True


class _Four(socketserver.TCPServer):
    allow_reuse_address = True


def _server(listen: str, registry: CollectorRegistry) -> socketserver.TCPServer:
    class Handler(_Handler):
        shown = registry

    try:
        if listen.startswith("unix:"):
            return _Unix(listen.removeprefix("unix:"), Handler)  # type: ignore[arg-type] # a path, for AF_UNIX
        host, _, port = listen.rpartition(":")
        kind = _Six if host.startswith("[") else _Four
        return kind((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise ConfigError(
            f"metrics.listen: {listen}: {error.strerror}",
            remedy="name a free port, or a socket that can be made",
        ) from error


class _Handler(http.server.BaseHTTPRequestHandler):
    shown: CollectorRegistry
    timeout = _PATIENCE
    server_version, sys_version = "acceptd", ""

    def do_GET(self) -> None:
        """Answer ``/metrics``, and nothing else."""
        found = self.path == "/metrics"
        body = generate_latest(self.shown) if found else b"/metrics\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST if found else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: who asks is no event."""
