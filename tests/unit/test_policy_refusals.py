"""What a policy, contract, profile or manifest cannot mean is refused where it stands, by its key."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from acceptd.errors import ConfigError
from acceptd.policy.check import examine
from acceptd.policy.contract import ContractModel, VersionRange, fits
from acceptd.policy.manifest import validated
from acceptd.policy.observe import ObserveTable, observe_table
from acceptd.policy.troubles import Trouble
from acceptd.policy.trusted import check_file, check_program, read_trusted

pytestmark = pytest.mark.unit

MANIFEST = """
schema = 1
[bundle]
id = "mosaic/detector"
version = "1.0.0"
[preprocessing]
version = "3"
sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
[[models]]
name = "main"
file = "model.onnx"
inputs = [{ name = "x", dtype = "float32", shape = [4] }]
[[models.outputs]]
name = "boxes"
dtype = "float32"
shape = [9, 4]
kind = "boxes"
boxes = { scores = "scores" }
[[models.outputs]]
name = "scores"
dtype = "float32"
shape = [9]
"""
SECOND = """
[[models]]
name = "second"
file = "second.onnx"
inputs = [{ name = "x", dtype = "float32", shape = [4] }]
outputs = [{ name = "y", dtype = "float32", shape = [4] }]
"""


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "shape = [4] }]",
            'shape = [4] }, { name = "x", dtype = "int64", shape = [1] }]',
            "two inputs have one name, 'x'",
        ),
        (
            '"scores" }',
            '"scores", classes = "scores" }',
            "boxes: 'scores' is named twice",
        ),
        (
            '"scores" }',
            '"scores", columns = ["x1", "y1", "x2", "y2", "score"] }',
            "there is a column 'score' and an output 'scores' for the same",
        ),
        ('version = "3"', 'version = "3 of many"', "1 to 32 of A-Z a-z 0-9 . _ - are allowed"),
        (
            "shape = [9]\n",
            "shape = [9]\n" + SECOND.replace('"second"', '"main"'),
            "two models have one name, 'main'",
        ),
        (
            "shape = [9]\n",
            "shape = [9]\n" + SECOND.replace("second.onnx", "model.onnx"),
            "two models have one file, 'model.onnx'",
        ),
    ],
)
def test_a_manifest_that_says_two_things_of_one_is_refused(old: str, new: str, said: str) -> None:
    assert not isinstance(validated(tomllib.loads(MANIFEST)), Trouble)
    assert old in MANIFEST
    found = validated(tomllib.loads(MANIFEST.replace(old, new, 1)))
    assert isinstance(found, Trouble)
    assert said in found.message


POLICY = 'schema = 1\nname = "ours"\n'
NO_PROFILE = '[[custom_operators]]\npath = "/a.so"\nsha256 = "{}"\nabi = 1\nsource = "here"\n'.format("1" * 64)


@pytest.mark.parametrize(
    ("name", "text", "place", "said"),
    [
        (
            "p.toml",
            POLICY + "[parity.default.limits]\nmin_cosine = 0.9\n",
            "parity",
            "default.limits: min_cosine is a limit of kind embedding, not of values",
        ),
        (
            "p.toml",
            POLICY + '[placement]\ncpu_operators = ["Cast"]\n',
            "placement.cpu_operators[0]",
            "'Cast' is no operator, for example \"ai.onnx::Cast\"",
        ),
        (
            "p.toml",
            POLICY + '[[signatures.signers]]\nname = "a"\nkey = "no key"\n',
            "signatures.signers[0].key",
            "no public key in PEM",
        ),
        (
            "p.toml",
            POLICY + 'profile = "cpu"\noptional_profiles = ["gone"]\n',
            "optional_profiles",
            "there is no {root}/profiles/gone.toml",
        ),
        (
            "profiles/own.toml",
            'schema = 1\nname = "own"\n' + NO_PROFILE + 'domain = "no domain"\n',
            "custom_operators[0].domain",
            "'no domain' is no operator domain",
        ),
        (
            "reviewers.toml",
            '[[reviewers]]\nname = "rita"\nteam = "risk"\nkey = "schlüssel"\n',
            "reviewers[0].key",
            "a key is base64",
        ),
        (
            "contracts/mosaic/other.toml",
            'id = "mosaic/other"\n[[models]]\ninputs = []\noutputs = []\nir_version = { min = 9, max = 8 }\n',
            "models[0].ir_version",
            "min is larger than max",
        ),
    ],
)
def test_a_file_that_cannot_be_meant_is_told_by_its_key(
    tmp_path: Path, name: str, text: str, place: str, said: str
) -> None:
    _, found = examine(written(tmp_path / name, text))
    [one] = [one for one in found if said.format(root=tmp_path) in one.message]
    assert one.key.startswith(place)
    assert one.line > 0
    assert one.remedy


def test_a_policys_line_names_what_is_wrong_in_the_profile_that_it_names(tmp_path: Path) -> None:
    written(tmp_path / "profiles/own.toml", 'name = "another"\n')
    [one] = examine(written(tmp_path / "p.toml", POLICY + 'profiles = ["cpu", "own"]\n'))[1]
    assert (one.line, one.key) == (3, "profiles")
    assert "own.toml" in one.message


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("contracts/defaults/mosaic/../kinds/boxes.toml", "", "defaults"),
        ("contracts/mosaic/classifier.toml", "", "contract"),
        ("contracts/mosaic/p.toml", 'profiles = ["cpu"]\n', "policy"),
        ("contracts/mosaic/p.toml", '[operators]\nmode = "any"\n', "policy"),
        ("profiles/gpu.toml", "", "profile"),
        ("somewhere.toml", 'id = "a/b"\nmodels = []\n', "contract"),
        ("somewhere.toml", 'interpreter = ""\n', "profile"),
        ("somewhere.toml", "reviewers = []\n", "reviewers"),
        ("somewhere.toml", "[limits\n", "policy"),
    ],
)
def test_a_file_is_examined_as_what_its_place_or_its_keys_say(
    tmp_path: Path, name: str, text: str, kind: str
) -> None:
    path = Path(str(tmp_path / name).replace("mosaic/../", ""))
    assert examine(written(path, text))[0] == kind


def test_no_class_is_meant_by_a_label_that_is_none_of_the_outputs() -> None:
    outputs = [
        {"name": "named", "dtype": "float32", "shape": [1, 2], "labels": ["accept", "review"]},
        {"name": "bare", "dtype": "float32", "shape": [1, 2]},
    ]
    model = ContractModel.model_validate({"inputs": [], "outputs": outputs})
    asked = [
        ("named", "review"),
        ("named", "1"),
        ("bare", "1"),
        ("bare", "review"),
        ("bare", "²"),
        ("bare", "1" * 10),
    ]
    assert [model.label_index(*one) for one in asked] == [1, None, 1, None, None, None]


@pytest.mark.parametrize(("found", "fit"), [(12, False), (13, True), (15, True), (16, False), (None, False)])
def test_a_version_that_is_not_known_is_in_no_range(found: int | None, fit: bool) -> None:
    assert fits(VersionRange(min=13, max=15), found) is fit
    assert fits(15, found) is (found == 15)


def test_what_is_observed_is_told_in_words_and_what_is_no_table_is_none() -> None:
    def words(**table: object) -> list[str]:
        found = observe_table(table)
        assert isinstance(found, ObserveTable)
        return list(found.words())

    assert words() == []
    assert words(teams=["mosaic"], models=["a/b", "a/c"]) == ["team mosaic", "models a/b, a/c"]
    assert words(teams=["mosaic", "opal"], models=["a/b"]) == ["teams mosaic, opal", "model a/b"]
    assert words(everything=True, teams=["mosaic"]) == ["everything"]
    for no_table in (None, [], "all", {"teams": ["../etc"]}, {"everythin": True}):
        assert observe_table(no_table) is None


def test_a_program_or_file_that_is_none_is_refused_with_the_key_that_names_it(tmp_path: Path) -> None:
    home = tmp_path / "programs"
    home.mkdir(mode=0o755)
    plain = written(home / "plain", "#!/bin/sh\n")
    for path, said in (
        (Path("bin/plain"), "'bin/plain' is no absolute path of a program"),
        (plain, f"{plain}: cannot be executed"),
        (home, f"{home}: cannot be executed"),
        (home / "gone", f"{home}/gone: No such file or directory"),
    ):
        with pytest.raises(ConfigError) as refused:
            check_program("hooks.tell.command", path)
        assert refused.value.message == f"hooks.tell.command: {said}"
        assert refused.value.remedy
    with pytest.raises(ConfigError, match="not a regular file"):
        check_file("profile.library", home)


def test_a_link_that_leads_to_itself_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(ConfigError, match="more than 16 links"):
        check_program("hooks.tell.command", tmp_path / "one")


def test_a_file_that_comes_in_pieces_is_read_whole_and_no_byte_beyond_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "p.toml", "0123456789")
    whole = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, count: whole(descriptor, min(count, 3)))
    assert read_trusted(path, 10, "a policy") == b"0123456789"
    with pytest.raises(ConfigError, match="larger than 9 bytes"):
        read_trusted(path, 9, "a policy")
