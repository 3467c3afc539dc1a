"""Processes that open whatever is current, again and again, while others change it: as a serving fleet does.

Each has a state file of its own, so that a number that falls is a refusal; each looks in both ways: through the
loader, and through the link `current` as a consumer without it does. What they found wrong is counted by kind.
"""

from __future__ import annotations

import base64
import collections
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acceptd.errors import LoaderError, ReleaseNotFoundError, RevokedError
from acceptd.loader import open_release
from acceptd.release import memory

LABELS = "data/labels.txt"
"""In each bundle: its version again, so that files of two releases do not pass for one."""
Place = tuple[str, str]


@dataclass
class Looked:
    """What readers found: how often they opened, how often a revoked release was refused, and what went wrong."""

    opened: int = 0
    through_link: int = 0
    revoked: int = 0
    missing: int = 0
    mixed: int = 0
    unverified: int = 0
    words: list[str] = field(default_factory=list)

    def add(self, other: dict[str, Any]) -> None:
        """Add what one reader found."""
        for name, value in other.items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def wrong(self) -> int:
        """Everything that must not be."""
        return self.missing + self.mixed + self.unverified


class Readers:
    """So many reader processes of one state directory; :meth:`stop` tells what they found."""

    def __init__(
        self, state: Path, beside: Path, places: list[Place], count: int, *, rest: float = 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.state, self.beside, self.places, self.rest, self.now = state, beside, places, rest, now
        self.found = Looked()
        self._pids = [self._start(number) for number in range(count)]

    def _start(self, number: int) -> int:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                _Reader(self, number).run()
                code = 0
            finally:
                os._exit(code)
        return pid

    def kill_one(self, number: int) -> None:
        """Kill one with SIGKILL, and start another in its place, with what that one remembered."""
        os.kill(self._pids[number], signal.SIGKILL)
        os.waitpid(self._pids[number], 0)
        self._pids[number] = self._start(number)

    def stop(self) -> Looked:
        """End all and return what they found, those that were killed included."""
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)
        for pid in self._pids:
            _, status = os.waitpid(pid, 0)
            if status:
                self.found.add({"unverified": 1, "words": [f"a reader ended with {status}"]})
        for path in sorted(self.beside.glob("reader-*.jsonl")):
            for line in path.read_bytes().splitlines():
                self.found.add(json.loads(line))
        return self.found


class _Reader:
    """One reader, in its own process."""

    def __init__(self, readers: Readers, number: int) -> None:
        self._all = readers
        self._remembered = readers.beside / f"reader-{number}.json"
        self._told = os.open(
            readers.beside / f"reader-{number}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        self._counts: collections.Counter[str] = collections.Counter()
        self._stopped = False
        self._seen: set[Place] = set()

    def run(self) -> None:
        memory.forget()
        signal.signal(signal.SIGTERM, self._stop)
        due = time.monotonic()
        while not self._stopped:
            for place in self._all.places:
                self._through_the_loader(place)
                self._through_the_link(place)
                if self._all.rest:
                    time.sleep(self._all.rest)
            if time.monotonic() > due:  # a reader that is killed loses little of what it counted
                due = time.monotonic() + 0.2
                self._tell()
        self._tell()

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def _tell(self, *words: str) -> None:
        line = json.dumps({**self._counts, "words": list(words)}).encode() + b"\n"
        self._counts.clear()
        os.write(self._told, line)

    def _wrong(self, kind: str, place: Place, words: object) -> None:
        self._counts[kind] += 1
        self._tell(f"{kind}: {place}: {words}")

    def _through_the_loader(self, place: Place) -> None:
        # What was there before is there after.
        known = place in self._seen or self._channel(place).exists()
        try:
            found = open_release(
                self._all.state, *place, keys=self._all.state / "keyring.json", state_file=self._remembered,
                now=self._all.now,
            )  # fmt: skip
            version = (found.path / LABELS).read_text()
        except RevokedError:
            self._counts["revoked"] += 1
        except ReleaseNotFoundError as error:
            if known:
                self._wrong("missing", place, error)
        except (LoaderError, OSError) as error:
            self._wrong("unverified", place, f"{type(error).__name__}: {error}")
        else:
            self._seen.add(place)
            self._counts["opened"] += 1
            if version != found.manifest["bundle"]["version"]:
                self._wrong("mixed", place, f"number {found.number} with the bytes of {version}")

    def _through_the_link(self, place: Place) -> None:
        folder = self._channel(place).parent
        known = place in self._seen
        try:
            folder /= os.readlink(folder / "current")
            envelope = json.loads((folder / "release.json").read_bytes())
            said = json.loads(base64.b64decode(envelope["payload"]))
            data = (folder / "bundle" / LABELS).read_bytes()
        except OSError as error:
            if known:
                self._wrong("missing", place, error)
            return
        except (ValueError, KeyError) as error:
            self._wrong("unverified", place, error)
            return
        self._counts["through_link"] += 1
        wanted = {row["path"]: row["sha256"] for row in said["files"]}[LABELS]
        if hashlib.sha256(data).hexdigest() != wanted or folder.name != f"{said['number']:06d}":
            self._wrong("mixed", place, f"{folder.name} holds {said['number']}")

    def _channel(self, place: Place) -> Path:
        return self._all.state / "releases" / place[0] / place[1] / "channel.json"
