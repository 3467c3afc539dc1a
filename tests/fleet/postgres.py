"""A PostgreSQL of the tests' own: Debian's programs, an ordinary user, its own directory, loopback and a socket.

Authentication is `trust`: whoever reaches the port is who he says he is, so that a test can be any role.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

SUPERUSER = "postgres"
OWNER = "acceptd"
"""Owns each database that :meth:`Server.fresh_database` makes, and is no superuser."""
_PATIENCE = 60.0


def programs() -> Path | None:
    """Return the directory of the newest PostgreSQL's programs, or None where none is installed."""
    found = [one.parent for one in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda one: int(one.parent.name), default=None)


def _memory() -> str | None:
    place = Path("/dev/shm")
    free = shutil.disk_usage(place).free if place.is_dir() else 0
    return str(place) if free > 1 << 30 else None


class Server:
    """One server with a cluster of its own; ``close`` removes both. Safe to use from one thread."""

    def __init__(
        self, *, fsync: bool = False, on_disk: bool = False, settings: dict[str, str] | None = None
    ) -> None:
        bin_directory = programs()
        assert bin_directory is not None, "no PostgreSQL below /usr/lib/postgresql"
        self._bin = bin_directory
        self.root = Path(tempfile.mkdtemp(prefix="acceptd-pg-", dir=None if on_disk else _memory()))
        """Data directory, socket and log lie here."""
        self.data = self.root / "data"
        self.log = self.root / "log"
        self._settings = {
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.root),
            "max_connections": "200",
            "shared_buffers": "32MB",
            "max_wal_size": "256MB",
            "autovacuum_naptime": "20s",
            **(settings or {}),
        }
        self._names = (f"test_{secrets.token_hex(3)}_{number}" for number in itertools.count())
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._as = self._ordinary_user()
        try:
            self._run(
                "initdb", "-D", self.data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"
            )
            self.start()
            self.execute(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        except BaseException:
            self.close()
            raise

    def _ordinary_user(self) -> list[str]:
        """Return what begins each command: as root, that it becomes a user whom PostgreSQL accepts."""
        if os.geteuid() != 0:
            return []
        names = [one.pw_name for one in pwd.getpwall()]
        user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(self.root, user.pw_uid, user.pw_gid)
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*self._as, str(self._bin / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.root, env=_environment())
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def pid(self) -> int:
        """Return the postmaster's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the postmaster lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and return once it accepts connections; on the port that it had before."""
        assert not self.running
        for _ in range(5):
            port = self.port or _free_port()
            if self._started(port):
                self.port = port
                return
        raise AssertionError(f"PostgreSQL does not start: {self.log.read_text()[-2000:]}")

    def _started(self, port: int) -> bool:
        told = self.root / "ready"
        told.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(told))
            told.chmod(0o666)
            options = [part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")]
            # It dies with the tests, however they end; PostgreSQL says READY as to systemd (sd_notify(3)).
            begin = ["setpriv", *self._as[1:], "--pdeathsig", "INT"]
            command = [*begin, str(self._bin / "postgres"), "-D", str(self.data), "-p", str(port), *options]
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.root,
                    env=_environment() | {"NOTIFY_SOCKET": str(told)},
                    start_new_session=True,
                )
            died = os.pidfd_open(self._process.pid)
            try:
                while True:
                    able, _, _ = select.select([ready, died], [], [], _PATIENCE)
                    if ready in able and b"READY=1" in ready.recv(4096):
                        return True
                    if died in able or not able:
                        self._process.wait()
                        return False
            finally:
                os.close(died)

    def stop(self, how: str = "fast") -> None:
        """Stop it: ``smart`` waits for clients, ``fast`` ends them, ``immediate`` is a crash in order."""
        assert self._process is not None
        sent = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how]
        self._process.send_signal(sent)
        self._process.wait(_PATIENCE)

    def kill(self) -> None:
        """Kill -9 all of its processes; it is gone when this returns."""
        assert self._process is not None
        family = [psutil.Process(self._process.pid)]
        with contextlib.suppress(psutil.NoSuchProcess):
            family += family[0].children(recursive=True)
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait(_PATIENCE)
        psutil.wait_procs(family[1:], timeout=_PATIENCE)

    def restart(self, how: str = "fast") -> None:
        """Stop and start it; ``how`` as :meth:`stop`, or ``kill``."""
        if how == "kill":
            self.kill()
        else:
            self.stop(how)
        self.start()

    def close(self) -> None:
        """Stop it and remove all of it; closing twice is fine."""
        if self.running:
            self.stop("immediate")
        shutil.rmtree(self.root, ignore_errors=True)

    def url(self, database: str, user: str = OWNER) -> str:
        """Return the URL of a database for one role, over loopback."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str, user: str = OWNER) -> str:
        """Return the same over the unix socket."""
        return f"postgresql://{user}@/{database}?host={self.root}&port={self.port}"

    def fresh_database(self, template: str = "template0", *, owner: str = OWNER) -> str:
        """Make a database, a copy of ``template`` to which nobody may be connected; return its name."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(
        self, statement: str, *, database: str = "postgres", user: str = SUPERUSER
    ) -> list[tuple[Any, ...]]:
        """Run one statement as ``user`` outside of any transaction; return its rows."""
        with self.connected(database, user) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    @contextlib.contextmanager
    def connected(self, database: str = "postgres", user: str = SUPERUSER) -> Iterator[Any]:
        """Give a psycopg connection in autocommit."""
        import psycopg

        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            yield connection


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
