"""A second version beside the current release, through a real daemon: a planted trigger is named and placed."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from acceptd import local
from acceptd.errors import LoaderError
from acceptd.loader import open_release
from acceptd.report.html import render
from tests.bench_world import Desk, desk, rewrite
from tests.difference_world import found, other_names, plain, with_second, write
from tests.world import MODEL_ID, World, codes, world

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("difference")) as made:
        made.start()
        yield made


def reviewed(made: World, report: dict[str, Any]) -> dict[str, Any]:
    """Return the report as a reviewer gets it."""
    done = made.acceptd("report", report["submission"], "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_trigger_in_the_second_version_is_named_beside_the_first(running: World, tmp_path: Path) -> None:
    first = running.verdict(running.drop(write("1.0.0"), "v1"))
    assert first["release"]["number"] == 1
    told = reviewed(running, first)["difference"]
    assert (told["status"], told["release"]) == ("none", None)
    assert "no release" in told["reason"]

    second = running.verdict(running.drop(write("2.0.0", plain), "v2"))
    assert second["verdict"] == "accepted", second["findings"]
    report = reviewed(running, second)
    finding = found(report, "difference/new-selection")
    assert finding["severity"] == "warn"
    assert finding["where"] == "model.onnx: graph/node[4] Where"
    assert "ReduceMax → Greater → Where" in finding["message"]
    assert "release 1 (production)" in finding["message"]
    assert finding["evidence"]["input"] == "features"
    told = report["difference"]
    assert (told["status"], told["release"]["number"], told["release"]["version"]) == ("found", 1, "1.0.0")
    assert told["release"]["bundle_digest"] == first["bundle_digest"]
    (model,) = told["models"]
    assert model["operators_added"] == ["ai.onnx::Greater (1)", "ai.onnx::ReduceMax (1)", "ai.onnx::Where (1)"]
    assert model["initializers_added"] == ["bad float32[3]", "limit float32[]"]
    assert model["interface"] == []
    # The release itself was run from the store, on the same goldens and draws.
    (beside,) = report["regression"]
    assert (beside["status"], beside["inputs"][0]) == ("compared", 2)
    assert [job["ending"] for job in report["resources"]["jobs"] if job["variant"] == "prior"] == ["done"]
    assert not [job for job in first["resources"]["jobs"] if job["variant"] == "prior"]

    # The team hears neither the finding nor the difference; the page and the terminal show both to a reviewer.
    assert not {code for code in codes(second) if code.startswith("difference/")}
    assert second["difference"]["models"] == []
    page = render(report)
    assert "Difference to the current release" in page
    assert "graph/node[4] Where" in page
    shown = running.acceptd("report", second["submission"]).stdout
    assert "new selection Where (1)" in shown
    assert "graph/node[4] Where" in shown

    # So does the difference of the two releases, by the same facts; both have one policy.
    said = json.loads(running.acceptd("release", "diff", MODEL_ID, "1", "2", "--json").stdout)
    assert said["inspected"]["status"] == "found"
    (between,) = said["inspected"]["models"]
    assert {key: between[key] for key in model} == model
    assert {"policy", "policy_digest"} <= set(said["same_verdict"])
    assert {"preprocessing", "labels", "profiles"} <= set(said["same"])

    # The first one's facts are bound by the digest that its signed verdict names.
    entry = next(one for one in running.entries("verdict") if one["submission"] == second["submission"])
    statement = json.loads(base64.b64decode(entry["body"]["statement"]["payload"]))
    assert statement["predicate"]["compared_with"]["bundle_digest"] == first["bundle_digest"]
    declared = statement["predicate"]["declared"]
    assert declared["by"] == "submitter"
    assert declared["export"]["exporter"]["name"] == "onnx.helper"
    assert declared["prohibited_uses"] == ["automated denial without review"]
    opened = open_release(running.state, MODEL_ID, keys=running.state / "keyring.json")
    assert opened.manifest["export"]["exporter"]["name"] == "onnx.helper"
    assert opened.manifest["bundle"]["prohibited_uses"] == ["automated denial without review"]
    release = json.loads(next((running.state / "releases").rglob("000002/release.json")).read_text())
    assert json.loads(base64.b64decode(release["payload"]))["manifest_by"] == "submitter"


def test_the_same_bundle_again_is_not_compared_with_itself(running: World) -> None:
    report = reviewed(running, running.verdict(running.drop(write("2.0.0", plain), "v2-again")))
    assert report["difference"]["status"] == "same"
    assert not {code for code in codes(report) if code.startswith("difference/")}


def retrained(model: onnx.ModelProto) -> None:
    plain(model)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array([-1, 0.5, 1e-7], np.float32), "bias"))


def other_meaning(document: dict[str, Any]) -> None:
    """Swap the labels and say other things about one and the same model file."""
    output = document["models"][0]["outputs"][0]
    output["labels"] = ["reject", "review", "accept"]
    document["models"][0]["inputs"][0]["range"] = [0.0, 0.5]
    document["dims"]["batch"]["max"] = 16
    document["bundle"] |= {"license": "MIT", "purpose": "decides alone"}
    del document["bundle"]["prohibited_uses"]


def test_another_bias_is_no_other_structure_and_swapped_labels_over_it_are_told(running: World) -> None:
    report = reviewed(running, running.verdict(running.drop(write("2.1.0", retrained), "v2-retrained")))
    (model,) = report["difference"]["models"]
    assert model["same_structure"]
    assert not {code for code in codes(report) if code.startswith("difference/")}
    # It is no finding, but nobody is left to guess: the page and the terminal say that weights are not the same.
    assert model["weights"] == "unknown"
    shown = " ".join(running.acceptd("report", report["submission"]).stdout.split())
    for text in (shown, render(report)):
        assert "The same structure. Weights differ, or other bytes do: model file digest differs" in text
        assert "sha256 of the model file" in text

    # The same bytes again under other words: the older ones come from the signed evidence.
    name = running.drop(lambda path: rewrite(write("2.1.1", retrained)(path), other_meaning), "v2-meaning")
    second = running.verdict(name)
    # The same columns under other labels: by label the release answers otherwise, and it is held for that.
    assert codes(second, "reject", "hold") >= {"regression/class-changed", "regression/label-gone"}
    assert second["difference"]["bundle"] is None  # the team's own report holds nothing of the comparison
    report = reviewed(running, second)
    (model,) = report["difference"]["models"]
    assert (model["same_structure"], model["weights"]) == (True, "equal")
    told = {one["where"]: one["message"] for one in report["findings"] if one["code"].startswith("difference/")}
    assert set(told) == {
        'model.onnx: input "features": range',
        'model.onnx: output "probabilities": order of labels (2 of 3)',
        'bundle.toml: dims."batch"',
        "bundle.toml: bundle.license",
        "bundle.toml: bundle.purpose",
        "bundle.toml: bundle.prohibited_uses",
    }
    labels = told['model.onnx: output "probabilities": order of labels (2 of 3)']
    assert '0: "accept", 2: "reject" in release' in labels
    assert 'now 0: "reject", 2: "accept"' in labels
    shown = " ".join(running.acceptd("report", second["submission"]).stdout.split())
    for text in (shown, render(report).replace("&quot;", '"')):
        assert "The same structure. The same weights, by their digests." in text
        assert "What is declared about inputs or outputs differs." in text
        for value in ('"Apache-2.0"', '"MIT"', "1 to 32", "1 to 16", '"decides alone"', "[0.0, 0.5]"):
            assert value in text, value


def test_another_output_kind_beside_a_given_bundle_is_held_by_the_strict_policy(
    bench: Desk, tmp_path: Path
) -> None:
    def looser(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["kind"] = "values"

    older = write("1.0.0")(tmp_path / "older")
    newer = rewrite(write("1.1.0")(tmp_path / "newer"), looser)
    for policy, severity in (("default", "warn"), ("strict", "hold")):
        report = local.check_one(replace(bench.bench, rules=bench.rules(policy=policy)), newer, against=older)
        finding = found(report, "difference/meaning-changed")
        assert finding["severity"] == severity
        assert '"probabilities" in the bundle to compare with, now "values"' in finding["message"]


def put(store: sqlite3.Connection, row: Sequence[object]) -> None:
    marks = ", ".join("?" * len(row))
    store.execute(f"INSERT OR REPLACE INTO evidence VALUES ({marks})", tuple(row))


@pytest.mark.parametrize("damage", ["evidence gone", "evidence changed"])
def test_facts_that_are_not_those_of_the_accepted_submission_are_not_used(running: World, damage: str) -> None:
    current = open_release(running.state, MODEL_ID, keys=running.state / "keyring.json")
    entries = [one for one in running.entries("verdict") if one["body"]["bundle_digest"] == current.bundle_digest]
    marks = [one["body"]["evidence_digest"] for one in entries]
    store = sqlite3.connect(running.state / "ledger.sqlite3", timeout=60)
    kept = [store.execute("SELECT * FROM evidence WHERE digest = ?", (mark,)).fetchone() for mark in marks]
    try:
        with store:
            for row in kept:
                store.execute("DELETE FROM evidence WHERE digest = ?", (row[0],))
                if damage == "evidence changed":
                    forged = [
                        cell.replace(b'"Where"', b'"Whoms"') if isinstance(cell, bytes) else cell for cell in row
                    ]
                    assert tuple(forged) != row
                    put(store, forged)
        name = running.drop(write("2.2.0"), f"unknown-{damage.rpartition(' ')[2]}")
        report = reviewed(running, running.verdict(name))
    finally:
        with store:
            for row in kept:
                put(store, row)
        store.close()
    assert report["difference"]["status"] == "unknown"
    assert report["difference"]["models"] == []
    assert found(report, "difference/unknown")["severity"] == "warn"
    assert report["verdict"] == "accepted"
    # What was accepted is the current release again; so that the order of these tests does not matter.
    assert running.acceptd("release", "rollback", MODEL_ID).returncode == 0


@pytest.mark.parametrize("damage", ["bytes changed", "bundle gone"])
def test_a_release_whose_bytes_are_not_those_that_were_accepted_is_not_run(running: World, damage: str) -> None:
    first = running.drop(write("1.9.0" if damage == "bytes changed" else "1.9.1"), f"before-{damage[:5]}")
    digest = running.verdict(first)["bundle_digest"]  # so that there is a release, whichever test runs alone
    assert open_release(running.state, MODEL_ID, keys=running.state / "keyring.json").bundle_digest == digest
    kept = running.state / "store" / "sha256" / digest
    aside = kept.with_name("aside")
    kept.rename(aside)
    try:
        if damage == "bytes changed":
            shutil.copytree(aside, kept)
            raw = bytearray((kept / "model.onnx").read_bytes())
            raw[-1] ^= 1
            (kept / "model.onnx").chmod(0o644)
            (kept / "model.onnx").write_bytes(raw)
        name = running.drop(write("2.3.0" if damage == "bytes changed" else "2.3.1"), damage.replace(" ", "-"))
        report = reviewed(running, running.verdict(name))
    finally:
        shutil.rmtree(kept, ignore_errors=True)
        aside.rename(kept)
    finding = found(report, "regression/release-unavailable")
    assert finding["severity"] == "warn"
    assert ("not the file that was promoted" if damage == "bytes changed" else "does not exist") in finding[
        "message"
    ]
    assert report["regression"][0]["status"] == "unavailable"
    assert report["verdict"] == "accepted"  # the default policy does not require it; strict holds
    assert running.acceptd("release", "rollback", MODEL_ID).returncode == 0


# -- independent exports, without a daemon --------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("desk")) as made:
        yield made


def test_an_independent_export_is_on_record_and_no_loader_opens_it(running: World, tmp_path: Path) -> None:
    name = running.drop(lambda path: with_second(path, other_names().SerializeToString()), "with-second")
    report = running.verdict(name)
    assert report["verdict"] == "accepted", report["findings"]
    entry = next(one for one in running.entries("verdict") if one["submission"] == report["submission"])
    statement = json.loads(base64.b64decode(entry["body"]["statement"]["payload"]))
    (told,) = statement["predicate"]["independent_exports"]
    assert told == {
        "model": "main",
        "file": "second.onnx",
        "exporter": "tf2onnx 1.16.1",
        "relation": "graph-equal",
    }
    opened = open_release(running.state, MODEL_ID, keys=running.state / "keyring.json")
    assert opened.bundle_digest == report["bundle_digest"]
    assert opened.session().model == "main"
    for other in ("main (independent export)", "second", "second.onnx"):
        with pytest.raises(LoaderError):
            opened.session(other)
