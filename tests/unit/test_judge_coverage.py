"""What lies in an external data file beside the tensors: alignment, or something hidden."""

from __future__ import annotations

import pytest

from acceptd.evidence import BundleFile, External, Facts, Sealed
from acceptd.judge.coverage import MAX_GAP, MAX_TAIL, uncovered
from tests import judge_world as world

pytestmark = pytest.mark.unit

SIZE = 1 << 20


def facts(*ranges: tuple[int | None, int | None], count: int | None = None) -> Facts:
    records = [
        External(tensor="w", location="w.bin", offset=start, length=length, where=f"w{index}", inside=True)
        for index, (start, length) in enumerate(ranges)
    ]
    return world.facts(external=records, external_count=len(records) if count is None else count)


def found(*models: Facts) -> list[tuple[str, int]]:
    def more(document: dict[str, list[dict[str, object]]]) -> None:
        first = document["models"][0]
        for number in range(1, len(models)):
            document["models"].append({**first, "name": f"m{number}", "file": f"m{number}.onnx"})

    manifest = world.a_manifest(more)
    sealed = Sealed(
        digest="d" * 64, files=[BundleFile(path="w.bin", sha256="0" * 64, size=SIZE)], total_bytes=SIZE
    )
    named = {model.name: one for model, one in zip(manifest.models, models, strict=True)}
    return [(one.code, one.evidence["bytes"]) for one in uncovered(manifest, named, sealed)]


def test_alignment_is_no_payload() -> None:
    assert found(facts((None, 100), (MAX_GAP, SIZE - MAX_GAP - MAX_TAIL))) == []
    assert found(facts((0, None))) == []
    assert found(facts()) == []


def test_bytes_before_between_and_behind_the_tensors_are_told() -> None:
    code = "external-data/uncovered"
    assert found(facts((MAX_GAP, SIZE - MAX_GAP))) == [(code, MAX_GAP)]
    assert found(facts((0, 4), (4 + MAX_GAP, SIZE - MAX_GAP - 4))) == [(code, MAX_GAP)]
    assert found(facts((0, SIZE - MAX_TAIL - 1))) == [(code, MAX_TAIL + 1)]
    assert found(facts((0, SIZE // 2), (0, 4))) == [(code, SIZE // 2)]


def test_two_models_may_share_one_file() -> None:
    half = SIZE // 2
    assert found(facts((0, half)), facts((half, half))) == []
    assert len(found(facts((0, half)), facts((0, half)))) == 1


def test_nothing_is_said_where_records_are_missing() -> None:
    assert found(facts((0, 4), count=2)) == []
