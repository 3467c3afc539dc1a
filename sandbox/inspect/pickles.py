"""Is it a pickle? Walks opcodes without executing one (Lib/pickletools.py has the table of opcodes).

Bytes of weights are valid opcodes for a while by chance, so that a walk is only evidence when it names
a global by two identifiers, or goes on for long without a fault of the stack.
"""

from __future__ import annotations

import pickletools
import re
from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = 64 << 10
"""Bytes that are looked at, at most."""
MAX_OPS: Final = 4096
ENOUGH_OPS: Final = 24
"""A random byte is an opcode once in four; so many in a row with a sound stack are no accident."""

_IDENTIFIER: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]{1,127}")
_SIZED: Final = {
    "string1": 1, "bytes1": 1, "long1": 1, "unicodestring1": 1, "string4": 4, "bytes4": 4, "long4": 4,
    "unicodestring4": 4, "bytes8": 8, "unicodestring8": 8, "bytearray8": 8,
}  # fmt: skip
_FIXED: Final = {"uint1": 1, "uint2": 2, "int4": 4, "uint4": 4, "uint8": 8, "float8": 8}


@dataclass(slots=True)
class Seen:
    """What a walk found. ``names`` are globals as ``module.name``; ``stopped`` says that STOP ended it well."""

    ops: int = 0
    stopped: bool = False
    faulty: bool = False
    names: list[str] = field(default_factory=list)
    end: int = 0
    calls: int = 0


def _table() -> dict[int, tuple[str, int, str, int, int, bool]]:
    """Return opcode byte -> (name, size of the argument, how it is read, pops, pushes, pops down to a mark).

    Of opcodes that take all down to the mark, ``pops`` are those below it.
    """
    table = {}
    for op in pickletools.opcodes:
        kind = op.arg.name if op.arg else ""
        how = "fixed" if kind in _FIXED or not kind else "sized" if kind in _SIZED else "lines"
        size = _FIXED.get(kind, 0) or _SIZED.get(kind, 0)
        if how == "lines":
            size = 2 if kind == "stringnl_noescape_pair" else 1
        mark = pickletools.markobject in op.stack_before
        pops = op.stack_before.index(pickletools.markobject) if mark else len(op.stack_before)
        table[ord(op.code)] = (op.name, size, how, pops, len(op.stack_after), mark)
    return table


_OPS: Final = _table()
_CALLS: Final = frozenset({"REDUCE", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"})
_STRINGS: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "UNICODE", "SHORT_BINSTRING", "BINSTRING"})


def walk(data: bytes) -> Seen:
    """Walk the opcodes at the beginning of ``data``, at most PREFIX bytes; never raises."""
    seen = Seen()
    data = data[:PREFIX]
    depth = pos = 0
    marks: list[int] = []
    texts: list[bytes] = []
    while seen.ops < MAX_OPS and pos < len(data):
        known = _OPS.get(data[pos])
        if known is None:
            seen.faulty = True
            break
        name, size, how, pops, pushes, mark = known
        pos += 1
        argument = b""
        if how == "fixed":
            pos += size
        elif how == "sized":
            length = int.from_bytes(data[pos : pos + size], "little")
            pos += size
            argument = data[pos : pos + min(length, 256)]
            pos += length
        else:
            for _ in range(size):
                end = data.find(b"\n", pos, pos + 4096)
                if end < 0:
                    seen.faulty = True
                    return seen
                argument += data[pos : end + 1]
                pos = end + 1
        if pos > len(data):
            break  # the prefix ends inside an argument: no fault
        if name == "MARK":
            marks.append(depth)
        else:
            if mark:
                depth = marks.pop() if marks else -1
            if depth < pops:
                seen.faulty = True
                break
            depth += pushes - pops
        seen.ops += 1
        seen.end = pos
        if name == "INST":
            seen.calls += 1
        if name in _STRINGS:
            texts = [*texts[-1:], argument.rstrip(b"\n") if how == "lines" else argument]
        elif name in {"GLOBAL", "INST"}:
            _global(seen, argument.split(b"\n")[:2])
        elif name == "STACK_GLOBAL":
            _global(seen, texts[-2:])
        elif name in _CALLS:
            seen.calls += 1
        elif name == "STOP":
            seen.stopped = depth == 0 and not marks
            seen.faulty = not seen.stopped
            break
    return seen


def _global(seen: Seen, parts: list[bytes]) -> None:
    if len(parts) == 2 and all(_IDENTIFIER.fullmatch(part) for part in parts):
        if len(seen.names) < 16:
            seen.names.append(b".".join(parts).decode("ascii"))
    else:
        seen.faulty = True


def evidence(data: bytes, *, beginning: bool) -> str:
    """Return what shows that ``data`` is a pickle, in words; empty where nothing does.

    ``beginning``: the data begin a file, a tensor or a text, where a short walk to STOP is no accident.
    """
    seen = walk(data)
    framed = len(data) > 10 and data[:1] == b"\x80" and data[2:3] == b"\x95" and data[7:11] == bytes(4)
    if seen.names:
        return f"names {seen.names[0][:80]}" + (" and calls" if b"R" in data[: seen.end] else "")
    if seen.faulty:
        return ""
    if seen.ops >= ENOUGH_OPS or ((beginning or framed) and seen.stopped and seen.ops >= 4):
        return f"{seen.ops} opcodes" + (" to STOP" if seen.stopped else "")
    return ""
