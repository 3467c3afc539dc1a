"""An envelope that a node signed: bounded before it is read, one signature, a key that the policy names. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from acceptd.errors import LedgerError, MalformedError, SignatureError
from acceptd.fleet.refusals import refused
from acceptd.fleet.trust import Trust
from acceptd.record.attest import sign_statement, statement, unverified, verify_statement
from acceptd.record.canonical import canonical, parse
from acceptd.record.keys import NODE, Signer
from acceptd.statement.parts import Part

MAX_BYTES: Final = 256 << 10
"""The most that an envelope may have; ours have a few thousand."""
_MEMBERS: Final = {"payload", "payloadType", "signatures"}

P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True)
class Told(Generic[P]):
    """What a node said and signed. ``digest`` is the SHA-256 of the statement, ``key_id`` its key's.

    ``subjects`` are what it is about: (name, SHA-256).
    """

    predicate: P
    key_id: str
    digest: str
    subjects: tuple[tuple[str, str], ...]


def sealed_in(predicate: Part, predicate_type: str, subjects: list[tuple[str, str]], signer: Signer) -> str:
    """Return the envelope of a statement, as canonical JSON in ASCII-safe text.

    Raises SigningError where the node's key is behind a command that does not sign.
    """
    said = statement(subjects, predicate.model_dump(mode="json"), predicate_type)
    return canonical(sign_statement(said, signer)).decode()


def opened(envelope: str | bytes, trust: Trust, predicate_type: str, model: type[P], what: str) -> Told[P]:
    """Return what one of the policy's keys signed; whether that key counts is not looked at yet.

    Raises FleetTrustError: ``size``, ``malformed``, ``unsigned``, ``unknown-key`` or ``bad-signature``.
    """
    data = envelope if isinstance(envelope, bytes) else envelope.encode("utf-8", "surrogatepass")
    if len(data) > MAX_BYTES:
        raise refused("size", f"{what} of {len(data)} bytes, at most {MAX_BYTES} are read")
    try:
        value = parse(data)
        payload, keys = unverified(value)
    except (LedgerError, MalformedError) as error:
        raise refused("malformed", f"{what} is {error}"[:400]) from error
    if set(value) != _MEMBERS:
        raise refused("malformed", f"{what} has other members than payload, payloadType and signatures")
    if not keys:
        raise refused("unsigned", f"{what} is not signed")
    if len(keys) != 1:
        raise refused("malformed", f"{what} has {len(keys)} signatures, one is meant")
    known = trust.known(keys[0], what)
    try:
        said = verify_statement(value, known, NODE, (predicate_type,))
    except SignatureError as error:
        raise refused("bad-signature", f"{what}: {error}"[:400]) from error
    except MalformedError as error:
        raise refused("malformed", f"{what}: {error}"[:400]) from error
    try:
        predicate = model.model_validate(said["predicate"])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:120]
        raise refused("malformed", f"{what}: {place!r}: {first['msg']}"[:400]) from error
    subjects = tuple((str(one["name"]), str(one["digest"]["sha256"])) for one in _subjects(said["subject"], what))
    return Told(predicate, keys[0], hashlib.sha256(payload).hexdigest(), subjects)


def _subjects(value: list[Any], what: str) -> list[dict[str, Any]]:
    for one in value:
        digests = one.get("digest") if isinstance(one, dict) and set(one) == {"name", "digest"} else None
        if not isinstance(digests, dict) or set(digests) != {"sha256"}:
            raise refused("malformed", f"{what}: a subject has a name and a SHA-256")
    return value
