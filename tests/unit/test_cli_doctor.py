"""`acceptd doctor`: exit 5 where a required wall does not hold; each fact of the state is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptd.cell.check import Check
from acceptd.cli import doctor as module
from acceptd.cli.sealing import sealing
from acceptd.errors import LedgerError
from acceptd.record.database import FILE_NAME
from acceptd.record.log import Ledger
from acceptd.record.sqlite import SqliteDatabase
from tests.command_world import Commands, alone, ready

pytestmark = pytest.mark.unit
HOLDS = Check("network", "enforced", "a job has no network at all", "", "")
OPEN = Check("landlock", "unavailable", "the kernel refuses", "seen [b]this[/b]", "use a kernel from 5.13 on")
BROKEN = Check("runtime cpu", "failed", "the profile's runtime starts", "no onnxruntime", "install it")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = ready(tmp_path / "state", 'required_walls = ["network"]\n')
    Ledger.open(made).close()
    return made


@pytest.fixture
def doctor(state: Path) -> Commands:
    return Commands(alone(module.doctor), state)


def found(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr("acceptd.cell.doctor.examine", lambda _profiles: list(checks))


@pytest.mark.parametrize(
    ("required", "checks", "code"),
    [
        (["network"], [HOLDS], 0),
        (["network"], [HOLDS, OPEN], 0),
        (["network", "landlock"], [HOLDS, OPEN], 5),
        ([], [HOLDS, BROKEN], 5),
        (["landlock"], [], 0),
    ],
)
def test_what_is_required_and_does_not_hold_ends_it_with_five(
    doctor: Commands,
    state: Path,
    required: list[str],
    checks: list[Check],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready(state, f"required_walls = {json.dumps(required)}\n")
    found(monkeypatch, *checks)
    told = doctor.run("--json")
    assert (told.code, told.json["required"]) == (code, sorted(required))
    assert [one["name"] for one in told.json["checks"]] == [one.name for one in checks]
    said = doctor.run()
    assert said.code == code
    for one in checks:
        [row] = [text for text in said.out.splitlines() if f" {one.name} " in text and one.meaning in text]
        needed = one.name in required or one is BROKEN
        assert row.split()[0] == ("ok" if one is HOLDS else "!!" if needed else "--")
        if one is not HOLDS:
            word = "required by policy p" if needed else "not required"
            assert f"{one.name} ({word}): {one.remedy}" in said.out
            assert one.seen in said.out, "no markup is read in what was seen"


def test_the_facts_of_a_whole_state_are_told_with_units(
    doctor: Commands, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, HOLDS)
    facts = json.loads(doctor("--json"))["host"]
    assert facts["state"] == str(state)
    assert facts["layout"] == "whole"
    assert facts["ledger"].startswith("unanchored: name a place outside the state")
    assert str(state / FILE_NAME) in facts["record"]
    assert "never" in facts["retention"] or " d" in facts["retention"]
    assert int(facts["free_bytes"]) > 0
    shown = doctor()
    assert facts["free_bytes"] not in shown, "people read it in a larger unit"
    assert "unanchored" in shown


def test_a_state_that_is_not_there_is_said_and_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, HOLDS)
    nowhere = tmp_path / "nowhere"
    told = Commands(alone(module.doctor), nowhere).run("--json", "--policy", "default")
    assert (told.code, told.json["host"]["state"]) == (0, f"{nowhere} does not exist (acceptd init)")


def test_an_anchor_is_asked_and_what_it_keeps_is_told(state: Path, tmp_path: Path) -> None:
    place = tmp_path / "anchor"
    ready(state, settings=f'[checkpoint]\nanchor = "{place}"\n')
    assert "unanchored: " in module._standing(state)
    assert "No such file" in module._standing(state)
    place.mkdir(mode=0o700)
    assert module._standing(state) == f"anchored in {place}: it keeps no checkpoint yet"
    with sealing(state) as ledger:
        ledger.append("note", {"number": 1})
    assert module._standing(state) == f"anchored in {place} at 2 entries"


def test_what_cannot_be_opened_is_a_fact_and_no_end_of_the_examination(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state / FILE_NAME).write_bytes(b"no database" * 100)
    facts = module._installation(state)
    assert facts["keys"].startswith("not known: ")
    assert FILE_NAME in facts["record"]
    (state / "quarantine").rmdir()
    assert module._installation(state)["layout"] == f"{state / 'quarantine'} is missing (acceptd init)"


def test_an_object_store_is_tried_and_what_is_wrong_with_it_is_told(state: Path, tmp_path: Path) -> None:
    place = tmp_path / "objects"
    ready(state, settings=f'[objects]\nurl = "file://{place}"\n')
    place.write_text("")
    assert module._installation(state)["objects"].startswith("not usable: ")
    place.unlink()
    place.mkdir(mode=0o700)
    said = module._installation(state)["objects"]
    assert str(place) in said
    assert "in clear" not in said


def test_a_record_that_makes_its_promises_weaker_says_so(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteDatabase, "doubts", lambda _self: ["fsync is off"])
    assert module._record(state) == f"{state / FILE_NAME}; fsync is off"

    def broken(_self: object) -> list[str]:
        raise LedgerError("the disk is gone")

    monkeypatch.setattr(SqliteDatabase, "doubts", broken)
    assert module._record(state) == "the disk is gone"
