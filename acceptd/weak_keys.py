"""Ed25519 public keys under which anybody can sign: points of small order, as 32 zero bytes are one."""

from __future__ import annotations

from typing import Final

_SIGN: Final = 0x7F
"""The top bit of the last byte is the sign of x (RFC 8032, 5.1.2); the points come with both."""

_SMALL_ORDER: Final = frozenset(
    bytes.fromhex(one)
    for one in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        # Not reduced modulo p, and taken by verifiers all the same.
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
"""All y of the eight points whose order divides the cofactor 8 (RFC 8032, 8.4 and section 7 of RFC 7748)."""


def refuse_weak(raw: bytes) -> bytes:
    """Return a public key's 32 bytes. Raises ValueError: of small order, so a signature under it proves nothing.

    OpenSSL verifies under such a key: with S = 0 and R of small order, a forgery needs a few tries and no secret.
    """
    if raw[:-1] + bytes([raw[-1] & _SIGN]) in _SMALL_ORDER:
        raise ValueError("a key of small order, under which anybody can sign (32 zero bytes are one)")
    return raw
