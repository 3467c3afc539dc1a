"""The state machine of messages: bytes out of a job in, checked frames out. Pure; every deviation raises.

The job is hostile. Nothing here evaluates, unpickles or decompresses; JSON is parsed with numbers
checked, sizes capped before parsing, depth capped by the parser's own recursion guard and again here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from acceptd.errors import ProtocolViolationError
from acceptd.evidence import FRAMES
from acceptd.values import Evidence
from sandbox import messages

MAX_DEPTH: Final = 24
MAX_VALUES: Final = 250_000
"""JSON values of one job, bounded from above by its commas and opening brackets before anything is parsed:
a value of 2 bytes costs the trusted side 100 bytes and more (measured)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One accepted frame: a model of evidence, or raw data (then ``body`` is None)."""

    type: str
    body: Evidence | None
    data: bytes = b""


def _refuse_constant(text: str) -> Any:
    raise ProtocolViolationError(f"{text} is no JSON number")


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > messages.MAX_SAFE_INTEGER:
        raise ProtocolViolationError("an integer beyond 2**53 must be a decimal string")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ProtocolViolationError("a number that overflows")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ProtocolViolationError("a JSON object names a key twice")
    return result


_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=_integer,
    parse_float=_float,
    object_pairs_hook=_no_duplicates,
)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(payload: bytes) -> dict[str, Any]:
    """Return the JSON object in ``payload``; raise ProtocolViolationError for anything else."""
    try:
        value = _DECODER.decode(payload.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ProtocolViolationError(f"not JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise ProtocolViolationError("a frame is a JSON object")
    # Walked only where a rule could be broken: UTF-8 holds no surrogate but an escaped one.
    if _SURROGATE.search(payload):
        _check_values(value)
    elif payload.count(b"{") + payload.count(b"[") >= MAX_DEPTH:
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    """Check depth alone, level by level. A value in a container lies one deeper than that."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH - 1):
        inside = (part for item in level for part in (item.values() if isinstance(item, dict) else item))
        level = [part for part in inside if isinstance(part, dict | list)]
    if any(level):
        raise ProtocolViolationError(f"JSON deeper than {MAX_DEPTH}")


def _check_values(value: Any) -> None:
    """Check depth, and that all text is valid Unicode (a lone surrogate cannot be stored or shown)."""
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise ProtocolViolationError(f"JSON deeper than {MAX_DEPTH}")
        if isinstance(item, str):
            if not item.isascii():
                try:
                    item.encode()
                except UnicodeEncodeError as error:
                    raise ProtocolViolationError("text with a lone surrogate") from error
        elif isinstance(item, dict):
            stack += [(key, depth + 1) for key in item]
            stack += [(part, depth + 1) for part in item.values()]
        elif isinstance(item, list):
            stack += [(part, depth + 1) for part in item]


class Grammar:
    """Which frame may come next for one job kind; refuses frames out of order."""

    def __init__(self, kind: str) -> None:
        self._pattern = messages.TYPES[kind]
        self._position = 0
        self._started = False
        self.finished = False
        self.refused = False

    def accept(self, frame_type: str) -> None:
        """Advance over ``frame_type``; raise ProtocolViolationError if it may not come now."""
        if self.finished or self.refused:
            raise ProtocolViolationError(f"{frame_type!r} after the last word")
        if frame_type == "refused" and self._started:
            self.refused = True
            return
        for index in range(self._position, len(self._pattern)):
            item = self._pattern[index]
            repeated = item.endswith("*")
            if item.removesuffix("*") == frame_type:
                self._position = index if repeated else index + 1
                self._started = True
                self.finished = frame_type == "done"
                return
            if not repeated:
                break
        raise ProtocolViolationError(f"{frame_type!r} may not come here")

    @property
    def allows_data(self) -> bool:
        """Raw data may come only after an ``entry`` frame of ``unpack``."""
        return (
            self._pattern[min(self._position, len(self._pattern) - 1)] == "entry*"
            and self._started
            and not (self.finished or self.refused)
        )


class Reader:
    """Feeds on bytes, yields frames, enforces the caps on size, count and order."""

    def __init__(self, kind: str, *, max_bytes: int, max_frames: int) -> None:
        self.grammar = Grammar(kind)
        self._buffer = bytearray()
        self._total = 0
        self._frames = 0
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._expected_data = 0
        self._values = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that are complete with ``chunk``; raise ProtocolViolationError."""
        self._total += len(chunk)
        if self._total > self._max_bytes:
            raise ProtocolViolationError(f"more than {self._max_bytes} bytes of frames")
        self._buffer += chunk
        frames: list[Frame] = []
        offset = 0
        while len(self._buffer) - offset >= messages.HEADER.size:
            kind, size = messages.HEADER.unpack_from(self._buffer, offset)
            limit = {messages.JSON: messages.MAX_JSON_FRAME, messages.DATA: messages.MAX_DATA_FRAME}.get(kind)
            if limit is None or size > limit:
                raise ProtocolViolationError(f"a frame of kind {kind!r} with {size} bytes")
            end = offset + messages.HEADER.size + size
            if end > len(self._buffer):
                break
            payload = bytes(memoryview(self._buffer)[offset + messages.HEADER.size : end])
            offset = end
            self._frames += 1
            if self._frames > self._max_frames:
                raise ProtocolViolationError(f"more than {self._max_frames} frames")
            frames.append(self._json(payload) if kind == messages.JSON else self._data(payload))
        del self._buffer[:offset]
        return frames

    def close(self) -> None:
        """Check that the stream ended between frames."""
        if self._buffer and not (self.grammar.finished or self.grammar.refused):
            raise ProtocolViolationError("the stream ends inside a frame")
        if self._buffer:
            raise ProtocolViolationError("bytes after the last word")

    def _data(self, payload: bytes) -> Frame:
        if not self.grammar.allows_data or len(payload) > self._expected_data or not payload:
            raise ProtocolViolationError("data that no entry announced")
        self._expected_data -= len(payload)
        return Frame("data", None, payload)

    def _json(self, payload: bytes) -> Frame:
        self._values += sum(map(payload.count, (b",", b"[", b"{")))
        if self._values > MAX_VALUES:
            raise ProtocolViolationError(f"more than {MAX_VALUES} values in frames")
        value = parse_json(payload)
        frame_type = value.pop("t", None)
        if not isinstance(frame_type, str) or frame_type not in FRAMES:
            raise ProtocolViolationError("a frame of an unknown type")
        if self._expected_data and frame_type != "refused":
            raise ProtocolViolationError("an entry with less data than it announced")
        self.grammar.accept(frame_type)
        try:
            body = FRAMES[frame_type].model_validate(value)
        except ValidationError as error:
            item = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in item["loc"])[:200]
            raise ProtocolViolationError(f"frame {frame_type}: {place}: {item['msg'][:200]}") from error
        if frame_type == "entry":
            self._expected_data = getattr(body, "size", 0)
        return Frame(frame_type, body)
