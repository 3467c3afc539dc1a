"""A command for which the machine has too little says that, and asks nobody to report a fault of acceptd."""

from __future__ import annotations

import pytest

from acceptd.cli import main

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "said", "remedy"),
    [
        (MemoryError(), "acceptd: out of memory", "MemoryMax"),
        (RuntimeError("can't start new thread"), "acceptd: no thread could be started", "TasksMax"),
        (RuntimeError("another"), "acceptd: internal error: RuntimeError: another", "report it"),
    ],
)
def test_what_ran_out_is_named_with_a_remedy(
    error: Exception, said: str, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starved() -> None:
        raise error

    monkeypatch.setattr(main, "_choose", starved)
    monkeypatch.delenv("ACCEPTD_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == said
    assert remedy in lines[1]
