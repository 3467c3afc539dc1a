"""Edges of the operator's files: what stands nowhere, twice, or in a circle, and what is no change at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from acceptd.adopt.find import Found, find
from acceptd.adopt.place import RECORD, Place, digest_or_none
from acceptd.adopt.rows import Row, needs
from acceptd.adopt.work import Adoption
from acceptd.errors import ConfigError, NoThreadError, UsageError
from acceptd.policy.defaults import Inherited, apply
from acceptd.policy.difference import changes
from acceptd.policy.lines import locate
from acceptd.policy.load import load_all, load_policy
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.signatures import SignaturesTable, SignerTable
from acceptd.statement.release import release_differences
from acceptd.threads import Thread
from tests import judge_world

pytestmark = pytest.mark.unit


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    return path


# -- the policy's files


@pytest.mark.parametrize("text", ["= 1", "a 1", "a =", "a = ,", "[a", "a = [1", 'a = "x', "a = {b 1}", "a = 1\n]"])
def test_text_that_is_no_toml_has_no_lines(text: str) -> None:
    with pytest.raises(ValueError, match=r"(not TOML|expected) at character \d+"):
        locate(text)


def test_a_policy_without_profiles_beside_it_runs_under_the_built_in_one(tmp_path: Path) -> None:
    policy = written(tmp_path / "p.toml", "schema = 1\n")
    assert load_all(policy).profile.name == "cpu"
    own = written(tmp_path / "profiles/cpu.toml", 'schema = 1\nname = "cpu"\nintra_op_threads = 2\n')
    assert load_all(policy).profile.intra_op_threads == 2
    own.unlink()
    written(policy, 'schema = 1\nprofile = "gpu"\n')
    with pytest.raises(ConfigError, match=r"profiles/gpu\.toml"):
        load_all(policy)


def test_a_policy_that_names_its_profiles_twice_is_refused_though_both_mean_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "p.toml", 'schema = 1\nprofile = "cpu"\nprofiles = ["cpu"]\n')
    with pytest.raises(ConfigError, match="profile is given too") as caught:
        load_policy(path)
    assert caught.value.remedy == "keep one of them: profile is a list of one"


@pytest.mark.parametrize("value", ["text", 7, None, []])
def test_what_is_no_table_is_no_policy(value: Any) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate(value)


def test_two_signers_of_one_name_are_refused() -> None:
    """A report that names the signer would leave open which key it was."""
    one = SignerTable.model_construct(name="build", teams=[])
    with pytest.raises(ValueError, match="two of them have one name"):
        SignaturesTable.model_construct(required=True, signers=[one, one])._sound()
    with pytest.raises(ValidationError, match="no signer is named, so that nothing could ever be accepted"):
        SignaturesTable.model_validate({"required": True})


def test_a_circle_of_channels_is_told_at_a_channel_that_is_in_it(tmp_path: Path) -> None:
    text = """
    [channels.a]
    after = { channel = "b", seconds = 1 }
    [channels.b]
    after = { channel = "c", seconds = 1 }
    [channels.c]
    after = { channel = "b", seconds = 1 }
    """
    with pytest.raises(ConfigError, match="waits for itself: b → c → b"):
        load_policy(written(tmp_path / "p.toml", text))


def test_another_order_of_the_same_names_is_neither_stricter_nor_laxer() -> None:
    first = Policy.model_validate({"operators": {"denied": ["ai.onnx::Loop", "ai.onnx::If"]}})
    second = Policy.model_validate({"operators": {"denied": ["ai.onnx::If", "ai.onnx::Loop"]}})
    assert [one.tendency for one in changes(first, second)] == ["other"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (["id"], "the contract gives it itself"),
        (["nowhere"], "is no place in the contract"),
        (["models", 9, "heldout"], "is no place in the contract"),
        (["id", "deeper"], "is no place in the contract"),
    ],
)
def test_nothing_is_inherited_over_what_a_contract_says_itself_or_to_nowhere(path: list[Any], words: str) -> None:
    """What was signed with these values would come to another contract than its digest says."""
    document = judge_world.contract_document()
    with pytest.raises(ValueError, match=words):
        apply(document, [Inherited(path=path, value=1, source="team mosaic")])


# -- the statement of a release


def test_a_statement_about_other_files_is_told_and_the_version_that_made_it_is_its_own() -> None:
    due = {"subject": [{"name": "a"}], "predicate": {"number": 1, "acceptd": "1.0.0"}}
    same = {"subject": [{"name": "a"}], "predicate": {"number": 1, "acceptd": "0.9.0"}}
    assert list(release_differences(same, due)) == []
    other = {"subject": [{"name": "b"}], "predicate": {"number": 2, "more": 1}}
    assert list(release_differences(other, due)) == [
        "is about other files than release.json",
        "more is 1, release.json and the ledger say None",
        "number is 2, release.json and the ledger say 1",
    ]


# -- adoption


def test_more_entries_than_can_be_meant_are_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        written(tmp_path / f"m{number}.onnx", "m")
    monkeypatch.setattr("acceptd.adopt.find.MAX_ENTRIES", 5)
    with pytest.raises(UsageError, match="more than 5 entries below") as caught:
        find(tmp_path)
    assert caught.value.remedy == "adopt a part of it at a time"


def test_a_directory_that_cannot_be_read_is_skipped_with_the_reason_and_the_rest_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "closed/a.onnx", "m")
    written(tmp_path / "open/b.onnx", "m")
    scan = os.scandir

    def refused(place: Any) -> Any:
        if str(place).rstrip("/").endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scan(place)

    monkeypatch.setattr("acceptd.adopt.find.os.scandir", refused)
    assert find(tmp_path) == [
        Found("closed", "skipped", "cannot be read: Permission denied"),
        Found("open/b.onnx", "model"),
    ]


def test_a_record_without_end_is_none_and_a_place_that_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    record = tmp_path / "out" / RECORD
    record.parent.mkdir()
    with record.open("wb") as file:
        file.truncate(1 << 32)
    with pytest.raises(UsageError, match="is no record of an adoption: too large") as caught:
        Place(tmp_path / "out").read()
    assert "--into" in caught.value.remedy
    (tmp_path / "link").symlink_to(record)
    assert digest_or_none(tmp_path / "link") == ""
    assert digest_or_none(tmp_path / "nowhere") is None


def test_a_manifest_leaves_open_what_its_outputs_mean() -> None:
    document = judge_world.manifest_document()
    output = document["models"][0]["outputs"][0]
    del output["labels"]
    row = Row(path="m.onnx", kind="model", state="made")
    said = needs(Manifest.model_validate(document), row, [])
    assert any(line == "classes without labels: probabilities" for line in said)
    for key in ("kind", "tolerance"):
        del output[key]
    said = needs(Manifest.model_validate(document), row, [])
    assert any(line.startswith("kind of output not known") and "probabilities" in line for line in said)


def test_a_host_that_gives_one_thread_adopts_everything_in_it_and_one_that_gives_none_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    begun: list[str] = []
    start = Thread.start

    def few(self: Thread) -> None:
        if self.name.startswith("adopt-"):
            if len(begun) >= most:
                raise NoThreadError("there is no memory for another thread")
            begun.append(self.name)
        start(self)

    monkeypatch.setattr(Thread, "start", few)
    monkeypatch.setattr(
        Adoption, "_made", lambda _self, _one, row, known, **_: (known, row.model_copy(update={"state": "made"}))
    )
    bench: Any = None
    adoption = Adoption(bench, tmp_path, Place(tmp_path / "out"), "t", 4)
    found = [Found(f"{name}.onnx", "model") for name in "abc"]
    most = 1
    assert [row.state for row in adoption.run(found)] == ["made"] * 3
    assert begun == ["adopt-0"]
    most = 0
    begun.clear()
    with pytest.raises(NoThreadError):
        adoption.run(found)
