"""What an operator pastes is what the policy and the database take, and belongs to this node."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from acceptd.cli import doctor, key
from acceptd.cli.fleet import app
from acceptd.cli.setup import init
from acceptd.config import load_settings, require_state
from acceptd.errors import StateError, UsageError
from acceptd.fleet.settings import Role
from acceptd.fleet.sites.wing import Taking
from acceptd.policy.fleet import FleetPolicyTable
from acceptd.record.node_key import node_signer

pytestmark = pytest.mark.unit


def state_of(tmp_path: Path, role: Role, more: str = "") -> Path:
    state = tmp_path / "state"
    state.mkdir()
    (state / "acceptd.toml").write_text(
        f'[record]\nurl = "postgresql:///x"\n[fleet]\nrole = "{role}"\nname = "gpu-7"\n{more}'
    )
    return state


def enrolled(state: Path) -> dict[str, str]:
    done = CliRunner().invoke(app, ["enroll", "--json", "--state", str(state)])
    assert done.exit_code == 0, done.exception
    body: dict[str, str] = json.loads(done.output)
    return body


@pytest.mark.parametrize(
    ("role", "roles"), [("worker", ["worker"]), ("intake", ["intake"]), ("all", ["intake", "worker"])]
)
def test_the_lines_are_a_policys_and_name_this_nodes_key(
    tmp_path: Path, role: Role, roles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(tmp_path, role)
    monkeypatch.setattr("acceptd.cli.setup.Ledger.open", lambda *_a, **_k: pytest.fail("no ledger is needed"))
    if role == "all":
        (state / "keys").mkdir(mode=0o700)
        from acceptd.config import Paths, load_settings
        from acceptd.record.node_key import make_node_key

        for path, mode in Paths(state).directories():
            path.mkdir(mode=mode, exist_ok=True)
        assert load_settings(state).fleet is not None
        make_node_key(state)
    else:
        init(state=state, role=role, team=None, public=None)
    body = enrolled(state)
    found = FleetPolicyTable.model_validate(tomllib.loads(body["policy"])["fleet"])
    assert [(one.name, one.role) for one in found.trust] == [("gpu-7", one) for one in roles]
    assert {one.key_id for one in found.trust} == {node_signer(state).key_id} == {body["key_id"]}
    assert all(one.profiles == (["cpu"] if one.role == "worker" else []) for one in found.trust)
    groups = ", ".join(f"acceptd_{one}" for one in (["intake", "worker", "promoter"] if role == "all" else roles))
    assert body["sql"] == f'CREATE ROLE "gpu-7" LOGIN IN ROLE {groups};'


def test_the_key_command_names_the_node_as_its_settings_do(tmp_path: Path) -> None:
    state = state_of(tmp_path, "worker")
    init(state=state, role="worker", team=None, public=None)
    text = CliRunner().invoke(key.app, ["node", "--state", str(state)]).output
    assert tomllib.loads(text.partition("for the policy:")[2])["fleet"]["trust"][0]["name"] == "gpu-7"


def test_a_node_is_enrolled_before_there_is_a_policy_that_names_it(tmp_path: Path) -> None:
    state = state_of(tmp_path, "worker")
    text = (state / "acceptd.toml").read_text()
    (state / "acceptd.toml").write_text(f'policies = "{tmp_path}"\npolicy = "later"\n{text}')
    init(state=state, role="worker", team=None, public=None)
    assert 'profiles = ["cpu"]' in enrolled(state)["policy"]


@pytest.mark.parametrize(("state", "name"), [("acceptd-w1", "w1"), ("acceptd-", "host"), ("acceptd-W_", "host")])
def test_a_node_is_called_as_its_unit_calls_it_else_as_its_host(
    tmp_path: Path, state: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "host.example")
    init(state=tmp_path / state, role="worker", team=None, public=None)
    text = (tmp_path / state / "acceptd.toml").read_text()
    assert tomllib.loads(text)["fleet"]["name"] == name
    assert f"postgresql://{name}@" in text


@pytest.mark.parametrize("other", ["promoter", "all"])
def test_a_state_of_one_role_is_not_told_to_become_another(tmp_path: Path, other: Role) -> None:
    """That would put the promoter's keys beside a worker."""
    init(state=tmp_path / "w1", role="worker", team=None, public=None)
    settings = load_settings(tmp_path / "w1")
    assert settings.fleet is not None
    asked = settings.model_copy(update={"fleet": settings.fleet.model_copy(update={"role": other})})
    with pytest.raises(StateError, match=f"with the role worker, not {other}") as told:
        require_state(tmp_path / "w1", asked)
    assert "--state DIR" in told.value.remedy


def test_the_doctor_misses_no_directory_that_is_another_roles(tmp_path: Path) -> None:
    init(state=tmp_path / "w1", role="worker", team=None, public=None)
    assert doctor._installation(tmp_path / "w1")["layout"] == "whole"
    (tmp_path / "w1" / "tmp").rmdir()
    assert "(acceptd init --role worker)" in doctor._installation(tmp_path / "w1")["layout"]


def test_what_enroll_prints_says_where_it_belongs(tmp_path: Path) -> None:
    state = state_of(tmp_path, "worker")
    init(state=state, role="worker", team=None, public=None)
    text = CliRunner().invoke(app, ["enroll", "--state", str(state)]).output
    assert "in the place of `trust = []`" in text.partition("[[fleet.trust]]")[0]
    assert tomllib.loads(text.partition("\n-- ")[0])["fleet"]["trust"][0]["name"] == "gpu-7"  # pasted as it is


def test_a_promoter_whose_database_is_not_named_yet_gets_keys_and_no_ledger_of_its_own(tmp_path: Path) -> None:
    init(state=tmp_path / "p1", role="promoter", team=None, public=None)
    assert (tmp_path / "p1" / "keys" / "ledger.pem").exists()
    assert not (tmp_path / "p1" / "ledger.sqlite3").exists()


def test_a_worker_that_begins_just_now_does_not_say_that_its_queue_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("acceptd.fleet.sites.wing.time", SimpleNamespace(monotonic=lambda: now))
    worker = SimpleNamespace(connected=Event(), start=lambda: None)
    taking = Taking(lambda _fresh: cast("Any", worker))
    taking.start()
    assert taking.remark() == ""
    now += 60
    assert "cannot be reached" in taking.remark()
    worker.connected.set()
    assert taking.remark() == ""


def test_a_state_of_no_fleet_has_nobody_to_enroll(tmp_path: Path) -> None:
    init(state=tmp_path / "own", team=None, public=None)
    done = CliRunner().invoke(app, ["enroll", "--state", str(tmp_path / "own")])
    assert isinstance(done.exception, UsageError)
    assert "acceptd init --role" in done.exception.remedy
