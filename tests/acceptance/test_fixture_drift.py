"""Schema drift against the acceptor's contract: each kind is its own finding, and no inference is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples import evidence_classifier as classifier
from examples.evidence_classifier import DRIFTS, Variant
from tests.bench_world import Desk, desk, rewrite
from tests.world import codes

pytestmark = pytest.mark.acceptance

FAMILIES = {
    "renamed-input": "schema/input-renamed",
    "float64": "schema/dtype-changed",
    "float16": "schema/dtype-changed",
    "width-4": "schema/width-changed",
    "extra-input": "schema/input-extra",
    "static": "schema/dimension-fixed",
    "renamed-output": "schema/output-renamed",
    "two-outputs": "schema/output-extra",
}
STATIC, TWO = "mosaic/static", "mosaic/two"
LOGITS = """
[[models.outputs]]
name = "logits"
dtype = "float32"
shape = ["batch", 3]
kind = "logits"
labels = ["accept", "review", "reject"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("drift"), contract=True) as made:
        folder = made.policies / "contracts" / "mosaic"
        agreed = (folder / "evidence-disposition.toml").read_text("utf-8")
        static = agreed.replace('["batch", ', "[1, ").replace("[dims.batch]\nmin = 1\nmax = 32\n", "")
        (folder / "static.toml").write_text(static.replace(classifier.MODEL_ID, STATIC))
        (folder / "two.toml").write_text(agreed.replace(classifier.MODEL_ID, TWO) + LOGITS)
        yield made


def no_inference(report: dict[str, Any]) -> bool:
    return not {"run", "reference"} & {job["kind"] for job in report["resources"]["jobs"]}


@pytest.mark.parametrize(
    ("model_id", "variant"),
    [(classifier.MODEL_ID, Variant()), (STATIC, DRIFTS["static"]), (TWO, DRIFTS["two-outputs"])],
    ids=["published", "static", "two-outputs"],
)
def test_positive_control_the_agreed_interface_runs_and_is_accepted(
    model_id: str, variant: Variant, place: Desk, tmp_path: Path
) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", model_id=model_id, variant=variant, sets=2))
    assert report["verdict"] == "accepted", report["findings"]
    assert report["contract_digest"]
    assert not no_inference(report)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_bundle_that_agrees_with_itself_and_not_with_the_contract(
    name: str, place: Desk, tmp_path: Path
) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", variant=DRIFTS[name], sets=2))
    assert report["verdict"] == "rejected"
    labels = {"schema/labels-changed"} if name == "width-4" else set()
    assert codes(report, "reject") == {FAMILIES[name], *labels}
    assert no_inference(report)


def test_static_agreed_and_dynamic_delivered(place: Desk, tmp_path: Path) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", model_id=STATIC, sets=2))
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"schema/dimension-freed"})
    assert no_inference(report)


def test_outputs_in_another_order(place: Desk, tmp_path: Path) -> None:
    variant = DRIFTS["reordered-outputs"]
    report = place.check(classifier.write_bundle(tmp_path / "b", model_id=TWO, variant=variant, sets=2))
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"schema/outputs-reordered"})
    assert no_inference(report)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "static"])
def test_the_right_file_with_the_wrong_manifest(name: str, place: Desk, tmp_path: Path) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", declared=DRIFTS[name], sets=2))
    assert report["verdict"] == "rejected"
    assert {"schema/wrong-manifest", FAMILIES[name]} <= codes(report, "reject")
    assert no_inference(report)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_wrong_file_with_the_right_manifest(name: str, place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", variant=DRIFTS[name], declared=Variant(), sets=2)
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert {"schema/wrong-file", FAMILIES[name]} <= codes(report, "reject")
    assert no_inference(report)


def test_a_manifest_that_promises_less_than_its_file_takes_has_still_left_the_contract(
    place: Desk, tmp_path: Path
) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", declared=DRIFTS["static"], sets=2))
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"schema/dimension-fixed"})
    assert no_inference(report)


def _labels(document: dict[str, Any]) -> None:
    document["models"][0]["outputs"][0]["labels"].reverse()


def _label_schema(document: dict[str, Any]) -> None:
    document["labels"]["schema_version"] = "3"


def _bounds(document: dict[str, Any]) -> None:
    document["dims"]["batch"]["max"] = 33


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_labels, "schema/labels-reordered"),
        (_label_schema, "schema/label-schema-changed"),
        (_bounds, "schema/dimension-bounds"),
    ],
    ids=["labels-in-another-order", "another-label-schema", "one-more-in-a-batch"],
)
def test_what_no_tensor_shows_is_held_against_the_contract_too(
    change: Callable[[dict[str, Any]], None], code: str, place: Desk, tmp_path: Path
) -> None:
    report = place.check(rewrite(classifier.write_bundle(tmp_path / "b", sets=2), change))
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {code})
    assert no_inference(report)
