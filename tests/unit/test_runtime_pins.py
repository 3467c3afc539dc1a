"""Pins: the whole list in the cell, the listed names and onnxruntime's package in production."""

from __future__ import annotations

import pytest

from acceptd.runtime.facts import Library
from acceptd.runtime.pins import LIBRARY, VERSION, differences, foreign, of_runtime

pytestmark = pytest.mark.unit

A, B, C = "a" * 64, "b" * 64, "c" * 64
PACKAGE = "/venv/onnxruntime"
LIBC = Library("/usr/lib/libc.so.6", A, 1)
ORT = Library(f"{PACKAGE}/capi/libonnxruntime.so.1.32.0", B, 1)
PINS = {"libc.so.6": A, "libonnxruntime.so.1.32.0": B}


def kinds(found: tuple[object, ...]) -> list[tuple[str, str, str]]:
    return [(one.code, one.name, one.kind) for one in found]  # type: ignore[attr-defined]


def test_nothing_is_pinned_by_empty_pins() -> None:
    assert differences({}, [LIBC, ORT], "", "1.24.1") == ()
    assert foreign({}, [LIBC, ORT], PACKAGE, "", "1.24.1") == ()


def test_what_agrees_is_no_difference() -> None:
    assert differences(PINS, [ORT, LIBC], "1.32.0", "1.32.0") == ()
    assert foreign(PINS, [ORT, LIBC], PACKAGE, "1.32.0", "1.32.0") == ()


def test_another_digest_differs_everywhere() -> None:
    swapped = Library("/tmp/planted/libc.so.6", C, 1)
    for found in (differences(PINS, [swapped, ORT], "", ""), foreign(PINS, [swapped, ORT], PACKAGE, "", "")):
        assert kinds(found) == [(LIBRARY, "libc.so.6", "other-digest")]
        assert C in found[0].sentence()


def test_two_libraries_of_one_name_must_both_be_the_pinned_one() -> None:
    both = [LIBC, Library("/tmp/planted/libc.so.6", C, 1), ORT]
    assert kinds(differences(PINS, both, "", "")) == [(LIBRARY, "libc.so.6", "other-digest")]
    assert kinds(foreign(PINS, both, PACKAGE, "", "")) == [(LIBRARY, "libc.so.6", "other-digest")]


def test_in_the_cell_the_pins_are_the_whole_list() -> None:
    stranger = Library("/usr/lib/libz.so.1", C, 1)
    assert kinds(differences(PINS, [LIBC, ORT, stranger], "", "")) == [(LIBRARY, "libz.so.1", "not-pinned")]
    assert kinds(differences(PINS, [LIBC], "", "")) == [(LIBRARY, "libonnxruntime.so.1.32.0", "not-mapped")]


@pytest.mark.parametrize(
    "path",
    [
        f"{PACKAGE}/capi/libonnxruntime_providers_x.so",
        f"{PACKAGE}.libs/libgomp-1.so",
        "/tmp/libonnxruntime_providers_shared.so",
    ],
)
def test_in_production_the_runtimes_own_libraries_are_the_whole_list(path: str) -> None:
    stranger = Library(path, C, 1)
    name = path.rpartition("/")[2]
    assert kinds(foreign(PINS, [LIBC, ORT, stranger], PACKAGE, "", "")) == [(LIBRARY, name, "not-pinned")]
    assert foreign(PINS, [ORT], PACKAGE, "", "") == ()  # one that is not mapped may yet be
    assert foreign(PINS, [ORT, Library("/usr/lib/libz.so.1", C, 1)], PACKAGE, "", "") == ()


def test_a_neighbour_with_a_longer_name_is_not_the_package() -> None:
    assert not of_runtime("/venv/onnxruntime_extras/libx.so", PACKAGE)
    assert of_runtime("/venv/onnxruntime/capi/x.so", PACKAGE + "/")


def test_a_planted_library_goes_by_the_name_that_is_asked_for() -> None:
    pins = {"libstdc++.so.6.0.30": A, "libssl.so.1.1": A, "libssl.so.3": B}
    planted = Library("/tmp/planted/libstdc++.so.6", C, 1)
    assert kinds(foreign(pins, [planted], PACKAGE, "", "")) == [(LIBRARY, "libstdc++.so.6", "other-digest")]
    linked = [
        Library("/lib/libstdc++.so.6", A, 1),
        Library("/lib/libssl.so.3", B, 1),
        Library("/lib/libss.so", C, 1),
    ]
    assert foreign(pins, linked, PACKAGE, "", "") == ()


def test_a_release_in_a_name_is_a_version_too() -> None:
    """Before 2.34, glibc's files have its release in their names, and links that are asked for have not."""
    for name in ("libm.so.6", "libm-2.28.so"):
        planted = Library(f"/tmp/planted/{name}", C, 1)
        assert kinds(foreign({"libm-2.31.so": A}, [planted], PACKAGE, "", "")) == [(LIBRARY, name, "other-digest")]
    assert foreign({"libx-04003912.so": A}, [Library("/lib/libx-96973999.so", C, 1)], PACKAGE, "", "") == ()


def test_a_removed_file_keeps_its_name() -> None:
    gone = Library("/venv/onnxruntime/capi/libonnxruntime.so.1.32.0 (deleted)", C, 1)
    assert kinds(foreign(PINS, [gone], PACKAGE, "", "")) == [(LIBRARY, "libonnxruntime.so.1.32.0", "other-digest")]


def test_another_version_differs() -> None:
    for found in (differences({}, [], "1.32.0", "1.24.1"), foreign({}, [], PACKAGE, "1.32.0", "1.24.1")):
        assert kinds(found) == [(VERSION, "onnxruntime", "other-version")]
        assert found[0].sentence() == "onnxruntime 1.24.1, pinned is 1.32.0"
