"""Each fuzz target over its saved corpus and every kept finding, without atheris; and that targets can say no."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import manifest, runtime, seeds, wire
from fuzz.targets import CORPUS, FINDINGS, TARGETS
from sandbox import wire as walker

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fuzzing.md"


@pytest.mark.parametrize("target", TARGETS)
def test_the_saved_corpus_holds(target: str) -> None:
    check = TARGETS[target].load()
    files = sorted((CORPUS / target).iterdir())
    assert files
    for file in files:
        check(file.read_bytes())


@pytest.mark.parametrize("file", sorted(FINDINGS.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_fuzzing_once_found_stays_mended(file: Path) -> None:
    TARGETS[file.parent.name].load()(file.read_bytes())


def test_the_seeds_are_those_that_the_generator_writes() -> None:
    made = seeds.every()
    assert made.keys() == TARGETS.keys()
    for target, found in made.items():
        for name, raw in found.items():
            saved = CORPUS / target / (name + seeds.SUFFIXES.get(target, ""))
            assert saved.read_bytes() == raw, saved


def test_a_walk_that_misses_a_node_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = walker.take

    def one_less(*arguments: object) -> tuple[int, int, int]:
        position, nodes, attributes = real(*arguments)  # type: ignore[arg-type]
        return position, max(nodes - 1, 0), attributes

    monkeypatch.setattr(walker, "take", one_less)
    with pytest.raises(AssertionError):
        wire.check(seeds.models()["many"])


def test_a_walk_that_passes_what_protobuf_refuses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = walker.walk

    def blind(raw: bytes, size: int, depth: int) -> walker.Walk:
        found = real(raw, size, depth)
        found.fatal = None
        return found

    monkeypatch.setattr(walker, "walk", blind)
    with pytest.raises(AssertionError):
        wire.check(seeds.models()["cut"])


def test_a_manifest_parser_that_lets_another_error_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest.manifest, "_plain", lambda *_: (_ for _ in ()).throw(KeyError("x")))
    with pytest.raises(KeyError):
        manifest.check(b"a = 1\n")


def test_a_runtime_that_reads_another_file_is_found_out() -> None:
    plain = seeds.models()["plain"]
    assert runtime.disagreement(plain, ["x"], ["y"]) == ""
    assert "parsed model" in runtime.disagreement(plain, ["x"], ["z"])
    assert "truncated" in runtime.disagreement(plain[:-1], ["x"], ["y"])
