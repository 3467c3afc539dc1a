"""The bytes of a held bundle are never thrown away for want of a place to keep them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.steps.finishing import Finishing

pytestmark = pytest.mark.unit


def cleaned(tmp_path: Path, verdict: str) -> None:
    (tmp_path / "sealed" / "s-1" / "bundle").mkdir(parents=True, exist_ok=True)
    paths = SimpleNamespace(sealed=tmp_path / "sealed", quarantine=tmp_path / "quarantine")
    row = SimpleNamespace(id="s-1", data={"verdict": verdict})
    Finishing.put_away(cast("Any", SimpleNamespace(paths=paths, keep_held=True)), cast("Any", row))


def test_a_quarantine_that_was_removed_leaves_a_held_bundle_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cleaned(tmp_path, "held")
    assert (tmp_path / "sealed" / "s-1" / "bundle").is_dir()
    (tmp_path / "quarantine").mkdir()
    cleaned(tmp_path, "held")
    assert (tmp_path / "quarantine" / "s-1" / "bundle").is_dir()
    assert not (tmp_path / "sealed" / "s-1").exists()


def test_what_nobody_decides_about_goes(tmp_path: Path) -> None:
    cleaned(tmp_path, "rejected")
    assert not (tmp_path / "sealed" / "s-1").exists()


def cut_off(tmp_path: Path) -> SimpleNamespace:
    """A seal that a kill cut off: half a copy beside what there is."""
    half = tmp_path / "sealed" / "s-1" / ".tmp-00112233445566aa"
    half.mkdir(parents=True)
    (half / "model.onnx").write_bytes(b"half")
    (tmp_path / "quarantine").mkdir()
    return SimpleNamespace(sealed=tmp_path / "sealed", quarantine=tmp_path / "quarantine")


def test_a_submission_that_killed_its_daemon_twice_takes_no_half_copy_into_the_quarantine(tmp_path: Path) -> None:
    paths = cut_off(tmp_path)
    Finishing.set_aside(cast("Any", SimpleNamespace(paths=paths)), cast("Any", SimpleNamespace(id="s-1")))
    assert list((tmp_path / "quarantine" / "s-1").iterdir()) == []


def test_a_held_bundle_is_kept_without_the_half_copy_of_its_first_seal(tmp_path: Path) -> None:
    cut_off(tmp_path)
    cleaned(tmp_path, "held")
    assert [one.name for one in (tmp_path / "quarantine" / "s-1").iterdir()] == ["bundle"]
