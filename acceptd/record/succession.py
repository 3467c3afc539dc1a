"""How one key of a role follows another: rotations, and which key counted for which entry. No I/O, no database.

A rotation is a DSSE envelope that the old key signs, and the new one too, to show that somebody has it. The
log holds each as an entry (:data:`ENTRY`), so its number parts what the old key may have signed from what
the new one may. Whoever knows the first key alone can so follow all later ones; whoever knows the newest has
its word for those before. A key that was given up as compromised names no successor: it is the thief's too.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from acceptd.errors import ConfigError, LedgerError, LoaderError, MalformedError, SignatureError
from acceptd.record import attest
from acceptd.record.canonical import MAX_INT, canonical, parse
from acceptd.record.keys import ROLES, Keyring, PublicKey, Signer, key_id
from acceptd.weak_keys import refuse_weak

ENTRY: Final = "key-rotated"
ROTATION_TYPE: Final = "application/vnd.acceptd.key-rotation+json"
MAX_REASON: Final = 2000
_MEMBERS: Final = frozenset({"schema", "log", "role", "number", "old", "new", "at", "reason", "compromised_from"})


class Rotation(NamedTuple):
    """That from here on ``new`` signs for a role of the log ``log`` what ``old`` signed before."""

    log: str
    role: str
    number: int
    """From 1, within the role."""
    old: PublicKey
    new: PublicKey
    at: str
    """UTC, RFC 3339, to the second."""
    reason: str
    compromised_from: int | None = None
    """The first entry for which the old key's word does not count; None where the key is not compromised."""

    def payload(self) -> bytes:
        """Return what both keys sign: RFC 8785 bytes."""
        return canonical(
            {
                "schema": 1,
                "log": self.log,
                "role": self.role,
                "number": self.number,
                "old": _plain(self.old),
                "new": _plain(self.new),
                "at": self.at,
                "reason": self.reason,
                "compromised_from": self.compromised_from,
            }
        )

    def body(self, envelope: attest.Envelope) -> dict[str, Any]:
        """Return the body of the entry that records this rotation."""
        return {
            "role": self.role,
            "number": self.number,
            "old": self.old.key_id,
            "new": self.new.key_id,
            "public": _plain(self.new)["public"],
            "reason": self.reason,
            "compromised_from": self.compromised_from,
            "envelope": envelope,
        }


def seal(rotation: Rotation, old: Signer, new: Signer) -> attest.Envelope:
    """Return the envelope of a rotation, signed by both keys."""
    return attest.sign(ROTATION_TYPE, rotation.payload(), old, new)


def opened(envelope: object) -> Rotation:
    """Return the rotation in an envelope that both of its keys have signed. Trusts neither: the caller decides.

    Raises MalformedError for another form, SignatureError where one of the two signatures does not hold.
    """
    payload, _ = attest.unverified(envelope)
    rotation = _read(payload)
    for key in (rotation.old, rotation.new):
        attest.verify(envelope, ROTATION_TYPE, Keyring((key,)), rotation.role)
    return rotation


def follow(anchors: Keyring, envelopes: Iterable[object]) -> tuple[Keyring, dict[str, str]]:
    """Return the keys that count now for who trusts ``anchors``, and what was followed: old key id to new one.

    This is what a loader believes; a key without a successor leads to an empty id.

    Each rotation counts on the word of a key that is trusted when its turn comes, never of the new one. The old
    key then counts no more. One that was given up as compromised goes without a successor.
    """
    trusted = {(key.role, key.key_id): key for key in anchors.keys}
    followed: dict[str, str] = {}
    for envelope in envelopes:
        rotation = opened(envelope)
        if trusted.pop((rotation.role, rotation.old.key_id), None) is None:
            continue  # of a key that this keyring does not know, or knows no more
        followed[rotation.old.key_id] = ""
        if rotation.compromised_from is None:
            followed[rotation.old.key_id] = rotation.new.key_id
            trusted[(rotation.role, rotation.new.key_id)] = rotation.new
    try:
        return Keyring.of(trusted.values()), followed
    except ConfigError as error:
        raise SignatureError(f"a rotation gives one key two roles: {error.message}") from error


class Tenure(NamedTuple):
    """The entries for which one key counts: ``since`` up to but not including ``until``."""

    key: PublicKey
    since: int
    until: int | None
    gave_way: int | None = None
    """The entry that rotated it out."""
    compromised: bool = False

    def holds(self, seq: int) -> bool:
        """Whether its word about the entry ``seq`` counts."""
        return self.since <= seq and (self.until is None or seq < self.until)

    def in_office(self, seq: int) -> bool:
        """Whether it signed when the entry ``seq`` was the newest."""
        return self.since <= seq and (self.gave_way is None or seq < self.gave_way)

    def words(self) -> str:
        """Return, for a person, why it does not count everywhere."""
        if self.compromised and self.until is not None:
            return f"is not trusted from entry {self.until} on: entry {self.gave_way} gave it up as compromised"
        if self.until is not None and self.since:
            return f"signs from entry {self.since} on, and gave way at entry {self.until}"
        return f"gave way at entry {self.until}" if self.until is not None else f"signs from entry {self.since} on"


@dataclass(frozen=True)
class History:
    """Every key of a log with its tenure, as far as one keyring vouches for it."""

    tenures: tuple[Tenure, ...]
    problems: tuple[tuple[int, str], ...] = ()
    """Entry and reason of each rotation that does not hold, or that the keyring does not vouch for."""
    _bounds: tuple[int, ...] = field(init=False, repr=False)
    _rings: tuple[Keyring, ...] = field(init=False, repr=False)
    _offices: tuple[Keyring, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        edges = {edge for one in self.tenures for edge in (one.since, one.until or 0, one.gave_way or 0)}
        bounds = sorted(edges | {0})
        rings = [Keyring(tuple(one.key for one in self.tenures if one.holds(seq))) for seq in bounds]
        object.__setattr__(self, "_bounds", tuple(bounds))
        object.__setattr__(self, "_rings", tuple(rings))
        offices = [Keyring(tuple(one.key for one in self.tenures if one.in_office(seq))) for seq in bounds]
        object.__setattr__(self, "_offices", tuple(offices))

    @classmethod
    def of(cls, anchors: Keyring, rotations: Iterable[tuple[int, Mapping[str, Any]]], log: str) -> History:
        """Return the history that ``anchors`` vouches for, from the log's rotations: (entry, body), in order."""
        problems: list[tuple[int, str]] = []
        chains: dict[str, list[tuple[int, Rotation]]] = {role: [] for role in ROLES}
        served: dict[str, str] = {key.key_id: key.role for key in anchors.keys}
        for seq, body in rotations:
            try:
                rotation = _entered(body, log)
                _continues(chains[rotation.role], rotation, served)
            except (LoaderError, LedgerError) as error:
                problems.append((seq, f"a rotation that does not hold: {error}"))
                continue
            chains[rotation.role].append((seq, rotation))
            served |= {rotation.old.key_id: rotation.role, rotation.new.key_id: rotation.role}
        tenures: list[Tenure] = []
        for role, chain in chains.items():
            found, doubtful = _tenures(anchors.for_role(role), chain)
            tenures += found
            problems += doubtful
        return cls(tuple(tenures), tuple(sorted(problems)))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the tenures as plain values, for a process that has verified nothing itself: :meth:`parse`."""
        return [
            {
                "role": one.key.role,
                "public": one.key.raw.hex(),
                "since": one.since,
                "until": one.until,
                "gave_way": one.gave_way,
                "compromised": one.compromised,
            }
            for one in self.tenures
        ]

    @classmethod
    def parse(cls, rows: Iterable[Mapping[str, Any]]) -> History:
        """Return the history whose tenures :meth:`to_json` gave."""
        tenures = []
        for row in rows:
            raw = bytes.fromhex(row["public"])
            key = PublicKey(row["role"], key_id(raw), raw)
            tenures.append(Tenure(key, row["since"], row["until"], row["gave_way"], row["compromised"]))
        return cls(tuple(tenures))

    def at(self, seq: int, /) -> Keyring:
        """Return the keys whose word about the entry ``seq`` counts."""
        return self._rings[max(0, bisect_right(self._bounds, seq) - 1)]

    def in_office(self, seq: int, /) -> Keyring:
        """Return the keys that signed when the entry ``seq`` was the newest."""
        return self._offices[max(0, bisect_right(self._bounds, seq) - 1)]

    @property
    def current(self) -> Keyring:
        """The keys that sign now."""
        return Keyring(tuple(one.key for one in self.tenures if one.until is None))

    @property
    def ever(self) -> Keyring:
        """The keys that sign or once signed, without those that were given up as compromised."""
        return Keyring(tuple(one.key for one in self.tenures if not one.compromised))

    def tenure(self, role: str, key: str) -> Tenure | None:
        """Return the tenure of the key with this id in ``role``, or None."""
        return next((one for one in self.tenures if (one.key.role, one.key.key_id) == (role, key)), None)

    def why(self, role: str, key_ids: Iterable[str], seq: int) -> str:
        """Return in words why none of these keys counts for the entry ``seq``; empty where none is known."""
        known = [found for one in key_ids if (found := self.tenure(role, one)) is not None]
        return next(
            (
                f"signed by the {role} key {one.key.key_id}, which {one.words()}"
                for one in known
                if not one.holds(seq)
            ),
            "",
        )


def _tenures(
    anchored: tuple[PublicKey, ...], chain: list[tuple[int, Rotation]]
) -> tuple[list[Tenure], list[tuple[int, str]]]:
    """Return the tenures of one role that its anchored keys vouch for, and the rotations that they do not."""
    ids = {key.key_id for key in anchored}
    line = [chain[0][1].old, *(rotation.new for _, rotation in chain)] if chain else []
    beside = [Tenure(key, 0, None) for key in anchored if key.key_id not in {one.key_id for one in line}]
    standing = [index for index, key in enumerate(line) if key.key_id in ids]
    found, problems = beside, []
    for index, key in enumerate(line):
        # Backward the newer key vouches, it has signed the rotation as well; forward each old one does.
        vouched = any(
            start >= index or all(one.compromised_from is None for _, one in chain[start:index])
            for start in standing
        )
        if not vouched and index:
            seq, rotation = chain[index - 1]
            problems.append((seq, _unvouched(rotation, known=bool(standing))))
        if vouched:
            since = chain[index - 1][0] if index else 0
            found.append(_tenure(key, since, chain[index] if index < len(chain) else None))
    return found, problems


def _tenure(key: PublicKey, since: int, end: tuple[int, Rotation] | None) -> Tenure:
    if end is None:
        return Tenure(key, since, None)
    seq, rotation = end
    if rotation.compromised_from is None:
        return Tenure(key, since, seq, seq)
    return Tenure(key, since, max(since, min(rotation.compromised_from, seq)), seq, compromised=True)


def _unvouched(rotation: Rotation, *, known: bool) -> str:
    if known:
        return (
            f"the {rotation.role} key was given up as compromised, and the keyring does not name its successor "
            f"{rotation.new.key_id}: bring one that does"
        )
    return f"a rotation of the {rotation.role} key {rotation.old.key_id}, which the keyring does not know"


def _continues(chain: list[tuple[int, Rotation]], rotation: Rotation, served: Mapping[str, str]) -> None:
    if rotation.number != len(chain) + 1:
        raise MalformedError(f"it is number {rotation.number} of the role, after {len(chain)} others")
    if chain and chain[-1][1].new.key_id != rotation.old.key_id:
        raise SignatureError(f"the key {rotation.old.key_id} was not the {rotation.role} key any more")
    before = {one.old.key_id for _, one in chain}
    if rotation.new.key_id in before or served.get(rotation.new.key_id, rotation.role) != rotation.role:
        raise SignatureError(f"the key {rotation.new.key_id} served before, and a key serves once, in one role")
    if served.get(rotation.old.key_id, rotation.role) != rotation.role:
        raise SignatureError(f"the key {rotation.old.key_id} has another role")


def _entered(body: Mapping[str, Any], log: str) -> Rotation:
    rotation = opened(body.get("envelope"))
    if rotation.log != log:
        raise SignatureError(f"it is of another log, {rotation.log!r:.80}")
    due = rotation.body({})
    for key, value in due.items():
        if key != "envelope" and body.get(key) != value:
            raise MalformedError(f"its statement says {key} {value!r:.80}, the entry {body.get(key)!r:.80}")
    return rotation


def _plain(key: PublicKey) -> dict[str, str]:
    return {"key_id": key.key_id, "public": base64.b64encode(key.raw).decode("ascii")}


def _read(payload: bytes) -> Rotation:
    try:
        value = parse(payload)
        if not isinstance(value, dict) or set(value) != _MEMBERS or value["schema"] != 1:
            raise ValueError("not the members of schema 1")
        role, number, begins = value["role"], value["number"], value["compromised_from"]
        if role not in ROLES or type(number) is not int or not 1 <= number <= MAX_INT:
            raise ValueError("no role, or no number")
        if begins is not None and (type(begins) is not int or not 0 <= begins <= MAX_INT):
            raise ValueError("`compromised_from` is an entry's number")
        texts = [value[key] for key in ("log", "at", "reason")]
        if not all(isinstance(text, str) for text in texts) or len(value["reason"]) > MAX_REASON:
            raise ValueError("`log`, `at` and `reason` are text")
        old, new = (_key(role, value[name]) for name in ("old", "new"))
    except (ValueError, TypeError, KeyError, binascii.Error, LedgerError) as error:
        raise MalformedError(f"no rotation of a key: {error}") from error
    if old.key_id == new.key_id:
        raise MalformedError("a rotation from a key to itself")
    return Rotation(value["log"], role, number, old, new, value["at"], value["reason"], begins)


def _key(role: str, value: Any) -> PublicKey:
    if not isinstance(value, dict) or set(value) != {"key_id", "public"}:
        raise ValueError("a key is key_id and public")
    raw = base64.b64decode(value["public"], validate=True)
    if len(raw) != 32 or key_id(raw) != value["key_id"]:
        raise ValueError("`key_id` is not the SHA-256 of the 32 public bytes")
    return PublicKey(role, value["key_id"], refuse_weak(raw))
