"""One case: a work, a call of it that fails, and what must hold then, after a restart, and done again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acceptd.record import migrate, tables
from tests.crash.faults import whole
from tests.crash.faults.calls import Call
from tests.crash.faults.stage import Ran, Stage
from tests.crash.faults.works import WORKS

_SYNCHRONISING = frozenset({"fsync", "fdatasync"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case went: ``survived``, ``refused``, ``ended``; ``missed`` where the call was not reached.

    ``ended`` was refused, and the process writes nothing more until a new start. ``wrong`` is what did not hold.
    """

    word: str
    wrong: str = ""
    call: Call | None = None


def judge(stage: Stage, work: str, base: Path, before: whole.Before, root: Path, call: Call) -> Outcome:
    """Do ``work`` on a copy of ``base`` while ``call`` fails, and look at all that must hold."""
    whole.copy(base, root)
    ran = stage.run(work, root, call.name, call.number)
    word = "survived" if ran.ended == "done" else "ended" if ran.broken else "refused"
    if ran.injected is None:
        return Outcome("missed", "" if ran.ended == "done" else f"{ran.ended}: {ran.told}")
    try:
        _told_well(ran, stage)
        _after(work, before, root, ran)
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:600]}"
        return Outcome(word, f"{text} [{ran.ended}: {ran.told}] {ran.acknowledged}", ran.injected)
    return Outcome(word, "", ran.injected)


def _told_well(ran: Ran, stage: Stage) -> None:
    assert ran.ended in {"done", "refused"}, "it ended with an error that no command turns into a line"
    if ran.ended == "refused":
        assert ran.told, "it says nothing"
        assert "\n" not in ran.told, "it says more than a line"
        assert "Traceback" not in ran.told
    failed = ran.injected
    assert failed is not None
    goes_on = bool([words for words in ran.acknowledged if words[-1] == "after"])
    if ran.broken is None or ran.ended == "done":
        return
    if failed.name in _SYNCHRONISING and failed.about == "state/ledger.sqlite3-wal":
        # Pages whose synchronisation failed count as clean: a later one that succeeds says nothing of them.
        assert ran.broken, "it would write on after a failed synchronisation of the ledger"
    if not stage.lasting:
        assert goes_on != ran.broken, "it wrote on after a disk error" if goes_on else "it could not go on"


def _after(work: str, before: whole.Before, root: Path, ran: Ran) -> None:
    with _newer() if work == "migrate" else contextlib.nullcontext():
        if work == "migrate":
            version = whole.stored_version(root)
            assert version in {2, 3}
            assert version == 3 or ran.ended != "done"
            migrate.migrate(root / "state", scripts=root / "scripts")
            assert whole.stored_version(root) == 3
        whole.look(root)
        whole.restart(root, before, ran.acknowledged)
        if work != "migrate":
            again = list[list[object]]()
            WORKS[work].do(root, lambda *words: again.append(list(words)), {})
            whole.after(root, before, again)


@contextlib.contextmanager
def _newer() -> Iterator[None]:
    tables.SCHEMA_VERSION = 3  # type: ignore[misc] # as a later acceptd has it
    try:
        yield
    finally:
        tables.SCHEMA_VERSION = 2  # type: ignore[misc]
