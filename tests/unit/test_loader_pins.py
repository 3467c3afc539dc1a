"""The loader's look at its own process: what is mapped here is what was accepted, or no session is given.

In this process and without an attacker; with one, in processes of their own: tests/hostile/test_loader_pins.py.
"""

from __future__ import annotations

import builtins
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from acceptd import loader_package, loader_pins
from acceptd.errors import RuntimeMismatchError
from acceptd.loader_options import OperatorLibrary, Options
from acceptd.loader_package import folder
from acceptd.release.model import SessionOptions

pytestmark = pytest.mark.unit
PACKAGE, VERSION = folder(onnxruntime.__file__), str(onnxruntime.__version__)
MODULE = "onnxruntime_pybind11_state"
OTHER = "0" * 64


def options(libraries: dict[str, str] | None = None, version: str = "", *operators: OperatorLibrary) -> Options:
    made = Options(SessionOptions(onnxruntime=version).model_dump(mode="json"))
    made.libraries, made.operators = dict(libraries or {}), list(operators)
    return made


@pytest.fixture(scope="module")
def own() -> dict[str, str]:
    found = loader_pins.own_libraries(onnxruntime)
    assert any(MODULE in name for name in found)
    return found


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loader_pins, "_right", {})
    loader_pins._preloaded.cache_clear()
    yield
    loader_pins._preloaded.cache_clear()


def refused(given: Options, version: str = VERSION) -> str:
    with pytest.raises(RuntimeMismatchError) as caught:
        loader_pins.check(given, version, PACKAGE)
    return str(caught.value).removeprefix("this process does not run the runtime that was accepted: ")


def test_the_accepted_process_is_let_through_and_hashed_once(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, looks = options(own, VERSION), []
    real = loader_pins._hashed

    def hashed(*words: Any) -> Any:
        looks.append(1)
        return real(*words)

    monkeypatch.setattr(loader_pins, "_hashed", hashed)
    for _ in range(3):
        loader_pins.check(given, VERSION, PACKAGE)
    assert len(looks) == 1
    mappings = loader_pins._mappings()
    monkeypatch.setattr(loader_pins, "_mappings", lambda: mappings | {("/somewhere/libnew.so", 1)})
    loader_pins.check(given, VERSION, PACKAGE)
    assert len(looks) == 2, "other mappings are looked at"
    loader_pins.check(options(own | {"libnever.so": OTHER}, VERSION), VERSION, PACKAGE)
    assert len(looks) == 3, "other pins are"


def test_no_more_answers_are_kept_than_said(own: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_pins, "_KEPT", 2)
    for number in range(3):
        loader_pins.check(options(own | {f"libnever{number}.so": OTHER}), VERSION, PACKAGE)
    assert len(loader_pins._right) == 1


def test_another_library_than_the_pinned_one_is_named_with_both_digests(own: dict[str, str]) -> None:
    name = next(name for name in own if MODULE in name)
    assert refused(options(own | {name: OTHER})) == f"{name} has the SHA-256 {own[name]}, pinned is {OTHER}"
    assert refused(options(own | {name: OTHER}, "0.0.1")).endswith(" (and 1 more)")
    assert loader_pins._right == {}


def test_a_library_of_the_runtime_that_nobody_pinned_is_refused(own: dict[str, str]) -> None:
    for name, digest in own.items():
        rest = {one: sha256 for one, sha256 in own.items() if one != name}
        assert refused(options(rest or {"libnever.so": OTHER})) == f"{name} ({digest}) is mapped and not pinned"


def test_another_version_is_refused_with_and_without_pinned_libraries(own: dict[str, str]) -> None:
    for libraries in ({}, own):
        assert refused(options(libraries, "0.0.1")) == f"onnxruntime {VERSION}, pinned is 0.0.1"
    loader_pins.check(options({}, VERSION), VERSION, PACKAGE)


def test_a_file_that_was_exchanged_under_its_mapping_has_no_digest(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(name for name in own if MODULE in name)
    swapped = frozenset((path, inode + (name in path)) for path, inode in loader_pins._mappings())
    monkeypatch.setattr(loader_pins, "_mappings", lambda: swapped)
    assert "(removed or replaced since it was mapped)" in refused(options(own))


def test_a_process_without_the_runtimes_module_is_not_the_accepted_one(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without = frozenset(one for one in loader_pins._mappings() if MODULE not in one[0])
    monkeypatch.setattr(loader_pins, "_mappings", lambda: without)
    assert refused(options(own)).startswith(f"{MODULE} is pinned () and not mapped")


def test_a_preloaded_library_counts_unless_its_bytes_are_pinned(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    libc = next(path for path, _ in sorted(loader_pins._mappings()) if Path(path).name.startswith("libc."))
    name, digest = Path(libc).name, hashlib.sha256(Path(libc).read_bytes()).hexdigest()
    monkeypatch.setattr(loader_pins, "_preloaded", lambda: frozenset({name}))
    assert refused(options(own)) == f"{name} ({digest}) is mapped and not pinned"
    loader_pins.check(options(own | {name: digest}), VERSION, PACKAGE)
    monkeypatch.undo()


def test_what_was_preloaded_is_read_from_where_a_process_cannot_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real.so").touch()
    (tmp_path / "link.so").symlink_to("real.so")
    monkeypatch.setenv("LD_PRELOAD", f"{tmp_path}/link.so /x/b.so")
    monkeypatch.setenv("LD_AUDIT", "/x/c.so:/x/d.so")
    assert not loader_pins._preloaded() & {"link.so", "b.so"}, "set after the start, it lends nothing"
    loader_pins._preloaded.cache_clear()

    def closed(*_args: Any, **_more: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/proc/self/environ")

    monkeypatch.setattr(builtins, "open", closed)
    monkeypatch.setattr(Path, "read_bytes", closed)
    assert loader_pins._preloaded() >= {"link.so", "real.so", "b.so", "c.so", "d.so"}


def test_pins_that_cannot_be_checked_refuse(own: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_args: Any, **_more: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/proc/self/maps")

    monkeypatch.setattr(builtins, "open", closed)
    with pytest.raises(RuntimeMismatchError, match="/proc/self/maps cannot be read"):
        loader_pins.check(options(own), VERSION, PACKAGE)


def test_the_runtime_of_the_acceptance_is_compared_as_pins_are(own: dict[str, str]) -> None:
    accepted = list(own.items())
    assert loader_pins.unlike(accepted, onnxruntime) == ()
    name, digest = accepted[0]
    assert loader_pins.unlike([*accepted, (name, OTHER)], onnxruntime) == (), "two of one name: both count"
    (other,) = loader_pins.unlike([(name, OTHER), *accepted[1:]], onnxruntime)
    assert (other.name, other.pinned, other.found) == (name, OTHER, digest)
    (stranger,) = loader_pins.unlike(accepted[1:], onnxruntime)
    assert (stranger.name, stranger.kind) == (name, "not-pinned")


# -- custom operators


def test_operators_are_the_callers_files_with_the_accepted_bytes(tmp_path: Path) -> None:
    library, link = tmp_path / "ops.so", tmp_path / "link.so"
    library.write_bytes(b"operators")
    link.symlink_to(library)
    digest = hashlib.sha256(b"operators").hexdigest()
    given = options({}, "", OperatorLibrary("accepted.so", digest, 20, "x.ops"))
    assert loader_pins.operator_paths(given, [link]) == {"accepted.so": str(library)}
    for paths, wanted, said in (
        ([], given, "the release needs the custom operators accepted.so: give their paths as custom_operators="),
        ([tmp_path / "none"], given, f"custom operators {tmp_path}/none: No such file or directory"),
        ([library], options(), f"custom operators {library} has the SHA-256 {digest}; accepted: none"),
    ):
        with pytest.raises(RuntimeMismatchError) as caught:
            loader_pins.operator_paths(wanted, paths)
        assert str(caught.value) == said
    library.write_bytes(b"others")
    with pytest.raises(RuntimeMismatchError, match=f"accepted: accepted.so {digest}"):
        loader_pins.operator_paths(given, [library])


def test_operators_that_are_not_what_was_loaded_are_refused(own: dict[str, str]) -> None:
    module = next(path for path, _ in loader_pins._mappings() if MODULE in path)
    digest = own[Path(module).name]
    loader_pins.check_operators(options({}, "", OperatorLibrary("a.so", digest, 20, "x")), {"a.so": module})
    loader_pins.check_operators(options(), {})
    for path, accepted in ((module, OTHER), ("/nowhere/a.so", digest)):
        given = options({}, "", OperatorLibrary("a.so", accepted, 20, "x"))
        with pytest.raises(RuntimeMismatchError, match="changed while they were loaded"):
            loader_pins.check_operators(given, {"a.so": path})


# -- the package


def test_a_mixture_of_two_distributions_is_no_runtime(tmp_path: Path) -> None:
    runtime: Any = SimpleNamespace(__file__=str(tmp_path / "onnxruntime" / "__init__.py"), __version__="1.0")
    with pytest.raises(RuntimeMismatchError, match=f"{tmp_path}/none: No such file or directory"):
        loader_package.check(options(), SimpleNamespace(__file__=str(tmp_path / "none" / "x" / "__init__.py")))
    for name in ("onnxruntime-1.0", "onnxruntime_gpu-1.1"):
        loader_package.check(options(), runtime)
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    os.utime(tmp_path, ns=(1, 1))
    with pytest.raises(RuntimeMismatchError, match=r"onnxruntime 1\.0, onnxruntime-gpu 1\.1; keep one of them"):
        loader_package.check(options(), runtime)


def test_a_pinned_version_alone_looks_at_the_process(tmp_path: Path) -> None:
    runtime: Any = SimpleNamespace(__file__=str(tmp_path / "onnxruntime" / "__init__.py"), __version__="1.0")
    loader_package.check(options({}, "1.0"), runtime)
    with pytest.raises(RuntimeMismatchError, match=r"onnxruntime 1\.0, pinned is 1\.1"):
        loader_package.check(options({}, "1.1"), runtime)
