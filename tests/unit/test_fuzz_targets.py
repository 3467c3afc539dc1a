"""Each fuzz target's function over its seed corpus, without atheris; and that the oracle can say no."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz
from fuzz import manifest, run, runtime, seeds, wire
from sandbox import wire as walker

pytestmark = pytest.mark.unit

CORPUS = Path(fuzz.__file__).parent / "corpus"
CHECKS = {"wire": wire.check, "manifest": manifest.check}


@pytest.mark.parametrize("target", run.TARGETS)
def test_the_seeds_hold(target: str) -> None:
    files = sorted((CORPUS / target).iterdir())
    assert len(files) >= 8
    for file in files:
        CHECKS[target](file.read_bytes())


def test_the_seeds_are_those_that_the_generator_writes() -> None:
    assert {file.stem: file.read_bytes() for file in (CORPUS / "wire").iterdir()} == seeds.models()


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
