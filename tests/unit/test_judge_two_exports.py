"""The judge beside another file of the same model: an independent export, another bundle, another release."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import JobRecord, OpUse, Prior, Sealed, Snapshot
from acceptd.judge.difference import compare
from acceptd.judge.finding import Judgement
from acceptd.judge.independent import Comparison, comparisons, findings
from acceptd.judge.successor import as_prior, between, differences, document, snapshots
from acceptd.policy.manifest import Manifest
from acceptd.structure_facts import SelectionPlace, SelectionShape
from tests import judge_world as world
from tests import regression_judged as regression

pytestmark = pytest.mark.unit

OTHER = "main (independent export)"
SECOND = world.structure(topology_sha256="1" * 64, graph_sha256="")


def exported(*, exporter: bool = True) -> Manifest:
    def change(manifest: dict[str, Any]) -> None:
        table: dict[str, Any] = {"file": "second.onnx"}
        if exporter:
            table["exporter"] = {"name": "torch.onnx", "version": "2.9"}
        manifest["models"][0]["independent_export"] = table

    return world.a_manifest(change)


def two(digest: str = "0" * 64) -> Sealed:
    sealed = world.sealed("second.onnx")
    files = [
        one.model_copy(update={"sha256": digest}) if one.path == "second.onnx" else one for one in sealed.files
    ]
    return sealed.model_copy(update={"files": files})


def pair(
    ours: dict[str, Any], theirs: dict[str, Any], digest: str = "0" * 64, **facts: Any
) -> dict[str, Snapshot]:
    records = [
        world.inspect(structure=world.structure(**ours)),
        world.inspect(model=OTHER, structure=world.structure(**theirs), facts=world.facts(**facts)),
    ]
    return snapshots(exported(), records, two(digest))


def related(now: dict[str, Snapshot], sealed: Sealed) -> tuple[Comparison, str, str]:
    manifest = exported()
    found = comparisons(manifest, sealed, now)
    said = list(findings(found, manifest))
    return found[0], said[0].code, said[0].message


def test_one_file_under_two_names_is_no_second_witness() -> None:
    one, code, message = related(pair({}, {}), two())
    assert (one.relation, one.same_structure, one.exporter) == ("byte-equal", True, "torch.onnx 2.9")
    assert (code, message) == ("export/independent-byte-equal", "the two files are one file")
    assert one.document()["difference"] is None
    assert comparisons(exported(exporter=False), two(), {})[0].exporter == ""


def test_equal_files_with_external_data_are_equal_by_their_weights_alone() -> None:
    weights = {"graph_sha256": "5" * 64}
    one, code, _ = related(pair(weights, weights, external_count=1), two())
    assert (one.relation, code) == ("byte-equal", "export/independent-byte-equal")


def test_two_files_that_compute_the_same_are_told_from_those_that_do_not() -> None:
    apart = two("9" * 64)
    weights = {"graph_sha256": "5" * 64}
    assert related(pair(weights, weights), apart)[1] == "export/independent-graph-equal"
    one, code, message = related(pair(weights, {"graph_sha256": "6" * 64}, "9" * 64), apart)
    assert (one.same_structure, code) == (True, "export/independent-differs")
    assert message == "the same structure with other values of weights"
    difference = one.document()["difference"]
    assert (difference["weights"], difference["same_structure"]) == ("differ", True)


def test_what_could_not_be_read_of_one_export_is_unknown_and_never_equal() -> None:
    apart = two("9" * 64)
    one, code, _ = related(pair({}, {}), apart)
    assert (one.relation, one.same_structure, code) == ("unknown", True, "export/independent-unknown")
    alone = {"main": pair({}, {})["main"]}
    one, code, _ = related(alone, apart)
    assert (one.relation, one.same_structure, code) == ("unknown", None, "export/independent-unknown")


def test_another_structure_is_told_by_operators_interface_and_sizes() -> None:
    names = ["MatMul", "Add", *(f"Op{number}" for number in range(8))]
    operators = [OpUse(domain="ai.onnx", op_type=name, count=1, where="graph/node[0]") for name in names]
    outputs = [world.value("probabilities", 4)]
    now = pair({}, {"topology_sha256": "3" * 64}, operators=operators, outputs=outputs, nodes=10)
    message = related(now, two("9" * 64))[2]
    assert message.startswith("another structure: only there: ai.onnx::Op0 (1), ")
    assert "and 2 more; only here: ai.onnx::Softmax (1); output probabilities " in message
    assert message.endswith("nodes 3 and 10")


def test_the_same_operators_connected_otherwise_are_said_to_be_that() -> None:
    message = related(pair({}, {"topology_sha256": "3" * 64}), two("9" * 64))[2]
    assert message == "another structure: the same operators, connected otherwise"


def test_the_verdict_names_how_an_independent_export_is_related() -> None:
    def told(*second: JobRecord) -> Judgement:
        jobs = [world.inspect(), *second]
        return world.verdict(world.submission(jobs, sealed=two()), manifest=exported())

    assert "export/independent-byte-equal" in world.codes(told(world.inspect(model=OTHER)))
    assert told().verdict == "inconclusive"  # the second file was never inspected: no second witness
    assert world.codes(world.verdict(manifest=world.a_manifest())) == world.codes(world.verdict())


# -- a release, or another bundle


def bundle(**changes: Any) -> Prior:
    return as_prior(world.a_manifest(), world.submission(**changes), "accepted")


def test_another_bundle_stands_in_for_a_release_with_all_that_was_inspected() -> None:
    found = bundle()
    assert (found.status, found.version, found.bundle_digest) == ("found", "1.4.0", "d" * 64)
    assert [(one.name, [file.path for file in one.files]) for one in found.models] == [("main", ["model.onnx"])]


@pytest.mark.parametrize(
    ("manifest", "changes"),
    [
        (None, {}),
        (world.a_manifest(), {"sealed": None}),
        (world.a_manifest(), {"jobs": [world.record("inspect", model="main")]}),
    ],
)
def test_a_bundle_that_was_not_inspected_is_unknown_with_the_reason(
    manifest: Manifest | None, changes: dict[str, Any]
) -> None:
    found = as_prior(manifest, world.submission(**changes), "rejected: manifest/invalid")
    assert (found.status, found.models) == ("unknown", [])
    assert found.reason.endswith("could not be inspected: rejected: manifest/invalid")


def test_two_releases_of_one_bundle_are_the_same_and_of_an_unknown_one_nothing_is_said() -> None:
    assert between(bundle(), bundle())["status"] == "same"
    lost = Prior(status="unknown", reason="its sealed files are gone\x1b[2J")
    told = between(bundle(), lost)
    assert (told["status"], told["reason"]) == ("unknown", "its sealed files are gone\\u001b[2J")


def test_two_releases_differ_in_models_and_in_what_they_declare() -> None:
    newer = bundle().model_copy(update={"bundle_digest": "e" * 64, "version": "1.5.0"})
    told = between(bundle(), newer)
    assert (told["status"], told["bundle"]["compared"]) == ("found", True)
    assert [one["model"] for one in told["models"]] == ["main"]
    silent = newer.model_copy(update={"declared": None})
    told = between(bundle(), silent)
    assert (told["bundle"]["compared"], told["bundle"]["terms"]) == (False, [])
    assert [one["terms"] for one in told["models"]] == [[]]


def test_a_report_without_a_prior_release_says_that_nothing_was_compared() -> None:
    assert document(None, world.a_manifest(), {})["reason"] == "nothing was compared"
    first = document(Prior(status="none", reason="the first release"), world.a_manifest(), {})
    assert (first["release"], first["models"]) == (None, [])
    assert differences(None, world.a_manifest(), {}) == []
    unread = document(regression.release(), None, {})
    assert (unread["release"]["number"], unread["bundle"]) == (3, None)


def changed(prior: Prior, **submission: Any) -> dict[str, str]:
    told = world.verdict(world.submission(prior=prior, **submission))
    return {one.code: one.message for one in told.findings if one.code.startswith("difference/")}


def test_every_way_in_which_a_submission_is_another_model_than_the_release_is_told() -> None:
    stranger = world.facts(
        ir_version=7,
        opsets={"ai.onnx": 12, "com.example": 1},
        operators=[OpUse(domain="ai.onnx", op_type="Relu", count=1, where="graph/node[0]")],
        nodes=1,
    )
    before = world.structure(
        topology_sha256="8" * 64,
        initializers=["bias float32[9]"],
        initializer_count=1,
        initializers_sha256="4" * 64,
    )
    found = changed(regression.release(facts=stranger, structure=before))
    assert "Relu" in found["difference/operator-gone"]
    assert "Softmax" in found["difference/new-operator"]
    assert "IR version 7 → 8" in found["difference/version-changed"]
    assert "opset of com.example 1 → none" in found["difference/version-changed"]
    assert "2 initializers added" in found["difference/initializers-changed"]
    assert "nodes 1 → 3" in found["difference/size-changed"]
    wider = changed(regression.release(facts=world.facts(outputs=[world.value("probabilities", 4)])))
    assert wider["difference/interface-changed"].startswith("output probabilities: float32[batch, 4] in release 3")


def test_operators_of_a_new_domain_and_models_that_came_or_went_are_told() -> None:
    facts = world.facts(operators=[OpUse(domain="com.example", op_type="Odd", count=1, where="graph/node[0]")])
    told = world.verdict(world.submission([world.inspect(facts=facts)], prior=regression.release()))
    assert "difference/new-domain" in world.codes(told)
    other = changed(regression.release(name="second"))
    assert other["difference/models-changed"].startswith("models added: main; removed: second; since release 3")


def test_what_a_prior_release_cannot_tell_is_said_to_be_unknown() -> None:
    assert changed(Prior(status="unknown"))["difference/unknown"] == "its facts could not be had"
    undeclared = changed(regression.release(declared=None))
    assert "no valid manifest any more" in undeclared["difference/unknown"]
    cut = regression.release(
        structure=world.structure(topology_sha256="8" * 64, initializers_sha256="4" * 64, initializer_count=9)
    )
    assert "names of initializers" in changed(cut)["difference/unknown"]


def shape(count: int, *exact: str, driven: Any = "input") -> SelectionShape:
    places = [SelectionPlace(where=f"graph/node[{one}]", condition=f"c{one}", exact=one * 64) for one in exact]
    return SelectionShape(
        key="7" * 64,
        op_type="If",
        driven=driven,
        input="features",
        path=["ReduceSum"],
        count=count,
        places=places,
    )


def selecting(*shapes: SelectionShape, kinds: int | None = None, **changes: Any) -> JobRecord:
    counted = len(shapes) if kinds is None else kinds
    return world.inspect(structure=world.structure(selections=[*shapes], selection_shapes=counted, **changes))


def test_a_new_selection_is_told_with_what_decides_it() -> None:
    assert "difference/new-selection" not in changed(regression.release())
    for driven, code, words in (
        ("input", "difference/new-selection", "decided by the input 'features': ReduceSum"),
        ("unknown", "difference/new-selection", "decided by a name that leads nowhere"),
        ("none", "difference/new-branch", "decided by no input"),
    ):
        job = selecting(shape(1, "a", driven=driven), topology_sha256="6" * 64)
        told = world.verdict(world.submission([job], prior=regression.release()))
        message = {one.code: one.message for one in told.findings}[code]
        assert words in message


def test_a_selection_decided_by_something_else_is_told_and_places_not_listed_are_not_compared() -> None:
    before = world.structure(selections=[shape(1, "b")], selection_shapes=1, topology_sha256="8" * 64)
    job = selecting(shape(1, "a"), topology_sha256="6" * 64)
    told = world.verdict(world.submission([job], prior=regression.release(structure=before)))
    assert "difference/selection-changed" in world.codes(told)
    many = selecting(shape(30, "a"), kinds=3, topology_sha256="6" * 64)
    crowd = world.structure(selections=[shape(30, "a")], selection_shapes=1, topology_sha256="8" * 64)
    told = world.verdict(world.submission([many], prior=regression.release(structure=crowd)))
    message = {one.code: one.message for one in told.findings}["difference/unknown"]
    assert "2 kinds of selections (now)" in message
    assert "places of 1 kinds of selections that both have" in message


def test_reordered_inputs_are_another_interface_though_each_is_there() -> None:
    values = [world.value("a", 4), world.value("b", 4)]
    first = snapshots(world.a_manifest(), [world.inspect(facts=world.facts(inputs=values))], None)["main"]
    second = snapshots(world.a_manifest(), [world.inspect(facts=world.facts(inputs=values[::-1]))], None)["main"]
    assert [(one.what, one.before, one.after) for one in compare(first, second).interface] == [
        ("order of inputs", "a, b", "b, a")
    ]


def test_nothing_differs_means_nothing_but_values_of_weights() -> None:
    now = pair({"graph_sha256": "5" * 64}, {"graph_sha256": "6" * 64})
    found = compare(now["main"], now[OTHER].model_copy(update={"name": "main", "bytes": now["main"].bytes}))
    assert found.nothing
    counted = found.document()
    assert (counted["counts"], counted["domain_uses"]) == ({}, {})
