"""Held-out vectors are lent to the one job that decodes them: no other job finds a byte, looked for from inside.

Each look has a positive control: the same source finds the bytes where they are, so it would find them in the job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from acceptd.cell.blobs import Blob, lent
from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.heldout import place
from acceptd.policy.contract import Contract
from acceptd.policy.policy import LimitsTable, Policy
from examples.bundle_text import write_set
from tests import judge_world as world
from tests.cell.conftest import Attack

pytestmark = pytest.mark.cell
MARK = b"held-out-zebra"
LOOK = """
found, seen = [], 0
for top in spec.get("tops", ["/", MODEL_DIR, *KNOWN]):  # by the names that the host has for them, too
    for folder, folders, names in os.walk(top):
        if folder == "/":  # what every host has, and the interpreter
            folders[:] = set(folders) - {"proc", "sys", "dev", "usr", "lib", "lib64", "root"}
        for name in names:
            path = os.path.join(folder, name)
            try:
                descriptor = os.open(path, os.O_RDONLY)
                seen += 1
                found += [path] if MARK in os.read(descriptor, 1 << 20) else []
                os.close(descriptor)
            except OSError:
                pass
for number in range(64):
    try:
        found += [number] if MARK in os.pread(number, 1 << 20, 0) else []
    except OSError:
        pass
note(found=found, seen=seen)
"""


class Home:
    """A home of held-out vectors beside the sealed area, one version lent."""

    def __init__(self, state: Path) -> None:
        self.path = state / "heldout"
        self.path.mkdir(mode=0o700)
        values = np.array([MARK.decode()], dtype=object)
        write_set(state / "mine" / "set_0", [("features", values)], [("probabilities", values)])
        kept = place.add(self.path, "mosaic/evidence-disposition", state / "mine")
        self.blob = Blob(state)
        self.packed = place.pack(self.path, naming(kept), self.blob)


def naming(kept: place.Kept) -> Contract:
    document = world.contract_document()
    document["models"][0]["heldout"] = [{"sets": ["set_*"], "sha256": kept.digest}]
    return Contract.model_validate(document)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("state"))
    yield made
    made.blob.close()


def look(home: Home, attack: Attack, **more: object) -> dict[str, object]:
    record = attack(f"MARK = {MARK!r}\nKNOWN = {[str(home.path), str(home.path.parent)]}\n{LOOK}", **more)
    assert record.ending == "done", record
    (note,) = record.notes
    return dict(note.facts)


def test_control_the_look_finds_them_outside(home: Home) -> None:
    known = (
        f"import os, json\nMODEL_DIR, KNOWN, MARK = '', [], {MARK!r}\nspec = {{'tops': [{str(home.path)!r}]}}\n"
    )
    source = f"{known}note = lambda **facts: print(json.dumps(facts))\n{LOOK}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["found"]) == 2


def test_control_the_look_finds_them_in_a_job_that_they_are_lent_to(home: Home, attack: Attack) -> None:
    with lent({"files": home.blob.reader()}) as blobs:
        assert look(home, attack, blobs=blobs)["found"] == [4]


def test_no_other_job_finds_them_while_they_are_lent(home: Home, attack: Attack) -> None:
    with lent({"files": home.blob.reader()}):
        found = look(home, attack)
    assert found["found"] == []
    assert found["seen"] == 1  # its own model


def test_they_are_not_even_where_a_job_starts_from(home: Home, attack: Attack) -> None:
    """Without its private root and Landlock a job sees the cell's outer root: sealed bundles, nothing held out."""
    found = look(home, attack, walls_off=("root", "landlock"))
    assert found["found"] == []
    assert isinstance(found["seen"], int)
    assert found["seen"] > 1  # it did look at more than its own model


def decode(cell: Cell, home: Home, **changes: object) -> list[str]:
    limits = job_limits("vectors", LimitsTable())
    inputs, expected = Blob(home.path.parent), Blob(home.path.parent)
    spec = {
        "sets": [one.spec() for one in home.packed.sets],
        "types": {},
        "data_json": None,
        "lent": {path: list(span) for path, span in home.packed.index.items()},
    } | changes
    given = {"files": home.blob.reader(), "inputs": inputs.writer(), "expected": expected.writer()}
    try:
        with lent(given) as blobs:
            record = cell.run(
                "vectors", files={}, spec=spec, limits=limits, required_walls=Policy().required_walls, blobs=blobs
            )
        assert record.ending == "done", record
        assert record.vectors is not None
        with lent({"out": expected.reader()}) as read:
            assert not record.vectors.sets or MARK in os.pread(read["out"], 1 << 16, 0)
        return [one.name for one in record.vectors.sets] + [one.code for one in record.vectors.problems]
    finally:
        inputs.close()
        expected.close()


def test_the_job_that_decodes_them_is_given_no_file_at_all(home: Home, cell: Cell) -> None:
    assert decode(cell, home) == ["heldout-0"]


def test_a_span_beyond_what_was_lent_is_left_out_and_told(home: Home, cell: Cell) -> None:
    beyond = {path: [offset, size + (1 << 30)] for path, (offset, size) in home.packed.index.items()}
    assert decode(cell, home, lent=beyond) == ["vectors/undecodable"]
    assert decode(cell, home, lent={}) == ["vectors/undecodable"]


def test_nothing_is_left_behind_for_the_next_job(home: Home, cell: Cell, attack: Attack) -> None:
    decode(cell, home)
    assert look(home, attack)["found"] == []
