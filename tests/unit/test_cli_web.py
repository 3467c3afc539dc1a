"""``acceptd web`` without its extra, and on what is no state: one line with the remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from acceptd.cli.web import web
from acceptd.config import Paths
from acceptd.errors import StateError, UsageError

pytestmark = pytest.mark.unit


def start(state: Path) -> None:
    web(host="127.0.0.1", port=0, unix=None, origin="", beyond_loopback=False, state=state)


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for path, mode in Paths(tmp_path).directories():
        path.mkdir(mode=mode, exist_ok=True)
    for name in [name for name in sys.modules if name.startswith(("acceptd.web", "starlette", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="which is not installed") as caught:
        start(tmp_path)
    assert "acceptd[web]" in caught.value.remedy


def test_a_part_of_acceptd_that_is_missing_is_no_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, mode in Paths(tmp_path).directories():
        path.mkdir(mode=mode, exist_ok=True)
    monkeypatch.setitem(sys.modules, "acceptd.web.serve", None)  # type: ignore[arg-type]
    monkeypatch.delattr("acceptd.web.serve", raising=False)
    with pytest.raises(ImportError) as caught:
        start(tmp_path)
    assert not isinstance(caught.value, UsageError)


def test_on_what_is_no_state_it_says_so_first(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="does not exist"):
        start(tmp_path / "nothing")
