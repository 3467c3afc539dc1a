"""A runtime that is not what it says, cannot be measured or cannot be pinned is refused with its place."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import platform
import pwd
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.errors import CellUnavailableError, ConfigError
from acceptd.policy.profile import Profile
from acceptd.runtime import cpu, interpreter, kept, libraries, operators
from acceptd.runtime.facts import Library, RuntimeFacts
from acceptd.runtime.identity import record_of
from acceptd.runtime.measure import Measured, measure, pin_table, validated
from acceptd.runtime.operators import Listed
from acceptd.runtime.told import Told, facts_of

pytestmark = pytest.mark.unit


def facts(*found: Library, onnxruntime: str = "1.24.4") -> RuntimeFacts:
    return RuntimeFacts("3.11.7", "CPython", "x86_64", onnxruntime, "", "2.4.6", ("CPUExecutionProvider",), found)


# -- what a warm parent has mapped


def told(mapped: dict[str, tuple[int, int] | None]) -> Told:
    return Told("3.11.7", "CPython", "x86_64", "1.24.4", "", "2.4.6", "", (), "off", 1, mapped)


def place(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def test_a_mapped_file_that_was_exchanged_since_is_not_hashed_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "place", lambda: None)
    file = tmp_path / "lib.so"
    file.write_bytes(b"as it was")
    own = interpreter.examine("")
    mapped: dict[str, tuple[int, int] | None] = {str(file): place(file)}
    (found,) = facts_of(told(mapped), own, [Listed(str(file), "")]).custom_operators
    assert found.sha256 == hashlib.sha256(b"as it was").hexdigest()
    other = tmp_path / "other.so"
    other.write_bytes(b"exchanged")
    other.replace(file)
    with pytest.raises(OSError, match=r"is not the file that the cell has mapped.*lib\.so"):
        facts_of(told(mapped), own, ())
    with pytest.raises(OSError, match=r"was removed or replaced since the cell has mapped it.*lib\.so"):
        facts_of(told({str(file): None}), own, ())
    file.unlink()
    with pytest.raises(FileNotFoundError):
        facts_of(told(mapped), own, ())


# -- digests of libraries


def test_a_library_that_changes_for_as_long_as_it_is_read_has_no_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, reads = tmp_path / "lib.so", []
    file.write_bytes(b"a")

    def read(_descriptor: int) -> str:
        reads.append(1)
        os.truncate(file, len(reads) + 1)
        return "0" * 64

    monkeypatch.setattr(libraries, "_cache", {})
    monkeypatch.setattr(libraries, "_read", read)
    with pytest.raises(OSError, match="changed while it was read"):
        libraries.digests([str(file)])
    assert (len(reads), libraries.known()) == (libraries._TRIES, {})


def test_no_more_digests_are_kept_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "_cache", {})
    libraries.adopt({(1, number, 1, 1, 1): "a" * 64 for number in range(libraries._MAX_CACHED)})
    assert len(libraries.known()) == libraries._MAX_CACHED
    libraries.adopt({(2, 1, 1, 1, 1): "b" * 64})
    assert libraries.known() == {(2, 1, 1, 1, 1): "b" * 64}


def test_a_file_of_kept_digests_that_is_too_large_is_no_file(tmp_path: Path) -> None:
    folder = tmp_path / ".cache" / "acceptd"
    folder.mkdir(mode=0o700, parents=True)
    with (folder / "libraries.json").open("wb") as file:
        file.truncate(kept.MAX_BYTES + 1)
    with pytest.raises(ValueError, match="is too large"):
        kept.read(folder / "libraries.json")


def test_a_user_whom_nobody_knows_keeps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(_uid: int) -> Any:
        raise KeyError("uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert kept.place() is None
    home = tmp_path / "gone"
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: SimpleNamespace(pw_dir=str(home)))
    assert kept.place() is None
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    assert kept.place() is None, "others may write there"
    home.chmod(0o700)
    assert kept.place() == home / ".cache" / "acceptd" / "libraries.json"


# -- custom operators


def test_listed_operators_are_those_bytes_or_the_profile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "ops.so"
    library.write_bytes(b"operators")
    right = Listed(str(library), hashlib.sha256(b"operators").hexdigest())
    operators.check([right])
    with pytest.raises(ConfigError, match=f"has the SHA-256 {right.sha256}, listed is 0000") as caught:
        operators.check([right, Listed(str(library), "0" * 64)])
    assert "restore the reviewed library" in caught.value.remedy

    def away(paths: list[str]) -> Any:
        raise OSError(5, "Input/output error", paths[0])

    monkeypatch.setattr(operators, "digests", away)
    with pytest.raises(ConfigError, match=r"ops\.so: Input/output error") as caught:
        operators.check([right])
    assert caught.value.remedy == "install the library there"


# -- interpreters


def python(tmp_path: Path, **changes: Any) -> Path:
    """Write a program that says of itself what an interpreter would."""
    said = {
        "prefix": str(tmp_path), "base_prefix": str(tmp_path), "version": list(sys.version_info[:3]),
        "implementation": "cpython", "places": [], "stdlib": ["/usr/lib", "/usr/lib"],
    }  # fmt: skip
    (tmp_path / "said.json").write_text(json.dumps(said | changes))
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\ncat {tmp_path}/said.json\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("changes", "said", "remedy"),
    [
        ({"version": [3, 8, 1]}, "is Python 3.8.1", "Python 3.11 or newer is needed"),
        ({"version": "new"}, "does not start as a Python interpreter", "-I -S -c 'import sysconfig'"),
        ({"version": None}, "does not start as a Python interpreter", "-I -S -c 'import sysconfig'"),
        ({}, "the interpreter has no numpy", "install numpy in its environment"),
    ],
    ids=str,
)
def test_an_interpreter_that_nothing_can_run_in_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str, remedy: str
) -> None:
    path = python(tmp_path, **changes)
    with pytest.raises(ConfigError, match=said) as caught:
        interpreter.examine(str(path))
    assert str(path) in caught.value.message
    assert remedy in caught.value.remedy


def test_an_interpreter_without_an_absolute_path_is_not_looked_for() -> None:
    with pytest.raises(ConfigError, match="'python3' is no absolute path") as caught:
        interpreter.examine("python3")
    assert caught.value.remedy == "give the whole path of its python"


def test_a_profile_whose_interpreter_is_refused_says_which_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    program = python(tmp_path, version=[3, 8, 1])
    path.write_text(f'schema = 1\nname = "gpu"\ninterpreter = "{program}"\n')
    path.chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        validated(path)
    assert caught.value.message.startswith(f"{path}: profile.interpreter: {program} is Python 3.8.1")
    assert caught.value.remedy == "Python 3.11 or newer is needed"


# -- measuring and pinning


def test_a_profile_that_cannot_be_started_does_not_end_the_others() -> None:
    class Cell:
        def facts(self, profile: Profile) -> RuntimeFacts:
            if profile.name == "gpu":
                raise CellUnavailableError("the parent ended: no driver")
            return facts(Library("/lib/libm.so.6", "a" * 64, 1))

    profiles = [Profile(name="gpu"), Profile(libraries={"libm.so.6": "b" * 64})]
    broken, other = measure(cast("Any", Cell()), profiles)
    assert (broken.record, broken.identity, "no driver" in broken.problem) == (None, "", True)
    assert [one.sentence() for one in other.different] == [
        f"libm.so.6 has the SHA-256 {'a' * 64}, pinned is {'b' * 64}"
    ]
    with pytest.raises(ConfigError, match="profile gpu: the parent ended: no driver"):
        pin_table(broken)


@pytest.mark.parametrize(
    "found",
    [
        (Library("/a/libm.so.6", "a" * 64, 1), Library("/b/libm.so.6", "b" * 64, 1)),
        (Library('/a/lib"m.so\n', "a" * 64, 1),),
    ],
    ids=["mapped twice with different bytes", "no plain file name"],
)
def test_a_library_that_no_table_can_name_once_is_not_pinned(found: tuple[Library, ...]) -> None:
    record = record_of(facts(*found), Profile(), "x86-64-v3")
    with pytest.raises(ConfigError, match="cannot be pinned") as caught:
        pin_table(Measured(Profile(), record))
    assert "/proc/PID/maps of the warm parent" in caught.value.remedy


def test_what_is_pinned_is_what_was_measured() -> None:
    record = record_of(
        facts(Library("/b/libz.so", "b" * 64, 1), Library("/a/liba.so", "a" * 64, 1)), Profile(), "v3"
    )
    assert pin_table(Measured(Profile(), record)).splitlines()[1:] == [
        "[libraries]", f'"liba.so" = "{"a" * 64}"', f'"libz.so" = "{"b" * 64}"'
    ]  # fmt: skip


# -- the processor


def test_a_host_that_does_not_tell_its_processor_is_of_the_poorest_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_args: Any, **_more: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/proc/cpuinfo")

    monkeypatch.setattr(builtins, "open", closed)
    assert cpu.host.__wrapped__() == cpu.feature_class(platform.machine(), frozenset())
