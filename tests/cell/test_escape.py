"""Attacks from inside a job, each with a positive control that shows the same probe succeeding outside.

The probes are data (``acceptd/cell/probes.py``, ``probes_calls.py``), shared with ``acceptd selftest``. The
control runs the very same source in an ordinary process without walls and must see ``escaped``
(a raw call: any errno but EPERM); inside the cell the job must see an errno, or die of SIGSYS, or meet a limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import acceptd
from acceptd import selftest
from acceptd.cell import escape
from acceptd.cell.client import Cell
from acceptd.cell.probes import GROUPS
from tests.cell.conftest import Attack, whole_interpreter

pytestmark = pytest.mark.cell
NAMES = sorted(escape.BY_NAME)
OPENS_A_FILE = [name for name in NAMES if "spec[" in escape.BY_NAME[name].source]


def outside(name: str, sealed: Path, scratch: Path) -> str:
    """Run a probe without walls, in a throw-away process on files of its own; return what it noted."""
    places = escape.places_outside(sealed, scratch)
    imports = [f"import {module}" for module in escape.MODULES.split()]
    whole = [*imports, "note = lambda **facts: print(facts)", escape.program(escape.BY_NAME[name].source, places)]
    done = subprocess.run([sys.executable, "-c", "\n".join(whole)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr[-2000:] * (done.returncode != 0)


@pytest.fixture
def victim() -> Iterator[Path]:
    """Files that a control may spoil."""
    with tempfile.TemporaryDirectory(prefix="acceptd-cell-", dir="/var/tmp") as name:
        escape.lay_out(Path(name))
        yield Path(name)


@pytest.fixture(scope="module")
def selftested(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `acceptd selftest --json` says; where its comparer cannot start, its escapes alone."""
    if whole_interpreter.args[0]:
        return {"rows": [asdict(row) for row in selftest._escapes()]}
    # From another directory, with neither tests/ nor examples/ on the path and onnx never imported here.
    code = (
        "import sys; from acceptd.cli.main import main; sys.argv = ['acceptd', 'selftest', '--json']\n"
        "try: main()\n"
        "finally: assert not {'onnx', 'onnxruntime', 'pytest', 'examples'} & set(sys.modules)"
    )
    search = os.pathsep.join(
        [str(Path(acceptd.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    body: dict[str, Any] = json.loads(done.stdout)
    return body | {"exit": done.returncode, "said": done.stderr[-500:]}


@pytest.fixture(scope="module")
def inside(selftested: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What every probe got under all walls, files named as they are inside, in `acceptd selftest`."""
    return {row["probe"]: row for row in selftested["rows"] if row["group"] in GROUPS}


@pytest.fixture(scope="module")
def inside_by_outer_names(cell: Cell, sealed: Path) -> dict[str, escape.Got]:
    """The same for probes that name files, by the names that the host has for them."""
    places = escape.places_outside(sealed, sealed)
    probes = [escape.BY_NAME[name] for name in OPENS_A_FILE]
    return {got.probe.name: got for got in escape.run_all(cell, probes, places)}


def test_there_are_enough_distinct_probes_of_every_group() -> None:
    counts = Counter(probe.group for probe in escape.PROBES)
    assert len(escape.PROBES) == len(escape.BY_NAME) == len({probe.source for probe in escape.PROBES}) >= 60
    assert set(counts) == set(GROUPS)
    assert min(counts.values()) >= 4, counts


@pytest.mark.parametrize("name", NAMES)
def test_positive_control_the_attack_works_outside(name: str, victim: Path, tmp_path: Path) -> None:
    said = outside(name, victim, tmp_path)
    if escape.BY_NAME[name].needs_root and os.getuid() != 0:
        assert "'why': 'EPERM'" in said, said  # the kernel says so to an ordinary user, with or without us
    else:
        assert "'escaped': True" in said, said


@pytest.mark.parametrize("name", NAMES)
def test_the_attack_fails_inside(name: str, inside: dict[str, dict[str, Any]]) -> None:
    assert inside[name]["held"], inside[name]


def test_the_selftest_tries_every_probe_once_and_a_control(selftested: dict[str, Any]) -> None:
    rows = [row for row in selftested["rows"] if row["group"] != "hostile models"]
    assert sorted(row["probe"] for row in rows) == sorted([selftest.CONTROL, *NAMES])
    assert not [row for row in rows if not row["held"]]


@whole_interpreter
def test_the_whole_selftest_holds_on_this_host_without_the_checkout(selftested: dict[str, Any]) -> None:
    assert not [row for row in selftested["rows"] if not row["held"]], selftested["said"]
    assert selftested["exit"] == 0, selftested["said"]
    assert selftested["probes"] == len(selftested["rows"]) == selftest.TOTAL
    assert selftested["seconds"] < 120


@pytest.mark.parametrize("name", OPENS_A_FILE)
def test_the_attack_fails_inside_by_outer_names(name: str, inside_by_outer_names: dict[str, escape.Got]) -> None:
    assert inside_by_outer_names[name].held, inside_by_outer_names[name]


def test_a_probe_that_is_wrong_in_itself_does_not_count_as_refused(cell: Cell) -> None:
    broken = escape.Probe("broken", "files", "escaped = bool(no_such_name)")
    assert not escape.run_probe(cell, broken, escape.PLACES_INSIDE).held
    idle = escape.Probe("idle", "files", "pass")
    assert not escape.run_probe(cell, idle, escape.PLACES_INSIDE).held


def test_clone3_falls_back_and_threads_still_start(attack: Attack) -> None:
    record = attack("t = threading.Thread(target=lambda: note(thread=True)); t.start(); t.join()")
    assert record.ending == "done"
    assert record.notes[0].facts == {"thread": True}


def test_no_capability_is_left_and_no_network_device_is_up(attack: Attack) -> None:
    source = """
        libc = ctypes.CDLL(None, use_errno=True)
        note(caps=[libc.prctl(23, c, 0, 0, 0) for c in range(8)], uid=os.getuid(), pid=os.getpid())
    """
    record = attack(textwrap.dedent(source), walls_off=["seccomp"])
    facts = record.notes[0].facts
    assert facts["caps"] == [0] * 8  # PR_CAPBSET_READ: dropped from the bounding set
    assert facts["pid"] == 2


def test_positive_control_the_named_file_can_be_read(attack: Attack) -> None:
    record = attack("note(text=open('/m/model.onnx').read(), names=os.listdir('/m'))")
    assert record.notes[0].facts == {"text": "my model", "names": ["model.onnx"]}
    assert record.ending == "done"


def test_nothing_but_its_own_descriptors_is_open(attack: Attack) -> None:
    source = """
        open_ones = []
        for number in range(0, 64):
            try:
                os.fstat(number); open_ones.append(number)
            except OSError:
                pass
        note(open=open_ones)
    """
    assert attack(textwrap.dedent(source)).notes[0].facts == {"open": [0, 1, 2, 3]}
