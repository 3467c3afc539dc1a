"""What `make soak-load` counts and keeps: processor time of the dead too, and figures of a run that ends early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.load import processor, soak
from tests.load.processor import GROUP, TREE, Account

pytestmark = pytest.mark.unit

FORGOTTEN = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        while time.process_time() < 0.2:
            pass
        os.write(1, b"done")
    os._exit(0)
os.wait()
"""
"""Its grandchild spends 0.2 s, and loses its parent at once: nobody here ever waits for it."""


def test_what_a_process_cost_that_nobody_waited_for_is_counted() -> None:
    account = Account()
    if account.by != GROUP:
        pytest.skip("no control group may be made here")
    try:
        words = [*account.inside(), sys.executable, "-c", FORGOTTEN]
        told = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout  # to the end of the last writer
        assert told == b"done"
        assert account.spent(os.getpid()) >= 0.2
    finally:
        account.close()
    assert account.place is not None
    assert not account.place.exists(), "nothing is left on the host"


def test_a_replaced_parent_takes_no_time_away_and_a_group_of_the_second_version_counts_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.stat").write_text("user_usec 1\nusage_usec 2500000\n")
    assert processor.counted(tmp_path) == 2.5
    (tmp_path / "cpuacct.usage").write_text("7000000000\n")
    assert processor.counted(tmp_path) == 7.0
    account = Account([])
    account.place = tmp_path
    monkeypatch.setattr(processor.samples, "spent", lambda _root: 1.0)  # what is left of the tree
    assert account.spent(os.getpid()) == 7.0


def test_where_no_group_is_counted_none_is_left_and_the_figures_say_so(tmp_path: Path) -> None:
    account = Account([tmp_path / "missing", tmp_path])
    assert account.by == TREE
    assert account.inside() == ()
    assert list(tmp_path.iterdir()) == []
    assert account.spent(os.getpid()) > 0
    account.close()


class Silent:
    """A daemon that never judges anything."""

    def __init__(self, dead: bool = False) -> None:
        self.pid, self.events, self._dead = os.getpid(), [], dead
        self.stopped = 0

    def ready(self) -> None:
        pass

    def ended(self) -> bool:
        return self._dead

    def stop(self) -> None:
        self.stopped += 1

    def kill(self) -> None:
        pass

    def tail(self) -> str:
        return "its last words"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[soak.Soaked, Silent]]:
    """Return what soaks beside a daemon that judges nothing, asked for its end so often."""

    def soaked(asked: int, *, dead: bool = False) -> tuple[soak.Soaked, Silent]:
        silent = Silent(dead)
        monkeypatch.setattr(soak, "Running", lambda *_words, **_more: silent)
        monkeypatch.setattr(soak, "_orphans", list)
        monkeypatch.setattr(soak, "Account", lambda: Account([]))
        monkeypatch.setattr(soak.os, "geteuid", lambda: 1000)  # teams without users of their own
        running = soak.Soak(tmp_path, soak.Plan(count=soak.WARM + 20, teams=4))
        running.enough = asked
        return running.run(), silent

    return soaked


def test_a_run_that_is_stopped_keeps_its_figures_and_says_how_many_drops_it_reached(
    run: Callable[..., tuple[soak.Soaked, Silent]],
) -> None:
    found, silent = run(2)
    assert (found.drops, found.wanted, found.unjudged) == (soak.WARM, soak.WARM + 20, soak.WARM)
    assert found.stopped == "while it waited for the first ones judged"
    assert sum(found.families.values()) == soak.WARM
    assert found.processor_s >= 0
    assert found.series
    assert found.broken == [], "what was not judged breaks no promise"
    assert silent.stopped == 1


def test_a_run_whose_daemon_died_keeps_its_figures_too_and_is_broken(
    run: Callable[..., tuple[soak.Soaked, Silent]],
) -> None:
    found, silent = run(0, dead=True)
    assert found.drops == soak.WARM
    assert [line for line in found.broken if "ended by itself: its last words" in line]
    assert found.stopped == "given up"
    assert silent.stopped == 0


def test_what_was_stopped_or_broke_is_written_beside_its_state_and_never_where_the_page_is_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    words = ["soak", "--count", "30", "--seed", "1", "--directory", str(tmp_path), "--keep", str(kept)]
    monkeypatch.setattr(sys, "argv", words)

    def came(**more: Any) -> Callable[..., soak.Soaked]:
        return lambda _home, plan: soak.Soaked(plan.seed, drops=20, wanted=plan.count, **more)

    for more in ({"stopped": "while it waited", "unjudged": 5}, {"broken": ["left: tmp/x"]}):
        monkeypatch.setattr(soak, "soak", came(**more))
        assert soak.main() == 1
        assert not kept.exists()
        (written,) = tmp_path.glob("acceptd-load-*/figures.json")
        assert json.loads(written.read_text())["drops"] == 20
        written.unlink()
    said = capsys.readouterr().err
    assert "20 of 30 drops, 5 not judged" in said
    monkeypatch.setattr(soak, "soak", came())
    assert soak.main() == 0
    assert json.loads(kept.read_text())["drops"] == 20
