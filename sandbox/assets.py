"""Job ``assets``: files of a bundle that no model reads, and the bytes between the tensors of external data.

They are looked at for payloads, never opened as what they are. The job sees no model, so that it may
see whatever else lies in the bundle.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from sandbox.inspect import bytes as content
from sandbox.inspect import marks, npz, payloads
from sandbox.inspect.bytes import FileSource
from sandbox.inspect.contents import opened
from sandbox.inspect.problems import Problems
from sandbox.messages import MODEL_DIR, Channel, RefusedError, text_of

MAX_TOLD: Final = 256
_PYTHON: Final = re.compile(
    rb"^(?:import [A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*(?: as \w+)?|from [A-Za-z_.][\w.]* import [\w*(][\w, *()]*"
    rb"|(?:async )?def [A-Za-z_]\w*\(.*|class [A-Za-z_]\w*[(:].*)\r?$",
    re.MULTILINE,
)
_SCRIPT_SUFFIXES: Final = frozenset({
    "py", "pyw", "sh", "bash", "zsh", "csh", "ksh", "bat", "cmd", "ps1", "psm1", "vbs", "js", "mjs", "cjs", "wsf",
    "hta", "pl", "rb", "php", "lua", "tcl", "ipynb",
})  # fmt: skip
HEAD: Final = 16 << 10


def source_code(path: str, head: bytes) -> str:
    """Return what shows that a file is source code: lines of Python, or text named as a script; else nothing."""
    try:
        text = head.decode() if b"\0" not in head else ""
    except UnicodeDecodeError as error:
        text = head[: error.start].decode() if error.start > len(head) - 4 else ""
    if not text.strip():
        return ""
    lines: list[bytes] = _PYTHON.findall(head)
    suffix = path.rpartition("/")[2].rpartition(".")[2].lower()
    first = next((line for line in head.splitlines() if line.strip() and not line.lstrip().startswith(b"#")), b"")
    if lines and (suffix in _SCRIPT_SUFFIXES or (len(lines) > 1 and _PYTHON.match(first))):
        return lines[0][:60].decode("utf-8", "backslashreplace").strip()
    return f"text in a file named .{suffix}" if suffix in _SCRIPT_SUFFIXES and "." in path else ""


def _whole(path: str, source: FileSource, problems: Problems) -> int:
    """Look through a file; returns the bytes read."""
    scanner = payloads.Scanner(source, ignored={marks.ADDRESS})
    content.read(source, [scanner])
    scanner.begins(0)
    head = source.peek(0, HEAD)
    arrays = _arrays(path, source, problems) if path.lower().endswith(".npz") else frozenset()
    code = source_code(path, head)
    if code and not any(hit.code == marks.SCRIPT and hit.at == 0 for hit in scanner.hits):
        message = f"source code, begins {head[:16].hex(' ')} ({code})"
        problems.add(marks.SCRIPT, path, message)
    is_text = b"\0" not in head
    for hit in sorted(scanner.hits, key=lambda one: one.at):
        if hit.code == marks.ARCHIVE and hit.at in arrays:
            continue  # its own members, which were looked through
        # A text may quote commands, as a README does; only where it begins as a script is it one.
        if hit.code != marks.SCRIPT or hit.at == 0 or not is_text:
            problems.add(hit.code, path, payloads.words(hit, source.peek(hit.at, 16)))
    if scanner.flooded:
        message = f"more than {payloads.MAX_CANDIDATES} places look like the beginning of a payload"
        problems.add("payload/flood", path, message)
    return source.size


def _arrays(path: str, source: FileSource, problems: Problems) -> frozenset[int]:
    """Look through the arrays of an ``.npz`` file; return where its members begin, none where it is not plain."""
    own = set()
    found: list[tuple[str, str]] = []
    try:
        for at, name, data in npz.members(source.fd):
            scanner = payloads.Scanner(content.BytesSource(data), ignored={marks.ADDRESS, marks.SCRIPT})
            content.read(content.BytesSource(data), [scanner])
            own.add(at)
            place = f"{path}: {text_of(name)}"
            found += [(hit.code, payloads.words(hit, data[hit.at : hit.at + 16], place)) for hit in scanner.hits]
    except npz.NotArraysError:
        return frozenset()  # then it is an archive, and told as one
    for code, message in found:
        problems.add(code, path, message)
    return frozenset(own)


def _gaps(path: str, source: FileSource, gaps: list[list[int]]) -> list[dict[str, Any]]:
    """Return the gaps with a byte that is not zero, with where it lies and the first bytes in hex."""
    found = []
    for start, stop in gaps:
        data = source.peek(start, stop - start)
        rest = data.lstrip(b"\0")
        if rest or len(data) < stop - start:
            at = start + len(data) - len(rest)
            found.append({"path": path, "start": start, "stop": stop, "at": at, "head": rest[:16].hex(" ")})
    return found


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:  # noqa: ARG001
    """Run the job: ``spec`` has ``files`` (paths to look through) and ``gaps`` (path to [start, stop] pairs)."""
    spec = order["spec"]
    root = Path(spec.get("root", MODEL_DIR))
    problems = Problems()
    found: list[dict[str, Any]] = []
    read_bytes = files = gaps = 0
    for path in spec["files"]:
        try:
            with opened(root / path, path) as source:
                read_bytes += _whole(path, source, problems)
        except RefusedError as error:
            problems.add("payload/unreadable", path, error.message)
        files += 1
    for path, pairs in sorted(spec["gaps"].items()):
        with opened(root / path, path) as source:
            found += _gaps(path, source, pairs)
            read_bytes += source.read_bytes
        gaps += len(pairs)
    channel.send(
        "assets",
        {
            "files": files,
            "gaps_read": gaps,
            "read_bytes": read_bytes,
            "gaps": found[:MAX_TOLD],
            "problems": problems.frame(),
        },
    )
    return {}


def preload() -> None:
    """Look once at something of every kind, so that nothing is set up lazily later."""
    scanner = payloads.Scanner(content.BytesSource(bytes(64) + b"\x7fELF" + bytes(64)))
    content.read(content.BytesSource(bytes(64) + b"\x7fELF" + bytes(64)), [scanner])
    scanner.begins(0)
    source_code("a.py", b"import os\n")
