"""Places outside the state directory that keep signed checkpoints: another volume, the journal, a command.

Whoever restores the whole state directory from a backup restores its checkpoints with it; only a place
outside tells that the log once was longer. An anchor is asked for the newest note it keeps, and given the
next; that the log extends what it keeps is proved by :mod:`acceptd.record.checkpoint`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from acceptd import leash
from acceptd.errors import AnchorError, ConfigError
from acceptd.intake.files import replace_file
from acceptd.policy.trusted import check_program

JOURNAL: Final = "journal"
KEPT: Final = 64
"""How many notes of one log stay in an anchor's directory."""
SECONDS: Final = 30.0
"""For a command, or the journal, to answer."""
MAX_NOTE: Final = 16 << 10
ANY: Final = "-"
"""To a command: whatever log. No log has this name."""

_SIZE_NOTE: Final = "-0000000000000000.note"
_ANY_NOTE: Final = re.compile(r"acceptd-[0-9a-f]{32}-\d{16}\.note", re.ASCII)
# Three lines or more of text, a blank one, and signature lines, which begin with an em dash (signed-note).
_NOTES: Final = re.compile(rb"[^\n]+\n\d+\n[A-Za-z0-9+/=]+\n(?:[^\n]+\n)*\n(?:\xe2\x80\x94 [^\n]*\n)+")
_JOURNAL_SOCKET: Final = "/run/systemd/journal/socket"
_JOURNAL_ID: Final = "b2d6f4c0a7d94b0f9a3a5d2c7f1e8b61"
"""MESSAGE_ID of our notes (journal fields, systemd.journal-fields(7)): what they are found again by."""


class Anchor(Protocol):
    """A place that keeps notes of the log ``origin``. All calls raise AnchorError where it cannot be reached."""

    @property
    def words(self) -> str:
        """The place, for a person."""
        ...

    def last(self, origin: str) -> bytes | None:
        """Return the note of the largest size that it keeps, or None where it keeps none of this log."""
        ...

    def others(self) -> list[bytes]:
        """Return notes of whatever logs it keeps, at least one each, where it can tell. None where it cannot."""
        ...

    def put(self, origin: str, size: int, note: bytes) -> None:
        """Keep ``note``, durably."""
        ...


def open_anchor(setting: str | Sequence[str], state: Path) -> Anchor | None:
    """Return the anchor that ``checkpoint.anchor`` names: a directory, ``journal``, a command as a list, or none.

    Raises ConfigError for a place that is none: a relative path, one inside the state directory, a command
    that is not there.
    """
    if not setting:
        return None
    if not isinstance(setting, str):
        return Command(_command(tuple(setting)))
    if setting == JOURNAL:
        return Journal()
    place = Path(setting)
    if not place.is_absolute():
        raise ConfigError(
            f"checkpoint.anchor: {setting!r:.200} is no absolute path",
            remedy='name a directory outside the state, "journal", or a command as a list',
        )
    if place.resolve().is_relative_to(state.resolve()):
        raise ConfigError(
            f"checkpoint.anchor: {place} lies inside the state directory",
            remedy="name a directory on another volume: a restored backup brings the state back whole",
        )
    return Directory(place)


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    check_program("checkpoint.anchor", Path(words[0]))
    return words


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, best on another volume: one file a note, named by log and size, the newest KEPT of them."""

    place: Path

    @property
    def words(self) -> str:
        """The directory; acceptd never makes it, since one on a volume that is not mounted would look empty."""
        missing = "" if self.place.is_dir() else " (mount its volume, or make the directory for acceptd's user)"
        return f"{self.place}{missing}"

    def last(self, origin: str) -> bytes | None:
        """Return the note of the largest size. A directory that is not there (not mounted) is no empty one."""
        with _reached(self.words):
            found = self._sizes(origin)
            if not found:
                return None
            with (self.place / _name(origin, found[-1])).open("rb") as file:
                return file.read(MAX_NOTE + 1)

    def others(self) -> list[bytes]:
        """Return the newest note of each log in the directory."""
        with _reached(self.words):
            names = [name for name in sorted(os.listdir(self.place)) if _ANY_NOTE.fullmatch(name)]
            found = []
            for name in {name[: -len(_SIZE_NOTE)]: name for name in names}.values():
                with (self.place / name).open("rb") as file:
                    found.append(file.read(MAX_NOTE + 1))
            return found

    def put(self, origin: str, size: int, note: bytes) -> None:
        """Write the note whole and durably; notes beyond the newest KEPT go."""
        with _reached(self.words):
            if not self.place.is_dir():
                raise AnchorError(f"{self.words}: no directory")
            replace_file(self.place, _name(origin, size), note, 0o644)
            for old in self._sizes(origin)[:-KEPT]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.place / _name(origin, old))

    def _sizes(self, origin: str) -> list[int]:
        pattern = re.compile(rf"{_prefix(origin)}-(?P<size>\d{{16}})\.note", re.ASCII)
        return sorted(int(match["size"]) for name in os.listdir(self.place) if (match := pattern.fullmatch(name)))


@dataclass(frozen=True, slots=True)
class Journal:
    """The system's journal, which acceptd's own user cannot rewrite (native protocol of systemd-journald)."""

    socket_path: str = _JOURNAL_SOCKET
    reader: str = "journalctl"

    @property
    def words(self) -> str:
        """The journal."""
        return "the journal"

    def last(self, origin: str) -> bytes | None:
        """Return the newest note of this log in the journal; its entries are found by trusted fields."""
        notes = self._read(f"CHECKPOINT_ORIGIN={origin}")
        return max(notes)[1] if notes else None

    def others(self) -> list[bytes]:
        """Return the newest notes in the journal, of whatever log."""
        return [note for _, note in self._read()]

    def _read(self, *more: str) -> list[tuple[int, bytes]]:
        # _UID is set by journald and cannot be forged: another user's messages are not ours.
        matches = [f"MESSAGE_ID={_JOURNAL_ID}", *more, f"_UID={os.getuid()}"]
        arguments = ["--quiet", "--no-pager", "--output=json", "--output-fields=CHECKPOINT_NOTE,CHECKPOINT_SIZE"]
        text = _run([self.reader, *arguments, "--lines=64", *matches], b"", self.words)
        notes: list[tuple[int, bytes]] = []
        for row in text.splitlines():
            try:
                fields = json.loads(row)
                notes.append((int(fields["CHECKPOINT_SIZE"]), bytes.fromhex(fields["CHECKPOINT_NOTE"])))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise AnchorError(f"{self.words}: an entry that cannot be read: {error}"[:300]) from error
        return notes

    def put(self, origin: str, size: int, note: bytes) -> None:
        """Send the note to journald; it is on disk when journald syncs (SyncIntervalSec=)."""
        fields = {
            "MESSAGE": f"acceptd: checkpoint of {size} ledger entries",
            "MESSAGE_ID": _JOURNAL_ID,
            "PRIORITY": "5",
            "SYSLOG_IDENTIFIER": "acceptd",
            "CHECKPOINT_ORIGIN": origin,
            "CHECKPOINT_SIZE": str(size),
            "CHECKPOINT_NOTE": note.hex(),
        }
        message = b"".join(_field(name, value) for name, value in fields.items())
        with _reached(self.words), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(SECONDS)
            sock.sendto(message, self.socket_path)


@dataclass(frozen=True, slots=True)
class Command:
    """A program of the operator: ``... last ORIGIN`` prints the newest note, ``... put ORIGIN SIZE`` reads one.

    ``... last -`` prints the newest note of each log that it keeps: asked where it keeps none of ours, for the
    log may have been begun anew.
    It ends with 0 only when the note is kept. It is run without a shell, with this process's environment.
    """

    program: tuple[str, ...]

    @property
    def words(self) -> str:
        """The program."""
        return self.program[0]

    def last(self, origin: str) -> bytes | None:
        """Return what it prints; nothing at all means that it keeps none."""
        return _run([*self.program, "last", origin], b"", self.words) or None

    def others(self) -> list[bytes]:
        """Return the notes that it prints for ``last -``, one after the other."""
        return _NOTES.findall(_run([*self.program, "last", ANY], b"", self.words))

    def put(self, origin: str, size: int, note: bytes) -> None:
        """Hand the note over on its standard input."""
        _run([*self.program, "put", origin, str(size)], note, self.words)


def _run(command: list[str], given: bytes, words: str) -> bytes:
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            leash.command(command), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        raise AnchorError(f"{words}: {error}") from error
    with process:
        try:
            out, said = process.communicate(given, timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AnchorError(f"{words}: gave no answer within {SECONDS:g} s") from error
        finally:
            process.terminate()  # no more than that: its leash kills the rest
    if process.returncode != 0:
        told = said.decode("utf-8", "replace").strip().splitlines()
        raise AnchorError(f"{words}: ended with {process.returncode}: {told[-1][:200] if told else 'no word why'}")
    return out[: MAX_NOTE * KEPT * 4]


@contextlib.contextmanager
def _reached(words: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AnchorError(f"{words}: {error.strerror or error}") from error


def _field(name: str, value: str) -> bytes:
    """One field of journald's native protocol: the length form, which any value fits."""
    data = value.encode()
    return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"


def _prefix(origin: str) -> str:
    """A file name for a log's own name, which holds a slash."""
    return f"acceptd-{hashlib.sha256(origin.encode()).hexdigest()[:32]}"


def _name(origin: str, size: int) -> str:
    return f"{_prefix(origin)}-{size:016d}.note"
