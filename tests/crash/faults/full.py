"""A full disk: a small one in memory that is filled to the last byte before each work.

``python -m tests.crash.faults.full DIRECTORY`` in a directory that is a file system of its own (:func:`inside`
makes one with bubblewrap, for any user). With the reserve, verdicts, revocations and removals go on record; what
does not go through says why; and with space again everything goes on. Then, as an ordinary quota would have it, a
process that may not make a file larger than so much.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd.record import reserve
from tests.crash.faults import whole
from tests.crash.faults.stage import ROOT, perform
from tests.crash.faults.works import WORKS, prepare

SIZE: Final = 56 << 20
RESERVE: Final = 12 << 20
FREE: Final = (0, 4 << 10, 24 << 10, 96 << 10)
"""Bytes that are left without a reserve: where a work stops on its way differs."""
LARGEST: Final = (0, 1000, 40_000)
"""Bytes that a file may have."""
FROM_THE_RESERVE: Final = ("verdict", "revoke", "revoke-rollback", "gc", "rollback")
"""What must go through on a full disk that has the reserve."""
NEVER: Final = ("backup", "reserve")
"""What is refused on a full disk, reserve or not: it would use it up."""
TRIED: Final = tuple(name for name, work in WORKS.items() if work.base == "both" and name != "migrate")


@dataclass(frozen=True, slots=True)
class Tried:
    """One work on a disk without room: ``how`` full it was, how it ended, what of it was wrong."""

    how: str
    work: str
    ended: str
    told: str
    wrong: str = ""


def inside(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run this module on a small disk, mounted at ``place`` in a mount namespace that nobody else sees."""
    binds = ["--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--size", str(SIZE), "--tmpfs", str(place)]
    python = str(Path(sys.prefix) / "bin" / "python")
    command = ["bwrap", "--unshare-user", *binds, "--chdir", str(ROOT), python, "-m", __name__, str(place), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


MISSING: Final = "" if shutil.which("bwrap") else "bubblewrap is not installed"
"""Why there can be no small disk; empty where there can."""


def fill(junk: Path, leave: int) -> None:
    """Use up the disk, so that ``leave`` bytes are free."""
    with junk.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        file.truncate(max(0, os.fstat(file.fileno()).st_size - leave))


def _apart(work: str, root: Path, limit: Callable[[], None]) -> dict[str, Any]:
    """Do a work in a process of its own; return what it said."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        limit()
        os.writev(writing, [json.dumps(perform(WORKS[work].do, root)).encode()])
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(pid, 0)[1]
    return json.loads(text) if text else {"ended": f"died: {status}", "told": "", "acknowledged": []}


def _tried(how: str, work: str, root: Path, said: dict[str, Any], before: whole.Before, due: str) -> Tried:
    """Look at what a work left, with room again."""
    wrong = ""
    try:
        assert said["ended"] in {"done", "refused"}, "no line of acceptd's own"
        assert said["ended"] == "done" or (said["told"] and "\n" not in said["told"]), "it does not say why"
        assert due in {"", said["ended"]}, f"it was to be {due}"
        whole.look(root)
        whole.restart(root, before, said["acknowledged"])
        again: list[list[Any]] = []
        WORKS[work].do(root, lambda *words: again.append(list(words)), {})
        whole.after(root, before, again)
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:500]}"
    return Tried(how, work, said["ended"], said["told"], wrong)


def with_reserve(place: Path, base: Path, works: tuple[str, ...]) -> Iterator[Tried]:
    """Do each work on a disk that is full but for the reserve."""
    reserve.LOW = RESERVE // 2  # type: ignore[misc] # all is smaller here
    for work in works:
        root = whole.copy(base, place / "root")
        before = whole.remember(root)
        assert reserve.keep(root / "state", RESERVE)
        fill(place / "junk", 0)
        said = _apart(work, root, lambda: None)
        stands = (root / "state" / reserve.NAME).exists()
        (place / "junk").unlink()
        due = "done" if work in FROM_THE_RESERVE else "refused" if work in NEVER[:1] else ""
        found = _tried("full, with the reserve", work, root, said, before, due)
        if work in FROM_THE_RESERVE and stands:
            found = Tried(found.how, work, found.ended, found.told, "the reserve stood: the disk was not full")
        yield found


def without_reserve(place: Path, base: Path, works: tuple[str, ...], free: tuple[int, ...]) -> Iterator[Tried]:
    """Do each work on a disk with so many bytes free, and no reserve."""
    for leave in free:
        for work in works:
            root = whole.copy(base, place / "root")
            before = whole.remember(root)
            fill(place / "junk", leave)
            said = _apart(work, root, lambda: None)
            (place / "junk").unlink()
            due = "refused" if leave == 0 or work in NEVER else ""
            yield _tried(f"{leave} bytes free", work, root, said, before, due)


def with_limit(place: Path, base: Path, works: tuple[str, ...], largest: tuple[int, ...]) -> Iterator[Tried]:
    """Do each work in a process that may not make a file larger than so much (RLIMIT_FSIZE)."""
    for most in largest:
        for work in works:
            root = whole.copy(base, place / "root")
            before = whole.remember(root)

            def limit(most: int = most) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

            yield _tried(f"files of {most} bytes at most", work, root, _apart(work, root, limit), before, "")


def main() -> int:
    """Try all, or (``quick``) a few; print a line of JSON for each; 1 where one was wrong."""
    place, quick = Path(sys.argv[1]), "quick" in sys.argv[2:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a work logs is no answer
    base = prepare(place, "both")
    works = ("revoke",) if quick else TRIED
    tries = [
        *with_reserve(place, base, works),
        *without_reserve(place, base, works, FREE[:1] if quick else FREE),
        *with_limit(place, base, works, () if quick else LARGEST),
    ]
    for one in tries:
        print(json.dumps({name: getattr(one, name) for name in Tried.__slots__}), file=answers, flush=True)
    return int(any(one.wrong for one in tries))


if __name__ == "__main__":
    sys.exit(main())
