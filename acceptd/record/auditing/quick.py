"""The audit's quick ways, each beside the one whose answer it must give: canonical JSON, and Ed25519.

What the quick way does not take, the other one decides: :mod:`acceptd.record.canonical`, and
:meth:`acceptd.record.keys.Keyring.verify`. So a quick way may refuse too much, and must never take too much; tests
hold each against the other. These libraries are imported here alone, and never by a loader.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any, Final

import orjson
from nacl.bindings import crypto_sign_open
from nacl.exceptions import CryptoError

from acceptd.record import canonical
from acceptd.record.keys import Keyring

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_EXPONENT: Final = re.compile(rb"e(?=[-+]?[0-9]+[,}\]])")
_FRACTION: Final = re.compile(rb"\.(?=0[,}\]]|000000)")
"""Where orjson may spell a number otherwise than RFC 8785: exponents, integral floats, very small ones.

A look ahead leaves one literal character in front, which `re` finds by memchr. Such text in
quotes goes the long way.
"""


def parse(data: bytes) -> Any:
    """Return the value of canonical JSON; raise LedgerError unless the bytes are exactly canonical.

    As :func:`acceptd.record.canonical.parse`, which answers where the quick way does not take ``data``: what
    orjson writes again byte for byte has its keys sorted and once each, and no space.
    """
    try:
        value = orjson.loads(data)
        again = orjson.dumps(value, option=_OPTIONS)
        if (again == data or _millionths(again) == data) and _sure(value, data):
            return value
    except (ValueError, TypeError, RecursionError):
        pass
    return canonical.parse(data)


def written(value: Any) -> bytes:
    """Return the canonical bytes of ``value``, which is one that :func:`parse` returned, or a part of one."""
    data = orjson.dumps(value, option=_OPTIONS)
    return data if _sure(value, data) else canonical.canonical(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of :func:`written`, as 64 lowercase hex digits."""
    return hashlib.sha256(written(value)).hexdigest()


def _millionths(again: bytes) -> bytes:
    """Return ``again`` with each number from 1e-6 up to 1e-5 as RFC 8785 spells it: tolerances are often such.

    Text in quotes may be changed too; then the result is not what was parsed, whose text it would be.
    """
    parts = again.split(b"e-6")
    if len(parts) == 1:
        return again
    for at in range(len(parts) - 1):
        digits = _DIGITS.search(parts[at][-_LONGEST:])
        if digits is not None and parts[at + 1][:1] in {b",", b"}", b"]"}:
            found = digits[1]
            parts[at] = parts[at][: -len(found)] + b"0.00000" + found.replace(b".", b"")
        else:
            parts[at] += b"e-6"
    return b"".join(parts)


_DIGITS: Final = re.compile(rb"[:,\[]-?([0-9](?:\.[0-9]+)?)$")
_LONGEST: Final = 24
"""Bytes of a sign, 17 digits, a point and what stands before them."""


def _sure(value: Any, data: bytes) -> bool:
    """Whether ``data``, as orjson writes ``value`` or :func:`_millionths` after it, is certainly RFC 8785's.

    Its numbers say so sooner than its text does, most of which is in quotes.
    """
    if (type(value) is dict or type(value) is list) and data.isascii():
        numbers = _numbers(value)
        if numbers != _OTHER:
            return numbers == _ALIKE or _EXPONENT.search(data) is None
    return _plain(data)


def _numbers(value: Any) -> int:
    """Return what orjson and RFC 8785 make of the numbers of a value: one of the three below."""
    found, level, depth = _ALIKE, [value], 0
    while level:
        depth += 1
        if depth == _DEPTH:
            return _OTHER
        boxes, level = level, []
        for box in boxes:
            for item in box.values() if type(box) is dict else box:
                kind = type(item)
                if kind is str or kind is int or kind is bool or item is None:
                    continue
                if kind is not float:
                    level.append(item)
                elif 1e-6 <= item < 1e-4:
                    found = _SMALL
                elif not 1e-4 <= item < 1e15 or item.is_integer():
                    return _OTHER
    return found


_ALIKE: Final = 0
"""Integers, and fractions of a size that both write without an exponent."""
_SMALL: Final = 1
"""Among them some that RFC 8785 writes without an exponent, and orjson perhaps with one: from 1e-6 on."""
_OTHER: Final = 2
"""Who knows; or nested too deep."""


def _plain(data: bytes) -> bool:
    """Whether orjson's ``data`` is certainly RFC 8785's; a top-level number is not looked at."""
    return (
        data.startswith((b"{", b"["))
        # UTF-16 orders keys otherwise from U+E000 on; those begin with these bytes.
        and (data.isascii() or _HIGH.search(data) is None)
        and len(data.split(b"{", _DEPTH)) + len(data.split(b"[", _DEPTH)) < _DEPTH
        and _EXPONENT.search(data) is None
        and _FRACTION.search(data) is None
    )


_HIGH: Final = re.compile(rb"[\xee-\xf4]")
_DEPTH: Final = canonical.MAX_DEPTH


@functools.lru_cache(maxsize=16)
def keyring(ring: Keyring) -> QuickKeyring:
    """Return ``ring`` as one that asks libsodium first."""
    return QuickKeyring(ring.keys)


class QuickKeyring(Keyring):
    """A keyring that asks libsodium first, which takes 0.10 ms where OpenSSL takes 0.17.

    libsodium takes nothing that OpenSSL refuses: both recompute R and compare its bytes (RFC 8032, 5.1.7,
    without the cofactor), both want S below the order, and libsodium refuses keys and R of small order besides.
    So its yes is OpenSSL's, and its no is not the last word.
    """

    def verify(self, role: str, key_id: str, data: bytes, signature: bytes) -> None:
        """As :meth:`Keyring.verify`."""
        if len(signature) == _SIGNATURE_BYTES:
            for key in self.keys:
                if key.key_id == key_id and key.role == role:
                    try:
                        crypto_sign_open(signature + data, key.raw)
                    except CryptoError:
                        break
                    return
        super().verify(role, key_id, data, signature)


_SIGNATURE_BYTES: Final = 64
