"""`acceptd ledger` on a state: a difference is told in each form; a wrong filter exports nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cli.ledger import app
from acceptd.cli.sealing import sealing
from acceptd.daemon_lock import acquire
from acceptd.record.database import FILE_NAME
from acceptd.record.log import Ledger
from acceptd.record.tables import SCHEMA_VERSION
from tests.command_world import Commands, ready
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    ready(made.state)
    yield made
    made.close()


@pytest.fixture
def ledger(world: World) -> Commands:
    return Commands(app, world.state)


def test_a_whole_record_is_verified_and_what_was_not_compared_is_said(world: World, ledger: Commands) -> None:
    world.released()
    said = ledger.run("verify")
    assert (said.code, said.out.startswith("ledger: "), "verified" in said.out) == (0, True, True)
    assert "no checkpoint from outside was compared" in said.err
    told = ledger.run("verify", "--json")
    assert (told.json["entries"], told.json["differences"], told.json["checkpoints"]) == (
        world.ledger.tree().size, [], [],
    )  # fmt: skip


def test_a_byte_of_a_stored_bundle_that_changed_is_a_difference_unless_no_byte_was_asked_for(
    world: World, ledger: Commands
) -> None:
    accepted = world.accepted()
    world.promote(accepted)
    victim = next((world.state / "store" / "sha256").glob("*/model.onnx"))
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:-1] + b"!")
    assert ledger.run("verify", "--no-objects").code == 0
    said = ledger.run("verify")
    assert said.code == 5
    [line] = [one for one in said.out.splitlines() if one.startswith("differs: ")]
    assert accepted.digest[:12] in line
    assert said.out.splitlines()[-1].endswith("1 difference")
    [one] = ledger.run("verify", "--json").json["differences"]
    assert line == f"differs: {one['what']} {one['where']}: {one['message']}"


def test_releases_that_cannot_be_compared_are_a_difference_and_not_silence(world: World, ledger: Commands) -> None:
    reviewers = world.state / "policies" / "reviewers.toml"
    reviewers.write_text("schema = 1\nnonsense = 1\n")
    said = ledger.run("verify", "--json")
    assert said.code == 5
    [one] = said.json["differences"]
    assert (one["what"], one["message"].startswith("cannot be compared: ")) == ("release", True)
    assert "reviewers.toml" in one["message"]


@pytest.mark.parametrize(("broken", "error"), [("gone", "No such file"), ("a file", "Not a directory")])
def test_an_anchor_that_cannot_be_asked_is_a_difference(
    world: World, ledger: Commands, broken: str, error: str
) -> None:
    place = world.root / "anchor"
    if broken == "a file":
        place.write_text("")
    ready(world.state, settings=f'[checkpoint]\nanchor = "{place}"\n')
    said = ledger.run("verify", "--json")
    assert said.code == 5
    [one] = said.json["differences"]
    assert (one["what"], error in one["message"], "mount its volume" in one["where"]) == ("anchor", True, True)


def test_what_the_anchor_keeps_is_compared_and_a_log_that_it_never_heard_of_is_a_difference(
    world: World, ledger: Commands
) -> None:
    place = world.root / "anchor"
    place.mkdir(mode=0o700)
    ready(world.state, settings=f'[checkpoint]\nanchor = "{place}"\n')
    with sealing(world.state) as kept:
        kept.append("note", {"number": 1})
    said = ledger.run("verify", "--json")
    assert (said.code, [str(place) in one for one in said.json["checkpoints"]]) == (0, [True])
    world.close()
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (world.state / name).unlink(missing_ok=True)
    Ledger.open(world.state).close()  # a new log in the place of the one that the anchor knows
    said = ledger.run("verify", "--json")
    assert said.code == 5
    assert "anchor" in {one["what"] for one in said.json["differences"]}


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("how", ["overwritten", "another table", "gone"])
def test_a_database_that_cannot_be_read_is_never_verified(
    world: World, ledger: Commands, how: str, anchored: bool
) -> None:
    if anchored:
        place = world.root / "anchor"
        place.mkdir(mode=0o700)
        ready(world.state, settings=f'[checkpoint]\nanchor = "{place}"\n')
        with sealing(world.state) as kept:
            kept.append("note", {"number": 1})
    world.close()
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (world.state / name).unlink(missing_ok=True)
    if how == "overwritten":
        (world.state / FILE_NAME).write_bytes(b"no database at all" * 500)
    elif how == "another table":
        with sqlite3.connect(world.state / FILE_NAME) as connection:
            connection.execute("CREATE TABLE x (y)")
        connection.close()
    for words in (("verify",), ("verify", "--json")):
        said = ledger.run(*words)
        assert said.code in {2, 5}, said
        assert "verified" not in said.out
        assert said.error or said.out


def test_the_proof_of_an_entry_comes_with_the_checkpoint_that_covers_it(world: World, ledger: Commands) -> None:
    assert json.loads(ledger("proof", "0"))["checkpoint"] is None, "nothing that is signed covers it yet"
    with sealing(world.state) as kept:
        kept.append("note", {"number": 1})
    told = json.loads(ledger("proof", "1"))
    assert (told["seq"], told["size"]) == (1, 2)
    assert told["checkpoint"].splitlines()[:2] == [world.ledger.origin, "2"]


def test_a_kept_checkpoint_that_is_none_is_refused_before_anything_is_compared(
    world: World, ledger: Commands
) -> None:
    said = ledger.run("verify", "--checkpoint", world.root / "nowhere")
    assert (said.code, said.remedy) == (2, "name a signed checkpoint")
    large = world.root / "large"
    large.write_bytes(b"x" * (1 << 20))
    said = ledger.run("verify", "--checkpoint", large)
    assert (said.code, "larger than" in said.error) == (2, True)


FILTERS = [
    (
        ("--verdict", "good"),
        "--verdict 'good' is no verdict",
        "give one of accepted, held, inconclusive, rejected",
    ),
    (("--code", "x"), "--code 'x' is no finding code", "acceptd policy explain --all lists them"),
    (("--team", "Not A Team"), "--team: ", "give a name as the inbox and manifests have it"),
    (("--model", "no-team"), "--model: ", "give a name as the inbox and manifests have it"),
    (("--type", "Verdict"), "--type 'Verdict' is no type of an entry", "for example verdict, or revoked"),
    (
        ("--type", "note", "--verdict", "held"),
        "--type note has no verdict and no findings",
        "leave --type out, or --verdict and --code",
    ),
    (("--since", "yesterday"), "--since", ""),
    (("--until", "soon"), "--until", ""),
]


@pytest.mark.parametrize(("words", "error", "remedy"), FILTERS)
def test_a_filter_that_nothing_can_match_is_refused_and_writes_no_empty_export(
    world: World, ledger: Commands, words: tuple[str, ...], error: str, remedy: str
) -> None:
    out = world.root / "out.jsonl"
    said = ledger.run("export", *words, "--output", out)
    assert (said.code, said.out, said.error.startswith(error)) == (2, "", True)
    assert said.remedy == remedy if remedy else said.remedy
    assert not out.exists()


def test_an_export_has_what_its_filters_leave_in_a_file_or_in_the_pipe(world: World, ledger: Commands) -> None:
    world.accepted("1.0.0")
    world.accepted("2.0.0", verdict="held")
    world.ledger.append("note", {"word": "hello"})
    out = world.root / "out.jsonl"
    ledger("export", "--output", out)
    every = [json.loads(text) for text in out.read_text().splitlines()]
    assert len(every) == world.ledger.tree().size
    assert [json.loads(text) for text in ledger("export").splitlines()] == every
    for words, count in (
        (("--verdict", "held"), 1), (("--type", "note"), 1), (("--model", MODEL), 2), (("--team", "argus"), 0),
        (("--code", "parity/mismatch"), 0), (("--since", "1h", "--type", "verdict"), 2),
        (("--until", "2000-01-01T00:00:00Z"), 0), (("--type", "verdict", "--verdict", "held"), 1),
    ):  # fmt: skip
        assert len(ledger("export", *words).splitlines()) == count, words


def test_an_entry_is_shown_and_proven_by_its_number(world: World, ledger: Commands) -> None:
    accepted = world.accepted()
    shown = json.loads(ledger("show", str(accepted.verdict_seq)))
    assert (shown["seq"], shown["type"]) == (accepted.verdict_seq, "verdict")
    said = ledger.run("proof", "99")
    assert (said.code, said.error) == (2, "there is no entry 99")
    assert said.remedy == f"the last one is {accepted.verdict_seq}"


def test_projections_are_made_anew_and_nothing_else_changes(world: World, ledger: Commands) -> None:
    world.released()
    before = world.ledger.tree()
    assert ledger("rebuild").strip() == f"ledger: projections made anew from {before.size} entries"
    assert world.ledger.tree() == before
    assert ledger.run("verify").code == 0


def test_a_record_of_this_version_is_not_migrated_and_never_under_a_daemon(world: World, ledger: Commands) -> None:
    assert ledger("migrate").strip() == f"ledger: at schema version {SCHEMA_VERSION}, which is this acceptd's"
    descriptor = acquire(world.state / "daemon.lock")
    for words in (("migrate",), ("move", "--to", "postgresql:///x")):
        said = ledger.run(*words)
        assert (said.code, "another daemon (pid " in said.error) == (2, True), words
        assert said.remedy == "stop it first, or choose another --state"
    os.close(descriptor)


@pytest.mark.parametrize(
    ("to", "error"),
    [
        ("", "--to is empty"),
        ("sqlite:///x", "begins with postgresql://"),
        ("postgresql://a:secret@h/d", "holds a password"),
        ("postgresql://h/d x", "holds blanks"),
        ("postgresql://h/d#x", "holds a #"),
    ],
)
def test_a_record_is_moved_to_no_place_that_cannot_be_meant(
    world: World, ledger: Commands, to: str, error: str
) -> None:
    said = ledger.run("move", "--to", to)
    assert (said.code, error in said.error, "secret" in said.error) == (2, True, False)
    assert said.remedy, "what to give in its place"


def test_a_record_that_is_where_it_should_go_is_told_so(world: World, ledger: Commands) -> None:
    before = (world.state / FILE_NAME).read_bytes()
    said = ledger.run("move", "--to", "file")
    assert (said.code, said.error) == (2, f"{world.state / FILE_NAME}: the record is there already")
    assert said.remedy == "name another place: --to URL, or --to file"
    assert (world.state / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("words", [("roles",), ("roles", "--grant")])
def test_the_roles_of_a_file_are_refused_where_no_driver_is_installed_too(
    world: World, ledger: Commands, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "acceptd.record.postgres", None)  # as where only acceptd itself is installed
    said = ledger.run(*words)
    assert (said.code, said.remedy) == (2, "name a database as `[record] url` first")
    assert said.error == f"{world.state / FILE_NAME}: the record is a file, which has no roles"


def test_the_roles_of_a_database_need_its_driver(
    world: World, ledger: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(world.state, settings='[record]\nurl = "postgresql:///x"\n')
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = ledger.run("roles")
    assert (said.code, said.error) == (2, "the record is on PostgreSQL, and its driver is not installed")
    assert said.remedy.startswith("install acceptd[fleet]")
