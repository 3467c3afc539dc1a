"""kill -9 while a report is written: the team finds the whole report of the next daemon, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acceptd.record import failpoint
from acceptd.report.outbox import write_outbox
from tests.report_world import report

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("place", ["files.created", "files.written", "files.synchronised", "files.renamed"])
@pytest.mark.parametrize("file", [1, 2])
def test_a_team_finds_nothing_that_a_killed_daemon_left_beside_its_report(
    place: str, file: int, tmp_path: Path
) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            failpoint._passed.clear()
            os.environ[failpoint.VARIABLE] = f"{place}@{file}"
            write_outbox(tmp_path, "mosaic", "s-1", report(), {"signed": True})
        finally:
            os._exit(70)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == 9
    folder = write_outbox(tmp_path, "mosaic", "s-1", report(), {"signed": True})
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "statement.json", "verdict.json"]
