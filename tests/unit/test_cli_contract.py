"""`acceptd contract` on a state: shown is what people signed, and nothing else can be recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cli.contract import app
from acceptd.policy.contract import Contract
from tests.command_world import Commands, ready
from tests.contract_world import (
    ADA,
    BEN,
    MODEL,
    Document,
    Instance,
    a_contract,
    an_instance,
    looser,
    person,
    tighter,
)
from tests.release_world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Instance]:
    made = an_instance(tmp_path / "state")
    ready(made.home)
    yield made
    made.ledger.close()


@pytest.fixture
def contract(place: Instance) -> Commands:
    return Commands(app, place.home)


def a_file(place: Instance, what: Contract, name: str = "own.toml") -> Path:
    return place.write(what, place.home.parent / name)


def envelope(place: Instance, what: Contract, *people: object, name: str = "signed.json") -> Path:
    path = place.home.parent / name
    path.write_text(json.dumps(place.signed(what, *people)))  # type: ignore[arg-type] # people
    return path


def test_what_is_signed_is_shown_with_its_signers_and_each_value_with_its_source(
    place: Instance, contract: Commands
) -> None:
    place.defaults("teams/mosaic", "[ceilings]\np50_ms = 7.0")

    def bare(document: Document) -> None:
        del document["max_rtol"]
        document["models"][0]["outputs"][0]["tolerance"] = {"rtol": 0.0001, "atol": 1e-6}

    entered = place.install(place.signed(a_contract(change=bare), ADA, BEN))
    place.write(a_contract(change=bare))
    facts = json.loads(contract("show", MODEL, "--json"))
    values = {one["key"]: one for one in facts["values"]}
    assert (facts["status"], facts["version"], facts["entry"]) == ("signed", 1, entered.seq)
    assert facts["signers"] == ["ada (security)", "ben (safety)"]
    assert facts["digest"] == place.ledger.entry(entered.seq).body["digest"]
    assert values["ceilings.load_ms"] == {"key": "ceilings.load_ms", "value": "1000.0", "from": "the contract"}
    assert (values["ceilings.p50_ms"]["value"], values["ceilings.p50_ms"]["from"]) == ("7.0", "team mosaic")
    tolerance = values["models[0].outputs[0].tolerance"]
    assert ("rtol 0.0001" in tolerance["value"], tolerance["from"]) == (True, "the contract")
    shown = contract("show", MODEL)
    assert "ada (security), ben (safety)" in shown
    assert "ceilings" not in shown
    table = contract("show", MODEL, "--effective")
    assert next(line for line in table.splitlines() if line.startswith("ceilings.load_ms")).endswith(
        "the contract"
    )


def test_a_tolerance_that_nobody_agreed_is_shown_as_the_policys(place: Instance, contract: Commands) -> None:
    place.write(a_contract())
    facts = json.loads(contract("show", MODEL, "--json"))
    assert (facts["status"], facts["signers"], facts["entry"]) == ("unsigned", [], None)
    assert [one["from"] for one in facts["values"] if one["key"].endswith("tolerance")] == ["policy p"]


def test_the_text_of_a_version_is_its_authors_and_makes_the_same_version_again(
    place: Instance, contract: Commands
) -> None:
    for number, change in ((1, None), (2, looser)):
        place.install(place.signed(a_contract(number, change)))
    text = contract("show", MODEL, "--version", "1", "--toml")
    assert f"The contract of {MODEL}, version 1" in text.splitlines()[0]
    again = place.home.parent / "again.toml"
    again.write_text(text)
    assert contract("diff", f"{MODEL}@1", str(again)).strip() == "no difference"
    assert "version = 2" in contract("show", MODEL, "--toml")
    assert json.loads(contract("show", MODEL, "--version", "1", "--json"))["version"] == 1


def test_an_older_version_is_shown_with_who_signed_it_and_not_with_todays_signers(
    place: Instance, contract: Commands
) -> None:
    first = place.install(place.signed(a_contract(1), ADA))
    second = place.install(place.signed(a_contract(2, looser), BEN))
    shown = [json.loads(contract("show", MODEL, "--version", number, "--json")) for number in ("1", "2")]
    assert [(one["version"], one["status"], one["entry"], one["signers"], one["file"] != "") for one in shown] == [
        (1, "superseded", first.seq, ["ada (security)"], False),
        (2, "signed", second.seq, ["ben (safety)"], True),
    ]
    assert [one["digest"] for one in shown] == [entry.body["digest"] for entry in place.register.entries(MODEL)]
    assert {one["value"] for one in shown[0]["values"] if one["key"] == "ceilings.load_ms"} == {"1000.0"}


def test_a_version_whose_signer_was_struck_off_is_shown_as_such_and_names_nobody(
    place: Instance, contract: Commands
) -> None:
    place.install(place.signed(a_contract(1), BEN))
    place.install(place.signed(a_contract(2, looser), ADA))
    file = place.home / "policies" / "reviewers.toml"
    file.write_text(file.read_text().replace(BEN[1].key, person("new")[1].key))
    old = json.loads(contract("show", MODEL, "--version", "1", "--json"))
    assert (old["status"], old["signers"]) == ("unverified", [])
    [finding] = [one for one in old["findings"] if "contract/unverified" in one]
    assert "version 1 on record: " in finding
    assert json.loads(contract("show", MODEL, "--json"))["status"] == "signed"


REFUSED = [
    (("show", MODEL), f"{MODEL} has no contract", "acceptd contract list"),
    (("show", "nobody"), "model id", "write it as team/name"),
    (("show", MODEL, "--version", "7"), f"{MODEL} has no version '7'", f"see `acceptd contract history {MODEL}`"),
    (("diff", MODEL, f"{MODEL}@1"), f"{MODEL} has no contract", "see `acceptd contract list`"),
    (("diff", f"{MODEL}@1", MODEL), f"{MODEL} has no version '1'", f"see `acceptd contract history {MODEL}`"),
    (("propose",), "give --from-bundle PATH, or --from-release MODEL", "one of the two"),
    (
        ("propose", "--from-bundle", "x", "--from-release", MODEL),
        "give --from-bundle PATH, or --from-release MODEL",
        "one of the two",
    ),
    (("propose", "--from-bundle", "nowhere"), "the bundle nowhere does not exist", "check the path"),
    (
        ("propose", "--from-release", MODEL),
        f"{MODEL} has no release on 'production'",
        "see `acceptd release list`",
    ),
    (
        ("propose", "--from-release", f"{MODEL}@canary"),
        f"{MODEL} has no release on 'canary'",
        "see `acceptd release list`",
    ),
]


@pytest.mark.parametrize(("words", "error", "remedy"), REFUSED)
def test_what_is_not_there_is_told_with_where_to_look(
    contract: Commands, words: tuple[str, ...], error: str, remedy: str
) -> None:
    said = contract.run(*words)
    assert (said.code, said.out, said.remedy) == (2, "", remedy)
    assert error in said.error


def test_nothing_is_proposed_from_a_release_that_is_revoked_or_cannot_be_judged_again(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    run = Commands(app, ready(world.state))
    accepted = world.accepted()
    world.promote(accepted)
    said = run.run("propose", "--from-release", MODEL)
    assert (said.code, said.error) == (2, f"release 1 of {MODEL}: its evidence is no longer kept")
    assert said.remedy == "propose from the bundle: acceptd contract propose --from-bundle PATH"
    world.revoke(accepted.digest)
    said = run.run("propose", "--from-release", f"{MODEL}@production")
    assert (said.code, said.error) == (2, f"release 1 of {MODEL} is revoked: it bites")
    assert said.remedy == "roll back first, or propose from another bundle: --from-bundle PATH"
    world.close()


def test_held_out_sets_and_slices_of_a_contract_are_shown_by_name_and_bounds(
    place: Instance, contract: Commands
) -> None:
    def more(document: Document) -> None:
        document["models"][0]["heldout"] = [{"sets": ["zebra_*"], "sha256": "7" * 64}]

    place.write(a_contract(change=more))
    values = {one["key"]: one["value"] for one in json.loads(contract("show", MODEL, "--json"))["values"]}
    assert "zebra_*" in values["models[0].heldout[0]"]
    assert "7" * 64 in values["models[0].heldout[0]"]


def test_a_contract_whose_signer_was_struck_off_is_not_shown_as_in_force(
    place: Instance, contract: Commands
) -> None:
    place.install(place.signed(a_contract()))
    (place.home / "policies" / "reviewers.toml").write_text("schema = 1\n")
    said = contract.run("show", MODEL)
    assert said.code == 2
    assert said.error.startswith(f"{MODEL} has no contract: ")
    assert "no reviewer's key" in said.error
    [row] = json.loads(contract("list", "--json"))
    assert (row["status"], row["version"], row["signers"]) == ("unverified", None, [])
    assert any("contract/unverified" in one for one in row["findings"])
    [told] = json.loads(contract("history", MODEL, "--json"))
    assert told["signers"] == []
    assert told["problem"].startswith("does not verify: ")
    assert "does not verify" in contract("history", MODEL)


def test_the_list_has_every_model_and_says_which_file_is_refused(place: Instance, contract: Commands) -> None:
    assert contract("list").strip() == "no model has a contract"
    place.install(place.signed(a_contract()))
    place.defaults("teams/mosaic", "")
    other = place.home / "policies" / "contracts" / "argus" / "vision.toml"
    other.parent.mkdir()
    other.write_text("schema = 1\nnonsense = 1\n")
    rows = {one["model"]: one for one in json.loads(contract("list", "--json"))}
    assert sorted(rows) == ["argus/vision", MODEL]
    assert (rows["argus/vision"]["status"], rows["argus/vision"]["version"]) == ("refused", None)
    assert str(other) in rows["argus/vision"]["findings"][0]
    assert (rows[MODEL]["status"], rows[MODEL]["signers"]) == ("signed", ["ada"])
    table = [row.split() for row in contract("list").splitlines()]
    assert [row[:3] for row in table if row[0] in rows] == [
        ["argus/vision", "-", "refused"],
        [MODEL, "1", "signed"],
    ]


def test_the_history_says_of_each_version_what_it_changed_and_why(place: Instance, contract: Commands) -> None:
    assert contract("history", MODEL).strip() == f"no version of the contract of {MODEL} is signed"
    for number, change in ((1, None), (2, looser), (3, tighter), (4, tighter)):
        place.install(place.signed(a_contract(number, change)))
    rows = json.loads(contract("history", MODEL, "--json"))
    assert [(one["version"], one["changes"]) for one in rows] == [
        (4, "none"), (3, "1 tighter"), (2, "1 looser"), (1, "first version"),
    ]  # fmt: skip
    assert {one["reason"] for one in rows} == {"agreed"}
    shown = contract("history", MODEL).splitlines()
    assert [row.split()[0] for row in shown] == ["version", "4", "3", "2", "1"]


@pytest.mark.parametrize(
    ("change", "code", "first"),
    [(None, 0, "no difference"), (looser, 1, "LOOSER "), (tighter, 3, "tighter ")],
)
def test_a_difference_is_told_by_the_exit_code_too(
    place: Instance, contract: Commands, change: object, code: int, first: str
) -> None:
    place.write(a_contract())
    second = a_file(place, a_contract(2, change))  # type: ignore[arg-type] # a change
    said = contract.run("diff", MODEL, str(second))
    assert said.code == code
    assert said.out.startswith(first)
    told = contract.run("diff", MODEL, str(second), "--json")
    assert (told.code, [one["tendency"] for one in told.json["changes"]]) == (
        code, [first.strip().lower()] if code else [],
    )  # fmt: skip


def test_bytes_to_sign_and_what_was_signed_are_compared_as_the_contract_in_them(
    place: Instance, contract: Commands
) -> None:
    place.write(a_contract())
    prepared = place.home.parent / "bytes.json"
    prepared.write_bytes(place.bytes_of(a_contract(2, looser)))
    for file in (prepared, envelope(place, a_contract(2, looser))):
        assert contract.run("diff", MODEL, str(file)).code == 1
    broken = place.home.parent / "broken.json"
    broken.write_text("{ no")
    said = contract.run("diff", MODEL, str(broken))
    assert (said.code, said.error) == (2, f"{broken}: neither a contract nor a prepared or signed one")
    assert said.remedy == "name a contract's TOML, or what `acceptd contract sign` wrote"
