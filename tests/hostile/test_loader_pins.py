"""A production process that maps another library than the pinned one gets an error, whatever brought it in.

Each attack is a fresh interpreter with a planted copy of a real library, one byte longer: ELF does not look there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd import loader_package, loader_session
from acceptd.errors import RuntimeMismatchError
from acceptd.loader_options import Options
from acceptd.release.model import OperatorLibrary, SessionOptions
from acceptd.runtime.pins import stem
from examples.evidence_classifier import build_model, manifest
from tests.release_world import World

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, os, sys
sys.path.append(sys.argv[4])
from acceptd.errors import LoaderError
from acceptd.loader import open_release
state, now, body = sys.argv[1], float(sys.argv[2]), sys.argv[3]
release = open_release(state, "mosaic/evidence-disposition", keys=state + "/keyring.json", now=lambda: now)
told = {}
def attempt(name):
    try:
        told[name] = release.session().run({"features": [[0.9, 0.8, 0.75, 0.1]]}).labels()[0]
    except LoaderError as error:
        told[name] = f"{type(error).__name__}: {error}"
exec(body)
print(json.dumps(told))
"""
MEASURE = """
attempt("first")
from acceptd.runtime.libraries import digests, mapped
told["libraries"] = [[one.path, one.sha256] for one in digests(mapped(open("/proc/self/maps").read()))]
import onnxruntime
told["version"] = onnxruntime.__version__
"""


class Pinned:
    """A release that pins what a fresh process here maps, and fresh processes that open it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.worlds: list[World] = []
        self.loose = self.world("loose", SessionOptions())
        told = self.process(MEASURE, world=self.loose)
        assert told["first"] == "accept"
        self.paths: dict[str, str] = {Path(path).name: path for path, _ in told["libraries"]}
        self.pins: dict[str, str] = {Path(path).name: sha256 for path, sha256 in told["libraries"]}
        self.version: str = told["version"]
        self.pinned = self.world("pinned", SessionOptions(libraries=self.pins, onnxruntime=self.version))

    def world(self, name: str, options: SessionOptions) -> World:
        (self.home / name).mkdir()
        made = World(self.home / name)
        made.promote(made.accepted(files={"model.onnx": build_model()}, manifest=manifest()), options=options)
        self.worlds.append(made)
        return made

    def process(
        self,
        body: str = "attempt('it')",
        *,
        world: World | None = None,
        cwd: Path | None = None,
        **environment: str,
    ) -> dict[str, Any]:
        world = world or self.pinned
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(world.state), str(world.now), body, str(ROOT)],
            env={**clean, **environment}, cwd=cwd or self.home, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def plant(self, name: str, directory: Path, called: str = "") -> Path:
        """Copy the library of that name, a byte longer."""
        directory.mkdir(parents=True, exist_ok=True)
        target = directory / (called or name)
        shutil.copyfile(self.paths[name], target)
        with target.open("ab") as file:
            file.write(b"\0")
        return target

    def named(self, part: str) -> str:
        return next(name for name in self.pins if part in name)


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pinned]:
    made = Pinned(tmp_path_factory.mktemp("pins"))
    yield made
    for world in made.worlds:
        world.close()


def package(pinned: Pinned, directory: Path) -> Path:
    """Make a directory whose ``onnxruntime`` is the real one but for its extension module; return it."""
    name = pinned.named("onnxruntime_pybind11_state")
    real = Path(pinned.paths[name]).parents[1]
    for folder in (directory / "onnxruntime", directory / "onnxruntime/capi"):
        folder.mkdir(parents=True)
        for item in (real / folder.relative_to(directory / "onnxruntime")).iterdir():
            if item.name not in {"capi", name}:
                (folder / item.name).symlink_to(item)
    pinned.plant(name, directory / "onnxruntime/capi")
    return directory


def test_positive_control_the_same_process_without_an_attack(pinned: Pinned) -> None:
    assert pinned.process() == {"it": "accept"}


@pytest.mark.parametrize("way", ["LD_LIBRARY_PATH", "LD_PRELOAD"])
def test_a_library_in_the_linkers_way(way: str, pinned: Pinned, tmp_path: Path) -> None:
    planted = pinned.plant(pinned.named("libstdc++"), tmp_path / "lib", "libstdc++.so.6")
    value = str(planted) if way == "LD_PRELOAD" else str(planted.parent)
    told = pinned.process(**{way: value})["it"]
    assert told.startswith("RuntimeMismatchError: ")
    assert "libstdc++.so.6 has the SHA-256" in told
    assert pinned.process(world=pinned.loose, **{way: value}) == {"it": "accept"}  # it does work, and is mapped


def test_a_link_of_a_pinned_name_to_a_file_of_any_name(pinned: Pinned, tmp_path: Path) -> None:
    """/proc/self/maps has the file's own name, which nobody pinned; the linker asked for a pinned one."""
    planted = pinned.plant(pinned.named("libstdc++"), tmp_path / "lib", "plain.so")
    (planted.parent / "libstdc++.so.6").symlink_to("plain.so")
    told = pinned.process(LD_LIBRARY_PATH=str(planted.parent))["it"]
    assert told.startswith("RuntimeMismatchError: ")
    assert "libstdc++.so.6 has the SHA-256" in told
    assert pinned.process(world=pinned.loose, LD_LIBRARY_PATH=str(planted.parent)) == {"it": "accept"}


def test_a_preloaded_library_that_nobody_pinned(pinned: Pinned, tmp_path: Path) -> None:
    planted = pinned.plant(pinned.named("libm.so"), tmp_path, "libharmless.so")
    told = pinned.process(LD_PRELOAD=str(planted))["it"]
    assert told.startswith("RuntimeMismatchError: ")
    assert "libharmless.so" in told
    assert "not pinned" in told


@pytest.mark.parametrize("way", ["PYTHONPATH", "cwd"])
def test_a_package_in_the_interpreters_way(way: str, pinned: Pinned, tmp_path: Path) -> None:
    directory = package(pinned, tmp_path / "planted")
    told = (pinned.process(PYTHONPATH=str(directory)) if way == "PYTHONPATH" else pinned.process(cwd=directory))[
        "it"
    ]
    assert told.startswith("RuntimeMismatchError: ")
    assert "onnxruntime_pybind11_state" in told


def test_what_is_mapped_by_the_process_itself_or_late(pinned: Pinned, tmp_path: Path) -> None:
    """One process: a session before anything, then one with each stranger, which stays from then on."""
    gone = pinned.plant(pinned.named("libm.so"), tmp_path / "gone")
    late = pinned.plant(pinned.named("libm.so"), tmp_path, "libonnxruntime_providers_late.so")
    body = f"""
import ctypes, onnxruntime
attempt("control")
whole = onnxruntime.InferenceSession
def lazy(*arguments, **named):
    ctypes.CDLL({str(late)!r})
    return whole(*arguments, **named)
onnxruntime.InferenceSession = lazy
attempt("late")
onnxruntime.InferenceSession = whole
attempt("still")
"""
    told = pinned.process(body)
    assert told["control"] == "accept"
    for name in ("late", "still"):
        assert "libonnxruntime_providers_late.so" in told[name]
        assert "is mapped and not pinned" in told[name]
    told = pinned.process(f"""
import ctypes, shutil
ctypes.CDLL({str(gone)!r})
os.unlink({str(gone)!r})
attempt("gone")
shutil.copyfile({pinned.paths[pinned.named("libm.so")]!r}, {str(gone)!r} + " (deleted)")
attempt("pretends")  # the right bytes under the very name that the kernel gives to a removed file
""")
    for name in ("gone", "pretends"):
        assert "removed or replaced since it was mapped" in told[name]


def test_another_version_of_onnxruntime(pinned: Pinned) -> None:
    other = pinned.world("other", SessionOptions(onnxruntime="1.24.1"))
    with pytest.raises(RuntimeMismatchError, match=r"pinned is 1\.24\.1"):
        other.open().session()
    same = pinned.world("same", SessionOptions(onnxruntime=pinned.version))
    assert same.open().session().run({"features": [[0.9, 0.8, 0.75, 0.1]]}).labels() == ["accept"]


def test_two_distributions_that_provide_onnxruntime(tmp_path: Path) -> None:
    runtime = SimpleNamespace(__file__=str(tmp_path / "onnxruntime/__init__.py"))
    options = Options(SessionOptions().model_dump(mode="json"))

    def install(name: str) -> None:
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/RECORD").write_text("onnxruntime/__init__.py,sha256=x,1\n", "utf-8")

    install("onnxruntime-1.32.0")
    loader_package.check(options, runtime)
    install("anything_at_all-1.0")
    with pytest.raises(RuntimeMismatchError, match=r"anything-at-all 1\.0, onnxruntime 1\.32\.0"):
        loader_package.check(options, runtime)


def test_names_count_without_their_version(pinned: Pinned) -> None:
    assert {stem(name) for name in pinned.pins} >= {"libstdc++", "libm", "libc"}


# -- custom operators


def with_operators(pinned: Pinned, name: str, sha256: str) -> World:
    library = OperatorLibrary(name="libx.so", sha256=sha256, abi=20, domain="x.ops")
    return pinned.world(name, SessionOptions(custom_operators=[library]))


def test_custom_operators_come_from_the_caller_and_have_the_accepted_bytes(pinned: Pinned, tmp_path: Path) -> None:
    name = pinned.named("libm.so")
    planted = pinned.plant(name, tmp_path)
    release = with_operators(pinned, "operators", pinned.pins[name]).open()
    with pytest.raises(RuntimeMismatchError, match=r"needs the custom operators libx\.so"):
        release.session()
    with pytest.raises(RuntimeMismatchError, match="has the SHA-256"):
        release.session(custom_operators=[planted])
    with pytest.raises(RuntimeMismatchError, match="No such file"):
        release.session(custom_operators=[tmp_path / "absent.so"])
    with pytest.raises(RuntimeMismatchError, match="accepted: none"):
        pinned.loose.open().session(custom_operators=[planted])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of custom operators that registers none: its function is called, and that is what counts here."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    home = tmp_path_factory.mktemp("library")
    (home / "x.c").write_text("void *RegisterCustomOps(void *options, const void *api) { return 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", home / "libx.so", home / "x.c"], check=True)
    return home / "libx.so"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_positive_control_accepted_custom_operators_are_loaded(pinned: Pinned, library: Path) -> None:
    release = with_operators(pinned, "loaded", digest(library)).open()
    session = release.session(custom_operators=[library])
    assert session.run({"features": [[0.9, 0.8, 0.75, 0.1]]}).labels() == ["accept"]
    assert str(library) in Path("/proc/self/maps").read_text()
    assert session.runtime["options"]["custom_operators"] == [digest(library)]


def test_custom_operators_that_are_swapped_while_they_load(
    pinned: Pinned, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "libx.so"
    shutil.copyfile(library, target)
    release = with_operators(pinned, "swapped", digest(target)).open()
    real = loader_session.register

    def swapping(options: Any, paths: Any) -> None:
        planted = tmp_path / "planted.so"
        planted.write_bytes(library.read_bytes() + b"\0")
        planted.replace(target)  # after it was hashed, before it is loaded
        real(options, paths)

    monkeypatch.setattr(loader_session, "register", swapping)
    with pytest.raises(RuntimeMismatchError, match="changed while they were loaded"):
        release.session(custom_operators=[target])


def test_what_was_right_once_is_looked_at_again_when_a_file_changed(
    pinned: Pinned, library: Path, tmp_path: Path
) -> None:
    """A long-lived process opens release after release: the second look is short, and not blind."""
    copy = tmp_path / library.name
    shutil.copyfile(library, copy)
    body = f"""
import ctypes
attempt("before")
ctypes.CDLL({str(copy)!r})
attempt("mapped")
with open({str(copy)!r}, "ab") as file:
    file.write(b"x")
attempt("changed")
"""
    options = SessionOptions(libraries=pinned.pins | {library.name: digest(copy)})
    told = pinned.process(body, world=pinned.world("again", options))
    assert (told["before"], told["mapped"]) == ("accept", "accept")
    assert "libx.so has the SHA-256" in told["changed"]
