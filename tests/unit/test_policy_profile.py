"""Profiles: what their file may say, who may be able to write what they name, and where an error is."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ConfigError
from acceptd.policy import load
from acceptd.policy.profile import CustomOperators, Profile, ReducedBuild
from acceptd.policy.trusted import check_interpreter
from acceptd.release.model import SessionOptions
from sandbox import entries, session

pytestmark = pytest.mark.unit

PROFILES = Path(__file__).resolve().parents[2] / "policies" / "profiles"
HEX = "0" * 64
LIBRARY = {"path": "/opt/x/libx.so", "sha256": HEX, "abi": 20, "source": "git at 1", "domain": "x.ops"}


def written(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_every_key_of_a_profile_stands_in_the_shipped_file_with_a_comment() -> None:
    lines = (PROFILES / "cpu.toml").read_text(encoding="utf-8").splitlines()
    commented = set()
    for before, line in zip(["", *lines], lines, strict=False):
        name = re.match(r"(?:# )?\[?([a-z_]+)(?:\.[A-Za-z]+)?(?:\]| =)", line)
        if name and before.startswith("# "):
            commented.add(name[1])
    assert set(load.keys_of(Profile)) - commented == set()
    text = "\n".join(lines)
    for table in (CustomOperators, ReducedBuild):
        for key in load.keys_of(table):
            assert re.search(rf"\b{key}: |# {key} = ", text), key


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.example")), ids=lambda path: path.name)
def test_the_examples_are_valid_but_for_their_paths(path: Path) -> None:
    profile = Profile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    assert f"{profile.name}.toml.example" == path.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interpreter": "python3"}, "interpreter: 'python3' is no absolute path"),
        ({"interpreter": "/opt/../bin/python"}, "interpreter: "),
        ({"onnxruntime": ">=1.24"}, "onnxruntime: '>=1.24' is no exact version"),
        ({"onnxruntime": "1.24.*"}, "onnxruntime: "),
        ({"providers": []}, "at least 1 item"),
        ({"providers": ["CPUExecutionProvider", "CPUExecutionProvider"]}, "stands twice"),
        ({"providers": ["../evil.so"]}, "is no execution provider"),
        ({"provider_options": {"CUDAExecutionProvider": {"a": "1"}}}, "providers does not list it"),
        ({"provider_options": {"CPUExecutionProvider": {"a": 1}}}, "text in quotes is needed"),
        ({"session_entries": {"session.profiling": "1"}}, "session_entries.session.profiling: may not be set"),
        ({"session_entries": {"ep.library_path": "/x"}}, "session_entries.ep.library_path: may not be set"),
        ({"session_entries": {"session.load_model_format": "ORT"}}, "is always 'ONNX'"),
        ({"session_entries": {"mlas.use_lut_gemm": "x" * 1025}}, "at most 1024 bytes"),
        ({"session_entries": {"mlas.use_lut_gemm": "1\n2"}}, "printable text"),
        ({"libraries": {"/usr/lib/libc.so.6": HEX}}, "is no file name of a library"),
        ({"libraries": {"..": HEX}}, "is no file name of a library"),
        ({"libraries": {"libc.so.6": "A" * 64}}, "64 lowercase hexadecimal digits"),
        ({"custom_operators": [{**LIBRARY, "path": "libx.so"}]}, "is no absolute path"),
        ({"custom_operators": [{**LIBRARY, "domain": "com.microsoft"}]}, "onnxruntime's own domain"),
        ({"custom_operators": [{**LIBRARY, "domain": "ai.onnx"}]}, "onnxruntime's own domain"),
        ({"custom_operators": [LIBRARY, {**LIBRARY, "path": "/opt/y/libx.so"}]}, "name libx.so stands twice"),
        ({"onnxruntime": "1.19.2", "custom_operators": [LIBRARY]}, "custom_operators[0].abi: 20 is newer"),
        ({"reduced_build": {"config": "ops.config", "sha256": HEX}}, "is no absolute path"),
        ({"reduced_build": {"config": "/ops.config"}}, "reduced_build.sha256: is missing"),
        ({"thread_count": 4}, "there is no key 'thread_count'"),
    ],
)  # fmt: skip
def test_a_profile_that_cannot_be_meant_is_an_error_at_load(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = written(tmp_path / "p.toml", toml({"schema": 1, "name": "p", **changes}))
    with pytest.raises(ConfigError) as caught:
        load.load_profile(path)
    assert caught.value.message.startswith(f"{path}:")
    assert message in caught.value.message
    assert "cpu.toml" in caught.value.remedy


def toml(table: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {inline(value)}" for key, value in table.items())


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{quoted(key)} = {inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace("\n", "\\n") + '"'


def test_both_sides_hold_one_list_of_session_entries() -> None:
    assert session.ALLOWED_ENTRIES is entries.ALLOWED
    assert session.FIXED_ENTRIES is entries.FIXED
    assert not entries.ALLOWED & set(entries.FIXED)
    for key in sorted(entries.ALLOWED):
        assert session.check_profile({"session_entries": {key: "1"}})
        Profile(session_entries={key: "1"})


def environment(root: Path) -> Path:
    """Return bin/python of something that looks like a virtual environment."""
    (root / "bin").mkdir(parents=True)
    written(root / "pyvenv.cfg", "home = /usr/bin\n")
    (root / "bin/python3").symlink_to(sys.executable)
    (root / "bin/python").symlink_to("python3")
    return root / "bin/python"


def profile_of(path: Path, **changes: Any) -> Path:
    return written(path / "p.toml", toml({"schema": 1, "name": "p", **changes}))


def test_an_interpreter_of_the_operator_is_taken(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    assert load.load_profile(profile_of(tmp_path, interpreter=str(python))).interpreter == str(python)


@pytest.mark.parametrize("place", ["bin", ".", "pyvenv.cfg"])
def test_an_interpreter_that_others_can_replace_is_refused(tmp_path: Path, place: str) -> None:
    python = environment(tmp_path / "venv")
    (tmp_path / "venv" / place).chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by its group or by others") as caught:
        load.load_profile(profile_of(tmp_path, interpreter=str(python)))
    assert "p.toml: interpreter: " in caught.value.message


def test_an_interpreter_behind_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "python").symlink_to(sys.executable)
    python.unlink()
    python.symlink_to(shared / "python")
    check_interpreter("p", python)
    shared.chmod(0o777)  # whoever may write there may point the middle link elsewhere
    with pytest.raises(ConfigError, match=re.escape(str(shared))):
        check_interpreter("p", python)


@pytest.mark.parametrize("kind", ["missing", "directory", "not executable", "loop"])
def test_what_is_no_interpreter_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "python"
    if kind == "directory":
        path.mkdir()
    elif kind == "not executable":
        written(path, "")
    elif kind == "loop":
        path.symlink_to(path)
    if kind == "not executable" and os.geteuid() == 0:
        assert not os.access(path, os.X_OK)  # root needs an x bit too
    with pytest.raises(ConfigError, match="p: "):
        check_interpreter("p", path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("key", ["interpreter", "custom_operators", "reduced_build"])
def test_a_file_of_a_stranger_is_refused_wherever_a_profile_names_it(tmp_path: Path, key: str) -> None:
    place = tmp_path / "named"
    place.mkdir()
    named = written(place / "file", "", 0o755)
    values: dict[str, Any] = {
        "interpreter": str(named),
        "custom_operators": [{**LIBRARY, "path": str(named)}],
        "reduced_build": {"config": str(named), "sha256": HEX},
    }
    path = profile_of(tmp_path, **{key: values[key]})
    load.load_profile(path)
    os.chown(named, 4242, -1)
    with pytest.raises(ConfigError, match=f"{key}.*owned by uid 4242"):
        load.load_profile(path)


def test_a_custom_operator_library_that_others_can_write_is_refused(tmp_path: Path) -> None:
    library = written(tmp_path / "lib/libx.so", "", 0o664)
    path = profile_of(tmp_path, custom_operators=[{**LIBRARY, "path": str(library)}])
    with pytest.raises(ConfigError, match=re.escape("custom_operators[0].path")):
        load.load_profile(path)
    library.chmod(0o644)
    load.load_profile(path)
    library.parent.chmod(0o777)
    with pytest.raises(ConfigError, match=re.escape(f"chmod go-w {library.parent}")):
        load.load_profile(path)


def test_every_key_of_a_profile_is_an_option_of_a_release_or_is_left_out_of_it_on_purpose() -> None:
    """A key that neither takes would stop a promotion, after the verdict was written."""
    given = Profile(cpu_operators=["ai.onnx::Cast"])
    assert "cpu_operators" not in SessionOptions.of(given).model_dump()
