"""Do what a page of the documentation tells its reader to do, from top to bottom, and hold it to what it shows.

``python -m tools.run_docs docs/tutorials/model-team.md`` goes through the page's blocks in a fresh directory:

- a block with a title (```` ```python title="export.py" ````) is written to that file;
- a ``console`` block is typed into one shell, that keeps its directory, variables and background jobs. Each line
  that begins with ``$ `` is a command (``> `` goes on with it) and has to end with 0; what stands below it has to
  be its output, standard error included. A line ``…`` stands for any number of lines, ``…`` within a line for any
  text. A command without output below it may print what it likes;
- any other block is something to read, and has to say so by its kind (``TO_READ``).

``acceptd`` is the one of this checkout, ``python`` the one of ``--python``; ``policies/`` and ``examples/`` of the
checkout are copied to where the page begins, as a reader in a checkout has them.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TO_READ: Final = frozenset({"text", "toml", "yaml", "json", "sh", "python"})
SECONDS: Final = 300.0
"""For one command."""
ANY: Final = "…"
_FENCE = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<body>.*?)^```$", re.M | re.S
)


class PageError(Exception):
    """A page that does not do what it says: place, command, what was expected and what came."""


@dataclass(frozen=True)
class Write:
    """A file that the page has its reader write."""

    line: int
    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that the page has its reader type; ``shown`` is the output below it, empty where there is none."""

    line: int
    text: str
    shown: tuple[str, ...]


def steps(page: str) -> list[Write | Command]:
    """Return what a page has its reader do, in order. Raises PageError for a block that says nothing of itself."""
    found: list[Write | Command] = []
    for block in _FENCE.finditer(page):
        line = page.count("\n", 0, block.start()) + 2
        if block["title"]:
            found.append(Write(line, block["title"], block["body"]))
        elif block["language"] == "console":
            found += _commands(block["body"], line)
        elif block["language"] not in TO_READ:
            raise PageError(
                f"line {line - 1}: a block of the kind {block['language']!r} is neither run nor written"
            )
    return found


def _commands(body: str, first: int) -> Iterator[Command]:
    text, shown, start = "", [], first
    for number, line in enumerate(body.splitlines(), first):
        if line.startswith("$ "):
            if text:
                yield Command(start, text, tuple(shown))
            text, shown, start = line[2:], [], number
        elif line.startswith("> ") and text and not shown:
            text += "\n" + line[2:]
        elif text:
            shown.append(line)
        else:
            raise PageError(f"line {number}: a console block begins with a command, '$ …'")
    if text:
        yield Command(start, text, tuple(shown))


def fits(shown: tuple[str, ...], output: str) -> bool:
    """Whether an output is the one that is shown, but for blank lines at its ends and blanks at lines' ends."""
    pattern = ""
    for line in shown:
        if line.strip() == ANY:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.rstrip().split(ANY)) + r"\n"
    told = "\n".join(line.rstrip() for line in output.strip("\n").splitlines()) + "\n"
    return re.fullmatch(pattern, told) is not None


class Shell:
    """One bash in a directory: what a command changes of it stays. Close it: nothing is left running."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._mark = f"\x01{os.getpid()}\x02"
        self._script = directory.parent / f".{directory.name}.command"
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=directory, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, command: str, seconds: float = SECONDS) -> tuple[int, str]:
        """Return exit code and output. Raises PageError where the shell ended or the command takes too long."""
        self._script.write_text(command + "\n", encoding="utf-8")
        assert self._bash.stdin is not None
        # Read from a file, so that a command cannot swallow the next one, and a wrong one ends with its line.
        line = f". '{self._script}' < /dev/null; printf '{self._mark}%d\\n' $?\n"
        self._bash.stdin.write(line.encode())
        self._bash.stdin.flush()
        output, code = self._until_mark(seconds)
        return code, output

    def _until_mark(self, seconds: float) -> tuple[str, int]:
        assert self._bash.stdout is not None
        data, end = b"", time.monotonic() + seconds
        whole = re.compile(re.escape(self._mark).encode() + rb"(\d+)\n")
        while not (found := whole.search(data)):
            ready, _, _ = select.select([self._bash.stdout], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._bash.stdout.fileno(), 1 << 16) if ready else b""
            if not part:
                why = "ended the shell" if ready else f"did not end within {seconds:.0f} s"
                raise PageError(f"{why}; so far it printed:\n{data.decode(errors='replace')}")
            data += part
        return data[: found.start()].decode(errors="replace"), int(found[1])

    def close(self) -> None:
        """End the shell and everything that it started, the daemon in order."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._bash.pid, sign)
            except ProcessLookupError:
                break
            end = time.monotonic() + 10
            while sign == signal.SIGTERM and time.monotonic() < end and self._others():
                time.sleep(0.05)
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait()
        assert self._bash.stdout is not None
        self._bash.stdout.close()
        self._script.unlink(missing_ok=True)

    def _others(self) -> bool:
        """Whether something of the shell's session is still there, the shell itself not counted."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != self._bash.pid:
                try:
                    told = (entry / "stat").read_text().rpartition(")")[2].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if int(told[3]) == self._bash.pid and told[0] != "Z":
                    return True
        return False


def environment(home: Path, python: Path) -> dict[str, str]:
    """Return the variables that a page's shell begins with; nothing of the caller's settings reaches it."""
    places = [
        str(python.parent),
        str(Path(sys.executable).parent),
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/usr/sbin",
    ]
    kept = {name: value for name, value in os.environ.items() if name in ("PIP_INDEX_URL", "TMPDIR")}
    return {
        **kept, "PATH": ":".join(dict.fromkeys(places)), "HOME": str(home), "LANG": "C.UTF-8", "COLUMNS": "100",
        "TERM": "dumb", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def run_page(page: Path, directory: Path, python: Path, *, talk: bool = False) -> int:
    """Do what one page says in ``directory``, an empty one, and return how many steps that were.

    Raises PageError at the first command that ends otherwise than with 0, or prints something else than is shown;
    with ``talk``, which prints everything as it comes, at the end for all of them.
    """
    troubles: list[str] = []
    wanted = steps(page.read_text(encoding="utf-8"))
    for name in ("policies", "examples"):
        shutil.copytree(
            ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "environments")
        )
    shell = Shell(directory, environment(directory, python))
    try:
        for step in wanted:
            if isinstance(step, Write):
                _, here = shell.run("pwd")
                target = Path(here.strip()) / step.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(step.text, encoding="utf-8")
                continue
            place = f"{page.name}:{step.line}: {step.text}"
            try:
                code, output = shell.run(step.text)
            except PageError as error:
                raise PageError(f"{place}\n{error}") from None
            if talk:
                print(f"$ {step.text}\n{output}", end="", flush=True)
            if code != 0:
                troubles.append(f"{place}\nended with {code} and printed:\n{output}")
            elif step.shown and not fits(step.shown, output):
                troubles.append(f"{place}\nthe page shows:\n{chr(10).join(step.shown)}\n\nit printed:\n{output}")
            if troubles and not talk:
                break
    finally:
        shell.close()
    if troubles:
        raise PageError("\n".join(troubles))
    return len(wanted)


def run_fresh(page: Path, python: Path, *, talk: bool = False) -> int:
    """As :func:`run_page`, in a directory of a short path (no output wraps there), gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="acceptd-page-", dir="/tmp") as place:
        os.chmod(place, 0o755)  # a cell's own user reads below it
        directory = Path(place) / "acceptd"
        directory.mkdir()
        return run_page(page, directory, python, talk=talk)


def main() -> int:
    """Run the pages of the command line; 1 at the first that does not do what it shows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the pages' python")
    parser.add_argument("--talk", action="store_true", help="print commands and outputs as they come")
    given = parser.parse_args()
    failed = 0
    for page in given.pages:
        started = time.monotonic()
        try:
            count = run_fresh(page, given.python.absolute(), talk=given.talk)
        except PageError as error:
            print(f"FAILED {error}", file=sys.stderr)
            failed += 1
        else:
            print(f"ok {page}: {count} steps in {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
