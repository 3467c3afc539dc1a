"""The same bundles give the same verdicts and findings wherever the record lies and whoever examines them."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet import embedded, promises
from tests.fleet.mixed import SHARES, Piece, mixed
from tests.fleet.postgres import Server
from tests.fleet.recorded import Book, differences
from tests.fleet.soak import soak

COUNT, SEED = 18, 1
"""A sample of every family; `make soak-fleet` has 500."""


@dataclass(frozen=True)
class Baseline:
    """What one embedded daemon with its record in a file says of the bundles."""

    template: Path
    policies: Path
    pieces: list[Piece]
    book: Book


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    home = tmp_path_factory.mktemp("baseline")
    pieces = mixed(COUNT, SEED, heavy=False)
    template, policies = embedded.initialise(home / "template"), embedded.rules(home / "policies")
    book = embedded.run(home / "file", template, policies, pieces)
    judged = collections.Counter(one.verdict for one in book.verdicts)
    assert sum(judged.values()) == COUNT
    assert judged.keys() >= {"accepted", "rejected", "held"}
    return Baseline(template, policies, pieces, book)


def test_a_record_on_postgresql_says_what_one_in_a_file_says(
    baseline: Baseline, postgres: Server, pg_url: str, tmp_path: Path
) -> None:
    book = embedded.run(tmp_path, baseline.template, baseline.policies, baseline.pieces, record=pg_url)
    assert differences(baseline.book, book) == []
    assert promises.verified(tmp_path / "state") == []


def test_a_fleet_says_what_an_embedded_daemon_says(tmp_path: Path) -> None:
    """One intake, two workers, one promoter; each with its own key, login and state; objects in S3."""
    found = soak(tmp_path, mixed(COUNT, SEED, heavy=False), SEED, workers=2)
    assert found.different == []
    assert found.broken == []
    assert found.verdicts.keys() == {"accepted", "rejected", "held"}
    assert found.families.keys() == SHARES.keys()
    assert len(found.examined_by) == 2, "both workers take part"
