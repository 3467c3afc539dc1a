"""`acceptd policy heldout`: what is kept is shown with what is wrong with it, and never what is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptd.cli.heldout import app
from acceptd.contracts.propose import text_of
from acceptd.heldout import place
from acceptd.policy.contract import Contract
from acceptd.policy.load import load_contract
from acceptd.record import evaluations
from acceptd.record.log import Ledger
from tests.command_world import Commands, ready
from tests.contract_world import an_instance
from tests.unit.test_heldout_place import MODEL, flip, naming, sets

pytestmark = pytest.mark.unit


@pytest.fixture
def heldout(tmp_path: Path) -> Commands:
    Ledger.open(ready(tmp_path / "state")).close()
    return Commands(app, tmp_path / "state")


def agreed(heldout: Commands, home: Path) -> Path:
    """Keep two sets and agree on them; return where they are kept."""
    assert heldout.state is not None
    kept = place.add(heldout.state / "heldout", MODEL, sets(home / "mine"))
    file = heldout.state / "policies" / "contracts" / f"{MODEL}.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text_of(naming(kept), ["by hand"]))
    return kept.place


def test_what_is_added_is_told_as_the_lines_that_a_contract_needs(heldout: Commands, tmp_path: Path) -> None:
    mine = sets(tmp_path / "mine")
    told = json.loads(heldout("add", MODEL, mine, "--json"))
    assert (told["sets"], told["files"], len(told["sha256"])) == (["zebra_0", "zebra_1"], 4, 64)
    lines = heldout("add", MODEL, mine).splitlines()
    assert lines[2:4] == ["[[models.heldout]]", 'sets = ["zebra_0", "zebra_1"]']
    assert lines[0].startswith("# 2 sets, 4 files, ")
    assert (mine / "zebra_0" / "input_0.pb").exists(), "the originals stay"
    said = heldout.run("add", MODEL, tmp_path / "nowhere")
    assert (said.code, said.error) == (2, f"the directory {tmp_path / 'nowhere'} does not exist")


def test_a_model_without_sets_or_without_a_contract_that_names_them_is_told_so(
    heldout: Commands, tmp_path: Path
) -> None:
    assert heldout("show", MODEL).strip() == "contract  names no held-out sets, or there is none"
    heldout("add", MODEL, sets(tmp_path / "mine"))
    kept, contract = heldout("show", MODEL).splitlines()
    assert (kept.split()[0], contract) == ("kept", "contract  names no held-out sets, or there is none")
    said = heldout.run("show", "nobody")
    assert (said.code, said.remedy) == (2, "give <team>/<model>, as the contract's id")


def test_the_sets_of_a_contract_are_looked_at_and_its_evaluations_counted(
    heldout: Commands, tmp_path: Path
) -> None:
    assert heldout.state is not None
    home = agreed(heldout, tmp_path)
    with Ledger.open(heldout.state) as ledger:
        evaluations.spend(ledger, "s-1", naming_of(heldout), "9" * 64, most=5)
    shown = heldout("show", MODEL)
    assert f"kept      {home.name}" in shown
    assert "contract  version 1: 1 evaluation spent" in shown
    assert shown.splitlines()[-1] == "sets      zebra_0, zebra_1"
    flip(home / "zebra_0" / "output_0.pb")
    told = json.loads(heldout("show", MODEL, "--json"))
    assert told["contract"]["sets"] == []
    assert "is not what its digest says" in told["contract"]["problem"]
    shown = heldout("show", MODEL)
    assert "is not what its digest says" in shown
    assert "expected of" not in shown
    assert list((heldout.state / "tmp").iterdir()) == [], "no copy of what is secret is left"


@pytest.mark.parametrize("file", ["edited", "none"])
def test_the_sets_and_the_count_are_those_of_the_contract_in_force_whatever_its_file_says(
    tmp_path: Path, file: str
) -> None:
    instance = an_instance(tmp_path / "state")
    run = Commands(app, ready(instance.home))
    kept = place.add(instance.home / "heldout", MODEL, sets(tmp_path / "mine"))
    signed = naming(kept, "zebra_1")
    instance.install(instance.signed(signed))
    evaluations.spend(instance.ledger, "s-1", signed, "9" * 64, most=5)
    if file == "edited":
        instance.write(naming(kept).model_copy(update={"version": 2}))
    told = json.loads(run("show", MODEL, "--json"))["contract"]
    assert (told["version"], told["spent"], told["sets"]) == (1, 1, ["zebra_1"])
    assert "contract  version 1: 1 evaluation spent" in run("show", MODEL)
    instance.ledger.close()


def naming_of(heldout: Commands) -> Contract:
    assert heldout.state is not None
    found = load_contract(heldout.state / "policies" / "contracts", MODEL)
    assert found is not None
    return found
