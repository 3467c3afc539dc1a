"""Where an interpreter's libraries lie; two distributions that give one module are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acceptd.errors import ConfigError
from acceptd.runtime import interpreter


def environment(home: Path) -> Path:
    """Make an environment without pip; return its site directory."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = next(home.glob("lib/python3.*/site-packages"))
    for module in interpreter.MODULES:
        (site / module).mkdir()
        (site / module / "__init__.py").write_text("raise SystemExit('was imported')")
    distribution(site, "onnxruntime", "1.24.4")
    return site


def distribution(site: Path, name: str, version: str, module: str = "onnxruntime") -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "RECORD").write_text(f"{name}/x.py,,\n{module}/__init__.py,sha256=abc,12\n")


def test_of_ones_own_interpreter_the_libraries_are_those_that_it_runs_with() -> None:
    import numpy

    own = interpreter.examine("")
    assert own.own
    assert str(Path(numpy.__file__).parent.parent) in own.directories
    assert own.onnxruntime.count(".") == 2
    assert own == interpreter.examine(sys.executable)


def test_another_one_is_read_and_nothing_installed_there_runs(tmp_path: Path) -> None:
    site = environment(tmp_path / "env")
    (site / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    (site / "sitecustomize.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    path = str(tmp_path / "env" / "bin" / "python")
    found = interpreter.examine(path)
    assert (found.distribution, found.onnxruntime, found.own) == ("onnxruntime", "1.24.4", False)
    assert found.directories == (str(site),)
    assert found.prefix == str(tmp_path / "env")
    assert not (tmp_path / "ran").exists()
    subprocess.run([path, "-I", "-c", ""], check=True)
    assert (tmp_path / "ran").exists()  # the plant itself works


def test_two_distributions_that_provide_onnxruntime_are_refused_also_when_the_second_comes_later(
    tmp_path: Path,
) -> None:
    site = environment(tmp_path / "env")
    path = str(tmp_path / "env" / "bin" / "python")
    distribution(site, "something_like_it", "9.0", module="onnxruntime_extensions")
    assert interpreter.examine(path).distribution == "onnxruntime"
    distribution(site, "onnxruntime_openvino", "1.24.1")
    with pytest.raises(ConfigError, match=r"onnxruntime 1\.24\.4, onnxruntime-openvino 1\.24\.1.*environment"):
        interpreter.examine(path)


def test_an_interpreter_that_others_can_write_is_refused(tmp_path: Path) -> None:
    environment(tmp_path / "env")
    (tmp_path / "env" / "bin").chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by"):
        interpreter.examine(str(tmp_path / "env" / "bin" / "python"))


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0, "No such file"),
        ("#!/bin/sh\necho '[]'\n", 0o755, "does not start as a Python"),
        ("#!/bin/sh\nexit 1\n", 0o755, "does not start as a Python"),
        ("text", 0o644, "cannot be executed"),
    ],
)
def test_what_is_no_python_is_refused_with_the_place(
    tmp_path: Path, content: str | None, mode: int, said: str
) -> None:
    path = tmp_path / "python"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    with pytest.raises(ConfigError, match=said) as caught:
        interpreter.examine(str(path))
    assert str(path) in str(caught.value)


def test_the_environment_of_whoever_starts_acceptd_plants_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("numpy", "onnxruntime"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    code = "from acceptd.runtime import interpreter; print(*interpreter.examine('').directories)"
    search = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": search}, capture_output=True, text=True, check=True
    )
    assert str(tmp_path) not in done.stdout.split()
    found = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('numpy').origin)"],
        env={"PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(tmp_path))  # the plant itself works


def plant_library(place: Path) -> None:
    """Make a directory with the real standard library and planted site directories."""
    stdlib = Path(os.__file__).parent
    home = place / stdlib.name
    home.mkdir(parents=True)
    for entry in stdlib.iterdir():
        if entry.name not in {"site-packages", "dist-packages"}:
            (home / entry.name).symlink_to(entry)
    for folder in ("site-packages", "dist-packages"):
        for module in interpreter.MODULES:
            (home / folder / module).mkdir(parents=True)
            (home / folder / module / "__init__.py").write_text("")


def test_a_planted_home_of_the_interpreter_gives_no_libraries(tmp_path: Path) -> None:
    """PYTHONHOME with the real standard library and a planted site directory; the interpreter is no venv."""
    base = os.path.realpath(sys.executable)
    plant_library(tmp_path / "lib")
    search = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment = {"PYTHONHOME": str(tmp_path), "PYTHONPATH": search}
    code = (
        "import sys; from acceptd.errors import ConfigError; from acceptd.runtime import interpreter\n"
        "print(sys.prefix)\n"
        "try: print(*interpreter.examine('').directories)\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([base, "-c", code], env=environment, capture_output=True, text=True, check=True)
    prefix, _, found = done.stdout.partition("\n")
    assert prefix == str(tmp_path)  # the plant itself works
    assert str(tmp_path) not in found


def test_a_planted_library_directory_of_the_interpreter_gives_no_libraries(tmp_path: Path) -> None:
    plant_library(tmp_path)
    search = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment = {"PYTHONPLATLIBDIR": str(tmp_path), "PYTHONPATH": search}
    code = (
        "import site; from acceptd.errors import ConfigError; from acceptd.runtime import interpreter\n"
        "print(*site.getsitepackages())\n"
        "try: print(*interpreter.examine('').directories)\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    places, _, found = done.stdout.partition("\n")
    assert str(tmp_path) in places  # the plant itself works
    assert str(tmp_path) not in found
