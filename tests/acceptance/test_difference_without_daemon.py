"""Independent exports, and bundles that a check is given to compare with: compared without a daemon, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto

from acceptd import local
from acceptd.report.html import render
from examples import evidence_classifier as classifier
from tests import commands
from tests.bench_world import Desk, desk
from tests.difference_world import found, other_names, plain, with_second, write
from tests.world import codes

pytestmark = pytest.mark.acceptance


# -- independent exports, without a daemon --------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("desk")) as made:
        yield made


def test_an_independent_export_is_compared_and_never_run(bench: Desk, tmp_path: Path) -> None:
    same = bench.check(with_second(tmp_path / "same", classifier.build_model()))
    assert found(same, "export/independent-byte-equal")["severity"] == "info"
    equal = bench.check(with_second(tmp_path / "equal", other_names().SerializeToString()))
    assert equal["verdict"] == "accepted", equal["findings"]
    assert found(equal, "export/independent-graph-equal")["severity"] == "info"
    (model,) = equal["models"]
    assert model["independent_export"]["relation"] == "graph-equal"
    assert model["independent_export"]["exporter"] == "tf2onnx 1.16.1"
    assert "second.onnx" in render(equal)
    jobs = {(job["kind"], job["model"]) for job in equal["resources"]["jobs"]}
    assert ("inspect", "main (independent export)") in jobs
    assert {model for kind, model in jobs if kind == "run"} == {"main"}

    planted = other_names()
    plain(planted)
    different = bench.check(with_second(tmp_path / "different", planted.SerializeToString()))
    assert different["verdict"] == "accepted"
    finding = found(different, "export/independent-differs")
    assert finding["severity"] == "warn"
    assert "ai.onnx::Where" in finding["message"]
    told = different["models"][0]["independent_export"]["difference"]
    assert told["selections_new"][0]["places"] == [["graph/node[4] Where", "hit"]]


def test_a_weight_of_the_independent_export_that_differs_is_found(bench: Desk, tmp_path: Path) -> None:
    second = other_names()
    second.graph.initializer[0].raw_data = b"\0" * 48
    report = bench.check(with_second(tmp_path / "weights", second.SerializeToString()))
    assert "other values of weights" in found(report, "export/independent-differs")["message"]
    strict = bench.check(with_second(tmp_path / "strict", second.SerializeToString()), policy="strict")
    assert found(strict, "export/independent-differs")["severity"] == "hold"


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (classifier.build_model()[:200], "wire/truncated"),
        (classifier.build_model() + b"\xa2\x06\x05hello", "wire/unknown-field"),
        (b"", "wire/empty"),
    ],
    ids=["truncated", "unknown-field", "empty"],
)
def test_nothing_hides_in_the_independent_export(bench: Desk, tmp_path: Path, second: bytes, code: str) -> None:
    report = bench.check(with_second(tmp_path / "b", second))
    assert report["verdict"] in {"rejected", "held"}
    assert re.search(r"second\.onnx|independent export", found(report, code)["where"])


def test_an_independent_export_that_reads_outside_or_is_missing_is_rejected(bench: Desk, tmp_path: Path) -> None:
    reaching = other_names()
    tensor = reaching.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="model.onnx")
    report = bench.check(with_second(tmp_path / "reaching", reaching.SerializeToString()))
    assert report["verdict"] == "rejected"
    assert "external-data/names-forbidden-file" in codes(report, "reject")
    made = with_second(tmp_path / "missing", b"x")
    (made / "second.onnx").unlink()
    assert "manifest/file-missing" in codes(bench.check(made), "reject")
    twice = with_second(tmp_path / "twice", b"x", file="model.onnx")
    assert "manifest/invalid" in codes(bench.check(twice), "reject")


def test_a_check_says_that_it_knows_of_no_release(bench: Desk, tmp_path: Path) -> None:
    report = bench.check(classifier.write_bundle(tmp_path / "b", sets=2))
    assert report["difference"]["status"] == "none"
    assert "no prior release" in report["difference"]["reason"]
    assert "no prior release" in render(report)


def test_a_check_compares_with_a_bundle_that_is_given(bench: Desk, tmp_path: Path) -> None:
    older, newer = write("1.0.0")(tmp_path / "older"), write("2.0.0", plain)(tmp_path / "newer")
    place = replace(bench.bench, rules=bench.rules())
    report = local.check_one(place, newer, against=older)
    finding = found(report, "difference/new-selection")
    assert finding["where"] == "model.onnx: graph/node[4] Where"
    assert "the bundle to compare with" in finding["message"]
    assert report["difference"]["release"]["version"] == "1.0.0"
    assert "Compared with the bundle that was given, version 1.0.0" in render(report)
    assert local.check_one(place, newer, against=newer)["difference"]["status"] == "same"
    (older / "model.onnx").write_bytes(b"")
    report = local.check_one(place, newer, against=older)
    assert report["difference"]["status"] == "unknown"
    assert report["verdict"] == "accepted"
    assert "wire/empty" in found(report, "difference/unknown")["message"]


def test_the_command_refuses_to_compare_a_suite_or_with_nothing(tmp_path: Path) -> None:
    for words in (("--suite", str(tmp_path), "--against", str(tmp_path)), (str(tmp_path), "--against", "nowhere")):
        done = commands.run("check", *words)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) <= 2
