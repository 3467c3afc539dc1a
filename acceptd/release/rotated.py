"""What ``rotations.json`` tells a loader: which keys count now for who trusts the keys of a keyring.

Pure, and without pydantic, as :mod:`acceptd.release.trust` is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from acceptd.errors import ConfigError, MalformedError, RollbackError, SignatureError
from acceptd.record.keyring import Keyring
from acceptd.release import trust

if TYPE_CHECKING:
    from acceptd.record import succession

FILE: Final = "rotations.json"
MAX_BYTES: Final = 1 << 20


def todays_keys(
    data: bytes | None, anchors: Keyring, remembered: Mapping[str, str]
) -> tuple[Keyring, Mapping[str, str]]:
    """Return the keys that count now for who trusts ``anchors``, by ``rotations.json`` (None: no such file).

    With what was followed, old key id to new one; ``remembered`` is what was followed before. Raises
    MalformedError for another form, SignatureError where a rotation is not signed by both its keys, RollbackError
    where a key that has given way speaks again: by a rotation that is hidden, or by a second successor.
    """
    followed: Mapping[str, str] = {}
    keyring = anchors
    if data is not None:
        keyring, followed = _follow(data, anchors)
    known = {key.key_id for key in anchors.keys} | set(followed)
    for old, new in remembered.items():
        if old in known and followed.get(old) != new:
            word = "is hidden" if old not in followed else "now leads to another key"
            raise RollbackError(f"rotations.json: the rotation of key {old}, which was seen before, {word}")
    return keyring, followed


@functools.lru_cache(maxsize=4)
def over_time(data: bytes, anchors: Keyring) -> Keyring:
    """Return the keys of ``anchors`` and those that followed them, for documents of any time.

    Without the log nobody can say when a document was signed: a key that gave way counts here, one that was given
    up as compromised does not. Each key counts in the role that led to it alone. Raises as :func:`todays_keys`.
    """
    from acceptd.record import succession  # a keyring that was never followed needs none

    today, followed = _follow(data, anchors)
    lost = {old for old, new in followed.items() if not new}
    keys = {(key.role, key.key_id): key for key in (*anchors.keys, *today.keys)}
    rotations = [succession.opened(one) for one in trust.parse_json(data, "rotations.json")["rotations"]]
    for rotation in rotations:
        older, newer = _places(rotation)
        if older in keys and followed.get(rotation.old.key_id) == rotation.new.key_id:
            keys[newer] = rotation.new
    for rotation in reversed(rotations):  # a newer key has signed for the one before it
        older, newer = _places(rotation)
        trusted = newer in keys and rotation.new.key_id not in lost
        if trusted and rotation.compromised_from is None:
            keys[older] = rotation.old
    try:
        return Keyring.of(key for key in keys.values() if key.key_id not in lost)
    except ConfigError as error:
        raise SignatureError(f"rotations.json: a rotation gives one key two roles: {error.message}") from error


@functools.lru_cache(maxsize=4)
def ledger_keys(data: bytes | None, anchors: Keyring) -> tuple[Keyring, Keyring]:
    """Return the ledger keys of any time that count for who trusts ``anchors``, and those given up as compromised.

    A release carries a checkpoint of its day: it outlives the key that signed it. Raises as :func:`todays_keys`.
    """
    if data is None:
        return Keyring(anchors.for_role("ledger")), Keyring(())
    from acceptd.record import succession

    keys = over_time(data, anchors).for_role("ledger")
    known = {key.key_id for key in (*keys, *anchors.for_role("ledger"))}
    rotations = [succession.opened(one) for one in trust.parse_json(data, "rotations.json")["rotations"]]
    lost = [
        one.old
        for one in rotations
        if one.role == "ledger" and one.compromised_from is not None
        and not known.isdisjoint({one.old.key_id, one.new.key_id})
    ]  # fmt: skip
    return Keyring(keys), Keyring(tuple(lost))


def _places(rotation: succession.Rotation) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return role and id of the old key and of the new one: an id in another role is no word for this one."""
    return (rotation.role, rotation.old.key_id), (rotation.role, rotation.new.key_id)


@functools.lru_cache(maxsize=4)
def _follow(data: bytes, anchors: Keyring) -> tuple[Keyring, Mapping[str, str]]:
    """Follow ``rotations.json``; the same bytes for the same keys once in a process (what raises is not kept)."""
    from acceptd.record import succession

    trust.small(data, MAX_BYTES, "rotations.json")
    reader = trust.Reader(trust.parse_json(data, "rotations.json"), "rotations.json")
    try:
        keys, followed = succession.follow(anchors, reader.rows("rotations"))
        return keys, MappingProxyType(followed)
    except MalformedError as error:
        raise MalformedError(f"rotations.json: {error}") from None
    except SignatureError as error:
        raise SignatureError(f"rotations.json: {error}") from None
