"""What a daemon that is not root lends, and takes back whatever happens meanwhile. With real ones: tests/cell."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd import powers

pytestmark = pytest.mark.unit
EVERY = 1 << powers.SETUID | 1 << powers.SETGID | 1 << powers.KILL | 1 << powers.DAC_OVERRIDE


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """An ordinary user with every capability that the daemon is given; what is asked of the kernel is noted."""
    said: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(powers, "held", lambda _name="CapEff": EVERY)
    monkeypatch.setattr(powers, "_ambient", lambda what, capability: said.append((what, capability)))
    powers.drops.cache_clear()
    yield said
    powers.drops.cache_clear()


def test_one_capability_is_lent_and_taken_back_also_after_an_error(asked: list[tuple[int, int]]) -> None:
    with powers.lent(powers.DAC_OVERRIDE):
        assert asked == [(powers._RAISE, powers.DAC_OVERRIDE)]
    assert asked.pop() == (powers._CLEAR_ALL, 0)
    with pytest.raises(KeyError), powers.lent(powers.DAC_OVERRIDE):
        raise KeyError
    assert asked[-1] == (powers._CLEAR_ALL, 0)


@pytest.mark.parametrize("lacking", ["CapPrm", "CapInh"])
def test_what_the_daemon_cannot_pass_on_is_not_lent(
    asked: list[tuple[int, int]], lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powers, "held", lambda name="CapEff": 0 if name == lacking else EVERY)
    with powers.lent(powers.DAC_OVERRIDE):
        assert asked == []
    assert asked == []


def test_the_ambient_set_is_emptied_and_what_may_be_dropped_is_remembered_before(
    asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    powers.keep_to_oneself()
    assert asked == [(powers._CLEAR_ALL, 0)]
    monkeypatch.setattr(powers, "held", lambda _name="CapEff": 0)  # as any later thread finds it
    assert powers.drops()


def test_root_has_its_own_and_nothing_of_it_is_touched(
    asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    powers.keep_to_oneself()
    with powers.lent(powers.DAC_OVERRIDE):
        pass
    assert asked == []
    assert powers.drops()


def test_sets_are_read_from_this_threads_own_status(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    for name in ("CapEff", "CapPrm", "CapAmb"):
        (line,) = [one for one in lines if one.startswith(f"{name}:")]
        assert powers.held(name) == int(line.split()[1], 16)
    assert powers.held("CapNone") == 0

    def closed(*_args: Any, **_more: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory", "/proc/thread-self/status")

    monkeypatch.setattr(builtins, "open", closed)
    assert powers.held() == 0, "where /proc does not tell, nothing is claimed"


def test_who_starts_as_another_user_keeps_no_group_of_its_own() -> None:
    assert powers.as_user(os.getuid(), 5) == {}
    assert powers.as_user(os.getuid() + 1, 5) == {"user": os.getuid() + 1, "group": 5, "extra_groups": []}


def test_a_capability_that_the_kernel_does_not_raise_is_an_error_and_not_taken_for_lent() -> None:
    with pytest.raises(OSError, match="PR_CAP_AMBIENT"):
        powers._ambient(powers._RAISE, 63)
