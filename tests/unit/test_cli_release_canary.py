"""`acceptd release canary evaluate` as it is called, and the page about receipts as it is written."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.canary import reading
from acceptd.cli.release import app
from acceptd.config import Paths
from acceptd.errors import AcceptdError, UsageError
from acceptd.release.receipt import parse
from examples.evidence_classifier import build_model, manifest
from tests.canary_world import LIMITS, CanaryWorld
from tests.release_world import MODEL, World, memory_directory

pytestmark = pytest.mark.unit
PAGE = (Path(__file__).parents[2] / "docs" / "receipts.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def base() -> Iterator[CanaryWorld]:
    made = CanaryWorld(memory_directory())
    made.close()
    for missing in Paths(made.state).missing():
        missing.mkdir()
    policies = made.root / "policies"
    policies.mkdir(mode=0o755)
    limits = "".join(f"{key} = {value}\n" for key, value in LIMITS.model_dump().items())
    for name, more in (("small", ""), ("person", '[approvals]\nattestations = ["model_card"]\n')):
        text = f'schema = 1\nname = "{name}"\n[canary]\n{limits}{more}'
        (policies / f"{name}.toml").write_text(text, encoding="utf-8")
        (policies / f"{name}.toml").chmod(0o644)
    yield made
    shutil.rmtree(made.root)


@pytest.fixture
def world(base: CanaryWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[CanaryWorld]:
    made = base.copy(memory_directory())
    by_policy(made, "small")
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("COLUMNS", "80")
    yield made
    made.close()
    shutil.rmtree(made.root)


def by_policy(world: World, name: str) -> None:
    config = f'policy = "{name}"\npolicies = "{world.root / "policies"}"\n'
    (world.state / "acceptd.toml").write_text(config, encoding="utf-8")


def call(world: World, *words: str) -> int:
    """Run ``acceptd release …``; return its exit code."""
    result = app([*words, "--state", str(world.state)], standalone_mode=False)
    return result if isinstance(result, int) else 0


def evaluate(world: CanaryWorld, path: Path, *more: str) -> int:
    return call(world, "canary", "evaluate", MODEL, "--receipts", str(path), *more)


def test_the_exit_codes_and_the_screen(world: CanaryWorld, capsys: pytest.CaptureFixture[str]) -> None:
    old = world.some(world.old)
    few = world.file(*world.some(world.new, 10), *old, b"{", b"x" * 70_000)
    bad = world.file(*world.some(world.new, error="RuntimeRefusedError"), *old)
    good = world.file(*world.some(world.new), *old)
    said = []
    for path, more, code in ((few, (), 3), (bad, ("--dry-run",), 1), (good, ("--dry-run",), 0), (good, (), 0)):
        size = world.ledger.tree().size
        assert evaluate(world, path, *more) == code
        assert (world.ledger.tree().size == size) == bool(more)
        said.append(capsys.readouterr().out)
        assert all(len(line) <= 80 for line in said[-1].splitlines())
    assert "1 too long" in said[0]
    assert "1 no receipt" in said[0]
    assert said[0].endswith("evaluate again when there are more receipts\n")
    assert said[1].splitlines()[6].startswith("FAILS   errors")  # what fails stands first
    assert said[1].endswith("would roll canary back; nothing was recorded (--dry-run)\n")
    assert f"production is now 2 ({world.new.bundle_digest[:12]})" in said[3]
    with pytest.raises(UsageError, match="the same bundle"):
        evaluate(world, good)


def test_rolled_back_and_json(world: CanaryWorld, capsys: pytest.CaptureFixture[str]) -> None:
    bad = world.file(*world.some(world.new, error="RuntimeRefusedError"), *world.some(world.old))
    assert evaluate(world, bad, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["release"] == {"channel": "canary", "number": 2, "digest": world.old.bundle_digest}
    assert world.ledger.entry(told["entry"]).body == told["evaluation"]


def test_who_only_looks_needs_no_private_key(world: CanaryWorld, capsys: pytest.CaptureFixture[str]) -> None:
    good = world.file(*world.some(world.new), *world.some(world.old))
    (world.state / "keys" / "release.pem").unlink()
    assert evaluate(world, good, "--dry-run") == 0
    assert "would promote" in capsys.readouterr().out
    with pytest.raises(AcceptdError, match="release"):
        evaluate(world, good)
    assert list(world.ledger.entries(kind="canary")) == []


def test_a_policy_that_wants_a_person_keeps_a_good_canary_out(
    world: CanaryWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    by_policy(world, "person")
    good = world.file(*world.some(world.new), *world.some(world.old))
    assert evaluate(world, good) == 3
    said = capsys.readouterr().out
    assert "decided: promote" in said
    assert "model_card" in said
    assert world.current("production") == world.old.bundle_digest


def test_a_file_that_production_named_like_markup_is_counted_as_any_other(
    world: CanaryWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "_TOLD_LINES", 1)
    odd = world.file(*world.some(world.new, 10)).rename("a[link=file:x] [b].jsonl")
    assert evaluate(world, odd, "--dry-run") == 3
    assert "10 counted" in capsys.readouterr().out


def test_a_second_rollback_in_a_row_says_that_it_comes_back_to_what_the_first_one_left(
    world: CanaryWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = world.released("9.0.0").bundle_digest
    told = []
    for more in ((), (), ("--to", "1"), ("--to", bad)):
        assert call(world, "rollback", MODEL, *more) == 0
        told.append(capsys.readouterr().out)
    assert ["name an older one with --to" in text for text in told] == [False, True, False, False]
    assert bad[:12] in told[1]


@pytest.mark.parametrize("words", [("mosaic",), ("../x", "--channel", "canary"), (MODEL, "--against", "current")])
def test_names_that_are_none(world: CanaryWorld, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        call(world, "canary", "evaluate", *words, "--receipts", "x")


# -- the page


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_commands_do_what_the_page_says(world: CanaryWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.file(*world.some(world.new)).rename("canary.jsonl")
    world.file(*world.some(world.old)).rename("production.jsonl")
    [block] = blocks("console")
    commands = [shlex.split(line.removeprefix("$ acceptd release ")) for line in block.splitlines()]
    assert [call(world, *words) for words in commands] == [0, 0]
    assert "would promote" in capsys.readouterr().out
    assert world.current("production") == world.new.bundle_digest


def test_the_pages_python_runs(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    text = "".join(blocks("python"))
    for there, here in (
        ('"/var/lib/acceptd"', repr(str(made.state))),
        ('"/etc/acceptd/keyring.json"', repr(str(made.state / "keyring.json"))),
        ("/var/log/acceptd", str(tmp_path)),
        ('.json")', '.json", now=now)'),
        ("/keyring.json')", "/keyring.json', now=now)"),
    ):
        text = text.replace(there, here)
    names: dict[str, Any] = {
        "body": b"[0.9, 0.8, 0.75, 0.1]", "prepare": lambda body: [json.loads(body)], "now": lambda: made.now,
        "PREPROCESSING": manifest()["preprocessing"]["sha256"],
    }  # fmt: skip
    exec(text, names)
    assert names["label"] == "accept"
    one = parse((tmp_path / "receipts.jsonl").read_bytes())
    assert (one.request_id, one.beside.timeout in {"met", "exceeded"}) == ("order-4711", True)
    made.close()


def test_the_page_tells_every_key_of_the_policy() -> None:
    from acceptd.policy.canary import CanaryTable

    shortened = {"latency_p50_ratio", "latency_p95_ratio", "latency_p99_ratio", "confidence"}
    missing = [key for key in CanaryTable.model_fields if f"`{key}`" not in PAGE and key not in shortened]
    assert missing == []
