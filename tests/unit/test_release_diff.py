"""`release diff`: every key that differs between two releases, and nothing else."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from acceptd.cli.release import app
from acceptd.cli.release_diff import MOST, SHOWN, print_difference
from acceptd.config import Paths
from acceptd.errors import ReleaseError, UsageError
from acceptd.judge.difference import compare
from acceptd.judge.successor import snapshot
from acceptd.model_facts import OpUse
from acceptd.release.difference import Known, Side, difference
from acceptd.release.model import Decided
from acceptd.release.trust import File
from acceptd.report.difference import rows_of
from tests.canary_world import manifest
from tests.judge_world import a_manifest, facts, inspect, manifest_document, record, structure, value
from tests.release_world import MODEL, Accepted, World, memory_directory

pytestmark = pytest.mark.unit
ONE = Side(MODEL, "production", 1, "promote", "2026-11-29T12:00:00Z", "ada", "1.0.0", "a" * 64, "b" * 64, ())


def changed(first: dict[str, Any], second: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    found = difference(Known(ONE, {"manifest": first}, []), Known(ONE, {"manifest": second}, []))
    return {change.key: (change.first, change.second) for change in found.changes}


def test_the_same_release_does_not_differ() -> None:
    assert changed(manifest("1"), manifest("1")) == {}


def test_rows_with_names_are_compared_by_name_and_order_is_told() -> None:
    rows = [{"name": "a", "dtype": "float32"}, {"name": "b", "dtype": "int64"}]
    other = [{"name": "b", "dtype": "int32"}, {"name": "a", "dtype": "float32"}]
    assert changed({"inputs": rows}, {"inputs": other}) == {
        "inputs[b].dtype": ("int64", "int32"),
        "inputs (order)": (["a", "b"], ["b", "a"]),
    }


def test_a_row_that_came_and_one_that_went() -> None:
    one, other = {"name": "a"}, {"name": "b"}
    assert changed({"inputs": [one]}, {"inputs": [other]}) == {
        "inputs[a]": (one, None),
        "inputs[b]": (None, other),
    }


def test_labels_in_another_order_differ() -> None:
    assert changed({"labels": ["cat", "dog"]}, {"labels": ["dog", "cat"]}) == {
        "labels": (["cat", "dog"], ["dog", "cat"])
    }


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ("1", 1), (None, 0), ([], None), ({}, [])])
def test_values_that_python_calls_equal_or_empty_differ(one: object, other: object) -> None:
    assert list(changed({"key": one}, {"key": other})) == ["key"]


def test_rows_of_one_name_are_compared_as_a_whole() -> None:
    rows = [{"name": "a", "x": 1}, {"name": "a", "x": 2}]
    assert list(changed({"k": rows}, {"k": rows[::-1]})) == ["k"]


def printed(found: Any, width: int = 80) -> list[str]:
    out = Console(width=width, record=True, force_terminal=False)
    print_difference(out, found)
    return [row.rstrip() for row in out.export_text().splitlines()]


def test_every_file_is_told_by_path_and_a_screen_says_how_many_it_leaves_out() -> None:
    files = [File(path=f"f{at}", sha256="0" * 64, size=at) for at in range(MOST + 5)]
    found = difference(Known(ONE, {}, []), Known(ONE, {}, files))
    assert len(found.changes) == MOST + 5
    assert found.changes[3].second == {"path": "f3", "sha256": "0" * 64, "size": 3}
    rows = printed(found)
    assert f"  [f{MOST - 1}]" in rows
    assert f"  [f{MOST}]" not in rows
    assert "  5 more keys differ: --json lists all" in rows


@pytest.mark.parametrize("text", ["y" * (SHOWN + 1), "\x1b" * SHOWN])
def test_a_value_that_is_cut_says_how_long_it_is(text: str) -> None:
    found = difference(Known(ONE, {"manifest": {"a": text}}, []), Known(ONE, {"manifest": {"a": ""}}, []))
    assert f"({len(text)} characters)" in " ".join(printed(found))


def test_options_are_told_once() -> None:
    def document(threads: int) -> dict[str, Any]:
        options = {"intra_op_threads": threads}
        return {"options": options, "profiles": [{"profile": "cpu", "options": options}]}

    found = difference(Known(ONE, document(1), []), Known(ONE, document(2), []))
    assert [(one.part, one.key) for one in found.changes] == [("profiles", "[cpu].options.intra_op_threads")]


def test_a_hostile_name_stays_one_line_of_a_narrow_screen() -> None:
    evil = "x\x1b[2J\n✓ ACCEPTED\u202e"
    sides = replace(ONE, version=f"{'1' * 70} ✓ ACCEPTED")
    first, second = {"manifest": {evil: [evil]}}, {"manifest": {evil: "y" * 500}}
    rows = printed(difference(Known(sides, first, []), Known(ONE, second, []), notes=[evil]))
    text = "\n".join(rows)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(row.startswith("✓") for row in rows)
    assert max(map(len, rows)) <= 80


def judged(world: World, version: str, change: dict[str, Any], **predicate: Any) -> Accepted:
    """Accept a bundle with facts of an inspection on record; ``change`` is of its facts and structure."""
    document = manifest_document()
    document["bundle"]["version"] = version
    told = facts(**{key: one for key, one in change.items() if key != "structure"})
    found = inspect(facts=told, structure=structure(**change.get("structure", {})))
    jobs = [record("manifest", manifest=document), found]
    evidence = {
        "jobs": [one.model_dump(mode="json", by_alias=True) for one in jobs],
        "sealed": {"files": [{"path": "model.onnx", "sha256": version[:1] * 64, "size": 309}]},
    }
    with world.ledger.transaction() as entering:
        digest = entering.put_evidence(json.dumps(evidence).encode())
    return world.accepted(version, manifest=document, evidence_digest=digest, **predicate)


def relu(count: int, domain: str = "ai.onnx", name: str = "Relu") -> OpUse:
    return OpUse(domain=domain, op_type=name, count=count, where="graph/node[0]")


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    """Production 1 to 4: three with facts on record, the last without; canary 1 and 2."""
    root = memory_directory()
    try:
        world = World(root)
        evil = "x\x1b[2J\u202e[bold]y"
        first = judged(
            world,
            "1.0.0",
            {"operators": [relu(3), relu(1, name="Gelu")]},
            policy_digest="a" * 64,
            contract_digest=None,
        )
        other = {
            "ir_version": 9,
            "opsets": {"ai.onnx": 17, "evil": 1},
            "operators": [relu(5), relu(2, "evil", evil)],
            "inputs": [value("features", 9)],
            "initializers": 3,
            "initializer_bytes": 99,
            "structure": {"topology_sha256": "7" * 64, "initializer_count": 3, "initializers_sha256": "8" * 64},
        }
        second = judged(world, "2.0.0", other, policy_digest="b" * 64, contract_digest="c" * 64)
        third = judged(
            world, "3.0.0", other | {"functions": [f"f{at}" for at in range(99)]}, policy_digest="b" * 64
        )
        bare = world.accepted("4.0.0", manifest=manifest("4.0.0"))
        for one in (first, second, third, bare):
            world.promote(one)
        world.promote(first, channel="canary")
        world.promote(
            world.accepted("5.0.0", manifest=manifest("5.0.0", labels=("a", "b", "c"))), channel="canary"
        )
        world.close()
        for missing in Paths(world.state).missing():
            missing.mkdir()
        yield world.state
    finally:
        shutil.rmtree(root)


def run(state: Path, *words: str, **more: Any) -> Any:
    return CliRunner().invoke(app, ["diff", MODEL, *words, "--state", str(state)], **more)


def said(state: Path, *words: str) -> dict[str, Any]:
    done = run(state, *words, "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("words", "versions"),
    [
        ((), ("production 3", "production 4")),
        (("3",), ("production 3", "production 4")),
        (("4", "1"), ("production 4", "production 1")),
        (("production", "canary"), ("production 4", "canary 2")),
        (("canary",), ("canary 2", "production 4")),
        (("production",), ("production 3", "production 4")),
        (("--channel", "canary"), ("canary 1", "canary 2")),
        (("1", "2", "--channel", "canary"), ("canary 1", "canary 2")),
        (("1", "--channel", "canary"), ("canary 1", "canary 2")),
        (("canary", "1"), ("canary 2", "canary 1")),
        (("1", "canary"), ("canary 1", "canary 2")),
        (("canary/1",), ("canary 1", "canary 2")),
        (("production/1", "canary/1"), ("production 1", "canary 1")),
        (("canary/1", "production"), ("canary 1", "production 4")),
    ],
)
def test_a_number_belongs_to_the_channel_that_is_named(
    state: Path, words: tuple[str, ...], versions: tuple[str, str]
) -> None:
    found = said(state, *words)
    assert tuple(f"{found[one]['channel']} {found[one]['number']}" for one in ("first", "second")) == versions
    assert not [note for note in found["notes"] if "main channel" in note]


def test_a_number_of_several_channels_is_the_main_ones_and_that_is_said(state: Path) -> None:
    found = said(state, "1", "2")
    assert (found["first"]["channel"], found["second"]["channel"]) == ("production", "production")
    assert found["notes"][0] == (
        "1 and 2: of production, the main channel; also in canary (for those, --channel canary or canary/1)"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("7",), f"{MODEL} has no release '7'; it has canary 1 and 2; production 1 to 4"),
        (("3", "--channel", "canary"), f"{MODEL} canary has no release '3': it has 1 and 2"),
        (("canary", "3"), f"{MODEL} canary has no release '3': it has 1 and 2"),
        (("canary/4", "1"), f"{MODEL} canary has no release '4': it has 1 and 2"),
        (("0" * 64,), "; it has canary 1 and 2; production 1 to 4"),
    ],
)
def test_a_release_that_is_not_there_is_one_line_with_what_there_is(
    state: Path, words: tuple[str, ...], message: str
) -> None:
    done = run(state, *words)
    assert isinstance(done.exception, ReleaseError)
    assert message in done.exception.message


@pytest.mark.parametrize("word", ["staging", "x\x1b[2J", "canary/x", "/1", "../1", "abc"])
def test_a_word_that_names_nothing_is_one_line_with_what_there_is(state: Path, word: str) -> None:
    done = run(state, word)
    assert isinstance(done.exception, UsageError)
    assert "it has canary 1 and 2; production 1 to 4" in done.exception.message
    assert done.exception.message.isprintable()


def test_the_record_tells_operators_opsets_interface_weights_and_rules(state: Path) -> None:
    found = said(state, "production/1", "production/2")
    (model,) = found["inspected"]["models"]
    assert model["operators_removed"] == ["ai.onnx::Gelu (1)"]
    assert model["counts"] == {"ai.onnx::Relu": [3, 5]}
    assert model["domain_uses"] == {"ai.onnx": [4, 5], "evil": [0, 2]}
    assert model["domains_added"] == ["evil"]
    assert {one["what"] for one in model["versions"]} == {"IR version", "opset of ai.onnx", "opset of evil"}
    assert [one["what"] for one in model["interface"]] == ["input features"]
    assert {"initializers", "bytes of weights"} <= {one["what"] for one in model["sizes"]}
    assert model["weights"] == "unknown"
    rules = {one["key"]: (one["first"], one["second"]) for one in found["changes"] if one["part"] == "verdict"}
    assert rules == {"policy_digest": ("a" * 64, "b" * 64), "contract_digest": (None, "c" * 64)}
    assert "verdict" in found["same_verdict"]


def test_a_narrow_screen_shows_the_record_and_escapes_what_was_submitted(state: Path) -> None:
    done = run(state, "production/1", "production/2", env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    words = " ".join(done.stdout.split())
    for told in ("nodes of ai.onnx 4 5", "uses of ai.onnx::Relu 3 5", "IR version 8 9", "bytes of weights 60 99"):
        assert told in words
    assert r"evil::x\u001b[2J\u202e[bold]y(2)" in "".join(words.split())
    same = " ".join(run(state, "production/2", "production/3").stdout.split())
    assert "main: the same interface, IR version, opsets, operators, number of initializers" in same
    assert "and 75 more" in same


def test_uses_of_operators_with_one_long_beginning_are_told_apart_and_the_rest_is_counted() -> None:
    names = [f"{'O' * 100}{at:02}" for at in range(30)]
    sides = []
    for count in (1, 2):
        told = facts(operators=[relu(count, name=name) for name in names])
        sides.append(snapshot(a_manifest().models[0], inspect(facts=told), {}))
    assert sides[0]
    assert sides[1]
    document = compare(sides[0], sides[1]).document()
    assert len(document["counts"]) == 30
    rows = [what for what, _, after in rows_of(document) if after == ["2"] or "not listed" in after[0]]
    assert len(rows) == 25
    assert list(rows_of(document))[-1] == (
        "uses of further operators",
        [],
        ["6 more differ, which are not listed"],
    )


def without_facts(state: Path, tmp_path: Path, *statements: str) -> dict[str, Any]:
    """Compare production 1 and 2 in a copy of the state in which somebody reached into the database."""
    kept = tmp_path / "state"
    shutil.copytree(state, kept, symlinks=True)
    with contextlib.closing(sqlite3.connect(kept / "ledger.sqlite3")) as database, database:
        for statement in statements:
            database.execute(statement)
    return said(kept, "production/1", "production/2")


def test_facts_that_are_no_longer_kept_are_one_line(state: Path, tmp_path: Path) -> None:
    (note,) = said(state)["notes"]
    assert note.startswith("not compared (operators, weights): production, release 4 of")
    assert note.endswith("its evidence is no longer kept")
    found = without_facts(state, tmp_path, "DELETE FROM evidence")
    assert [note.rpartition(": ")[2] for note in found["notes"]] == ["its evidence is no longer kept"] * 2
    assert found["inspected"]["status"] == "unknown"
    assert "policy_digest" in {one["key"] for one in found["changes"]}  # by the verdict, which stays


def test_facts_that_somebody_changed_are_not_compared(state: Path, tmp_path: Path) -> None:
    change = "UPDATE evidence SET data = CAST(replace(CAST(data AS TEXT), 'Relu', 'Gelu') AS BLOB)"
    found = without_facts(state, tmp_path, "DROP TRIGGER evidence_no_update", change)
    assert len(found["notes"]) == 2
    assert all("is not what its digest says" in note for note in found["notes"])
    assert (found["inspected"]["status"], found["inspected"]["models"]) == ("unknown", [])


def test_a_verdict_that_somebody_changed_tells_nothing_of_policy_and_contract(state: Path, tmp_path: Path) -> None:
    leaf = """CAST(replace(CAST(leaf AS TEXT), '"sig":"', '"sig":"AAAA') AS BLOB)"""
    forged = f"UPDATE entries SET leaf = {leaf} WHERE type = 'verdict'"
    found = without_facts(state, tmp_path, "DROP TRIGGER entries_no_update", forged)
    assert all(note.startswith("not compared (operators, weights, policy, contract)") for note in found["notes"])
    assert len(found["notes"]) == 2
    assert not [one for one in found["changes"] if one["part"] == "verdict"]


def test_a_bundle_that_people_accepted_is_compared_by_its_facts_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    for version, verdict in (("1.0.0", "held"), ("2.0.0", "accepted")):
        found = judged(world, version, {"ir_version": int(version[0]) + 7}, verdict=verdict)
        world.promote(found, decide=lambda _: Decided("", (1,)))
    world.close()
    for missing in Paths(world.state).missing():
        missing.mkdir()
    told = said(world.state)
    assert told["inspected"]["models"][0]["versions"] == [{"what": "IR version", "before": "8", "after": "9"}]
    assert ("verdict", "held", "accepted") in [
        (one["key"], one["first"], one["second"]) for one in told["changes"]
    ]


def test_one_bundle_in_two_channels_is_said_to_be_one(state: Path) -> None:
    found = said(state, "production/1", "canary/1")
    assert (found["inspected"]["status"], found["notes"]) == ("same", [])
    assert found["changes"] == []
    assert "both are of one bundle" in run(state, "production/1", "canary/1").stdout
    assert "one and the same release" in " ".join(run(state, "canary/1", "canary/1").stdout.split())
