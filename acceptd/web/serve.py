"""Where the console listens: loopback or a socket file, and what it says about anything wider."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import secrets
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from acceptd.web.patience import Patience
from acceptd.web.session import Sessions

PORT: Final = 8460
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,252})|[0-9a-f:.]{2,45}", re.ASCII)
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
    names = {label, "localhost", "127.0.0.1", "[::1]"}
    if wish.unix is not None:
        port = _said(wish.port)
        opened = _unix(wish.unix)
    else:
        opened = _tcp(wish)
        host, port = opened.getsockname()[:2]
        if host.startswith("127.") and host not in names:  # names ending in .localhost lead to 127.0.0.1 and ::1
            label = host
            names.add(host)
    hosts = {one for name in names for one in _hosts("http", name, port)}
    address = f"http://{label}:{port}"
    if parts is not None:
        own = _hosts(parts.scheme, parts.hostname or "", parts.port)
        return opened, Place(frozenset({*hosts, *own}), parts.scheme == "https"), wish.origin
    return opened, Place(frozenset(hosts)), address


def _hosts(scheme: str, name: str, port: int | None) -> set[str]:
    """Return what browsers send as Host: the scheme's own port is left out (RFC 9110, section 7.2)."""
    usual = 443 if scheme == "https" else 80
    shown = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return {f"{shown}:{port or usual}", *([shown] if port in {None, usual} else [])}


def _said(port: int) -> int:
    if not port:
        raise UsageError(
            "with --unix, --port is that of the tunnel's other end, and 0 is none",
            remedy="leave it away, or say it",
        )
    return port


def serve(state: Path, wish: Wish, told: Callable[[str], None]) -> None:
    """Serve the console of a state until interrupted. ``told`` hears the address, after each use another."""
    house = House.open(state)
    try:
        opened, place, address = listen(wish)
        with opened, _file_of(wish):
            log_to_stderr()
            sessions = Sessions(told=_while_read(lambda token: told(f"{address}/enter?token={token}")))
            server = uvicorn.Server(_config(build(house, sessions, place)))
            told(f"{address}/enter?token={sessions.token}")
            for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn ends in order, then raises it once more
                signal.signal(number, _end)
            server.run(sockets=[opened])
    finally:
        house.ledger.close()


@contextmanager
def _file_of(wish: Wish) -> Iterator[None]:
    """Take the socket file away at the end, where it is still the one that was made here."""
    made = wish.unix and _identity(wish.unix)
    try:
        yield
    finally:
        if wish.unix is not None and made is not None and _identity(wish.unix) == made:
            wish.unix.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _while_read(told: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``told`` for a standard output that may be closed meanwhile: who has entered stays in."""

    def telling(token: str) -> None:
        try:
            told(token)
        except OSError as error:
            words = "the next address cannot be printed (%s): nobody else can enter until a new start"
            logging.getLogger("uvicorn.error").warning(words, error.strerror)

    return telling


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
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its sender is told


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def _config(app: Any) -> Any:
    return uvicorn.Config(
        app,
        http=Patience,
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
    remedy = "write it as https://console.example, with its port if it is not the usual one"
    try:
        parts = urlsplit(text)
        port, name = parts.port, parts.hostname or ""
    except ValueError as error:
        raise UsageError(f"--origin {text!r:.120} is no origin: {error}", remedy=remedy) from error
    if parts.scheme not in {"http", "https"} or not name or text != f"{parts.scheme}://{parts.netloc}":
        raise UsageError(f"--origin {text!r:.120} is no origin", remedy=remedy)
    if "@" in parts.netloc:
        raise UsageError(f"--origin {text!r:.120} names a user", remedy=remedy)
    if port == 0 or not _NAME.fullmatch(name):  # other letters arrive as xn--, RFC 5890
        raise UsageError(f"--origin {text!r:.120} holds no name that a browser would send", remedy=remedy)
    return parts
