"""Where the console listens: loopback or a socket file, and what it says about anything wider."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import signal
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import uvicorn

from acceptd.errors import UsageError
from acceptd.report.escape import line
from acceptd.web.app import build
from acceptd.web.guard import Place
from acceptd.web.house import House
from acceptd.web.session import Sessions

PORT: Final = 8460
_CONNECTIONS: Final = 64
_BACKLOG: Final = 64


@dataclass(frozen=True)
class Wish:
    """What the command line asked for."""

    host: str = "127.0.0.1"
    port: int = PORT
    unix: Path | None = None
    origin: str = ""
    """The address under which a proxy offers the console, as ``https://console.example``; empty: none does."""
    beyond_loopback: bool = False


def listen(wish: Wish) -> tuple[socket.socket, Place, str]:
    """Return a listening socket, where the console is, and the beginning of its address.

    The names of the address are random: a cookie is shared by all ports of a host, and on loopback another local
    user's server is one of those. Raises UsageError where it may not listen there, with the reason.
    """
    parts = _origin(wish.origin) if wish.origin else None
    label = f"acceptd-{secrets.token_hex(8)}.localhost"
    if wish.unix is not None:
        opened, port = _unix(wish.unix), wish.port
    else:
        opened = _tcp(wish)
        port = opened.getsockname()[1]
    hosts = {f"{name}:{port}" for name in (label, "localhost", "127.0.0.1", "[::1]")}
    address = f"http://{label}:{port}"
    if parts is not None:
        return opened, Place(frozenset({*hosts, parts.netloc.lower()}), parts.scheme == "https"), wish.origin
    return opened, Place(frozenset(hosts)), address


def serve(state: Path, wish: Wish, told: Callable[[str], None]) -> None:
    """Serve the console of a state until interrupted. ``told`` hears the address, after each use another."""
    house = House.open(state)
    try:
        opened, place, address = listen(wish)
        sessions = Sessions(told=lambda token: told(f"{address}/enter?token={token}"))
        log_to_stderr()
        server = uvicorn.Server(_config(build(house, sessions, place)))
        sessions.told(sessions.token)
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn ends in order, then raises it once more
            signal.signal(number, _end)
        with opened:
            server.run(sockets=[opened])
    finally:
        house.ledger.close()
        if wish.unix is not None:
            wish.unix.unlink(missing_ok=True)


class _Escaping(logging.Formatter):
    """Lines for a terminal: a traceback may quote what a team wrote."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(line(text, 2000) for text in super().format(record).split("\n"))


def log_to_stderr() -> None:
    """Let the server's own words, and the tracebacks of our errors, reach standard error as printable lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Escaping("acceptd web: %(message)s"))
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.WARNING)


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def _config(app: Any) -> Any:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        backlog=_BACKLOG,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=16 << 10,
    )


def _tcp(wish: Wish) -> socket.socket:
    try:
        address = ipaddress.ip_address("127.0.0.1" if wish.host == "localhost" else wish.host)
    except ValueError as error:
        raise UsageError(
            f"--host {wish.host!r:.80} is no IP address", remedy="give 127.0.0.1, ::1 or another IP"
        ) from error
    if not address.is_loopback and not wish.beyond_loopback:
        raise UsageError(
            f"{address} can be reached from other machines, and the console speaks no TLS",
            remedy="leave --host away and come by `ssh -L` or a proxy with TLS; or say --beyond-loopback",
        )
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((str(address), wish.port))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise UsageError(
            f"{address} port {wish.port}: {error.strerror}", remedy="choose another --port; 0 takes any free one"
        ) from error
    return opened


def _unix(path: Path) -> socket.socket:
    """Return a socket file that its owner alone may connect to (0600 from the beginning)."""
    try:
        if stat.S_ISSOCK(path.lstat().st_mode) and not _answers(path):
            path.unlink()
    except FileNotFoundError:
        pass
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        opened.bind(str(path))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise UsageError(f"{path}: {error.strerror or error}", remedy="name a path that is free") from error
    finally:
        os.umask(before)
    return opened


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True


def _origin(text: str) -> Any:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc or text != f"{parts.scheme}://{parts.netloc}":
        raise UsageError(f"--origin {text!r:.120} is no origin", remedy="write it as https://console.example")
    if "@" in parts.netloc:
        raise UsageError(f"--origin {text!r:.120} names a user", remedy="write it as https://console.example")
    return parts
