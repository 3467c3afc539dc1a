"""`policy check`, `policy diff` and the JSON Schemas: every error with its line, words and remedy."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd.policy import load
from acceptd.policy.check import examine
from acceptd.policy.difference import changes
from acceptd.policy.policy import Policy
from acceptd.policy.schemas import KINDS, schema, schema_text
from acceptd.policy.troubles import Trouble, all_keys

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
BAD = """schema = 1
name = "Bad Name"
requird_walls = ["root"]
required_walls = ["moat", "root"]
files = 3

[limits]
files = "many"
nodez = 5
nodes = -1
threads = 1.5

[manifest]
inferred = "refuze"

[parity.default]
atol = true
rtol = 3

[vectors]
required = "yes"

[severity]
"run/chrash" = "warn"
"cell/lost" = "loud"
"""


def told(tmp_path: Path, text: str, name: str = "p.toml") -> list[Trouble]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return examine(path)[1]


def test_every_error_is_told_at_its_line(tmp_path: Path) -> None:
    found = told(tmp_path, BAD)
    assert [(one.line, one.key) for one in found] == [
        (2, "name"),
        (3, "requird_walls"),
        (4, "required_walls[0]"),
        (5, "files"),
        (8, "limits.files"),
        (9, "limits.nodez"),
        (10, "limits.nodes"),
        (11, "limits.threads"),
        (14, "manifest.inferred"),
        (17, "parity.default.atol"),
        (18, "parity.default.rtol"),
        (21, "vectors.required"),
        (24, "severity.run/chrash"),
        (25, "severity.cell/lost"),
    ]
    assert all(one.remedy and "\n" not in one.text("p") for one in found)
    words = {one.key: (one.message, one.remedy) for one in found}
    assert words["limits.files"][0] == "is text, 'many'; a whole number is needed"
    assert words["parity.default.atol"][0] == "is a boolean, true; a number is needed"
    assert words["requird_walls"][1] == "did you mean required_walls?"
    assert words["files"][1] == "it belongs to [limits]"
    assert words["limits.nodez"][1] == "did you mean nodes?"
    assert words["manifest.inferred"][1] == "did you mean refuse?"
    assert words["severity.run/chrash"][1] == "did you mean run/crash?"


def test_the_daemon_names_the_first_line_and_how_many_more(tmp_path: Path) -> None:
    told(tmp_path, BAD)
    with pytest.raises(load.ConfigError) as caught:
        load.load_policy(tmp_path / "p.toml")
    assert caught.value.message.startswith(f"{tmp_path}/p.toml:2: name: 'Bad Name' is no name")
    assert "(and 13 more: acceptd policy check" in caught.value.message


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a = 1\nb = \n", 2, "not TOML"),
        ("a = 1\n\n[x\n", 3, "not TOML"),
        ("a = 1\na = 2\n", 2, "not TOML"),
        ('name = """\n', 2, "not TOML"),
        ("x = " + "[" * 5000, 1, "nested too deeply"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    [one] = told(tmp_path, text)
    assert (one.line, one.message.startswith(said)) == (line, True)


@pytest.mark.parametrize(
    ("text", "key"),
    [("[fleet]\ntrust = []\n[[fleet.trust]]\n", "trust"), ("trust = []\n[[trust]]\n", "trust")],
)
def test_a_table_whose_key_has_a_value_above_is_told_which_line_to_take_out(
    tmp_path: Path, text: str, key: str
) -> None:
    [one] = told(tmp_path, text)
    assert f"take the line `{key} = …` out" in one.remedy


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b'schema = 1\nname = "\xff"\n')
    path.chmod(0o644)
    assert examine(path)[1] == [Trouble(2, "", "not UTF-8 at byte 19", "save it as UTF-8")]


CONTRACT = """id = "mosaic/m"
[[models]]
name = "main"
[[models.inputs]]
name = "x"
dtype = "floaty"
shape = ["batch", 1.5]
[[models.inputs]]
nam = "y"
dtype = "float32"
[[models.outputs]]
name = "z"
dtype = "float32"
lables = ["a"]
[dims.batch]
min = 4
max = 1
"""


def test_a_contract_is_known_by_its_keys_or_place_and_checked_deep_inside(tmp_path: Path) -> None:
    found = told(tmp_path, CONTRACT)
    keys = [(one.line, one.key) for one in found]
    assert keys == [
        (6, "models[0].inputs[0].dtype"),
        (7, "models[0].inputs[0].shape[1]"),
        (8, "models[0].inputs[1].name"),
        (9, "models[0].inputs[1].nam"),
        (14, "models[0].outputs[0].lables"),
        (15, "dims.batch"),
    ]
    words = {one.key: one.remedy for one in found}
    assert words["models[0].outputs[0].lables"] == "did you mean labels?"
    assert words["models[0].inputs[1].nam"] == "did you mean name?"
    shape = next(one for one in found if one.key.endswith("shape[1]"))
    assert "a whole number is needed" in shape.message
    assert "text" in shape.message


def test_a_contract_in_the_place_of_another_model_is_told_at_its_id(tmp_path: Path) -> None:
    text = (ROOT / "policies/contracts/mosaic/evidence-disposition.toml.example").read_text(encoding="utf-8")
    assert told(tmp_path, text, "contracts/mosaic/evidence-disposition.toml") == []
    [one] = told(tmp_path, text, "contracts/mosaic/other.toml")
    assert one.key == "id"
    assert text.splitlines()[one.line - 1].startswith("id = ")


def test_a_profile_is_checked_with_what_it_names(tmp_path: Path) -> None:
    [one] = told(tmp_path, 'schema = 1\nname = "gpu"\n', "profiles/cpu.toml")
    assert (one.line, one.key) == (2, "name")
    [one] = told(tmp_path, 'name = "cpu"\n\ninterpreter = "/nowhere/python"\n', "profiles/cpu.toml")
    assert (one.line, one.key) == (3, "interpreter")
    [one] = told(tmp_path, 'name = "x"\n[session_entries]\n"session.made.up" = "1"\n', "profiles/x.toml")
    assert one.line == 3


def test_a_policy_whose_profile_is_missing_is_told_at_the_key(tmp_path: Path) -> None:
    [one] = told(tmp_path, 'schema = 1\nprofile = "gpu"\n')
    assert (one.line, one.key, "gpu.toml" in one.message) == (2, "profile", True)


def test_what_is_shipped_is_valid() -> None:
    for path in [*ROOT.glob("policies/*.toml"), *ROOT.glob("policies/profiles/*.toml")]:
        assert examine(path)[1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_schemas_are_generated_shipped_and_up_to_date(kind: str) -> None:
    assert (ROOT / "docs" / f"{kind}.schema.json").read_text(encoding="utf-8") == schema_text(kind)
    made = schema(kind)
    assert made["additionalProperties"] is False
    tables = {name.split(".")[0] for name in all_keys(KINDS[kind][0])}
    assert set(made["properties"]) == tables


def test_the_json_schemas_take_what_is_shipped_and_refuse_the_rest() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="pip install -r requirements.lock")
    for kind, path in (
        ("policy", "policies/default.toml"),
        ("policy", "policies/strict.toml"),
        ("profile", "policies/profiles/cpu.toml"),
        ("contract", "policies/contracts/mosaic/evidence-disposition.toml.example"),
    ):
        made: Any = jsonschema.Draft202012Validator(schema(kind))
        document = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))
        assert made.is_valid(document), path
        assert not made.is_valid(document | {"requird": 1}), path


def test_the_difference_of_two_policies_says_which_is_stricter() -> None:
    strict = load.load_policy(ROOT / "policies" / "strict.toml")
    found = {one.key: one for one in changes(Policy(), strict)}
    assert found["limits.metadata_bytes"].tendency == "stricter"
    assert found["required_walls"].text() == "required_walls: adds separate_uid"
    assert found["release.automatic"].text() == "release.automatic: true → false"
    assert {one.tendency for one in found.values()} <= {"stricter", "other"}
    back = {one.key: one.tendency for one in changes(strict, Policy())}
    assert back["limits.metadata_bytes"] == back["manifest.inferred"] == back["licenses.allowed"] == "laxer"
    assert changes(strict, strict) == []
    json.dumps([one.first for one in found.values()])


def test_more_of_the_oracle_and_less_room_beside_it_are_stricter() -> None:
    wide = Policy.model_validate(
        {"reference": {"logits": {"rtol": 0.1, "atol": 0.1, "top1": 0.5}, "max_steps": 1}}
    )
    asked = Policy.model_validate({"reference": {"required": True}})
    found = {one.key.removeprefix("reference."): one.tendency for one in changes(wide, asked)}
    names = ("logits.rtol", "logits.atol", "logits.top1", "max_steps", "required")
    assert found == dict.fromkeys(names, "stricter")


def test_new_bounds_are_stricter_and_told_key_by_key() -> None:
    strict = load.load_policy(ROOT / "policies" / "strict.toml")
    found = {one.key: one for one in changes(Policy(), strict)}
    assert found["operators.limits.ai.onnx::Loop.nodes"].text().endswith("Loop.nodes: none → 16")
    assert all("{" not in one.text() and "None" not in one.text() for one in found.values())
    assert all(len(one.text()) < 400 for one in found.values())
    bounds = {key: one for key, one in found.items() if key.startswith(("operators.limits", "opsets.domains"))}
    assert {one.tendency for one in bounds.values()} == {"stricter"}
    back = [one for one in changes(strict, Policy()) if one.key in bounds]
    assert {one.tendency for one in back} == {"laxer"}
    words = found["operators.allowed"].text()
    count = len(strict.operators.allowed)
    assert words.startswith(
        f"operators.allowed: from every operator of the domains to {count} listed ones (ai.onnx::"
    )
    assert words.endswith(f"and {count - 8} more)")


def test_a_wider_range_of_a_domain_is_laxer_at_both_ends() -> None:
    def ranged(low: int, high: int) -> Policy:
        return Policy.model_validate({"opsets": {"domains": {"ai.onnx.ml": {"min": low, "max": high}}}})

    assert {one.tendency for one in changes(ranged(2, 3), ranged(1, 4))} == {"laxer"}
    assert {one.tendency for one in changes(ranged(1, 4), ranged(2, 3))} == {"stricter"}


def test_an_operator_that_onnx_never_had_is_told_where_it_stands(tmp_path: Path) -> None:
    text = """schema = 1
[operators]
domains = ["ai.onnx", "ai.onnx.ml", "mine"]
allowed = ["ai.onnx::Add",
  "ai.onnx::Adddd", "mine::Whatever", "ai.onnx::ZipMap"]
denied = ["ai.onnx::*"]
[operators.limits]
"ai.onnx::Lop" = { nodes = 3 }
"""
    path = tmp_path / "p.toml"
    path.write_text(text)
    found = [(one.line, one.message, one.remedy) for one in examine(path)[1]]
    assert found == [
        (5, "ONNX has no operator ai.onnx::Adddd", "did you mean ai.onnx::Add?"),
        (5, "ONNX has no operator ai.onnx::ZipMap", "did you mean ai.onnx.ml::ZipMap?"),
        (8, "ONNX has no operator ai.onnx::Lop", "did you mean ai.onnx::Loop?"),
    ]


def test_a_severity_that_is_the_codes_own_is_no_difference() -> None:
    same = load.with_overrides(Policy(), ["severity.vectors/insensitive=hold"])
    assert changes(Policy(), same) == []
    lax = load.with_overrides(Policy(), ["severity.vectors/insensitive=warn"])
    [one] = changes(Policy(), lax)
    assert (one.key, one.tendency) == ("severity.vectors/insensitive", "laxer")


def test_the_reviewers_of_a_policy_directory_are_no_broken_policy(tmp_path: Path) -> None:
    path = tmp_path / "reviewers.toml"
    example = (ROOT / "policies" / "reviewers.toml.example").read_text("utf-8")
    path.write_text(example.replace("A" * 43 + "=", base64.b64encode(b"k" * 32).decode()), "utf-8")
    assert examine(path) == ("reviewers", [])
    path.write_text('schema = 1\n[[reviewers]]\nname = "ada"\nteem = "security"\n', "utf-8")
    kind, troubles = examine(path)
    assert kind == "reviewers"
    assert "reviewers.toml.example" in troubles[0].remedy or "team" in troubles[0].text(path)


def test_more_probes_and_more_approvals_are_stricter() -> None:
    wished = ["probes.near_ties=8", "probes.relations_seconds=9", "approvals.required=2"]
    assert {one.tendency for one in changes(Policy(), load.with_overrides(Policy(), wished))} == {"stricter"}
    glass = load.with_overrides(Policy(), ["approvals.break_glass=true"])
    assert [one.tendency for one in changes(Policy(), glass)] == ["laxer"]
