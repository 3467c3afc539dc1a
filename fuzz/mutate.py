"""Changes that keep an input's form, so that more of them get past the first check: JSON, TOML, frames, tasks.

libFuzzer's own changes are of bytes; every second input is changed by it, every other one here. All chance is
drawn from the number that libFuzzer gives, so that a run can be repeated.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any, Final

Change = Callable[[bytes, random.Random], bytes]
HEADER: Final = struct.Struct("!cI")
SPLIT: Final = struct.Struct("!I")

_LITERALS: Final = (
    "1e400", "-1e400", "NaN", "9007199254740992", "-1", "0", "1.0", "1e22", "-0.0", "0.1e-6", "true", "null", '""',
    "[]", "{}", '"\\ud800"', '"\\u202e"', '"\\u0000"', "9" * 64, '"' + "1" * 64 + '"', '"inf"', '"nan"', '"--1"',
    '"9999-99-99T99:99:99Z"', '"0000-01-01T00:00:00Z"', "[" * 40 + "]" * 40, '{"a":' * 120 + "1" + "}" * 120,
    '"../x"', '"a/./b"', '"' + "x" * 300 + '"', "1e17", "9" * 400,
)  # fmt: skip
_TOML: Final = (
    "1", "-1", "1_0", "9" * 30, "9" * 4500, "1e400", "nan", "inf", "true", '""', "''", "[]", "{}", "[[]]",
    "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", '"\\u202e"', '"\\U0010ffff"', "{ a = 1 }", '["a", 1]',
    "[" * 60 + "]" * 60, '"""\na\n"""', "'''b'''", "0x" + "f" * 20, '"a/b"', '"cpu"', '"hold"',
    '"' + "x" * 300 + '"',
)  # fmt: skip


class Members(list[list[Any]]):
    """A JSON object as it stands: one key may stand twice, and in any order."""


class Literal(str):
    """JSON text as it stands."""

    __slots__ = ()


def json_change(data: bytes, chance: random.Random) -> bytes:
    """Return JSON with one to three of its values changed, in canonical form more often than not."""
    try:
        value = json.loads(data, object_pairs_hook=lambda pairs: Members([key, item] for key, item in pairs))
    except (ValueError, RecursionError):
        return data
    root = [value]
    for _ in range(chance.choice((1, 1, 2, 3))):
        _change_one(root, chance)
    tidy = chance.random() < 0.8
    try:
        text = _written(root[0], tidy)
        return text.encode("utf-8", "surrogatepass")
    except RecursionError:
        return data


def _change_one(root: list[Any], chance: random.Random) -> None:
    places = list(_places(root))
    holder, at = chance.choice(places)
    entry = holder[at]
    inside = isinstance(holder, Members)
    value = entry[1] if inside else entry
    how = chance.randrange(9)
    if how == 0 and (inside or holder is not root):
        del holder[at]
        return
    if how == 1 and inside:
        holder.append([entry[0], Literal(chance.choice(_LITERALS))])  # the key stands twice
        return
    if how == 2 and inside:
        entry[0] = chance.choice((entry[0][:-1], entry[0] + "x", "schema", "\u202e", ""))
        return
    if how == 3 and holder is not root:
        holder.insert(chance.randrange(len(holder) + 1), entry)
        return
    if how == 4:
        other, place = chance.choice(places)
        found = other[place][1] if isinstance(other, Members) else other[place]
        # As text: the place may lie inside of what is put there.
        new = value if found is root[0] else Literal(_written(found, tidy=True))
    elif how in {5, 6}:
        new = _near(value, chance)
    else:
        new = Literal(chance.choice(_LITERALS))
    if inside:
        entry[1] = new
    else:
        holder[at] = new


def _near(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice((value + 1, value - 1, -value, value * 2, str(value), 2**53, Literal(f"{value}.0")))
    if isinstance(value, float):
        return chance.choice((value * 2, -value, int(value) if abs(value) < 1e9 else 0, str(value)))
    if isinstance(value, str) and value:
        at = chance.randrange(len(value))
        new = chance.choice(("", "0", "a", "Z", "/", ".", "\n", " ", "é", "\u200b", "=", value[at] * 2))
        return chance.choice(
            (value[:at] + new + value[at + 1 :], value[:at], value + value, value.upper(), [value])
        )
    if isinstance(value, list) and value:
        return value * 2 if len(value) < 64 and not isinstance(value, Members) else value[:1]
    return chance.choice((0, "a", None, [], [0]))


def _places(root: list[Any]) -> Any:
    work: list[Any] = [root]
    while work:
        holder = work.pop()
        for at, entry in enumerate(holder):
            yield holder, at
            value = entry[1] if isinstance(holder, Members) else entry
            if isinstance(value, list):
                work.append(value)


def _written(value: Any, tidy: bool) -> str:
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, Members):
        pairs = sorted(value, key=lambda pair: str(pair[0])) if tidy else value
        return "{" + ",".join(f"{_text(str(key))}:{_written(item, tidy)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(item, tidy) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def lines_change(data: bytes, chance: random.Random) -> bytes:
    """Return text with lines dropped, doubled, swapped or cut."""
    lines = data.split(b"\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(5)
    if how == 0 and len(lines) > 1:
        del lines[at]
    elif how == 1:
        lines.insert(other, lines[at])
    elif how == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 3:
        lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
    else:
        lines[at] = lines[at] + lines[other]
    return b"\n".join(lines)


def toml_change(data: bytes, chance: random.Random) -> bytes:
    """Return TOML with a line or a value changed, a key made long, or a table moved."""
    if chance.random() < 0.4:
        return lines_change(data, chance)
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    key, equals, value = lines[at].partition(b"=")
    how = chance.randrange(6)
    if equals and how < 3:
        lines[at] = key + b"= " + chance.choice(_TOML).encode()
    elif equals and how == 3:
        lines[at] = key.strip() + chance.choice((b"x", b".a", b".a" * 40, b'."\\u00e9"')) + b" =" + value
    elif how == 4:
        name = lines[at].strip(b"[] ").decode("utf-8", "replace").partition("=")[0].strip() or "a"
        lines.insert(at, chance.choice((f"[{name}]", f"[[{name}]]", f"[{name}.b]", f'["{name}"]')).encode())
    else:
        lines.insert(
            at, chance.choice(("a", "schema", '"b c"', "''")).encode() + b" = " + chance.choice(_TOML).encode()
        )
    return b"\n".join(lines)


def frames_change(data: bytes, chance: random.Random) -> bytes:
    """Return two bytes and a stream of frames with one frame changed; lengths are put right."""
    head, frames = data[:2], _frames(data[2:])
    if not frames:
        return data
    at, how = chance.randrange(len(frames)), chance.randrange(8)
    kind, body = frames[at]
    if how == 0:
        del frames[at]
    elif how == 1:
        frames.insert(chance.randrange(len(frames) + 1), frames[at])
    elif how == 2:
        other = chance.randrange(len(frames))
        frames[at], frames[other] = frames[other], frames[at]
    elif how == 3:
        head = bytes((chance.randrange(256), chance.randrange(256)))
    elif kind == b"J":
        frames[at] = kind, json_change(body, chance)
    else:
        cut = chance.randrange(len(body) + 1)
        frames[at] = kind, chance.choice((body[:cut], body + body, body[:cut] + b"\0" + body[cut:]))
    return head + b"".join(HEADER.pack(kind, len(body)) + body for kind, body in frames)


def _frames(stream: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 0
    while at + HEADER.size <= len(stream):
        kind, size = HEADER.unpack_from(stream, at)
        at += HEADER.size
        found.append((kind, stream[at : at + size]))
        at += size
    return found


def task_change(data: bytes, chance: random.Random) -> bytes:
    """Return a length, JSON of that length and bytes, with the JSON or the bytes changed."""
    if len(data) < SPLIT.size:
        return data
    (size,) = SPLIT.unpack_from(data)
    head, rest = data[SPLIT.size : SPLIT.size + size], bytearray(data[SPLIT.size + size :])
    if rest and chance.random() < 0.3:
        at = chance.randrange(len(rest))
        rest[at : at + 4] = chance.choice(
            (b"\xff\xff\xff\xff", b"\0\0\x80\x7f", b"\0\0\xc0\x7f", b"\1\0\0\0", b"")
        )
    else:
        head = json_change(head, chance)
    return SPLIT.pack(len(head)) + head + bytes(rest)


def own_change(data: bytes, chance: random.Random) -> bytes:
    """Return one byte and JSON, with the JSON changed, or now and then the byte."""
    return (bytes([chance.randrange(16)]) if chance.random() < 0.1 else data[:1]) + json_change(data[1:], chance)


CHANGES: Final[dict[str, Change]] = {
    "json": json_change,
    "lines": lines_change,
    "toml": toml_change,
    "frames": frames_change,
    "task": task_change,
    "own": own_change,
}


def mutator(form: str, of_bytes: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Return libFuzzer's custom mutator for a form; ``of_bytes`` is its own."""
    change = CHANGES[form]

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if not data or chance.random() < 0.4:
            return bytes(of_bytes(data, most))
        made = change(bytes(data), chance)
        return made if len(made) <= most else bytes(of_bytes(data, most))

    return mutate
