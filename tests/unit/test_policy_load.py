"""Policies, contracts and profiles: what is refused, what they mean, and what --set may change."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ConfigError, UsageError
from acceptd.policy import load
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.rules import load_rules

pytestmark = pytest.mark.unit

POLICIES = Path(__file__).resolve().parents[2] / "policies"


def written(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("name", ["default", "strict"])
def test_every_key_of_the_schema_stands_in_the_file_with_a_comment(name: str) -> None:
    lines = (POLICIES / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    table, commented = "", set()
    for before, line in zip(["", *lines], lines, strict=False):
        header = re.fullmatch(r"\[([a-z.]+)\]", line)
        if header:
            table = f"{header[1]}."
            if before.startswith("# "):
                commented.add(header[1])
        key = re.match(r"(?:# )?([a-z0-9_]+) =", line)
        if key and before.startswith("# "):
            commented.add(f"{table}{key[1]}")
    assert set(load.all_keys(Policy)) - commented == set()


def test_the_default_file_says_what_the_schema_says() -> None:
    assert load.load_policy(POLICIES / "default.toml") == Policy()


def test_the_strict_file_is_stricter() -> None:
    strict = load.load_policy(POLICIES / "strict.toml")
    assert set(strict.required_walls) > set(Policy().required_walls)
    assert (strict.contracts.missing, strict.manifest.inferred, strict.vectors.required) == (
        "hold",
        "refuse",
        True,
    )
    assert not strict.release.automatic
    assert strict.severity["vectors/insensitive"] == "hold"


def test_the_shipped_profile_is_the_built_in_one() -> None:
    assert load.load_profile(POLICIES / "profiles" / "cpu.toml") == Profile()
    found = load.load_all(POLICIES / "default.toml")
    assert (found.profile, found.contracts) == (Profile(), POLICIES / "contracts")


def test_the_example_contract_is_valid_in_its_place(tmp_path: Path) -> None:
    text = (POLICIES / "contracts/mosaic/evidence-disposition.toml.example").read_text(encoding="utf-8")
    written(tmp_path / "mosaic/evidence-disposition.toml", text)
    contract = load.load_contract(tmp_path, "mosaic/evidence-disposition")
    assert contract is not None
    assert contract.models[0].outputs[0].labels == ["accept", "review", "reject"]
    assert load.load_contract(tmp_path, "mosaic/other") is None


def test_a_contract_in_another_models_place_is_refused(tmp_path: Path) -> None:
    text = (POLICIES / "contracts/mosaic/evidence-disposition.toml.example").read_text(encoding="utf-8")
    written(tmp_path / "mosaic/other.toml", text)
    with pytest.raises(ConfigError, match="the file is for mosaic/evidence-disposition"):
        load.load_contract(tmp_path, "mosaic/other")


def test_a_contract_that_cannot_be_read_is_not_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "mosaic").mkdir()
    (tmp_path / "mosaic/gone.toml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError):
        load.load_contract(tmp_path, "mosaic/gone")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "p.toml", "", mode)
    with pytest.raises(ConfigError, match=re.escape(f"chmod go-w {path}")):
        load.load_policy(path)


def test_a_contract_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "mosaic/m.toml", "")
    (tmp_path / "mosaic").chmod(0o777)
    with pytest.raises(ConfigError, match="chmod go-w"):
        load.load_contract(tmp_path, "mosaic/m")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_a_stranger_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "p.toml", "")
    os.chown(path, 4242, -1)
    with pytest.raises(ConfigError, match="owned by uid 4242"):
        load.load_policy(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schema = 2", "schema"),
        ("name = 'Not A Name'", "name"),
        ("unknown = 1", "unknown"),
        ("[limits]\nfiles = 'many'", "limits.files"),
        ("[limits]\nfiles = -1", "limits.files"),
        ("required_walls = ['moat']", "required_walls"),
        ("[vectors]\nrequired = 1", "vectors.required"),
        ("a = ", "Invalid"),
        ("[severity]\n'run/invented' = 'warn'", "run/invented"),
        ("[severity]\n'run/crash' = 'warn'", "run/crash"),
        ("[severity]\n'cell/lost' = 'info'", "cell/lost"),
    ],
)
def test_a_wrong_policy_is_one_line_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path / "p.toml", text)
    with pytest.raises(ConfigError) as caught:
        load.load_policy(path)
    assert told in caught.value.message
    assert str(path) in caught.value.message
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    written(tmp_path / "bytes.toml", "").write_bytes(b"\xff")
    written(tmp_path / "large.toml", "#" * (load.MAX_BYTES + 1))
    for name in ("missing.toml", "fifo", "bytes.toml", "large.toml", "."):
        with pytest.raises(ConfigError):
            load.load_policy(tmp_path / name)


def test_a_profile_under_another_name_or_none_is_refused(tmp_path: Path) -> None:
    policy = written(tmp_path / "p.toml", "profile = 'gpu'")
    with pytest.raises(ConfigError, match="No such file"):
        load.load_all(policy)
    written(tmp_path / "profiles/gpu.toml", "name = 'cpu'")
    with pytest.raises(ConfigError, match="'cpu'"):
        load.load_all(policy)


@pytest.mark.parametrize("folder", [".", "profiles"])
def test_a_directory_that_others_can_write_could_lose_a_profile_and_is_refused(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / "p.toml").write_text('schema = 1\nname = "p"\n')
    (tmp_path / "profiles").mkdir()
    assert load_rules(tmp_path, "p").profile.name == "cpu"
    (tmp_path / folder).chmod(0o777)
    with pytest.raises(ConfigError, match="can be written"):
        load_rules(tmp_path, "p")


def test_a_profile_that_is_a_link_to_nowhere_is_not_replaced_by_the_built_in_one(tmp_path: Path) -> None:
    written(tmp_path / "p.toml", "profile = 'cpu'")
    assert load_rules(tmp_path, "p").profile.name == "cpu"  # built in, and pins nothing
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/cpu.toml").symlink_to(tmp_path / "gone.toml")
    with pytest.raises(ConfigError, match="No such file"):
        load_rules(tmp_path, "p")


def test_the_digest_is_that_of_the_meaning_not_of_the_text(tmp_path: Path) -> None:
    one = load.load_policy(written(tmp_path / "a.toml", "# words\n[limits]\nfiles = 2000\n"))
    other = load.load_policy(written(tmp_path / "b.toml", "schema = 1"))
    assert load.digest(one) == load.digest(other)
    assert re.fullmatch(r"[0-9a-f]{64}", load.digest(one))
    assert load.digest(load.with_overrides(one, ["limits.files=2001"])) != load.digest(one)


@pytest.mark.parametrize(
    ("pair", "read"),
    [
        ("operators.mode=any", lambda policy: policy.operators.mode == "any"),
        ("manifest.inferred = accept", lambda policy: policy.manifest.inferred == "accept"),
        ("vectors.required=false", lambda policy: policy.vectors.required is False),
        ("limits.run_cpu_seconds=7", lambda policy: policy.limits.run_cpu_seconds == 7),
        ("parity.default.atol=1e-7", lambda policy: policy.parity.default.atol == 1e-7),
        ("parity.max_rtol=1", lambda policy: policy.parity.max_rtol == 1.0),
        ('required_walls=["seccomp"]', lambda policy: policy.required_walls == ["seccomp"]),
        ("severity.vectors/insensitive=hold", lambda policy: policy.severity == {"vectors/insensitive": "hold"}),
        ("name=mine", lambda policy: policy.name == "mine"),
    ],
)
def test_set_changes_one_key(pair: str, read: Any) -> None:
    assert read(load.with_overrides(Policy(), [pair]))


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("vectors.required", "key=value"),
        ("=1", "key=value"),
        ("vector.required=false", "unknown key 'vector.required'"),
        ("vectors.needed=false", "vectors has required"),
        ("vectors=false", "is a table"),
        ("vectors.required.deep=1", "unknown key"),
        ("vectors.required=maybe", "true or false"),
        ("limits.files=many", "a whole number"),
        ("operators.mode=all", "'listed'"),
        ("severity.run/crash=warn", "run/crash"),
        ("severity.run/invented=warn", "run/invented"),
        ("limits.files=1\nlimits.bundle_bytes=2", "a whole number"),
    ],
)
def test_set_refuses_what_cannot_be_meant(pair: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        load.with_overrides(Policy(), [pair])
    assert told in str(caught.value)
