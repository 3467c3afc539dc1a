"""Strict JSON, and the DSSE envelopes around signed files: nothing inside counts before its signature holds.

Production imports this, as it does :mod:`acceptd.release.trust`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from acceptd.errors import MalformedError, SignatureError
from acceptd.record import attest
from acceptd.record.keyring import Keyring

_MOST_PARTS: Final = 1000
"""Brackets and commas of an envelope, which holds three texts and a few signatures: whoever can write the file
could else make some thirty times its bytes out of it in memory, before any signature is looked at."""
_KEPT: Final = 64
_KEPT_BYTES: Final = 1 << 20
Asked = tuple[str, str, str, Keyring]
"""The digest of a file, its type, the role and the keys."""
_verified: dict[Asked, bytes] = {}
"""Payloads whose signature held. Expiry, numbers, revocation and every byte of a bundle are looked at anew."""
_read: dict[Asked, Any] = {}
"""What was read from such payloads: facts that nobody can change."""
T = TypeVar("T")


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hex."""
    return hashlib.sha256(data).hexdigest()


def parse_json(data: bytes, what: str) -> Any:
    """Return strict JSON: UTF-8, no duplicate key, no NaN, no lone surrogate; raise MalformedError otherwise."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")  # 1e400 is read as infinity
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{what} is not strict JSON: {str(error)[:120]}") from None
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def read_envelope(
    data: bytes, payload_type: str, keyring: Keyring, role: str, what: str, read: Callable[[bytes], T]
) -> T:
    """Return what ``read`` makes of the payload of a DSSE envelope that a key of ``role`` signed.

    The same bytes under the same keys are verified and read once in a process, and the same is returned again: no
    caller may be able to change it. Raises as :func:`open_envelope`, and what ``read`` raises.
    """
    asked = (sha256(data), payload_type, role, keyring)
    known: T | None = _read.get(asked)
    if known is not None:
        return known
    payload = open_envelope(data, payload_type, keyring, role, what)
    return _kept(_read, asked, read(payload), payload)


def open_envelope(data: bytes, payload_type: str, keyring: Keyring, role: str, what: str) -> bytes:
    """Return the payload of a DSSE envelope that a key of ``role`` signed.

    The same bytes under the same keys are verified once in a process. Raises MalformedError for another form,
    SignatureError where no key of the role signed it.
    """
    asked = (sha256(data), payload_type, role, keyring)
    if (known := _verified.get(asked)) is not None:
        return known
    payload = _payload(data, payload_type, keyring, role, what)
    return _kept(_verified, asked, payload, payload)


def _kept(memory: dict[Asked, Any], asked: Asked, found: T, payload: bytes) -> T:
    if len(payload) <= _KEPT_BYTES:
        if len(memory) >= _KEPT:
            memory.clear()
        memory[asked] = found
    return found


def _payload(data: bytes, payload_type: str, keyring: Keyring, role: str, what: str) -> bytes:
    if sum(map(data.count, (b"[", b"{", b","))) > _MOST_PARTS:
        raise MalformedError(f"{what} is no DSSE envelope")
    envelope = parse_json(data, what)
    if not isinstance(envelope, dict) or set(envelope) != {"payload", "payloadType", "signatures"}:
        raise MalformedError(f"{what} is no DSSE envelope")
    try:
        return attest.verify(envelope, payload_type, keyring, role)
    except MalformedError as error:
        raise MalformedError(f"{what}: {error}") from None
    except SignatureError as error:
        raise SignatureError(f"{what}: {error}") from None
