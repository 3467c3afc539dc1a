"""Job ``manifest``: ``bundle.toml`` to JSON data, the only place where a submitter's TOML is parsed.

tomllib is quadratic in dotted keys (a key of 60 KB took 10 s) and recursive in brackets (5,000
raise RecursionError; both measured), so a linear scan refuses such text before tomllib sees it.
"""

from __future__ import annotations

import os
import re
import stat
import time
import tomllib
from pathlib import Path
from typing import Any, Final

from sandbox.messages import MAX_TEXT, MODEL_DIR, Channel, RefusedError, text_of

MAX_BYTES: Final = 64 << 10
"""Design, section 4. The sealer keeps to it too."""
MAX_KEY_PARTS: Final = 16
MAX_BRACKETS: Final = 32
INT64: Final = range(-(1 << 63), 1 << 63)
"""TOML 1.0: integers of 64 bits."""

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t]+)|(?P<bare>[A-Za-z0-9_-]+)|(?P<comment>[#][^\n]*)
    |(?P<long>"{3}(?:[^"\\]|\\.|"(?!""))*+"{3}|'{3}(?:[^']|'(?!''))*+'{3})|(?P<open>"{3}|'{3})
    |(?P<string>"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')|(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:  # noqa: ARG001
    """Send one ``manifest`` frame, or raise RefusedError with a code of ``manifest/``."""
    started = time.perf_counter()
    spec = order["spec"]
    name = str(spec["path"])
    channel.send("manifest", {"document": parse(_read(Path(spec.get("root", MODEL_DIR)) / name, name), name)})
    return {"manifest": (time.perf_counter() - started) * 1000}


def preload() -> None:
    """Parse one document of every kind, and fail on one."""
    parse(b'a = [1, 2.5, "x", true]\n[b]\nc = { d = 1 }\n[[e]]\nf.g = """x"""\n', "preload")
    for text in (b"a = 1979-05-27T07:32:00Z", b"\xff", b"= 1"):
        try:
            parse(text, "preload")
        except RefusedError:
            continue


def _read(path: Path, name: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise RefusedError("manifest/missing", name, f"cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise RefusedError("manifest/missing", name, "is no regular file")
        parts = []
        left = MAX_BYTES + 1
        while left and (part := os.read(fd, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def parse(raw: bytes, name: str) -> dict[str, Any]:
    """Return the TOML document as JSON data. No I/O. Raises RefusedError with the line where that is known."""
    if len(raw) > MAX_BYTES:
        raise RefusedError("manifest/too-large", name, f"more than {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RefusedError("manifest/not-utf8", f"{name}:{line}", "not valid UTF-8") from error
    _guard(text, name)
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise RefusedError("manifest/too-deep", name, "nested too deep") from error
    except ValueError as error:  # TOMLDecodeError, and int() on more than 4,300 digits
        raise RefusedError("manifest/not-toml", name, text_of(str(error))[:300]) from error
    _plain(document, name)
    return document


def _guard(text: str, name: str) -> None:
    """Refuse long dotted keys and deep brackets in one linear pass over the tokens outside texts and comments."""
    depth = dots = 0
    was_key = False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind in {"bare", "string", "space", "long"}:
            was_key = True
            continue
        value = token.group()
        if kind == "open" or value in {'"', "'"}:
            return  # a text without its end: tomllib stops here at the latest, and what is before was seen
        if value == ".":
            dots = dots + 1 if was_key else 1
            if dots >= MAX_KEY_PARTS:
                raise _too_deep(text, token.start(), name, f"a key of more than {MAX_KEY_PARTS} parts")
            continue
        dots = 0
        was_key = False
        if value in {"[", "{"}:
            depth += 1
            if depth > MAX_BRACKETS:
                raise _too_deep(text, token.start(), name, f"more than {MAX_BRACKETS} open brackets")
        elif value in {"]", "}"}:
            depth = max(0, depth - 1)


def _too_deep(text: str, offset: int, name: str, message: str) -> RefusedError:
    return RefusedError("manifest/too-deep", f"{name}:{text.count(chr(10), 0, offset) + 1}", message)


def _plain(document: dict[str, Any], name: str) -> None:
    """Refuse what JSON cannot say: dates, times, integers beyond 64 bits; and text that a frame would cut."""
    work: list[tuple[str, Any]] = [("", document)]
    while work:
        place, value = work.pop()
        where = f"{name}:{place}" if place else name
        if isinstance(value, dict):
            for key, item in value.items():
                if len(key) > MAX_TEXT:
                    raise RefusedError("manifest/text-too-long", where, f"a key of {len(key)} characters")
                work.append((f"{place}.{key}"[-400:].lstrip("."), item))
        elif isinstance(value, list):
            work += [(f"{place}[{index}]"[-400:], item) for index, item in enumerate(value)]
        elif isinstance(value, str):
            if len(value) > MAX_TEXT:
                raise RefusedError("manifest/text-too-long", where, f"a text of {len(value)} characters")
        elif isinstance(value, bool | float):
            continue
        elif isinstance(value, int):
            if value not in INT64:
                raise RefusedError("manifest/number-out-of-range", where, "an integer beyond 64 bits")
        else:
            raise RefusedError("manifest/datetime", where, "a date or time; write it as text in quotes")
