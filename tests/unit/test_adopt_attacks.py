"""Adoption attacked: names, links that come later, models that never end, weights where golden sets would be."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from acceptd.adopt import goldens
from acceptd.adopt.find import Found
from acceptd.adopt.place import Kept, Place
from acceptd.adopt.rows import Row
from acceptd.adopt.work import Adoption
from acceptd.bundling import oracles
from acceptd.bundling.oracles import SpentError
from acceptd.bundling.render import manifest_text
from acceptd.errors import UsageError
from acceptd.evidence import JobRecord, VectorSet
from tests.unit.test_adopt import BENCH, Oracles, begun, lay

pytestmark = pytest.mark.unit


def test_a_name_that_the_record_cannot_hold_fails_one_bundle_and_no_later_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    odd = {"back.onnx": "a\\b", "up.onnx": "../a"}

    def made(_self: Any, one: Found, row: Row, known: Kept, **_: Any) -> tuple[Kept, Row]:
        row = row.model_copy(update={"state": "made", "verdict": "accepted"})
        if one.path == "said.onnx":
            return known, row.model_copy(update={"said": "\ud800"})
        files = {odd[one.path]: "0" * 64} if one.path in odd else {}
        return known.model_copy(update={"files": files}), row

    monkeypatch.setattr(Adoption, "_made", made)
    bench: Any = None
    (tmp_path / "out").mkdir()
    found = [Found(path, "model") for path in ("back.onnx", "ok.onnx", "said.onnx", "up.onnx")]
    for _ in range(2):
        rows = Adoption(bench, tmp_path, Place(tmp_path / "out"), "t", 2).run(found)
        assert [one.state for one in rows] == ["failed", "made", "failed", "failed"]
        assert "no record of an adoption can hold" in rows[0].reason


@pytest.mark.parametrize("name", [b"a\nb", b"\xff", b"aux"])
def test_a_bundle_with_a_name_that_none_may_have_is_told_and_not_copied(tmp_path: Path, name: bytes) -> None:
    lay(tmp_path, "b/bundle.toml")
    os.close(os.open(os.path.join(os.fsencode(tmp_path / "b"), name), os.O_CREAT))
    adoption = Adoption(BENCH, tmp_path, Place(tmp_path / "out"), "t", 1)
    [row] = adoption.run([Found("b", "bundle")])
    assert row.state == "failed"
    assert "the name " in row.reason
    assert Place(tmp_path / "out").read().models[0].files == {}
    assert list((tmp_path / "out" / "bundles").iterdir()) == []


@pytest.mark.parametrize("external", ["goldens_w/weights.bin", "goldens_reference_0/w", "goldens_data"])
def test_weights_in_a_place_that_is_called_as_golden_sets_are_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, external: str
) -> None:
    Oracles(monkeypatch)
    made, wishes = begun(tmp_path, ["n", "len"])
    lay(tmp_path, external)
    [seen] = made.looked.models
    looked = dataclasses.replace(made.looked, models=(dataclasses.replace(seen, external=(external,)),))
    made = dataclasses.replace(made, looked=looked)
    trials = list(goldens.trials(BENCH, tmp_path, made, wishes))
    assert len(trials) > 2
    assert (tmp_path / external).read_bytes() == external.encode()
    assert len(list(tmp_path.glob("goldens_*"))) == 2  # the weights, and what the last trial made


@pytest.mark.parametrize(("ends", "tries"), [((), 2), (("first",), 3)])
def test_a_model_that_never_ends_is_not_tried_at_every_size(
    ends: tuple[str, ...], tries: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, wishes = begun(tmp_path, ["n", "len"])
    asked: list[str] = []

    def make(_bench: Any, _bundle: Path, wanted: Any) -> None:
        if wanted.oracle == "onnxruntime":
            asked.append(wanted.oracle)
            if len(asked) > len(ends):
                raise SpentError("the job ended by limit cpu")
        raise UsageError("another size is wanted")

    monkeypatch.setattr(goldens, "make", make)
    trials = list(goldens.trials(BENCH, tmp_path, made, wishes))
    assert len(asked) == tries
    assert [one.spent for one in trials][-2:] == [True, True]
    assert (trials[-1].last, trials[-1].made, trials[-1].proposal) == (True, False, made.proposal)
    assert (tmp_path / "bundle.toml").read_text() == manifest_text(made.proposal)


@pytest.mark.parametrize(("ending", "spent"), [("limit", True), ("lost", True), ("crash", False)])
def test_a_limit_that_ended_the_oracle_is_told_from_what_another_size_may_mend(ending: Any, spent: bool) -> None:
    record = JobRecord(kind="run", ending=ending, cause="cpu")
    with pytest.raises(UsageError) as raised:
        oracles._values(record, [VectorSet(name="random-0", model="main", inputs=[], expected=[])], "onnxruntime")
    assert isinstance(raised.value, SpentError) is spent


@pytest.mark.parametrize(("path", "kind"), [("t/b", "bundle"), ("t/b/m.onnx", "model")])
def test_what_became_a_link_since_it_was_found_is_not_adopted(tmp_path: Path, path: str, kind: Any) -> None:
    secret = tmp_path / "secret"
    lay(secret, "b/bundle.toml", "b/key.pem", "b/m.onnx")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "t").symlink_to(secret)
    [row] = Adoption(BENCH, tmp_path / "models", Place(tmp_path / "out"), "t", 1).run([Found(path, kind)])
    assert (row.state, "Not a directory" in row.reason) == ("failed", True)
    assert list((tmp_path / "out" / "bundles").iterdir()) == []


def test_a_model_that_became_a_link_since_it_was_found_is_refused_and_told_by_its_own_place(
    tmp_path: Path,
) -> None:
    lay(tmp_path, "secret.onnx")
    models = tmp_path / "models"
    lay(models, "t/real.onnx")
    (models / "t" / "m.onnx").symlink_to(tmp_path / "secret.onnx")
    found = [Found("t/gone.onnx", "model"), Found("t/m.onnx", "model")]
    rows = Adoption(BENCH, models, Place(tmp_path / "out"), "t", 1).run(found)
    assert [row.state for row in rows] == ["failed", "failed"]
    assert rows[0].reason.startswith("t/gone.onnx is no file")
    assert rows[1].reason.startswith("m.onnx is a link by now")
