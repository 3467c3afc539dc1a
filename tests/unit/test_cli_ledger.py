"""`acceptd ledger proof` and `ledger show`: an entry by its number, or by the submission whose verdict it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptd.cli.ledger import _number
from acceptd.errors import UsageError
from acceptd.record.log import Ledger

pytestmark = pytest.mark.unit
SUBMISSION = "20261129t230522870-8e139fdf"


def test_an_entry_is_found_by_number_and_by_submission(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.append("note", {}, submission=SUBMISSION)
        body = {"verdict": "held", "judged_at": "2026-11-29T15:17:00Z", "reason": "", "findings": []}
        seq = ledger.append("verdict", body, submission=SUBMISSION).seq
        assert _number(ledger, SUBMISSION) == seq
        assert _number(ledger, str(seq)) == seq
        for wanted in (str(seq + 1), SUBMISSION[:8], "٣", "-1"):
            with pytest.raises(UsageError) as told:
                _number(ledger, wanted)
            assert str(seq) in told.value.remedy
