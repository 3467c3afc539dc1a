"""Evaluations of held-out vectors are counted before they start, for good, and each submission once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acceptd.errors import LedgerError
from acceptd.record import evaluations
from acceptd.record.log import Ledger
from tests import heldout_world as own

pytestmark = pytest.mark.unit
DIGEST = "9" * 64
KILLED = """
from pathlib import Path
from acceptd.record import evaluations
from acceptd.record.log import Ledger
from tests import heldout_world as own
with Ledger.open(Path({state!r})) as ledger:
    evaluations.spend(ledger, "s-1", own.contract(), "9" * 64, most=5)
print("lived")
"""


def spend(ledger: Ledger, submission: str, *, version: int = 1, most: int = 3) -> int:
    return evaluations.spend(ledger, submission, own.contract(version=version), DIGEST, most=most)


def test_numbers_rise_until_none_is_left(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        assert [spend(ledger, f"s-{number}") for number in range(5)] == [1, 2, 3, 0, 0]
        assert evaluations.spent(ledger, own.contract()) == 3
        assert spend(ledger, "s-9", most=4) == 4  # the operator allows one more
        assert [entry.body["number"] for entry in ledger.entries(kind="heldout")] == [1, 2, 3, 4]


def test_a_new_version_of_the_contract_begins_anew_and_takes_nothing_from_the_old(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        assert [spend(ledger, f"a-{number}", version=1) for number in range(4)] == [1, 2, 3, 0]
        assert [spend(ledger, f"b-{number}", version=10) for number in range(2)] == [1, 2]
        assert spend(ledger, "c", version=1) == 0
        assert evaluations.spent(ledger, own.contract(version=10)) == 2


def test_a_submission_that_is_taken_up_again_is_not_counted_twice(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        assert [spend(ledger, "s-1"), spend(ledger, "s-2"), spend(ledger, "s-1")] == [1, 2, 1]
    with Ledger.open(tmp_path) as ledger:
        assert spend(ledger, "s-1", most=0) == 1  # it was allowed when it was counted
        assert evaluations.spent(ledger, own.contract()) == 2


def test_a_kill_right_after_counting_leaves_it_counted(tmp_path: Path) -> None:
    Ledger.open(tmp_path).close()
    environment = {**os.environ, "ACCEPTD_FAILPOINT": "record.heldout.spent"}
    command = [sys.executable, "-c", KILLED.format(state=str(tmp_path))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-9, ""), done.stderr
    with Ledger.open(tmp_path) as ledger:
        assert evaluations.spent(ledger, own.contract()) == 1
        assert spend(ledger, "s-2") == 2


def test_submissions_side_by_side_never_share_a_number_or_pass_the_bound(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger, ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda number: spend(ledger, f"s-{number}", most=5), range(16)))
    assert sorted(numbers) == [0] * 11 + [1, 2, 3, 4, 5]


def test_an_entry_says_that_and_not_what_came_of_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        spend(ledger, "s-1")
        (entry,) = ledger.entries(kind="heldout")
        assert entry.submission == "s-1"
        assert entry.body == {
            "model": "mosaic/evidence-disposition",
            "contract_version": 1,
            "contract_digest": DIGEST,
            "number": 1,
        }
        with pytest.raises(LedgerError):
            ledger.append("heldout", {**entry.body, "number": 2})  # of no submission
        with pytest.raises(LedgerError):
            ledger.append("heldout", {**entry.body, "number": 0}, submission="s-2")
        with pytest.raises(LedgerError):
            ledger.append("heldout", entry.body, submission="s-2")  # the number is taken
