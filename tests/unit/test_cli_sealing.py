"""What a command records is sealed before it ends."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from acceptd.cli.sealing import sealing
from acceptd.errors import LedgerError, ReleaseError
from acceptd.record import checkpoint
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import create_keys, load_keyring
from acceptd.record.log import Ledger

pytestmark = pytest.mark.unit
REJECTION = {"decision": "reject", "verdict_seq": 0, "nonce": "0" * 32, "reviewer": "ada"}


def put(state: Path, count: int) -> None:
    with sealing(state) as ledger:
        for number in range(count):
            ledger.append("note", {"number": number})


def test_a_rejection_cannot_be_cut_off_again_before_the_daemon_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_keys(tmp_path)
    Ledger.open(tmp_path).close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with sealing(tmp_path):
        pass
    assert checkpoint.sizes(tmp_path) == [], "nothing was recorded"
    with contextlib.suppress(ReleaseError), sealing(tmp_path) as ledger:
        ledger.append("decision", REJECTION, submission="s-1")
        raise ReleaseError("what came afterwards failed")
    last = checkpoint.latest(tmp_path, load_keyring(tmp_path))
    assert last is not None
    assert last.size == 2
    (tmp_path / FILE_NAME).write_bytes(before)
    with pytest.raises(LedgerError, match="does not extend its checkpoint"):
        put(tmp_path, 2)
    assert capsys.readouterr().err == ""
    (tmp_path / "keys" / "ledger.pem").unlink()
    put(tmp_path, 1)
    assert "not sealed yet" in capsys.readouterr().err
