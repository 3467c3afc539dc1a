"""What a team reads when its bundle.toml is wrong: the place, what was given, what is wanted."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from acceptd.errors import UsageError
from acceptd.policy.load import with_overrides
from acceptd.policy.manifest import Manifest, validated
from acceptd.policy.policy import Policy
from acceptd.policy.troubles import Trouble

GOOD = """
schema = 1
[bundle]
id = "mosaic/classifier"
version = "1.0.0"
[dims]
batch = { min = 1, max = 8 }
[[models]]
name = "main"
file = "model.onnx"
inputs = [{ name = "x", dtype = "float32", shape = ["batch", 4] }]
outputs = [{ name = "y", dtype = "float32", shape = ["batch", 2] }]
"""


def told(*changes: tuple[str, str]) -> Trouble:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    found = validated(tomllib.loads(text))
    assert isinstance(found, Trouble)
    return found


def test_the_document_itself_is_sound() -> None:
    assert isinstance(validated(tomllib.loads(GOOD)), Manifest)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (('"float32"', '"float"'), "models[0].inputs[0].dtype", ["is 'float'", "did you mean float32?"]),
        (('"1.0.0"', "1.0"), "bundle.version", ["is a number, 1.0", "text in quotes is needed"]),
        (('"1.0.0"', '"v 1"'), "bundle.version", ["is 'v 1'", "should match pattern"]),
        (("[bundle]", "[bundle]\npurpsoe = 'x'"), "bundle.purpsoe", ["did you mean purpose?"]),
        (("schema = 1", "schema = 1\nlicense = 'MIT'"), "license", ["it belongs to [bundle]"]),
        (
            ("batch = {", "width = {"),
            "models[0].inputs[0].shape[0]",
            ["'batch' is not bounded in [dims]", "add it, with min and max"],
        ),
        (('file = "model.onnx"\n', ""), "models[0].file", ["is missing"]),
        (("shape", "shpae"), "models[0].inputs[0].shpae", ["did you mean shape?"]),
    ],
)
def test_a_wrong_key_is_told_with_its_place_what_it_is_and_what_is_wanted(
    change: tuple[str, str], place: str, words: list[str]
) -> None:
    found = told(change)
    assert found.key == place
    assert all(word in found.message for word in words), found.message


def test_a_list_of_types_is_told_once_and_cut() -> None:
    message = told(('"float32"', '"gibberish"')).message
    assert message.count("float64") == 1
    assert "and 14 more" in message
    assert len(message) < 250


def test_what_else_is_wrong_is_named_too() -> None:
    found = told(('"1.0.0"', "1"), ("schema = 1", "schema = 2"), ('name = "x"', "name = 3"))
    assert "(also wrong: models[0].inputs[0].name, schema)" in found.message


@pytest.mark.parametrize("hostile", ["\x1b[2J\n\u202e", "A" * 60_000], ids=["control", "long"])
def test_hostile_text_in_a_key_or_value_is_escaped_and_capped(hostile: str) -> None:
    documents: list[dict[str, Any]] = [tomllib.loads(GOOD) for _ in range(3)]
    documents[0]["models"][0]["inputs"][0]["dtype"] = hostile
    documents[1]["bundle"][hostile] = hostile
    documents[2]["dims"][hostile] = {"min": hostile, "max": 1}
    for document in documents:
        found = validated(document)
        assert isinstance(found, Trouble)
        assert len(found.message) <= 600
        assert len(found.key) <= 300
        assert (found.message + found.key).isprintable()


def test_a_word_where_a_list_is_needed_is_answered_with_the_list() -> None:
    with pytest.raises(UsageError) as caught:
        with_overrides(Policy(), ["licenses.allowed=MIT"])
    assert "is text, 'MIT'" in caught.value.message
    assert caught.value.remedy == "write a TOML list: --set 'licenses.allowed=[\"MIT\"]'"
