"""What is made durable together: every file is, and what the disk refused of one is told, whoever asked for it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

import pytest

from acceptd.intake.durable import synchronise
from tests.threads import only


def refusing(bad: int, asked: list[int]) -> Callable[[int], None]:
    """Return an fsync that fails for ``bad`` once, as the kernel does: the next one says that all is well."""
    told = threading.Event()

    def fsync(fd: int) -> None:
        asked.append(fd)
        if fd == bad and not told.is_set():
            told.set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return fsync


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_file_is_made_durable(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", refusing(-1, asked))
    synchronise(range(count))
    assert sorted(asked) == list(range(count))


@pytest.mark.parametrize("bad", [0, 7, 99])
def test_what_the_disk_refused_of_one_file_of_many_is_told(bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refusing(bad, []))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        synchronise(range(100))


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_where_no_thread_is_to_be_had_every_file_is_made_durable(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", refusing(-1, asked))
    only(threads, monkeypatch)
    synchronise(range(20))
    assert set(asked) == set(range(20))


@pytest.mark.parametrize("bad", [0, 1, 2, 19])
def test_an_error_that_a_thread_was_told_is_not_lost_where_no_other_is_to_be_had(
    bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread does it for all of them."""
    monkeypatch.setattr(os, "fsync", refusing(bad, []))
    only(1, monkeypatch)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        synchronise(range(20))
