"""Which contract is in force: what people signed, whatever the file says; and what a contract inherits."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptd.contracts.effective import effective, without_ledger
from acceptd.contracts.force import in_force
from acceptd.errors import ConfigError
from acceptd.policy import load
from acceptd.policy.reviewers import Reviewers
from tests.contract_world import ADA, EVE, MODEL, Instance, a_contract, an_instance, looser, tighter

pytestmark = pytest.mark.unit


@pytest.fixture
def place(tmp_path: Path) -> Instance:
    return an_instance(tmp_path)


def standing(place: Instance) -> tuple[str, str]:
    found = in_force(place.rules, MODEL, place.ledger).standing
    assert found is not None
    return found.status, found.reason


def test_without_file_and_version_there_is_no_contract(place: Instance) -> None:
    found = in_force(place.rules, MODEL, place.ledger)
    assert (found.contract, found.digest, found.standing) == (None, "", None)


def test_a_file_alone_is_unsigned_and_a_local_check_does_not_know(place: Instance) -> None:
    place.write(a_contract())
    found = in_force(place.rules, MODEL, place.ledger)
    assert (found.contract, standing(place)) == (a_contract(), ("unsigned", ""))
    assert found.digest == load.digest(a_contract())
    local = without_ledger(place.rules, MODEL)
    assert local.standing is not None
    assert (local.contract, local.standing.status) == (a_contract(), "unchecked")


def test_the_signed_version_is_in_force_by_its_digest_whether_the_file_is_there_or_not(place: Instance) -> None:
    entered = place.install(place.signed(a_contract()))
    for write in (lambda: None, lambda: place.write(a_contract())):
        write()
        found = in_force(place.rules, MODEL, place.ledger)
        assert standing(place) == ("signed", "")
        assert found.standing is not None
        assert (found.standing.entry, [one.name for one in found.standing.signers]) == (entered.seq, ["ada"])
        assert found.digest == place.ledger.entry(entered.seq).body["digest"]


def test_a_comment_is_no_edit(place: Instance) -> None:
    place.install(place.signed(a_contract()))
    file = place.write(a_contract())
    file.write_text("# looked at on Monday\n" + file.read_text())
    assert standing(place) == ("signed", "")


def test_a_file_edited_by_hand_is_not_in_force_and_is_told(place: Instance) -> None:
    entered = place.install(place.signed(a_contract()))
    place.write(a_contract(2, looser))
    words = f"the file (version 2) is no version that was signed; version 1 is in force (entry {entered.seq})"
    assert standing(place) == ("edited", words)
    assert in_force(place.rules, MODEL, place.ledger).contract == a_contract()


def test_the_file_of_an_old_version_put_back_does_not_roll_back(place: Instance) -> None:
    place.install(place.signed(a_contract()))
    newer = place.install(place.signed(a_contract(2, tighter)))
    place.write(a_contract())
    assert standing(place) == ("edited", f"the file is version 1; version 2 is in force (entry {newer.seq})")
    assert in_force(place.rules, MODEL, place.ledger).contract == a_contract(2, tighter)


def test_a_version_whose_signer_is_nobody_any_more_is_not_trusted_and_not_forgotten(place: Instance) -> None:
    entered = place.install(place.signed(a_contract()))
    (place.rules.directory / "reviewers.toml").write_text("schema = 1\n")
    found = in_force(place.rules, MODEL, place.ledger)
    assert found.contract is None
    assert found.standing is not None
    assert (found.standing.status, found.standing.entry) == ("unverified", entered.seq)
    place.write(a_contract())
    assert standing(place)[0] == "unverified"
    assert place.register.examine() == []
    assert len(Instance(place.home, place.ledger, Reviewers(), place.table).register.examine()) == 1


def test_a_broken_file_is_no_missing_one_even_beside_a_signed_version(place: Instance) -> None:
    place.install(place.signed(a_contract()))
    place.write(a_contract()).chmod(0o666)
    with pytest.raises(ConfigError, match="can be written"):
        in_force(place.rules, MODEL, place.ledger)


def test_whether_a_version_tightens_is_known_again_when_it_is_in_force(place: Instance) -> None:
    place.install(place.signed(a_contract(), ADA))
    place.install(place.signed(a_contract(2, tighter), EVE))
    found = in_force(place.rules, MODEL, place.ledger).standing
    assert found is not None
    assert found.tightens
    place.install(place.signed(a_contract(3, looser), ADA))
    found = in_force(place.rules, MODEL, place.ledger).standing
    assert found is not None
    assert not found.tightens


TEAM = "max_rtol = 0.0005\n[ceilings]\nload_ms = 1\nfirst_run_ms = 70\np95_ms = 60\n"
KIND = "[ceilings]\np95_ms = 50\np99_ms = 90\n[tolerance.probabilities]\nrtol = 0.0\natol = 0.002\n"


def test_own_values_go_before_the_teams_those_before_the_kinds_and_the_source_of_each_is_told(
    place: Instance,
) -> None:
    place.defaults("teams/mosaic", TEAM)
    place.defaults("kinds/probabilities", KIND)
    place.defaults("kinds/audio", "[ceilings]\np50_ms = 1\n")
    place.write(a_contract())
    found = in_force(place.rules, MODEL, place.ledger)
    assert found.contract is not None
    assert found.standing is not None
    ceilings = found.contract.ceilings
    assert (ceilings.load_ms, ceilings.first_run_ms, ceilings.p95_ms, ceilings.p99_ms, ceilings.p50_ms) == (
        1000.0, 70.0, 60.0, 90.0, None,
    )  # fmt: skip
    assert found.contract.max_rtol == 0.001
    assert found.standing.inherited == {
        "ceilings.first_run_ms": "team mosaic",
        "ceilings.p95_ms": "team mosaic",
        "ceilings.p99_ms": "kind probabilities",
        "models[0].outputs[0].tolerance": "kind probabilities",
    }
    assert found.digest == load.digest(found.contract) != load.digest(a_contract())


def test_an_inherited_tolerance_is_never_looser_than_the_policys_caps_and_that_is_told(place: Instance) -> None:
    place.defaults(
        "teams/mosaic",
        "[tolerance.probabilities]\nrtol = 0.5\natol = 0.9\ntop1 = 0.1\nlimits = { max_divergence = 0.9 }\n",
    )
    policy = place.rules.policy
    found = effective(a_contract(), place.rules.directory, policy)
    held = found.whole.models[0].outputs[0].tolerance
    assert held is not None
    parity = policy.parity
    assert (held.rtol, held.atol, held.top1) == (parity.max_rtol, parity.max_atol, parity.min_top1)
    assert held.limits == {"max_divergence": parity.caps.max_divergence}
    assert [one.cut for one in found.values] == [True]


def test_defaults_that_change_change_nothing_that_was_signed_and_are_told(place: Instance) -> None:
    place.defaults("teams/mosaic", TEAM)
    place.install(place.signed(a_contract()))
    before = in_force(place.rules, MODEL, place.ledger)
    place.defaults("teams/mosaic", TEAM.replace("70", "7000"))
    after = in_force(place.rules, MODEL, place.ledger)
    assert (after.contract, after.digest) == (before.contract, before.digest)
    assert before.standing is not None
    assert after.standing is not None
    assert (before.standing.defaults_changed, after.standing.defaults_changed) == (False, True)


@pytest.mark.parametrize(
    ("where", "text", "words"),
    [
        ("teams/mosaic", "ceiling = 1", "ceiling"),
        ("kinds/probabilities", "[tolerance.logits]\nrtol = 0.0\n", "tolerance.logits"),
        ("teams/mosaic", "[tolerance.logits]\nlimits = { min_iou = 0.5 }\n", "min_iou"),
    ],
)
def test_defaults_that_are_no_defaults_are_refused_with_the_place(
    place: Instance, where: str, text: str, words: str
) -> None:
    place.defaults(where, text)
    place.write(a_contract())
    with pytest.raises(ConfigError, match=words):
        in_force(place.rules, MODEL, place.ledger)


def test_defaults_that_others_may_write_are_refused(place: Instance) -> None:
    place.defaults("teams/mosaic", TEAM)
    place.write(a_contract())
    (place.file.parent.parent / "defaults" / "teams").chmod(0o777)
    with pytest.raises(ConfigError, match="can be written"):
        in_force(place.rules, MODEL, place.ledger)
