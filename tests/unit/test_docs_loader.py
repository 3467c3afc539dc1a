"""docs/loader.md: its Python runs as it stands, and its table of errors is whole."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from acceptd import errors
from acceptd.release.model import ReleaseDocument
from examples.evidence_classifier import build_model, manifest
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs" / "loader.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path)
    world.now = time.time()
    world.released(files={"model.onnx": build_model()}, manifest=manifest())
    names: dict[str, Any] = {
        "ROOT": world.state, "MODEL": MODEL, "KEYRING": world.state / "keyring.json",
        "STATE_FILE": tmp_path / "loader.json",
    }  # fmt: skip
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/loader.md", "exec"), names)
    assert capsys.readouterr().out == "['accept']\n"
    assert names["session"].release.number == 1
    world.close()


def test_the_table_of_errors_is_whole() -> None:
    table = PAGE[PAGE.index("## Errors") : PAGE.index("## Commands")]
    named = set(re.findall(r"`(\w+Error)`", table)) - {"LoaderError", "ConfigError", "UsageError"}
    assert named == {one.__name__ for one in errors.LoaderError.__subclasses__()}


def test_every_member_of_release_json_is_explained() -> None:
    table = PAGE[PAGE.index("| member of `release.json`") :]
    told = set(
        re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines() if row[:3] == "| `"))
    )
    assert told == set(ReleaseDocument.model_fields) - {"schema_"}
