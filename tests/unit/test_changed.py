"""Changed files lead to the bundles that they belong to, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptd.cli.changed import bundles_of

pytestmark = pytest.mark.unit


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A checkout with two bundles, one of them below the other's parent, and a model in none."""
    for name in (
        "models/one/bundle.toml",
        "models/two/bundle.toml",
        "models/two/golden/input_0.pb",
        "lone/m.onnx",
    ):
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "bundle.toml").touch()  # above the checkout: not ours
    return tmp_path / "repo"


def found(top: Path, *names: str) -> tuple[list[str], list[str]]:
    bundles, lone = bundles_of([Path(name) for name in names], top)
    return [str(one.relative_to(top)) for one in bundles], [str(one.relative_to(top)) for one in lone]


def test_each_bundle_is_checked_once_whichever_of_its_files_changed(top: Path) -> None:
    names = ("models/two/golden/input_0.pb", "models/two/bundle.toml", "models/one/labels.txt")
    assert found(top, *names) == (["models/one", "models/two"], [])


def test_a_file_that_is_gone_from_a_bundle_that_stays_still_counts(top: Path) -> None:
    assert found(top, "models/one/weights.bin") == (["models/one"], [])


def test_a_model_in_no_bundle_is_told_and_other_files_are_not(top: Path) -> None:
    assert found(top, "lone/m.onnx", "README.md", "lone/gone.onnx") == ([], ["lone/m.onnx"])


@pytest.mark.parametrize(
    "name",
    ["../bundle.toml", "../x/model.onnx", "/etc/passwd", "models/../../bundle.toml", "", ".", "-x", "\udcff"],
)
def test_names_that_lead_out_of_the_checkout_or_nowhere_lead_to_no_bundle(top: Path, name: str) -> None:
    assert found(top, name) == ([], [])


def test_a_bundle_that_is_the_whole_checkout_is_one(top: Path) -> None:
    (top / "bundle.toml").touch()
    assert found(top, "model.onnx", "lone/m.onnx", "models/one/a") == ([".", "models/one"], [])
