"""Every bundle of the catalogue, through the real rooms and one warm cell: never accepted, the fault named."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd import local
from acceptd.config import CHECKOUT
from acceptd.rules import load_rules
from examples import evidence_classifier as classifier
from examples.hostile_bundles import CATALOGUE, Hostile
from tests.bench_world import TIGHT
from tests.world import codes

pytestmark = pytest.mark.hostile


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Bench]:
    # The acceptor's own statement about the model: only against it do the drifted bundles show.
    policies = tmp_path_factory.mktemp("policies")
    shutil.copytree(CHECKOUT / "policies", policies, dirs_exist_ok=True)
    contract = policies / "contracts" / "mosaic" / "evidence-disposition.toml"
    shutil.copyfile(contract.with_name(contract.name + ".example"), contract)
    rules = load_rules(policies, "default", list(TIGHT))
    with local.bench(rules, cores=2, suite=True) as made:
        yield made


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_never_accepted_and_the_fault_is_named(entry: Hostile, bench: local.Bench, tmp_path: Path) -> None:
    made = entry.write(tmp_path / entry.name)
    team = "mosaic" if entry.inbox else local.ANY_TEAM
    report = local.check_one(bench, made, team=team)
    assert report["verdict"] in entry.verdicts, (report["verdict"], report["findings"])
    assert codes(report, "reject", "hold") & set(entry.codes), report["findings"]
    assert all(one["where"] for one in report["findings"] if one["severity"] in {"reject", "hold"})


def test_positive_control_the_honest_bundle_is_accepted_afterwards(bench: local.Bench, tmp_path: Path) -> None:
    report = local.check_one(bench, classifier.write_bundle(tmp_path / "good"))
    assert report["verdict"] == "accepted", report["findings"]
    assert not codes(report, "reject", "hold")


@pytest.mark.parametrize("team", ["local", "other"])
def test_no_inbox_may_name_another_teams_model_whatever_it_is_called(
    team: str, bench: local.Bench, tmp_path: Path
) -> None:
    """A team could be called as a local check calls its own."""
    report = local.check_one(bench, classifier.write_bundle(tmp_path / "good"), team=team)
    assert report["verdict"] == "rejected"
    assert codes(report, "reject", "hold") == {"manifest/team-mismatch"}
