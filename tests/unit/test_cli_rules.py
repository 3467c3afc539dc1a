"""`acceptd policy`, `schema`, `profile` and `init` as people call them: what is shown, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptd.config import Paths
from acceptd.json_schemas import TEXTS, schema_text
from acceptd.judge.codes import CODES
from acceptd.policy.load import digest, load_policy
from tests import called
from tests.world import ROOT

pytestmark = pytest.mark.unit


def said(*words: str, code: int = 0) -> str:
    done = called.run(*words)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_a_policy_is_shown_as_it_was_validated_with_its_digest() -> None:
    text = said("policy", "show", "strict")
    path = ROOT / "policies" / "strict.toml"
    head, second, document = text.split("\n", 2)
    assert head == f"policy strict  {path}"
    assert second == f"digest {digest(load_policy(path))}"
    assert json.loads(document) == load_policy(path).model_dump(mode="json", by_alias=True)


def test_two_policies_are_compared_as_data_too() -> None:
    found = json.loads(said("policy", "diff", "default", "strict", "--json"))
    rows = {one["key"]: (one["first"], one["second"], one["tendency"]) for one in found["changes"]}
    assert rows["manifest.inferred"] == ("hold", "refuse", "stricter")
    assert found["digests"] == [
        digest(load_policy(ROOT / f"policies/{name}.toml")) for name in ("default", "strict")
    ]
    assert said("policy", "diff", "strict", "strict") == "no difference: one digest\n"


def test_a_code_is_explained_with_what_a_policy_makes_of_it(tmp_path: Path) -> None:
    text = said("policy", "explain", "contract/missing")
    assert text.startswith("contract/missing  hold, for the reviewer")
    path = tmp_path / "mine.toml"
    path.write_text('schema = 1\nname = "mine"\n[severity]\n"contract/missing" = "reject"\n')
    path.chmod(0o644)
    text = said("policy", "explain", "contract/missing", "--policy", str(path))
    assert "reject" in text.partition("Severity:")[2]
    every = said("policy", "explain", "--all").split("\n\n")
    assert [one.split(maxsplit=1)[0] for one in every] == sorted(CODES)


def test_every_schema_that_is_listed_can_be_shown() -> None:
    titles = json.loads(said("schema", "list", "--json"))["schemas"]
    assert sorted(titles) == sorted(TEXTS)
    lines = said("schema", "list").splitlines()
    assert [line.split()[0] for line in lines] == list(TEXTS)
    for name, line in zip(TEXTS, lines, strict=True):
        assert said("schema", "show", name) == schema_text(name)
        assert line.endswith(titles[name])


def test_all_profiles_are_checked_and_one_that_is_wrong_hides_no_other(tmp_path: Path) -> None:
    assert "valid, digest" in said("profile", "check")
    state = tmp_path / "state"
    (tmp_path / "policies" / "profiles").mkdir(parents=True)
    assert called.run("init", "--state", str(state)).returncode == 0
    (state / "acceptd.toml").write_text(f"policies = {json.dumps(str(tmp_path / 'policies'))}\n")
    built_in = said("profile", "check", "--state", str(state))
    assert built_in.startswith("cpu: built in, digest ")
    profiles = tmp_path / "policies" / "profiles"
    (profiles / "a.toml").write_text('schema = 1\nname = "a"\nthreads = 1\n')
    (profiles / "b.toml").write_text('schema = 1\nname = "b"\ninterpreter = "/nowhere/python"\n')
    (profiles / "c.toml").write_text('schema = 1\nname = "c"\n')
    done = called.run("profile", "check", "--state", str(state))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"acceptd: {profiles}/a.toml:3: threads: there is no key 'threads'",
        "  → did you mean intra_op_threads?",
        f"acceptd: {profiles}/b.toml:3: interpreter: /nowhere/python: No such file or directory",
        "  → correct the path",
    ]
    assert done.stdout.startswith(f"{profiles}/c.toml: valid, digest ")


KINDS = "one of policy, contract, defaults, profile, reviewers"
PROFILES = ROOT / "policies" / "profiles"


@pytest.mark.parametrize(
    ("words", "error", "remedy"),
    [
        (("policy", "check", "--kind", "moon"), "--kind 'moon': no such kind", KINDS),
        (("policy", "check", "EMPTY"), "EMPTY holds no .toml file", "name a file, or a policy directory"),
        (("policy", "show", "moon"), "moon.toml: No such file or directory", "name a TOML file that can be read"),
        (("policy", "diff", "moon", "strict"), "moon.toml: No such file", "name a TOML file that can be read"),
        (
            ("policy", "explain", "x/y", "--all"),
            "give one finding code, or --all",
            "acceptd policy explain external",
        ),
        (("policy", "explain", "zzz"), "there is no finding code 'zzz'", "acceptd policy explain --all lists"),
        (("policy", "explain", "run/crsh"), "there is no finding code 'run/crsh'", "did you mean run/crash"),
        (("policy", "explain", "--all", "--policy", "moon"), "moon.toml: No such file", "name a TOML file"),
        (
            ("policy", "replay", "--policy", "default", "--since", "soon"),
            "--since 'soon'",
            "write 30d, 12h or a UTC",
        ),
        (("schema", "show", "moon"), "there is no schema of 'moon'", "known are bundle, policy"),
        (("profile", "check", "moon"), "there is no profile 'moon'", f"{PROFILES} has: cpu"),
        (("profile", "check", "/nowhere.toml"), "there is no profile '/nowhere.toml'", f"{PROFILES} has: cpu"),
        (("reaccept", "--profile", "../x"), "--profile: '../x' is no name", "acceptd policy check"),
        (("reaccept", "--profile", "moon"), "profiles/moon.toml: No such file or directory", ""),
        (("reaccept", "--model", "mosaic"), "'mosaic' is no model id", "see `acceptd release list`"),
        (("reaccept", "--channel", "../x"), "'../x' is no name", "see `acceptd release list`"),
        (("init", "--role", "worker", "--team", "a"), "a worker has no inboxes", "leave --team out"),
        (("init", "--role", "promoter", "--team", "a"), "a promoter has no inboxes", "leave --team out"),
        (("init", "--role", "intake", "--public", "ledger=x"), "--public is the promoter's", "leave --public out"),
        (("init", "--team", "../x"), "'../x' is no name", "choose another team name"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_words_that_cannot_be_meant(
    words: tuple[str, ...], error: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("EMPTY").mkdir()
    if words[0] in {"reaccept", "init", "policy"} and words[1] not in {"explain", "diff"}:
        state = tmp_path / "state"
        if words[0] != "init":
            assert called.run("init", "--state", str(state)).returncode == 0
        words = (*words, "--state", str(state))
    lines = said(*words, code=2).splitlines()
    assert lines[0].startswith("acceptd: ")
    assert error in lines[0]
    assert "".join(lines[1:]).removeprefix("  → ").startswith(remedy)
    assert words[0] != "init" or not (tmp_path / "state").exists()


# -- init


def test_init_overwrites_neither_keys_nor_what_stands_in_its_way(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert "(0600; 3 Ed25519 pairs)" in said("init", "--state", str(state), "--team", "mosaic")
    keys = {path: path.read_bytes() for path in Paths(state).keys.iterdir()}
    assert "(kept: they are never overwritten)" in said("init", "--state", str(state))
    assert {path: path.read_bytes() for path in Paths(state).keys.iterdir()} == keys
    other = tmp_path / "other"
    other.mkdir()
    (other / "inbox").write_text("mine")
    assert said("init", "--state", str(other), code=2).splitlines() == [
        f"acceptd: {other}/inbox is not a directory", "  → move it away"
    ]  # fmt: skip
    assert (other / "inbox").read_text() == "mine"


def test_init_of_a_node_leaves_settings_that_say_otherwise_alone(tmp_path: Path) -> None:
    (tmp_path / "acceptd.toml").write_text('policy = "demo"\n')
    lines = said("init", "--role", "worker", "--state", str(tmp_path), code=2).splitlines()
    assert lines == [
        f"acceptd: {tmp_path}/acceptd.toml: there is no [fleet] in it", '  → add [fleet] with role = "worker"'
    ]  # fmt: skip
    assert (tmp_path / "acceptd.toml").read_text() == 'policy = "demo"\n'


@pytest.mark.parametrize(
    ("word", "error", "remedy"),
    [
        ("ledger", "--public 'ledger' is no ROLE=FILE", "a role is one of ledger, release, revocation"),
        ("moon=x", "--public 'moon=x' is no ROLE=FILE", "a role is one of ledger, release, revocation"),
        ("ledger=/nowhere", "/nowhere: No such file or directory", "name the file of the public key"),
    ],
)
def test_init_makes_no_key_where_it_is_not_told_whose_is_elsewhere(
    word: str, error: str, remedy: str, tmp_path: Path
) -> None:
    lines = said("init", "--state", str(tmp_path / "s"), "--public", word, code=2).splitlines()
    assert lines == [f"acceptd: {error}", f"  → {remedy}"]
    assert not list(Paths(tmp_path / "s").keys.iterdir())
