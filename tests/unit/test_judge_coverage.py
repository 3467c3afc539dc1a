"""What lies in an external data file beside the tensors, and what tensors claim together."""

from __future__ import annotations

import pytest

from acceptd.evidence import Assets, BundleFile, External, Facts, GapBytes, Sealed
from acceptd.judge import coverage
from acceptd.judge.coverage import MAX_GAP
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import take
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit

SIZE = 1 << 20
UNCOVERED = "external-data/uncovered-bytes"


def facts(*ranges: tuple[int | None, int | None], count: int | None = None, location: str = "w.bin") -> Facts:
    records = [
        External(tensor="w", location=location, offset=start, length=length, where=f"w{index}", inside=True)
        for index, (start, length) in enumerate(ranges)
    ]
    return world.facts(external=records, external_count=len(records) if count is None else count)


def sealed_bundle(*paths: str, holes: int = 0) -> Sealed:
    files = [BundleFile(path=path, sha256="0" * 64, size=SIZE, holes=holes) for path in sorted({"w.bin", *paths})]
    return Sealed(digest="d" * 64, files=files, total_bytes=SIZE * len(files))


def several(models: tuple[Facts, ...]) -> tuple[Manifest, dict[str, Facts]]:
    def more(document: dict[str, list[dict[str, object]]]) -> None:
        first = document["models"][0]
        for number in range(1, len(models)):
            document["models"].append({**first, "name": f"m{number}", "file": f"m{number}.onnx"})

    manifest = world.a_manifest(more)
    return manifest, {model.name: one for model, one in zip(manifest.models, models, strict=True)}


def judged(
    *models: Facts, sealed: Sealed | None = None, assets: Assets | None = None, **limits: int
) -> list[Finding]:
    manifest, named = several(models)
    policy = Policy.model_validate({"schema": 1, "limits": limits})
    return list(coverage.external_data(manifest, named, sealed or sealed_bundle(), policy, assets))


def found(*models: Facts) -> list[tuple[str, int]]:
    return [(one.code, one.evidence["bytes"]) for one in judged(*models) if one.code == UNCOVERED]


def owed(*models: Facts, sealed: Sealed | None = None) -> coverage.Owed | None:
    manifest, named = several(models)
    bundle = sealed or sealed_bundle()
    return coverage.owed(manifest, named, bundle, take(bundle, manifest))


def test_gaps_of_an_alignment_are_left_to_their_bytes() -> None:
    assert found(facts((None, 100), (MAX_GAP, SIZE - MAX_GAP))) == []
    task = owed(facts((4, 96), (MAX_GAP, SIZE - MAX_GAP - 8)))
    assert task is not None
    assert task.gaps == {"w.bin": ((0, 4), (100, MAX_GAP), (SIZE - 8, SIZE))}
    assert task.files == ()
    assert owed(facts((0, None))) == coverage.Owed((), {})


def test_a_range_beyond_the_file_makes_no_empty_gap() -> None:
    assert found(facts((0, SIZE), (SIZE + 64, 8))) == []
    assert found(facts((0, SIZE // 2), (2 * SIZE, 8))) == [(UNCOVERED, SIZE // 2)]


def test_one_byte_is_one_byte() -> None:
    gap = GapBytes(path="w.bin", start=0, stop=1, at=0, head="ff")
    [one] = judged(facts((1, SIZE - 1)), assets=Assets(files=0, gaps_read=1, gaps=[gap]))
    assert one.message.startswith("1 byte belongs to no tensor")


def test_larger_gaps_are_told_whatever_is_in_them_and_are_not_read() -> None:
    for given, size in (
        (facts((MAX_GAP, SIZE - MAX_GAP)), MAX_GAP),
        (facts((0, 4), (4 + MAX_GAP, SIZE - MAX_GAP - 4)), MAX_GAP),
        (facts((0, SIZE // 2), (0, 4)), SIZE // 2),
    ):
        assert found(given) == [(UNCOVERED, size)]
        assert owed(given) == coverage.Owed((), {})


def test_a_gap_whose_bytes_are_not_zero_is_told_with_the_first_of_them() -> None:
    gap = GapBytes(path="w.bin", start=100, stop=200, at=150, head="7f 45 4c 46")
    assets = Assets(files=0, gaps_read=1, gaps=[gap])
    (one,) = judged(facts((0, 100), (200, SIZE - 200)), assets=assets)
    assert (one.code, one.where) == (UNCOVERED, "w.bin: bytes 100 to 200")
    assert "byte 150" in one.message
    assert "7f 45 4c 46" in one.message


def test_two_models_may_share_one_file_and_its_ranges() -> None:
    half = SIZE // 2
    assert judged(facts((0, half)), facts((half, half))) == []
    assert judged(facts((0, SIZE)), facts((0, SIZE))) == []
    assert len(judged(facts((0, half)), facts((0, half)))) == 1


def test_nothing_is_said_or_owed_where_records_are_missing() -> None:
    assert found(facts((0, 4), count=2)) == []
    assert owed(facts((0, 4), count=2)) is None


def test_overlapping_tensors_name_both_places() -> None:
    (one,) = judged(facts((0, SIZE), (4, 8)))
    assert (one.code, one.where) == ("external-data/overlap", "model.onnx: w1")
    assert "overlap those of w0" in one.message
    codes = [one.code for one in judged(facts((0, 8), (0, 16), (15, SIZE - 15)))]
    assert codes == ["external-data/overlap"] * 2


def test_tensors_on_one_range_are_one_finding_with_their_number() -> None:
    (one,) = judged(facts(*[(0, SIZE)] * 10_000))
    assert (one.code, one.evidence["tensors"]) == ("external-data/aliased", 10_000)
    assert judged(facts((0, SIZE), (8, 0), (8, 0))) == [], "tensors without bytes share nothing"


def test_another_spelling_of_the_file_is_the_same_file() -> None:
    records = facts((0, SIZE)).external + facts((0, SIZE), location=".//w.bin").external
    (one,) = judged(world.facts(external=records, external_count=2))
    assert one.code == "external-data/aliased"


def test_files_and_bytes_of_external_data_are_capped() -> None:
    many = facts((0, SIZE)).external + facts((0, SIZE), location="v.bin").external
    given = world.facts(external=many, external_count=2)
    bundle = sealed_bundle("v.bin")
    assert judged(given, sealed=bundle, external_files=2, external_bytes=2 * SIZE) == []
    codes = {one.code for one in judged(given, sealed=bundle, external_files=1, external_bytes=2 * SIZE - 1)}
    assert codes == {"external-data/too-many-files", "external-data/too-many-bytes"}


def test_holes_in_weights_are_told_and_holes_of_an_alignment_are_not() -> None:
    given = facts((0, 4), (MAX_GAP, SIZE - MAX_GAP))
    assert judged(given, sealed=sealed_bundle(holes=MAX_GAP)) == []
    (one,) = judged(given, sealed=sealed_bundle(holes=3 * MAX_GAP))
    assert (one.code, one.where) == ("external-data/sparse-file", "w.bin")


def test_files_that_no_model_reads_are_owed() -> None:
    task = owed(facts((0, SIZE)), sealed=sealed_bundle("tokenizer.json", "test_data_set_0/notes.so"))
    assert task is not None
    assert task.files == ("test_data_set_0/notes.so", "tokenizer.json")
