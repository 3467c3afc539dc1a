"""The required-operators file of a reduced build: read as onnxruntime's build reads it, errors with the line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from acceptd.errors import ConfigError
from acceptd.policy import load
from acceptd.policy.profile import Profile, ReducedBuild
from acceptd.policy.reduced import Kernel, Reduced, parse_reduced

pytestmark = pytest.mark.unit

ADD, CAST = ("ai.onnx", "Add"), ("ai.onnx", "Cast")


def read(text: str) -> Reduced:
    return parse_reduced(text.encode(), "ops.config")


def test_operators_opsets_and_domains() -> None:
    found = read("# made by hand\n\nai.onnx;12,13;Add, Cast\n;7;Mul\r\ncom.microsoft;1;Gelu,\nai.onnx;14;Add\n")
    assert found.kernels[ADD] == (Kernel(12), Kernel(13), Kernel(14))
    assert set(found.kernels) == {ADD, CAST, ("ai.onnx", "Mul"), ("com.microsoft", "Gelu")}
    assert (found.types, found.everything) == (None, False)


def test_types_of_single_operators() -> None:
    found = read(
        'ai.onnx;12;Add,Cast{"inputs": {"0": ["float", "int32_t"]}, "outputs": {"0": ["std::string"]}},Mul'
    )
    (cast,) = found.kernels[CAST]
    assert cast.inputs == {0: frozenset({"float32", "int32"})}
    assert cast.outputs == {0: frozenset({"string"})}
    assert ("ai.onnx", "Mul") in found.kernels
    custom = read('ai.onnx;11;OneHot{"custom": [["float", "int64_t", "int64_t"]]}')
    assert custom.kernels[("ai.onnx", "OneHot")] == (Kernel(11),)


def test_types_of_all_operators() -> None:
    assert read("!globally_allowed_types;float, int8_t\nai.onnx;1;Add").types == frozenset({"float32", "int8"})


def test_no_operators_means_none_unless_the_file_says_all() -> None:
    assert read("# nothing") == Reduced({})
    assert read("!no_ops_specified_means_all_ops_are_required").everything
    assert not read("!no_ops_specified_means_all_ops_are_required\nai.onnx;1;Add").everything


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ai.onnx;12;Add\nai.onnx;12", "ops.config:2: 2 fields"),
        ("ai.onnx;12;Add;Mul", "ops.config:1: 4 fields"),
        ("ai.onnx;twelve;Add", "ops.config:1: 'twelve' is no opset"),
        ("ai.onnx;12,;Add", "ops.config:1: '' is no opset"),
        ("ai.onnx;-1;Add", "is no opset"),
        ("ai.onnx;0;Add", "is no opset"),
        ("ai.onnx;\u0661;Add", "is no opset"),
        ("a b;1;Add", "'a b' is no domain"),
        ("ai.onnx;1;A B", "'A B' is no operator"),
        ('ai.onnx;1;Add{"inputs": {"0": ["float"]}', "ops.config:1: types of Add: "),
        ('ai.onnx;1;Add{"inputs": {"0": ["float"]}}Mul', "after the types of Add"),
        ('ai.onnx;1;{"inputs": {}}', "is no operator"),
        ('ai.onnx;1;Add{"inputs": {"x": ["float"]}}', "a position maps to"),
        ('ai.onnx;1;Add{"inputs": {"0": "float"}}', "a position maps to"),
        ('ai.onnx;1;Add{"inputs": 1}', "a position maps to"),
        ('ai.onnx;1;Add{"types": {}}', "types; inputs, outputs and custom are known"),
        ('ai.onnx;1;Add{"inputs": {}, "inputs": {}}', "a key stands twice"),
        ('ai.onnx;1;Add{"inputs": ' + "[" * 30_000, "types of Add"),
        ("!globally_allowed_types;float\n!globally_allowed_types;int8_t", "ops.config:2: types for all"),
        ("!globally_allowed_types;float32", "unknown type 'float32'"),
        ('!globally_allowed_types;float\nai.onnx;1;Add{"inputs": {"0": ["float"]}}', "exclude each other"),
        ("!everything", "ops.config:1: unknown directive"),
        ("#" + "x" * 70_000, "ops.config:1: a line of 70001 characters"),
        (
            "ai.onnx;" + ",".join(map(str, range(1, 300))) + ";" + ",".join(f"A{n}" for n in range(200)),
            "more than",
        ),
    ],
)
def test_an_error_names_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.message.startswith("ops.config:")
    assert message in caught.value.message


def test_text_that_is_not_utf8_names_its_line() -> None:
    with pytest.raises(ConfigError, match=r"ops\.config:2: not UTF-8"):
        parse_reduced(b"# one\n\xff\n", "ops.config")


def test_the_file_must_be_the_one_whose_digest_the_profile_gives(tmp_path: Path) -> None:
    path = tmp_path / "ops.config"
    path.write_text("ai.onnx;12;Add\n", encoding="utf-8")
    path.chmod(0o644)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    profile = Profile(reduced_build=ReducedBuild(config=str(path), sha256=digest))
    found = load.load_reduced(profile, "p.toml")
    assert found is not None
    assert ADD in found.kernels
    assert load.load_reduced(Profile(), "p.toml") is None
    path.write_text("ai.onnx;12;Add,Mul\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"p\.toml: reduced_build.sha256: .* has the digest"):
        load.load_reduced(profile, "p.toml")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod go-w"):
        load.load_reduced(profile, "p.toml")
