"""``acceptd config``: every key with its source, and no start that would fail is called good."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd.config import NUMBERS, TEXTS, Settings, flat, load_settings
from acceptd.daemon_lock import acquire
from acceptd.effective import VARIABLES, as_toml, unknown_variables
from acceptd.errors import ConfigError
from acceptd.fleet.settings import FleetTable
from tests import commands

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "a\x1b[31m\u202eb"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("config") / "state"
    assert commands.run("init", "--state", str(place)).returncode == 0
    return place


@pytest.fixture
def toml(state: Path) -> Any:
    def write(text: str) -> Path:
        (state / "acceptd.toml").write_text(text)
        return state

    yield write
    (state / "acceptd.toml").unlink(missing_ok=True)


def shown(state: Path, *words: str, **environment: str) -> dict[str, Any]:
    done = commands.run("config", *words, "--state", str(state), "--json", **environment)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_every_key_is_shown_with_the_source_that_wins(toml: Any) -> None:
    place = toml("workers = 3\ncores = 2\n[inbox]\npolling = true\n")
    rows = shown(place, "show", ACCEPTD_WORKERS="5")["settings"]
    found = {row["key"]: (row["value"], row["source"]) for row in rows}
    assert set(found) == set(flat(Settings().model_dump()))
    assert found["workers"] == (5, "ACCEPTD_WORKERS")
    assert found["cores"] == (2, "acceptd.toml")
    assert found["inbox.polling"] == (True, "acceptd.toml")
    assert found["inbox.settle_seconds"] == (2.0, "default")
    changed = shown(place, "show", "--changed", ACCEPTD_WORKERS="5")["settings"]
    assert {row["key"] for row in changed} == {"workers", "cores", "inbox.polling"}


def test_a_refused_value_names_the_variable_or_the_file_that_gave_it(
    toml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = toml("[inbox]\nmax_entries = 0\n")
    with pytest.raises(ConfigError, match=r"acceptd.toml: inbox.max_entries"):
        load_settings(place)
    monkeypatch.setenv("ACCEPTD_WORKERS", "999")
    place = toml("")
    with pytest.raises(ConfigError, match=r"^ACCEPTD_WORKERS: workers"):
        load_settings(place)
    monkeypatch.setenv("ACCEPTD_WORKERS", "\u0663")  # a digit, but none that a person would mean
    with pytest.raises(ConfigError, match="not a whole number"):
        load_settings(place)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("polcy = 'x'", "settings"),
        ("policy = 'nowhere'", "policy"),
        ("memory_bytes = 1", "policy"),
        ("[checkpoint]\nanchor = '/nowhere/at/all'", "anchor"),
        ("[checkpoint]\nanchor = 'relative'", "anchor"),
    ],
)
def test_what_would_not_start_is_refused_with_exit_2(toml: Any, text: str, what: str) -> None:
    done = commands.run("config", "check", "--state", str(toml(text)), "--json")
    assert done.returncode == 2
    refused = [one for one in json.loads(done.stdout)["checks"] if one["state"] != "ok"]
    assert [one["what"] for one in refused] == [what]
    assert refused[0]["seen"]


def test_what_would_start_is_said_to_be_good(toml: Any) -> None:
    done = commands.run("config", "check", "--state", str(toml("workers = 1\n")), "--json")
    assert done.returncode == 0, done.stdout
    assert {one["what"] for one in json.loads(done.stdout)["checks"]} == {"state", "settings", "policy", "anchor"}


def test_a_slip_in_a_variable_is_named_with_what_was_meant() -> None:
    assert unknown_variables({"ACCEPTD_WOKERS": "2", "ACCEPTD_WORKERS": "2", "PATH": "x"}) == [
        "ACCEPTD_WOKERS is no variable of acceptd: ACCEPTD_WORKERS is meant?"
    ]
    assert len(VARIABLES) == len(NUMBERS) + len(TEXTS) + 3


def test_a_change_that_the_running_daemon_has_not_read_is_said(toml: Any) -> None:
    place = toml("workers = 1\n")
    lock = acquire(place / "daemon.lock")
    try:
        os.utime(place / "acceptd.toml", (2_000_000_000, 2_000_000_000))
        assert "reads it at its start only" in shown(place, "show")["warnings"][0]
        os.utime(place / "acceptd.toml", (1, 1))
        assert shown(place, "show")["warnings"] == []
    finally:
        os.close(lock)


def test_a_value_is_one_printable_line(toml: Any) -> None:
    text = json.dumps(HOSTILE)
    done = commands.run("config", "show", "--state", str(toml(f"policies = {text}\n")))
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert as_toml(['a"b', {"c": True}]) == '["a\\"b", { c = true }]'


def test_the_manual_names_every_key_with_its_default() -> None:
    """What `config show` knows stands in docs/operations.md, with the same default."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    block = text.partition("```toml\n# acceptd.toml\n")[2].partition("```")[0]
    document = tomllib.loads(block)
    fleet = document.pop("fleet")
    assert FleetTable.model_validate(fleet) == FleetTable()
    assert set(fleet) == set(FleetTable.model_fields)
    assert Settings.model_validate(document) == Settings()
    document["keys"] |= dict.fromkeys(("ledger", "revocation", "node"), document["keys"]["release"])
    assert {*flat(document), "fleet"} == set(flat(Settings().model_dump()))


@pytest.mark.parametrize("what", ["a link that leads nowhere", "a FIFO", "a loop", "a device", "too large"])
def test_settings_that_cannot_be_read_are_never_the_defaults(tmp_path: Path, what: str) -> None:
    """A policy that a broken link named would silently be the default one."""
    place = tmp_path / "acceptd.toml"
    if what == "a FIFO":
        os.mkfifo(place)
    elif what == "too large":
        place.write_bytes(b"#" * (1 << 20) + b"\n")
    else:
        place.symlink_to({"a loop": "acceptd.toml", "a device": "/dev/zero"}.get(what, "not-mounted/acceptd.toml"))
    with pytest.raises(ConfigError, match=r"acceptd\.toml: "):
        load_settings(tmp_path)


def test_settings_that_cannot_even_be_looked_for_are_not_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(self: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "lstat", closed)
    with pytest.raises(ConfigError, match=r"acceptd\.toml: Permission denied") as caught:
        load_settings(tmp_path)
    assert caught.value.remedy == "make it a readable TOML file"


def test_a_variable_for_a_table_that_is_none_hides_no_mistake_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acceptd.toml").write_text("record = 3\n")
    monkeypatch.setenv("ACCEPTD_RECORD_URL", "postgresql:///acceptd")
    with pytest.raises(ConfigError, match=r"acceptd\.toml: record: "):
        load_settings(tmp_path)


def test_settings_by_a_link_of_the_operator_s_count(tmp_path: Path) -> None:
    (tmp_path / "managed.toml").write_text('policy = "strict"\n')
    (tmp_path / "acceptd.toml").symlink_to("managed.toml")
    assert load_settings(tmp_path).policy == "strict"


def test_no_daemon_starts_by_the_defaults_where_its_settings_are_gone(state: Path) -> None:
    place = state / "acceptd.toml"
    place.symlink_to("not-mounted/acceptd.toml")
    try:
        for words in (("daemon",), ("config", "check"), ("release", "list")):
            done = commands.run(*words, "--state", str(state))
            assert done.returncode == 2, (words, done.stdout)
            assert "acceptd.toml" in done.stderr + done.stdout, words
    finally:
        place.unlink()


def test_what_a_running_daemon_has_not_read_yet_is_said_beside_what_is_shown(toml: Any) -> None:
    place = toml("workers = 3\n")
    descriptor = acquire(place / "daemon.lock")
    try:
        os.utime(place / "daemon.lock", (1_000_000_000, 1_000_000_000))
        late = f"the running daemon (pid {os.getpid()}) started before acceptd.toml was changed"
        for words in (("show",), ("check",)):
            assert [one.startswith(late) for one in shown(place, *words)["warnings"]] == [True]
            assert f"note: {late}" in commands.run("config", *words, "--state", str(place), COLUMNS="300").stdout
        os.utime(place / "acceptd.toml", (999_999_999, 999_999_999))
        assert shown(place, "show")["warnings"] == []
    finally:
        os.close(descriptor)


def test_an_anchor_that_is_no_directory_starts_no_daemon(toml: Any, tmp_path: Path) -> None:
    place = toml(f'[checkpoint]\nanchor = "{tmp_path}/away"\n')
    done = commands.run("config", "check", "--state", str(place), COLUMNS="300")
    assert done.returncode == 2
    assert f"{tmp_path}/away is no directory" in done.stdout
    assert "anchor: mount its volume, or make the directory" in done.stdout
    (tmp_path / "away").mkdir()
    [row] = [one for one in shown(place, "check")["checks"] if one["what"] == "anchor"]
    assert (row["state"], str(tmp_path / "away") in row["seen"]) == ("ok", True)
