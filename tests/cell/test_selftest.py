"""``acceptd selftest``: red when a wall is down, or a hostile model passes. test_escape.py runs it whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acceptd import selftest
from acceptd.cli import main
from acceptd.selftest_bundles import BUNDLES, write
from tests.cell.conftest import whole_interpreter

pytestmark = pytest.mark.cell


def test_a_wall_that_does_not_hold_ends_with_five(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> Iterator[selftest.Row]:
        yield selftest.Row("files", "read a host file", "refused", "EACCES", held=True)
        yield selftest.Row("files", "list the root", "refused", "escaped", held=False)

    monkeypatch.setattr(selftest, "attack", rows)
    main._assemble("")
    result = CliRunner().invoke(main.app, ["selftest"])
    assert result.exit_code == 5
    assert "!!" in result.stdout
    assert "1 of 2 held" in result.stdout


@whole_interpreter
def test_a_hostile_model_that_passes_is_seen(tmp_path: Path) -> None:
    # The honest bundle in the place of a hostile one: accepted, so the row must not hold.
    honest = replace(BUNDLES[0], name="disguised", codes=("resources/cpu-limit",))
    with selftest.local.bench(selftest.rules(), cores=1, suite=False) as bench:
        row = selftest._judged(bench, honest, tmp_path)
    assert (row.held, row.got) == (False, "accepted")


def files_of(place: Path) -> dict[Path, bytes]:
    return {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_the_shipped_bundles_are_those_of_the_catalogue(tmp_path: Path) -> None:
    from examples import evidence_classifier as classifier
    from examples.hostile_bundles import BY_NAME

    for bundle in BUNDLES:
        shipped = write(bundle, tmp_path / "shipped")
        fresh = tmp_path / "fresh" / bundle.name
        if bundle.codes:
            BY_NAME[bundle.name].write(fresh)
        else:
            classifier.write_bundle(fresh, sets=2)
        assert files_of(shipped) == files_of(fresh)
