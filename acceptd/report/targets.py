"""Result files of a command: proven writable before any work is done, and complete or not there at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from acceptd.errors import UsageError

_FLAGS: Final = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class Targets:
    """The files that options of one command name, for example ``{"--sarif": Path("out.sarif")}``.

    Entering opens each: a new file beside the target, which takes its place when the block ends well and goes
    away when it does not. What exists and is no regular file (``/dev/stdout``, a pipe) is written directly.
    """

    def __init__(self, wanted: Mapping[str, Path | None], *, outside: Path | None = None) -> None:
        self._wanted = {option: path for option, path in wanted.items() if path is not None}
        self._outside = outside
        self._open: dict[str, tuple[int, Path, Path | None]] = {}

    def __enter__(self) -> Self:
        """Open every target. Raises UsageError: a path that cannot be written, two options with one path."""
        try:
            taken: dict[Path, str] = {}
            for option, path in self._wanted.items():
                real = Path(os.path.realpath(path))
                if real in taken:
                    raise UsageError(
                        f"{option} {path}: {taken[real]} writes there too",
                        remedy="give each file a path of its own",
                    )
                taken[real] = option
                self._refuse_inside(option, path, real)
                self._open[option] = self._opened(option, path, real)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the files in their places, or remove them after an error."""
        try:
            if kind is None:
                for descriptor, real, temporary in self._open.values():
                    if temporary is not None:
                        os.fsync(descriptor)
                        os.rename(temporary, real)
        finally:
            self._discard()

    def __contains__(self, option: str) -> bool:
        return option in self._open

    def write(self, option: str, data: bytes) -> None:
        """Append ``data`` to the file of ``option``; nothing where the option was not given."""
        if option in self._open:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._open[option][0], rest) :]

    def _refuse_inside(self, option: str, path: Path, real: Path) -> None:
        if self._outside is None:
            return
        with contextlib.suppress(OSError):  # one of the two is not there
            if os.path.samefile(real, self._outside):
                raise UsageError(f"{option} {path}: is what is checked", remedy="write it to another file")
        if not self._outside.is_dir():
            return
        if real.is_relative_to(os.path.realpath(self._outside)):
            raise UsageError(
                f"{option} {path}: lies inside what is checked, and would become a part of it",
                remedy="write it to another directory",
            )

    def _opened(self, option: str, path: Path, real: Path) -> tuple[int, Path, Path | None]:
        try:
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(path).st_mode
                if stat.S_ISDIR(mode):
                    raise UsageError(f"{option} {path}: is a directory", remedy="name a file in it")
                if not stat.S_ISREG(mode):
                    return os.open(path, os.O_WRONLY | os.O_CLOEXEC), real, None
            temporary = real.with_name(f".{real.name[:200]}.{secrets.token_hex(6)}")
            return os.open(temporary, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666), real, temporary
        except OSError as error:
            raise UsageError(
                f"{option} {path}: cannot be written: {error.strerror}",
                remedy="name a file in an existing directory that you may write to",
            ) from error

    def _discard(self) -> None:
        for descriptor, _, temporary in self._open.values():
            os.close(descriptor)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        self._open = {}
