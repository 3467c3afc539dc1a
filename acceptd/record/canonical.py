"""Canonical JSON (RFC 8785): the exact bytes that are hashed, signed and kept.

A value is canonical here only if every JSON reader gives back the same value: so integers, and
floats that print as integers, stay within ±(2^53−1); numbers are finite; text is valid Unicode.
:func:`plain` brings a value from outside into that form (design, section 7).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Callable
from typing import Any, Final

from acceptd.errors import LedgerError

MAX_INT: Final = 2**53 - 1
MAX_DEPTH: Final = 100
"""Deepest nesting: far below what makes a recursive JSON reader fail."""


def canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of ``value`` (dict, list, tuple, str, int, float, bool, None).

    Raises LedgerError, with the place as a JSON pointer, for anything that is not canonical. Ordinary
    values take a short way through the standard library's C encoder, which writes the same bytes ten
    times as fast (measured; a property test holds the two together); all others the library's.
    """
    try:
        return _fast(value)
    except _OddError:
        _check(value, "", 0)
    try:
        return _library(value)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"not canonical: {error}") from error


def plain_bytes(value: object) -> bytes:
    """Return ``canonical(plain(value))``. An ordinary value is plain already: it is gone through once.

    Raises LedgerError as :func:`plain` does.
    """
    try:
        return _fast(value)
    except _OddError:
        return canonical(plain(value))


class Written(bytes):
    """A value in its canonical form, one level below something: who keeps it need not write it again."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Written:
        """Return ``value`` as :func:`plain_bytes` writes it. Raises LedgerError as that does."""
        return cls(plain_bytes([value])[1:-1])

    @property
    def digest(self) -> str:
        """SHA-256 of it: :func:`document_digest` of the value."""
        return hashlib.sha256(self).hexdigest()


def _fast(value: object) -> bytes:
    floats: list[float] = []
    text = _ENCODER.encode(_ordinary(value, 0, floats))
    if floats:
        text = _tokens().sub(lambda found: _library(floats[int(found[1])]).decode(), text)
    return text.encode()


def _library(value: Any) -> bytes:
    import rfc8785  # odd values alone need it: production, which imports this module at each start, has few

    return rfc8785.dumps(value)


class _OddError(Exception):
    """Not an ordinary value: refused, or left to the library."""


_NONCE: Final = os.urandom(16).hex()
"""Nobody outside this process can write it, so it stands in no text that came from there."""


@functools.cache
def _tokens() -> re.Pattern[str]:
    return re.compile(f'"{_NONCE}([0-9]+)"')


_FIXED: Final = (1e-4, 1e15)
"""Between these Python and ECMAScript write a number that is no integer alike: shortest digits, no exponent."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _ordinary(value: Any, depth: int, floats: list[float]) -> Any:
    """Return ``value`` as the C encoder must be given it; raise _OddError for what it might write otherwise.

    Its string escapes are RFC 8785's. Keys must be ASCII, where code point and UTF-16 order are one.
    Integral floats become integers; floats beyond :data:`_FIXED` become tokens, for the library to write.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _OddError from None
        return value
    if kind is bool or value is None:
        return value
    if kind is int:
        if -MAX_INT <= value <= MAX_INT:
            return value
    elif kind is dict and depth < MAX_DEPTH:
        for key in value:
            if type(key) is not str or not key.isascii():
                raise _OddError
        return {
            # Most values are ASCII text or nothing, and a call for each is dear.
            key: item
            if item is None or (type(item) is str and item.isascii())
            else _ordinary(item, depth + 1, floats)
            for key, item in value.items()
        }
    elif (kind is list or kind is tuple) and depth < MAX_DEPTH:
        return [_ordinary(item, depth + 1, floats) for item in value]
    elif kind is float and math.isfinite(value) and not _prints_as_large_integer(value):
        if value.is_integer() and abs(value) <= MAX_INT:
            return int(value)
        if _FIXED[0] <= abs(value) < _FIXED[1]:
            return value
        floats.append(value)
        return f"{_NONCE}{len(floats) - 1}"
    raise _OddError


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical bytes of ``value``, as 64 lowercase hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def parse(data: bytes) -> Any:
    """Return the value of canonical JSON ``data``; raise LedgerError unless the bytes are exactly canonical.

    That refuses NaN, duplicate keys, white space, other spellings of a number, and lone surrogates.
    """
    try:
        text = data.decode("utf-8")
        value = _read_again(text, data)
        if value is not _ODD:
            return value
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"not JSON: {error}") from error
    if canonical(value) != data:
        raise LedgerError("JSON, but not in canonical form (RFC 8785)")
    return value


def _read_again(text: str, data: bytes) -> Any:
    """Return the value of ``text`` if it is certainly canonical, else :data:`_ODD`: most are; a walk is dear.

    What the C encoder writes again character for character has its keys sorted and once each, no space, and
    RFC 8785's escapes; numbers that the two spell differently are each checked and stand in ``others``.
    Left to the long way: integers of 16 digits, characters from U+E000 (where UTF-16 orders keys otherwise),
    deep nesting.
    """
    reader = _reader()
    reader.others.clear()
    try:
        value = reader.decode(text)
    except _OddError:
        return _ODD
    if not _same(text, _AGAIN.encode(value), reader.others):
        return _ODD
    if not text.isascii() and _high().search(data) is not None:
        return _ODD
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and _is_deep(value):
        return _ODD
    return value


def _same(text: str, again: str, others: list[tuple[str, str]]) -> bool:
    """Whether ``again`` is ``text`` once each of ``others`` (its spelling there, ours) is put back, in order.

    No number of ``text`` has our spelling, so each of ours in ``again`` takes one replacement; there are not
    more than those, so no text in quotes can take one.
    """
    place, shift = 0, 0
    for digits, ours in others:
        found = again.find(ours, place)
        while found >= 0 and not text.startswith(digits, found + shift):
            found = again.find(ours, found + 1)
        if found < 0 or again[place:found] != text[place + shift : found + shift]:
            return False
        place = found + len(ours)
        shift += len(digits) - len(ours)
    return again[place:] == text[place + shift :]


@functools.lru_cache(maxsize=4096)
def _spelled(digits: str) -> tuple[float, str]:
    """Return the value of a canonical number, and how the C encoder spells it where that is otherwise.

    Raises _OddError where ``digits`` are not its canonical spelling, or it may not be kept as a number.
    """
    value = float(digits)
    if not math.isfinite(value) or _prints_as_large_integer(value) or _library(value) != digits.encode():
        raise _OddError
    ours = repr(value)
    return value, "" if ours == digits else ours


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _short_integer(digits: str) -> int:
    if len(digits) > 15:
        raise _OddError
    return int(digits)


def plain(value: object) -> Any:
    """Return ``value`` in a form that :func:`canonical` takes, losing nothing a reader could want.

    Integers beyond ±(2^53−1) become decimal strings, non-finite numbers ``NaN``, ``Infinity`` and
    ``-Infinity``, floats that would print as too large an integer their shortest Python form,
    undecodable bytes ``\\xNN``, other lone surrogates ``\\uNNNN``. Raises LedgerError for other types,
    for nesting beyond MAX_DEPTH and for keys that become equal.
    """
    return _plain(value, 0)


def document_digest(value: object) -> str:
    """Return the SHA-256 of the canonical bytes of :func:`plain` of ``value``: the same once it was stored."""
    return hashlib.sha256(plain_bytes(value)).hexdigest()


def _plain(value: object, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise LedgerError(f"nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool) or (type(value) is str and value.isascii()):
        return value
    if isinstance(value, str):
        return _valid_text(value)
    if isinstance(value, int):
        return int(value) if -MAX_INT <= value <= MAX_INT else str(int(value))
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(float(value)) if _prints_as_large_integer(value) else float(value)
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = _valid_text(key) if isinstance(key, str) else None
            if name is None or name in result:
                raise LedgerError(f"an object's keys are distinct text, not {key!r:.80}")
            kind = type(item)
            as_it_is = item is None or (kind is str and item.isascii()) or (kind is float and 1e-4 < item < 1e15)
            result[name] = item if as_it_is and depth < MAX_DEPTH else _plain(item, depth + 1)
        return result
    raise LedgerError(f"no JSON value: {type(value).__name__}")


def _valid_text(text: str) -> str:
    if type(text) is str and text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(_escape(character) for character in text)
    return str(text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # what os.fsdecode makes of a byte that is no UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else character


def _prints_as_large_integer(value: float) -> bool:
    # ECMAScript prints integral numbers below 1e21 without an exponent; a reader takes them as integers.
    return MAX_INT < abs(value) < 1e21


def _check(value: object, where: str, depth: int) -> None:
    if value is None or value is True or value is False:
        return
    kind = type(value)
    if kind is str:
        _check_text(value, where)  # type: ignore[arg-type]
    elif kind is int:
        if not -MAX_INT <= value <= MAX_INT:  # type: ignore[operator]
            raise LedgerError(f"not canonical at {where or '/'}: an integer beyond 2^53-1 is a decimal string")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise LedgerError(f"not canonical at {where or '/'}: a non-finite number is a string")
        if _prints_as_large_integer(value):  # type: ignore[arg-type]
            raise LedgerError(f"not canonical at {where or '/'}: a number that prints as an integer beyond 2^53-1")
    elif depth >= MAX_DEPTH:
        raise LedgerError(f"not canonical: nested deeper than {MAX_DEPTH}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{where}/{index}", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                raise LedgerError(f"not canonical at {where or '/'}: an object's keys are text")
            _check_text(key, where)
            _check(item, f"{where}/{key}", depth + 1)
    else:
        raise LedgerError(f"not canonical at {where or '/'}: {type(value).__name__} is no JSON value")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LedgerError(f"not canonical at {where or '/'}: text with a lone surrogate") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_ODD: Final = object()
_AGAIN: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


class _Reader:
    """A decoder: making one costs as much as reading a short entry."""

    def __init__(self) -> None:
        self.others: list[tuple[str, str]] = []
        """The numbers that the encoder will spell otherwise, in order: their spelling, ours."""
        decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=self._number, parse_int=_short_integer)
        self.decode: Callable[[str], Any] = decoder.decode

    def _number(self, digits: str) -> float:
        value, ours = _spelled(digits)
        if ours:
            self.others.append((digits, ours))
        return value


@functools.cache
def _readers() -> Any:
    import threading  # only who parses needs it

    return threading.local()


def _reader() -> _Reader:
    """Return this thread's decoder."""
    local = _readers()
    try:
        found: _Reader = local.reader
    except AttributeError:
        found = local.reader = _Reader()
    return found


@functools.cache
def _high() -> re.Pattern[bytes]:
    return re.compile(rb"[\xee-\xf4]")
