"""A model that needs more than a reduced build has is rejected, with the place; one that does not is not."""

from __future__ import annotations

import onnx
import pytest
from onnx import defs

from acceptd.evidence import OpUse, TypeUse
from acceptd.judge.finding import Judgement
from acceptd.judge.operator_versions import VERSIONS
from acceptd.judge.target import CODE, span
from acceptd.judge.verdict import pre_run
from acceptd.policy.policy import Policy
from acceptd.policy.reduced import parse_reduced
from tests import judge_world as world
from tools import gen_operator_versions

pytestmark = pytest.mark.unit

WHOLE = "ai.onnx;13;Add,MatMul,Softmax\n"


def judged(config: str, *uses: OpUse, functions: tuple[str, ...] = (), opset: int = 13) -> Judgement:
    facts = world.facts(opsets={"ai.onnx": opset}, functions=list(functions))
    facts = facts.model_copy(update={"operators": [*facts.operators, *uses]})
    given = world.submission([world.inspect(facts=facts)])
    return world.verdict(given, reduced=parse_reduced(config.encode(), "ops.config"))


def use(name: str, *, domain: str = "ai.onnx", version: int | None = 13, types: tuple[TypeUse, ...] = ()) -> OpUse:
    return OpUse(domain=domain, op_type=name, count=1, where="graph/node[7]", version=version, types=list(types))


def typed(*inputs: str, outputs: tuple[str, ...] = ()) -> TypeUse:
    return TypeUse(inputs=list(inputs), outputs=list(outputs), count=1, where="graph/node[9]")


def test_a_build_that_has_everything_accepts() -> None:
    assert judged(WHOLE).verdict == "accepted"
    assert judged("!no_ops_specified_means_all_ops_are_required\n").verdict == "accepted"


def test_an_empty_file_means_no_operator_at_all() -> None:
    assert world.codes(judged("# nothing\n"), "reject") == [CODE] * 3


@pytest.mark.parametrize("place", ["graph/node[7]", "graph/node[2]/then_branch/node[0]", "functions[0]/node[3]"])
def test_a_missing_operator_is_named_with_its_place(place: str) -> None:
    one = use("Erf").model_copy(update={"where": place})
    (finding,) = (found for found in judged(WHOLE, one).findings if found.code == CODE)
    assert (finding.severity, finding.where) == ("reject", f"model.onnx: {place}")
    assert "ai.onnx::Erf" in finding.message


def test_another_domain_of_the_same_name_is_another_operator() -> None:
    config = WHOLE + "ai.onnx;20;Gelu\ncom.microsoft;1;BiasGelu\n"
    assert world.codes(judged(config, use("Gelu", domain="com.microsoft", version=1)), "reject") == [CODE]
    assert judged(config + "com.microsoft;1;Gelu\n", use("Gelu", domain="com.microsoft", version=1)).verdict == (
        "accepted"
    )


@pytest.mark.parametrize(
    ("listed", "opset", "kept"),
    [
        (13, 13, True), (12, 13, False), (14, 13, False),  # Add changed in 7, 13 and 14
        (14, 21, True), (17, 21, True), (21, 14, True), (13, 21, False),
        (7, 12, True), (12, 7, True), (6, 12, False),
    ],
)  # fmt: skip
def test_an_opset_counts_where_it_means_the_same_kernel(listed: int, opset: int, *, kept: bool) -> None:
    config = f"ai.onnx;13;MatMul,Softmax\nai.onnx;{listed};Add\nai.onnx;{opset};MatMul,Softmax\n"
    assert (CODE not in world.codes(judged(config, opset=opset))) is kept


def test_an_operator_of_a_domain_that_nobody_imports_means_no_kernel() -> None:
    found = judged(WHOLE + "com.microsoft;1;Gelu\n", use("Gelu", domain="com.microsoft", version=None))
    assert found.verdict == "rejected"
    assert "of opset None" in found.reason


def test_two_opsets_of_one_operator_are_both_asked_for() -> None:
    """A local function imports another opset than the model."""
    assert world.codes(judged(WHOLE, use("Add", version=7)), "reject") == [CODE]
    assert judged(WHOLE + "ai.onnx;7;Add\n", use("Add", version=7)).verdict == "accepted"


def test_a_local_function_needs_no_kernel_of_its_own() -> None:
    call = use("Gate", domain="mosaic", version=1)
    assert not world.codes(judged(WHOLE, call, functions=("mosaic::Gate",)), "reject")
    assert CODE in world.codes(judged(WHOLE, call), "reject")


def test_a_constant_needs_no_kernel() -> None:
    assert judged(WHOLE, use("Constant")).verdict == "accepted"


TYPED = 'ai.onnx;13;Add,MatMul,Softmax,Cast{"inputs": {"0": ["float"]}, "outputs": {"0": ["int64_t", "float"]}}\n'


@pytest.mark.parametrize(
    ("types", "kept"),
    [
        (typed("float32", outputs=("int64",)), True),
        (typed("float16", outputs=("int64",)), False),
        (typed("float32", outputs=("bool",)), False),
        (typed("", outputs=("int64",)), True),  # what cannot be told is not held against the model
        (typed(), True),
    ],
)
def test_a_missing_type_of_one_operator_is_named(types: TypeUse, *, kept: bool) -> None:
    found = [one for one in judged(TYPED, use("Cast", types=(types,))).findings if one.code == CODE]
    assert not found if kept else (found[0].where, found[0].severity) == ("model.onnx: graph/node[9]", "reject")


def test_types_of_all_operators_limit_floating_point() -> None:
    config = "!globally_allowed_types;float\nai.onnx;13;Add,MatMul,Softmax,Shape,Mul\n"
    assert judged(config, use("Mul", types=(typed("float32"),))).verdict == "accepted"
    assert CODE in world.codes(judged(config, use("Mul", types=(typed("float64"),))), "reject")
    assert judged(config, use("Mul", types=(typed("int64"),))).verdict == "accepted"  # kept for shapes anyway
    assert judged(config, use("Shape", types=(typed("float64"),))).verdict == "accepted"  # looks at no element


def test_it_is_known_before_anything_is_run() -> None:
    reduced = parse_reduced(b"ai.onnx;13;Add\n", "ops.config")
    found = pre_run(world.a_manifest(), None, Policy(), world.submission(), reduced=reduced)
    assert [one.code for one in found if one.severity == "reject"] == [CODE, CODE]


# -- the table of opsets


def test_the_table_is_the_one_of_this_onnx() -> None:
    assert gen_operator_versions.TARGET.read_text(encoding="utf-8") == gen_operator_versions.text()


def test_a_span_is_what_onnx_itself_says() -> None:
    newest = defs.onnx_opset_version()
    for domain, table in VERSIONS.items():
        for name, versions in table.items():
            for version in range(versions[0], (newest if domain == "ai.onnx" else versions[-1] + 2) + 1):
                spelt = "" if domain == "ai.onnx" else domain
                meant = defs.get_schema(name, version, spelt).since_version
                assert span((domain, name), version)[0] == meant, (domain, name, version, onnx.__version__)
                assert span((domain, name), meant)[1] >= version
    assert span(("ai.onnx", "Add"), 12) == (7, 12)
    assert span(("ai.onnx", "Celu"), 3) == (3, 3)
    assert span(("mosaic", "Gate"), 3) == (3, 3)
