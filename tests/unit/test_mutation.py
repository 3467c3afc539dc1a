"""`make mutation` draws the same sample for everyone; only a mutant that made a test fail counts as killed."""

from __future__ import annotations

import pytest

from tools.mutation import ROOT, TESTS, copied_beside, counted, drawn, ending, named_files, quickest

pytestmark = pytest.mark.unit
NAMES = [
    f"acceptd.judge.{file}.x_{function}__mutmut_{number}"
    for file, count in (("verdict", 40), ("words", 3))
    for function in ("judge", "ǁFindingǁof")
    for number in range(1, count)
]


def test_a_seed_draws_the_same_mutants_whatever_order_they_were_found_in() -> None:
    assert drawn(NAMES, 1) == drawn(NAMES[::-1], 1)
    assert drawn(NAMES, 1) != drawn(NAMES, 2)
    assert sorted(drawn(NAMES, 3)) == sorted(NAMES)


def test_a_short_sample_is_of_every_file_and_no_prefix_of_one() -> None:
    first = drawn(NAMES, 1)[:8]
    assert sum(".words." in name for name in first) == 4
    assert {name.rpartition("_")[2] for name in drawn(NAMES, 1)[:40]} != set(map(str, range(1, 21)))


def test_only_a_test_that_failed_kills_a_mutant() -> None:
    assert [ending(code) for code in (1, 3, 0, 5, 33, 36, -24, 255, None)] == [
        "killed", "killed", "survived", "not reached", "not reached", "timed out", "timed out", "timed out", "",
    ]  # fmt: skip
    assert counted({"a": 1, "b": 0, "c": None, "d": 33}) == {
        "mutants": 4, "tried": 3, "killed": 1, "not reached": 1, "survived": 1,
    }  # fmt: skip


def test_the_package_that_is_mutated_is_not_copied_over_its_mutants_when_a_run_goes_on() -> None:
    paths = [".gitignore", "Makefile", "acceptd/errors.py", "acceptd/judge/words.py", "acceptd/record/log.py"]
    assert copied_beside([*paths, "tests/unit/test_pins.py"], "judge") == [
        "Makefile",
        "acceptd/errors.py",
        "acceptd/record",
        "tests",
    ]


def test_a_mutant_meets_the_quickest_tests_first_and_as_many_as_end_in_its_seconds() -> None:
    took = {"slow": 9.0, "quick": 0.5, "usual": 1.0, "same": 1.0}
    assert quickest(took, took, 20) == ["quick", "same", "usual", "slow"]
    assert quickest(took, took, 2.5) == ["quick", "same", "usual"]
    assert quickest({"slow"}, took, 2.5) == ["slow"], "else nothing at all would be held against the mutant"
    assert quickest([], took, 2.5) == []


def test_a_file_that_is_not_there_is_no_sample_of_nothing() -> None:
    assert named_files("release", ["trust", "store", "trust"]) == [
        "acceptd/release/store.py",
        "acceptd/release/trust.py",
    ]
    with pytest.raises(
        FileNotFoundError, match=r"acceptd/judge/waivers\.py is not there: name files as in --only"
    ):
        named_files("judge", ["verdict", "waivers"])


@pytest.mark.parametrize("package", TESTS)
def test_every_pattern_of_tests_finds_some(package: str) -> None:
    assert all(list(ROOT.glob(pattern)) for pattern in TESTS[package])
