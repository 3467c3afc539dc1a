"""Every release is an in-toto statement too: beside it and in the ledger, found where it is not what it was."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from securesystemslib.exceptions import VerificationError
from typer.testing import CliRunner

from acceptd.cli.verify import verify
from acceptd.record import attest
from acceptd.record.canonical import canonical
from acceptd.record.keys import load_keyring, load_signer
from acceptd.record.log import Ledger, Transaction
from acceptd.release import audit
from acceptd.release.book import read_book
from acceptd.release.reconcile import reconcile
from acceptd.release.signers import Auditor
from tests.release_world import MODEL, World, memory_directory, replace
from tests.statement_world import DOCS, check_statements, payload_of, troubles

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> Iterator[World]:
    root = memory_directory()
    made = World(root)
    made.released("1.0.0")
    made.released("2.0.0")
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


def place(world: World, number: int) -> Path:
    return world.release_file(number).with_name("statement.json")


def found(world: World) -> list[str]:
    rows = audit.examine(world.state, world.ledger, Auditor(load_keyring(world.state)))
    return [f"{row.what} {Path(row.where).parent.name} {row.message}" for row in rows]


def stated(world: World, number: int) -> dict[str, Any]:
    envelope = json.loads(place(world, number).read_bytes())
    return attest.verify_statement(
        envelope, load_keyring(world.state), "release", (attest.RELEASE_STATEMENT_TYPE,)
    )


def test_it_says_what_was_promoted_by_which_verdict_after_what(world: World) -> None:
    world.rollback()
    assert check_statements(world.ledger.export(), old=True) == 3
    said = stated(world, 3)
    release = json.loads(attest._open(json.loads(world.release_file(3).read_bytes()))[0])
    assert said["subject"] == [
        {"name": MODEL, "digest": {"sha256": release["bundle_digest"]}},
        *({"name": one["path"], "digest": {"sha256": one["sha256"]}} for one in release["files"]),
    ]
    predicate = said["predicate"]
    assert (predicate["number"], predicate["kind"], predicate["prior"]) == (3, "rollback", release["prior"])
    verdict = world.ledger.entry(predicate["verdict"]["number"])
    assert predicate["verdict"]["leaf_hash"] == verdict.leaf_hash.hex()
    assert predicate["verdict"]["submission"] == verdict.submission
    row = read_book(world.ledger).rows(MODEL, "production")[2]
    assert predicate["release_digest"] == row.release_digest
    assert world.ledger.entry(row.activated_seq).body["statement"] == json.loads(place(world, 3).read_bytes())
    assert place(world, 3).stat().st_mode & 0o777 == 0o444
    assert found(world) == []


def test_the_loader_never_looks_at_it(world: World) -> None:
    place(world, 2).unlink()
    assert world.open().number == 2


# -- tampering --------------------------------------------------------------------------------------------


def forged(world: World, role: str, **change: Any) -> bytes:
    value = stated(world, 2)
    value["predicate"] |= change
    return canonical(attest.sign_statement(value, load_signer(world.state, role))) + b"\n"


CHANGES: dict[str, tuple[int, Callable[[World], bytes | None], str]] = {
    "gone": (2, lambda _: None, "is missing"),
    "gone from an older one": (1, lambda _: None, "is missing"),
    "torn": (2, lambda world: place(world, 2).read_bytes()[:100], "not the one that the ledger holds"),
    "the other release's": (2, lambda world: place(world, 1).read_bytes(), "not the one that the ledger holds"),
    "signed anew": (2, lambda world: forged(world, "release", reason="x"), "not the one that the ledger holds"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_copy_is_found_and_that_of_the_current_release_mended(name: str, world: World) -> None:
    number, change, words = CHANGES[name]
    data = change(world)
    if data is None:
        place(world, number).unlink()
    else:
        replace(place(world, number), data)
    (told,) = found(world)
    assert told.startswith(f"statement 00000{number} ")
    assert words in told
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    mended = any("statement.json was put right" in line for line in done.done)
    assert mended == (number == 2)
    assert (found(world) == []) == (number == 2)


@pytest.mark.parametrize(
    ("role", "change", "words"),
    [
        ("ledger", {}, "no release key"),
        ("release", {"bundle_digest": "ab" * 32}, "bundle_digest is"),
        ("release", {"verdict": {"number": 1, "leaf_hash": "ab" * 32, "submission": "s"}}, "verdict is"),
        ("release", {"decisions": [{"number": 1, "leaf_hash": "ab" * 32, "decision": "approve"}]}, "decisions is"),
        ("release", {"surprise": 1}, "surprise"),
    ],
)
def test_an_entry_whose_statement_says_something_else_is_found(
    role: str, change: dict[str, Any], words: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with a key could write it: then release.json and the log's other entries contradict."""
    append = Transaction.append

    def other(self: Transaction, kind: str, body: dict[str, Any], **more: Any) -> Any:
        if kind == "activated":
            value = payload_of(body["statement"])
            value["predicate"] |= change
            body = body | {"statement": attest.sign_statement(value, load_signer(world.state, role))}
        return append(self, kind, body, **more)

    monkeypatch.setattr(Transaction, "append", other)
    world.released("3.0.0")
    assert any(words in told for told in found(world)), found(world)


def test_releases_from_before_there_were_statements_stay_what_they_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Transaction.append

    def old(self: Transaction, kind: str, body: dict[str, Any], **more: Any) -> Any:
        kept = {key: body[key] for key in body if kind != "activated" or key != "statement"}
        return append(self, kind, kept, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "append", old)
        world.released("3.0.0")
    place(world, 3).unlink()
    assert found(world) == []
    assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).done == ()
    world.released("4.0.0")
    assert found(world) == []
    replace(place(world, 3), place(world, 4).read_bytes())
    assert [told.partition(" ")[2] for told in found(world)] == [
        "000003 the ledger knows no statement of this release"
    ]


# -- verifying --------------------------------------------------------------------------------------------


def run(path: Path, keyring: Path, *words: str) -> tuple[int, dict[str, Any]]:
    app = typer.Typer()
    app.command()(verify)
    done = CliRunner().invoke(app, [str(path), "--key", str(keyring), "--json", *words])
    return done.exit_code, json.loads(done.stdout) if done.stdout else {}


def test_acceptd_verify_takes_it(world: World, tmp_path: Path) -> None:
    keyring = world.state / "keyring.json"
    said = stated(world, 2)
    code, told = run(place(world, 2), keyring, "--digest", said["predicate"]["bundle_digest"])
    assert (code, told["kind"], told["number"], told["model_id"]) == (0, "release", 2, MODEL)
    assert (told["log"], told["verdict_number"]) == (
        world.ledger.origin,
        said["predicate"]["verdict"]["number"],
    )
    for data in (
        forged(world, "ledger"),
        forged(world, "release", surprise=1),
        forged(world, "release", number=0),
        place(world, 2).read_bytes().replace(b'"payload":"', b'"payload":"AAAA'),
    ):
        (tmp_path / "f.json").write_bytes(data)
        assert run(tmp_path / "f.json", keyring)[0] == 5


def test_a_verdict_signed_by_the_release_key_is_none(world: World, tmp_path: Path) -> None:
    value = stated(world, 2)
    value["predicateType"] = attest.VERDICT_TYPE
    for role in ("ledger", "release"):  # by the one it is none of this form, by the other none at all
        (tmp_path / "f.json").write_bytes(canonical(attest.sign_statement(value, load_signer(world.state, role))))
        assert run(tmp_path / "f.json", world.state / "keyring.json")[0] == 5


def documented() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "statements.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(code)


def test_the_lines_of_the_page_verify_it_without_acceptd(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "verify.py"
    script.write_text(documented())
    assert "acceptd" not in {
        line.split()[1].split(".")[0] for line in documented().splitlines() if "import" in line
    }

    def go(path: Path, role: str) -> str:
        monkeypatch.setattr(sys, "argv", ["verify.py", str(path), str(world.state / "keyring.json"), role])
        runpy.run_path(str(script))
        return capsys.readouterr().out

    digest = stated(world, 2)["predicate"]["bundle_digest"]
    assert go(place(world, 2), "release").split() == [attest.RELEASE_STATEMENT_TYPE, digest]
    verdict = next(iter(world.ledger.entries(kind="verdict"))).body["statement"]
    (tmp_path / "verdict.json").write_bytes(canonical(verdict))
    assert go(tmp_path / "verdict.json", "ledger").startswith("https://acceptd.dev/verdict/")
    with pytest.raises(VerificationError):
        go(place(world, 2), "ledger")
    replace(place(world, 2), forged(world, "ledger"))
    with pytest.raises(VerificationError):
        go(place(world, 2), "release")


def test_the_check_of_all_tests_worlds_can_fail(world: World) -> None:
    rows = list(world.ledger.export())
    assert troubles({"predicateType": attest.RELEASE_STATEMENT_TYPE, "predicate": {}})
    for row in rows:
        if row["type"] == "intent":
            row["leaf_hash"] = "ab" * 32
    with pytest.raises(AssertionError):
        check_statements(rows, old=True)
    with pytest.raises(KeyError):  # a verdict of the first form has no schema
        _ = [check_statements(rows)]


def test_a_ledger_opened_again_knows_them(world: World) -> None:
    with Ledger.open(world.state, create=False) as again:
        assert all(row.activated_seq > row.intent_seq for row in read_book(again).rows(MODEL, "production"))
