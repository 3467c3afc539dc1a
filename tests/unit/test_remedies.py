"""A remedy is something to do: what it names of onnx, onnxruntime, the policy and acceptd itself exists."""

from __future__ import annotations

import importlib
import re
from functools import reduce

import onnx
import pytest

from acceptd.judge.codes import CODES
from acceptd.policy.policy import Policy
from tests.unit.test_docs_commands import problems

pytestmark = pytest.mark.unit

REMEDIES = {code: known.remedy for code, known in CODES.items()}
_NAME = re.compile(r"\b((?:onnx|onnxruntime)(?:\.[A-Za-z_]\w*)+)")
_COMMAND = re.compile(r"`(acceptd [^`]+)`")


def named(pattern: re.Pattern[str]) -> set[str]:
    return {found for text in REMEDIES.values() for found in pattern.findall(text)}


def exists(name: str) -> bool:
    """Say whether a dotted name is a module or something in one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[cut:], module)
        except AttributeError:
            return False
        return True
    return False


def test_what_is_named_of_onnx_and_onnxruntime_exists() -> None:
    names = named(_NAME) - {"onnx.export"}  # of torch.onnx.export
    assert len(names) > 15
    assert {name for name in names if not exists(name)} == set()
    assert not exists("onnx.no_such_thing")
    onnx.ModelProto().DiscardUnknownFields()


def test_keywords_that_are_given_to_onnx_are_its_own() -> None:
    import inspect

    for function, words in (
        (onnx.save_model, "save_as_external_data all_tensors_to_one_file location size_threshold"),
        (onnx.checker.check_model, "full_check"),
        (onnx.shape_inference.infer_shapes, "strict_mode"),
        (onnx.compose.merge_models, "io_map prefix1 prefix2"),
        (importlib.import_module("onnx.inliner").inline_local_functions, "convert_version"),
    ):
        assert set(words.split()) <= set(inspect.signature(function).parameters)


def test_the_commands_of_a_remedy_exist() -> None:
    commands = named(_COMMAND)
    assert len(commands) > 8
    assert [problem for line in commands for problem in problems(line)] == []


def test_the_limits_of_a_remedy_are_keys_of_the_policy() -> None:
    limits = named(re.compile(r"\blimits\.([a-z_]+)"))
    assert limits
    assert limits <= set(Policy.model_fields["limits"].annotation.model_fields)  # type: ignore[union-attr]


def test_a_team_that_is_rejected_reads_what_to_do_not_only_whom_to_ask() -> None:
    for code, known in CODES.items():
        if known.severity == "reject" and known.audience == "team":
            assert not re.match(r"(Ask|Report|Contact|Nothing)\b", known.remedy) or code in {
                "load/digest-mismatch",  # the sealed copy changed: no bundle does that
                "load/size-mismatch",
            }


def test_backticks_come_in_pairs_and_no_remedy_floods_a_terminal() -> None:
    for text in REMEDIES.values():
        assert text.count("`") % 2 == 0
        assert text.endswith((".", "…"))
        assert len(text) <= 320
