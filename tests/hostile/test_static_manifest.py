"""Attacks by bundle.toml: what is slow, deep, huge or not TOML ends at once with its own code."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sandbox import manifest
from tests import static_world as world

pytestmark = pytest.mark.hostile

SIZE = 60_000
REFUSED = {
    "long-dotted-key": (b"a." * (SIZE // 2) + b"a = 1", "too-deep"),
    "long-dotted-key-with-spaces": (b"a . " * (SIZE // 4) + b"a = 1", "too-deep"),
    "long-quoted-dotted-key": (b"'a'.\"b\"." * (SIZE // 8) + b"a = 1", "too-deep"),
    "long-dotted-table": (b"[" + b"a." * (SIZE // 2) + b"a]", "too-deep"),
    "long-dotted-key-in-a-table": (b"x = { " + b"a." * (SIZE // 2) + b"a = 1 }", "too-deep"),
    "long-dotted-key-after-quotes": (b"x = '''\"'''\n# \"\n" + b"a." * (SIZE // 2) + b"a = 1", "too-deep"),
    "deep-brackets": (b"a = " + b"[" * 5000 + b"]" * 5000, "too-deep"),
    "deep-tables": (b"a = " + b"{a = " * 5000 + b"1" + b"}" * 5000, "too-deep"),
    "deep-brackets-after-escapes": (rb'a = "\\" # ' + b"\n" + b"b = " + b"[" * 5000, "too-deep"),
    "date": (b"a = 1979-05-27", "datetime"),
    "time-in-an-array": (b"a = [[07:32:00]]", "datetime"),
    "datetime-in-a-table": (b"[[a]]\nb = {c = 1979-05-27T07:32:00Z}", "datetime"),
    "not-utf8": (b"a = 1\nb = '\xff'", "not-utf8"),
    "utf-16": ("a = 1".encode("utf-16"), "not-utf8"),
    "nul": (b"a = '\0'", "not-toml"),
    "not-toml": (b'{"json": true}', "not-toml"),
    "binary": (bytes(range(1, 128)), "not-toml"),
    "same-key-twice": (b"a = 1\na = 2", "not-toml"),
    "decimal-of-60000-digits": (b"a = " + b"1" * SIZE, "not-toml"),
    "hex-of-60000-digits": (b"a = 0x" + b"f" * SIZE, "number-out-of-range"),
    "beyond-int64": (b"a = 9223372036854775808", "number-out-of-range"),
    "long-text": (b"a = '" + b"x" * 5000 + b"'", "text-too-long"),
    "long-key": (b"x" * 5000 + b" = 1", "text-too-long"),
    "too-large": (b"#" * (64 * 1024 + 1), "too-large"),
    "open-text": (b'a = """' + b'\\"""' * 15_000, "not-toml"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_code(tmp_path: Path, name: str) -> None:
    raw, code = REFUSED[name]
    (tmp_path / "bundle.toml").write_bytes(raw)
    found = world.recorded(manifest.body, {"root": str(tmp_path), "path": "bundle.toml"})
    assert found.order == []
    assert found.refused is not None
    assert found.refused.code == f"manifest/{code}", found.refused
    assert found.refused.where.startswith("bundle.toml")


@pytest.mark.parametrize("name", [name for name, (_, code) in REFUSED.items() if code == "too-deep"])
def test_slow_and_deep_text_never_reaches_tomllib(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    def reached(text: str) -> None:
        raise AssertionError(text[:40])

    monkeypatch.setattr(tomllib, "loads", reached)
    test_refused_with_its_code(tmp_path, name)
