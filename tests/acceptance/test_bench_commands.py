"""Commands that judge without a daemon, in this process and on one warm cell: what they print and end with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model

from acceptd import local
from acceptd.cli import bundle, changed, check, contract
from acceptd.record.log import Ledger
from acceptd.rules import Rules
from examples import evidence_classifier as classifier
from examples.evidence_classifier import MODEL_ID
from tests.bench_world import Desk, desk
from tests.command_world import Commands, alone, ready

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("desk")) as made:
        yield made


@pytest.fixture(autouse=True)
def warm(place: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each command the cell that is there, under the rules that it asks for; signals stay this process's."""

    @contextmanager
    def bench(rules: Rules, **_how: Any) -> Iterator[local.Bench]:
        yield replace(place.bench, rules=rules)

    monkeypatch.setattr(local, "bench", bench)
    for module in ("acceptd.cli.changed", "acceptd.cli.check", "acceptd.cli.bundle_desk"):
        monkeypatch.setattr(f"{module}.end_in_order", lambda: None)
    monkeypatch.chdir(tmp_path)
    state = ready(tmp_path / "state")
    (state / "acceptd.toml").write_text(f'policies = "{place.policies}"\npolicy = "default"\n')
    monkeypatch.setenv("ACCEPTD_STATE", str(state))


def bad(path: Path) -> Path:
    """Write a bundle whose model is none."""
    classifier.write_bundle(path, version="1.0.0")
    (path / "model.onnx").write_bytes(b"no model")
    return path


# -- check-changed ------------------------------------------------------------------------------------------


def test_the_bundles_of_changed_files_are_checked_and_it_ends_as_the_worst(tmp_path: Path) -> None:
    run = Commands(alone(changed.check_changed))
    classifier.write_bundle(tmp_path / "models" / "good", version="1.0.0")
    bad(tmp_path / "models" / "bad")
    (tmp_path / "lone.onnx").write_bytes(b"x")
    (tmp_path / "README.md").write_text("x")
    said = run.run("models/good/labels.txt", "models/bad/model.onnx", "lone.onnx", "README.md")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[0] == "lone.onnx: in no bundle, not checked: acceptd bundle init makes one"
    assert [one for one in lines if one.startswith("models/")] == ["models/bad: rejected", "models/good: accepted"]
    assert "REJECTED" in said.out, "why, and how it is mended"
    assert "ACCEPTED" not in said.out, "of what is accepted one line is enough"


def test_files_that_belong_to_no_bundle_start_no_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "bench", lambda *_a, **_k: pytest.fail("no cell is needed"))
    run = Commands(alone(changed.check_changed))
    assert run("README.md", "gone/model.onnx") == ""
    assert run() == ""


# -- check --------------------------------------------------------------------------------------------------


def test_a_suite_counts_verdicts_and_codes_and_ends_as_the_worst(tmp_path: Path) -> None:
    run = Commands(alone(check.check))
    classifier.write_bundle(tmp_path / "suite" / "good", version="1.0.0")
    for name in ("bad", "worse"):
        bad(tmp_path / "suite" / name)
    told = run.run("--suite", "suite", "--json")
    assert (told.code, told.json["cases"], told.json["verdicts"]) == (1, 3, {"accepted": 1, "rejected": 2})
    assert set(told.json["codes"].values()) == {2}
    said = run.run("--suite", "suite", "--all")
    lines = said.out.splitlines()
    assert [next(name for name in ("bad", "good", "worse") if f"suite/{name}" in one) for one in lines[:3]] == [
        "bad", "good", "worse",
    ]  # fmt: skip
    assert lines[3] == "3 bundles: accepted 1  rejected 2"
    assert lines[4].split()[0] == "2"
    assert lines[-1].endswith(" ms a bundle")


WRONG = [
    ((), "give one bundle, or --suite DIR", "acceptd check PATH"),
    (("one", "--suite", "."), "give one bundle, or --suite DIR", "acceptd check PATH"),
    (("--suite", ".", "--against", "x"), "--against goes with one bundle", "acceptd check PATH --against OLDER"),
    (("--suite", ".", "--html", "x"), "--html goes with one bundle", "acceptd check PATH --html report.html"),
    (("--suite", "state"), "no bundle below state", "a bundle is a directory with a bundle.toml or a model.onnx"),
    (("nowhere",), "the bundle nowhere does not exist", "check the path"),
    (("state", "--against", "nowhere"), "the bundle to compare with nowhere does not exist", "check the path"),
]


@pytest.mark.parametrize(("words", "error", "remedy"), WRONG)
def test_a_check_that_cannot_be_meant_is_refused_before_a_cell_starts(
    words: tuple[str, ...], error: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "bench", lambda *_a, **_k: pytest.fail("no cell is needed"))
    said = Commands(alone(check.check)).run(*words)
    assert (said.code, said.out, said.error, said.remedy) == (2, "", error, remedy)


def test_one_result_is_the_same_as_a_screen_a_line_and_a_page(tmp_path: Path) -> None:
    run = Commands(alone(check.check))
    bad(tmp_path / "bad")
    files = ("--jsonl", "lines", "--html", "page.html", "--sarif", "s", "--junit", "j")
    said = run.run("bad", "--all", *files)
    report = json.loads((tmp_path / "lines").read_text())
    assert (said.code, report["verdict"]) == (1, "rejected")
    assert "REJECTED" in said.out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for code in {one["code"] for one in report["findings"] if one["severity"] == "reject"}:
        assert code in said.out
        assert code in page
        assert code in (tmp_path / "s").read_text()
        assert code in (tmp_path / "j").read_text()


# -- contract propose ---------------------------------------------------------------------------------------


def test_a_proposal_from_a_bundle_says_what_its_check_came_to_and_replaces_no_file(tmp_path: Path) -> None:
    run = Commands(contract.app)
    Ledger.open(tmp_path / "state").close()
    classifier.write_bundle(tmp_path / "good", version="1.0.0")
    (tmp_path / "taken").write_text("mine")
    said = run.run("propose", "--from-bundle", "good")
    assert said.code == 0
    assert f'id = "{MODEL_ID}"' in said.out
    assert "which came to: accepted" in said.out
    (tmp_path / "v1.toml").write_text(said.out)
    assert run("diff", "v1.toml", "v1.toml").strip() == "no difference"
    out = run("propose", "--from-bundle", "good", "--out", "v2.toml", "--margin", "3")
    assert out.strip() == "wrote v2.toml: a proposal; look at every line before anybody signs it"
    told = run.run("propose", "--from-bundle", "good", "--out", "taken")
    assert (told.code, told.error, told.remedy) == (2, "taken exists", "name another file")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_proposal_from_a_rejected_bundle_says_so_beside_it(tmp_path: Path) -> None:
    classifier.write_bundle(tmp_path / "odd", version="1.0.0")
    goldens = next((tmp_path / "odd").glob("*/output_0.pb"))
    goldens.write_bytes(goldens.read_bytes()[:-3])
    said = Commands(contract.app).run("propose", "--from-bundle", "odd")
    assert said.code == 0
    assert "the bundle is rejected: " in said.err
    assert "which came to: rejected" in said.out


# -- bundle -------------------------------------------------------------------------------------------------


def test_a_lock_is_compared_with_the_files_and_nothing_is_written(tmp_path: Path) -> None:
    run = Commands(bundle.app)
    root = classifier.write_bundle(tmp_path / "own", version="1.0.0")
    said = run.run("lock", "own", "--check")
    assert said.code == 1, "there is no lock yet"
    assert run("lock", "own").startswith("locked ")
    assert run("lock", "own").startswith("locked already: ")
    before = (root / "bundle.toml").read_bytes()
    said = run.run("lock", "own", "--check")
    assert (said.code, said.out.splitlines()[0]) == (0, "own is as its lock says")
    whole = run.run("lock", "own", "--check", "--json").json
    assert whole["differences"] == []
    assert whole["bundle_digest"] in said.out
    with (root / "model.onnx").open("ab") as file:
        file.write(b"!")
    (root / "more.txt").write_text("x")
    said = run.run("lock", "own", "--check")
    assert said.code == 1
    assert {one.partition(":")[0] for one in said.out.splitlines()[:-1]} == {"model.onnx", "more.txt"}
    assert said.out.splitlines()[-1] == "2 differ; `acceptd bundle lock own` locks them as they are"
    told = run.run("lock", "own", "--check", "--json")
    assert (told.code, {one["file"] for one in told.json["differences"]}) == (1, {"model.onnx", "more.txt"})
    assert (root / "bundle.toml").read_bytes() == before


def test_a_signature_that_a_new_lock_breaks_is_told(tmp_path: Path) -> None:
    root = classifier.write_bundle(tmp_path / "own", version="1.0.0")
    (root / "model.sig").write_text("{}")
    out = Commands(bundle.app)("lock", "own")
    assert "model.sig was made over another bundle.toml: sign again, last" in " ".join(out.split())


def test_an_archive_is_the_same_bytes_for_the_same_files_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    run = Commands(bundle.app)
    classifier.write_bundle(tmp_path / "own", version="1.0.0")
    out = run("pack", "own")
    assert "into own.tar.gz" in out
    first = (tmp_path / "own.tar.gz").read_bytes()
    said = run.run("pack", "own")
    assert (said.code, "exists" in said.error) == (2, True)
    told = json.loads(run("pack", "own", "--force", "--json"))
    assert (told["archive"], told["bytes"]) == ("own.tar.gz", len(first))
    assert (tmp_path / "own.tar.gz").read_bytes() == first
    assert told["bundle_digest"] in out
    for target, error in (("own.rar", "ends in none of"), ("own/x.tar", "would lie inside the bundle")):
        said = run.run("pack", "own", "--out", target)
        assert (said.code, error in said.error) == (2, True)
        assert not (tmp_path / target).exists()


def test_a_first_manifest_says_what_to_fill_in_and_what_it_left_alone(tmp_path: Path) -> None:
    run = Commands(bundle.app)
    (tmp_path / "own").mkdir()
    for name in ("model.onnx", "other.onnx"):
        (tmp_path / "own" / name).write_bytes(classifier.build_model())
    (tmp_path / "own" / "notes.txt").write_text("x")
    said = run.run("init", "own", "--id", "no-team")
    assert (said.code, said.remedy) == (2, "give --id team/name")
    out = " ".join(run("init", "own/model.onnx", "--id", "mosaic/own", "--version", "2.0").split())
    assert out.startswith("wrote own/bundle.toml")
    assert "found 1 model, " in out
    assert "look other.onnx is no model of this bundle: name it too, or move it away" in out
    assert "belong to it; --into DIR copies what is needed" in out
    assert "acceptd bundle vectors own --random 4 --oracle reference" in out
    said = run.run("init", "own/model.onnx", "--id", "mosaic/own")
    assert (said.code, "bundle.toml exists" in said.error, "--force" in said.remedy) == (2, True, True)
    said = run.run("vectors", "own", "--random", "1", "--oracle", "reference", "--oracle", "onnxruntime")
    assert (said.code, said.error) == (2, "more than one oracle")
    out = " ".join(run("vectors", "own", "--random", "1").split())
    assert "made 1 golden set in own" in out
    assert "nobody declared one for" in out


def test_external_data_that_is_not_there_is_told_at_the_first_look(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [weight],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    save_model(model, "own/net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    (tmp_path / "own" / "net.bin").unlink()
    out = " ".join(Commands(bundle.app)("init", "own", "--id", "mosaic/own").split())
    assert "missing external data of net.onnx: put net.bin there before all else" in out


def test_golden_sets_that_a_lock_does_not_name_are_told(tmp_path: Path) -> None:
    run = Commands(bundle.app)
    classifier.write_bundle(tmp_path / "own", version="1.0.0")
    run("lock", "own")
    out = " ".join(run("vectors", "own", "--random", "2").split())
    assert "made 2 golden sets in own" in out
    assert "lock the lock in bundle.toml does not name them yet" in out
    assert run.run("lock", "own", "--check").code == 1
