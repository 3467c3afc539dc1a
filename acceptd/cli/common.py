"""What the commands share: consoles, the state option, exit codes, and how errors become one line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, cast

import typer
from rich.console import Console

from acceptd import first_word
from acceptd.config import default_state
from acceptd.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.status import Status

EXIT_BY_VERDICT: Final = {"accepted": 0, "rejected": 1, "held": 3, "inconclusive": 4}
_BLANKS: Final = re.compile(r"[ \t]+$", re.MULTILINE)
EXIT_USAGE: Final = 2
EXIT_AUDIT: Final = 5
EXIT_INTERNAL: Final = 70
WORST_ORDER: Final = (70, 1, 4, 3, 0)
"""A suite ends with the worst exit code in this order (design, section 9)."""

StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state", help="The state directory (default: $ACCEPTD_STATE, a checkout's var/, /var/lib/acceptd)."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")
]


def console() -> Console:
    """Return the console for results (standard output). A ``[`` or ``:name:`` in a model's name is only text."""
    # A pipe has no width to fold lines at; a person's terminal has.
    first_word.unsay()
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 240
    file = None if sys.stdout.isatty() else cast("IO[str]", _Unpadded())
    return Console(file=file, highlight=False, markup=False, emoji=False, width=width)


class _Unpadded:
    """Standard output, as it is at each write, without the blanks that tables leave at the ends of lines."""

    def write(self, text: str) -> int:
        sys.stdout.write(_BLANKS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


def progress_console() -> Console:
    """Return the console for progress and errors (standard error), so that standard output can be piped."""
    first_word.unsay()
    return _Progress(stderr=True, highlight=False, markup=False, emoji=False)


class _Progress(Console):
    """Its spinner takes words as text: rich reads markup there, whatever its console says."""

    def status(self, status: RenderableType, **how: Any) -> Status:
        from acceptd.cli.spinner import Words  # rich.status costs more than many a command

        return Words(status, console=self, **how)


def end_in_order() -> None:
    """From here on SIGTERM and SIGHUP end the command as Ctrl-C does: nothing that it started or made is left."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def leave(number: int, _frame: object) -> None:
    """End as Ctrl-C does."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def chosen_state(state: Path | None) -> Path:
    """Return the state directory that the command works on."""
    return state.absolute() if state is not None else default_state()


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 entry``, ``2 entries``; ``many`` where an s does not make the plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def worst(codes: list[int]) -> int:
    """Return the exit code of a suite."""
    for code in WORST_ORDER:
        if code in codes:
            return code
    return max(codes, default=0)


def one_line(text: str) -> str:
    """Return ``text`` as one line without control characters, for standard error."""
    from acceptd.intake.paths import shown  # where something went wrong, not at every start

    return shown(text.replace("\n", " "), 1 << 20)


def fail(message: str, remedy: str = "", *, code: int = EXIT_USAGE) -> int:
    """Print the error line, and the one JSON object where ``--json`` was asked for; return ``code``."""
    first_word.unsay()
    line = f"acceptd: {one_line(message)}"
    if remedy:
        line += f"\n  → {one_line(remedy)}"
    with contextlib.suppress(OSError):  # a full disk behind standard error must not change the exit code
        sys.stderr.write(line + "\n")
    if "--json" in sys.argv:
        body = {"error": one_line(message), "remedy": one_line(remedy), "exit_code": code}
        with contextlib.suppress(OSError):
            typer.echo(json.dumps(body, ensure_ascii=True))
    return code


def existing(path: Path, what: str) -> Path:
    """Return ``path`` made absolute if it exists; raise UsageError otherwise."""
    if not path.exists():
        raise UsageError(f"{what} {path} does not exist", remedy="check the path")
    return path.absolute()


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist: it may be the key just named, or what another person signed."""
    try:
        with path.open("xb", buffering=0) as file:
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:
                path.unlink(missing_ok=True)  # a part of a signed file is none
                raise
    except FileExistsError as error:
        raise UsageError(f"{path} exists", remedy="name another file") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy="name a file that can be written") from error


def read_limited(path: Path, limit: int, what: str) -> bytes:
    """Return the bytes of a file; raise UsageError where it has more than ``limit``, or cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy=f"name {what}") from error
    if len(data) > limit:
        raise UsageError(f"{path}: larger than {limit} bytes", remedy=f"name {what}")
    return data
