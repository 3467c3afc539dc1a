"""Signed statements: DSSE envelopes (secure-systems-lab/dsse, protocol v1) of in-toto Statements v1.

What is signed is the pre-authentication encoding (PAE) of payload type and payload, so a signature
over one kind of document never counts for another. Any DSSE verifier can check an envelope.
"""

from __future__ import annotations

import binascii
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from acceptd.errors import LedgerError, MalformedError, SignatureError
from acceptd.record.canonical import canonical, digest, parse
from acceptd.record.keyring import Keyring

if TYPE_CHECKING:
    from acceptd.record.keys import Signer

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
VERDICT_TYPE: Final = "https://acceptd.dev/verdict/v2"
FIRST_VERDICT_TYPE: Final = "https://acceptd.dev/verdict/v1"
"""Of statements made before they named their entry; they are verified as they were."""
VERDICT_TYPES: Final = (VERDICT_TYPE, FIRST_VERDICT_TYPE)
RELEASE_STATEMENT_TYPE: Final = "https://acceptd.dev/release/v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_PAYLOAD: Final = 64 << 20
_MAX_SIGNATURES: Final = 16

Envelope = dict[str, Any]
"""{"payload": base64, "payloadType": str, "signatures": [{"keyid": hex, "sig": base64}]}"""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: ``DSSEv1 LEN(type) type LEN(payload) payload``."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, signer: Signer, *more: Signer) -> Envelope:
    """Return the envelope of ``payload`` with one signature of each signer."""
    signed = pae(payload_type, payload)
    return {
        "payload": _base64(payload),
        "payloadType": payload_type,
        "signatures": [{"keyid": one.key_id, "sig": _base64(one.sign(signed))} for one in (signer, *more)],
    }


def unverified(envelope: object) -> tuple[bytes, tuple[str, ...]]:
    """Return payload and named key ids of an envelope, whoever made it; raise MalformedError where it is none."""
    payload, _, signatures = _open(envelope)
    return payload, tuple(key for key, _ in signatures)


def verify(envelope: object, payload_type: str, keyring: Keyring, role: str) -> bytes:
    """Return the payload of an envelope that a key of ``role`` has signed.

    Raises MalformedError where it is no envelope, SignatureError where no signature counts.
    """
    payload, kind, signatures = _open(envelope)
    if kind != payload_type:
        raise SignatureError(f"an envelope of {kind!r:.80} where {payload_type} is needed")
    signed = pae(kind, payload)
    problem = SignatureError("the envelope has no signature")
    for key, signature in signatures:
        try:
            keyring.verify(role, key, signed, signature)
        except SignatureError as error:
            problem = error
        else:
            return payload
    raise problem


def kept(envelope: object, keyring: Keyring, role: str) -> Envelope:
    """Return an envelope with what keys of ``role`` have signed, and nothing else: for the record.

    A reader passes by unknown members (DSSE v1) and signatures by strangers; in the ledger they would stay as
    words that nobody has signed, put there by whoever carried the file. Raises MalformedError for no envelope.
    """
    payload, kind, signatures = _open(envelope)
    signed = pae(kind, payload)
    good: dict[str, bytes] = {}
    for key, signature in signatures:
        with contextlib.suppress(SignatureError):
            keyring.verify(role, key, signed, signature)
            good.setdefault(key, signature)
    return {
        "payload": _base64(payload),
        "payloadType": kind,
        "signatures": [{"keyid": key, "sig": _base64(signature)} for key, signature in good.items()],
    }


def statement(
    subjects: Sequence[tuple[str, str]], predicate: Mapping[str, Any], predicate_type: str
) -> dict[str, Any]:
    """Return an in-toto Statement v1 about ``subjects``: (name, SHA-256 in hex), at least one."""
    if not subjects:
        raise LedgerError("a statement without a subject says nothing")
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in subjects],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def bound(submission: str | None, verdict: str, findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what every verdict's predicate holds and the audit compares with the entry.

    ``findings`` are all that the entry's body has, exactly as it has them.
    """
    return {
        "submission": submission,
        "verdict": verdict,
        "findings_digest": digest([dict(finding) for finding in findings]),
    }


def verdict_subjects(
    submission: str, bundle_id: str | None, bundle_digest: str | None, files: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the subjects of a verdict: the bundle digest, then each file (path, SHA-256 in hex).

    A drop that could not be sealed has no digest; then the subject is the submission itself, by the
    digest of ``{"submission": id}``.
    """
    if bundle_digest is None:
        return [(f"submission/{submission}", digest({"submission": submission}))]
    return [(bundle_id or f"submission/{submission}", bundle_digest), *files]


def verdict_statement(
    *,
    submission: str,
    verdict: str,
    bundle_id: str | None,
    bundle_digest: str | None,
    files: Sequence[tuple[str, str]],
    findings: Sequence[Mapping[str, Any]],
    predicate: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the statement of a verdict in its first form, which names no entry: see :func:`bound`."""
    subjects = verdict_subjects(submission, bundle_id, bundle_digest, files)
    return statement(subjects, {**predicate, **bound(submission, verdict, findings)}, FIRST_VERDICT_TYPE)


def sign_statement(value: Mapping[str, Any], signer: Signer) -> Envelope:
    """Return the envelope of a statement, its payload the RFC 8785 bytes. Raises LedgerError if not canonical."""
    return sign(PAYLOAD_TYPE, canonical(dict(value)), signer)


def verify_statement(
    envelope: object,
    keyring: Keyring,
    role: str = "ledger",
    predicate_types: Sequence[str] = VERDICT_TYPES,
    read: Callable[[bytes], Any] = parse,
) -> dict[str, Any]:
    """Return the statement in an envelope signed by a key of ``role``.

    ``read`` is :func:`acceptd.record.canonical.parse`, or a quicker one that takes and refuses the same.

    Raises SignatureError as :func:`verify`, MalformedError where the payload is not a canonical
    Statement v1 with one of these predicate types.
    """
    payload = verify(envelope, PAYLOAD_TYPE, keyring, role)
    try:
        value = read(payload)
    except LedgerError as error:
        raise MalformedError(f"the statement is {error}") from error
    if not isinstance(value, dict) or value.get("_type") != STATEMENT_TYPE:
        raise MalformedError("the payload is no in-toto Statement v1")
    if value.get("predicateType") not in predicate_types:
        raise MalformedError(f"the statement's predicate is not of type {predicate_types[0]}")
    subjects = value.get("subject")
    if not isinstance(subjects, list) or not subjects or not isinstance(value.get("predicate"), dict):
        raise MalformedError("the statement has no subject or no predicate")
    if not all(isinstance(one, dict) and isinstance(one.get("digest"), dict) for one in subjects):
        raise MalformedError("a subject of the statement has no digest")
    return value


def statement_differences(
    value: Mapping[str, Any],
    submission: str | None,
    body: Mapping[str, Any],
    log: str,
    number: int,
    digest: Callable[[object], str] = digest,
) -> Iterator[str]:
    """Yield in words what a verified statement says otherwise than its entry, the one of ``number`` in ``log``.

    ``digest`` is :func:`acceptd.record.canonical.digest`, or a quicker one that says the same of what was parsed.
    """
    predicate = value["predicate"]
    due = {"submission": submission, "verdict": body["verdict"], "findings_digest": digest(body["findings"])}
    due |= {key: said for key, said in body.items() if key in predicate and key not in due}
    if value["predicateType"] != FIRST_VERDICT_TYPE:
        due["entry"] = {"log": log, "number": number}
    for key, wanted in due.items():
        if predicate.get(key) != wanted:
            yield f"{key} is {predicate.get(key)!r:.80}, the entry says {wanted!r:.80}"
    # The bundle stands first. Behind it stand its files, and one of them may well be another bundle's inventory,
    # whose SHA-256 is that bundle's digest.
    first = value["subject"][0] if isinstance(value["subject"][0], dict) else {}
    named = first.get("digest")
    bundle = body.get("bundle_digest")
    due_digest = digest({"submission": submission}) if bundle is None else bundle
    if named != {"sha256": due_digest}:
        yield f"is not about the bundle {bundle!r:.80}"
    model = body.get("model")
    if bundle is not None and isinstance(model, str) and first.get("name") != model:
        yield f"is about {first.get('name')!r:.80}, the entry says {model!r:.80}"


def _open(envelope: object) -> tuple[bytes, str, list[tuple[str, bytes]]]:
    if not isinstance(envelope, dict):
        raise MalformedError("an envelope is a JSON object")
    payload, kind, signatures = (envelope.get(key) for key in ("payload", "payloadType", "signatures"))
    if not isinstance(payload, str) or not isinstance(kind, str) or not isinstance(signatures, list):
        raise MalformedError("an envelope has payload, payloadType and signatures")
    if len(payload) > MAX_PAYLOAD * 4 // 3 + 4 or len(signatures) > _MAX_SIGNATURES or not kind.isascii():
        raise MalformedError("an envelope that is too large")
    found = []
    for item in signatures:
        if not isinstance(item, dict) or not isinstance(item.get("sig"), str):
            raise MalformedError("a signature has keyid and sig")
        key = item.get("keyid", "")
        if not isinstance(key, str):
            raise MalformedError("a signature's keyid is text")
        found.append((key, _bytes(item["sig"])))
    return _bytes(payload), kind, found


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _bytes(text: str) -> bytes:
    # The specification lets a signer use either alphabet, so a verifier takes both.
    if "-" in text or "_" in text:
        text = text.translate(_STANDARD)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error, or not ASCII
        raise MalformedError("an envelope with a field that is not base64") from error


_STANDARD: Final = str.maketrans("-_", "+/")
