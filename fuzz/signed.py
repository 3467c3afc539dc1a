"""Targets of signed files that a loader, an auditor or a node opens, each twice over.

An input is taken as the file itself: then nothing opens that nobody signed. And as a payload whose signature
holds: then it is read, or refused with the one typed error, and written again it is read alike.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console

from acceptd.cli.verify import _shown, print_verified
from acceptd.errors import ConfigError, LedgerError, LoaderError
from acceptd.export import document as exports
from acceptd.record import attest, merkle, note, succession
from acceptd.record.auditing import quick
from acceptd.record.canonical import canonical, parse, plain
from acceptd.record.keys import Keyring
from acceptd.release import envelope, held, proof, rotated, trust
from acceptd.release.identity import agreed, labels_of, preprocessing_of
from fuzz import house
from fuzz.house import KEYRING, LOG, MODEL, NOW, genuine, only, signer

LOADER: Final = LoaderError


def _file(raw: bytes, kind: str, role: str) -> None:
    """Open ``raw`` as an envelope: nothing comes out that was never signed, and nothing but a loader's error."""
    payload = only(LOADER, lambda: envelope.open_envelope(raw, kind, KEYRING, role, "a file"))
    if payload is not None:
        genuine(kind, payload)


def _payload(raw: bytes, kind: str, role: str) -> bytes:
    return house.unremembered(kind, raw, signer(role))


def check_channel(raw: bytes) -> None:
    """``channel.json``."""
    _file(raw, trust.CHANNEL_TYPE, "release")
    for data in (raw, _payload(raw, trust.CHANNEL_TYPE, "release")):
        seen = trust.Remembered(number=2, release_digest="1" * 64, sequence=7)
        found: trust.ChannelFacts | None = only(
            LOADER,
            lambda data=data, seen=seen: trust.channel(
                data, KEYRING, model_id=MODEL, name=house.CHANNEL, now=NOW, remembered=seen
            ),
        )
        if found is not None:
            assert found.number >= 2
            assert found.sequence >= 7
            assert NOW < found.expires < 1e12
            _again(raw, data, trust.read_channel, found)


def _again(raw: bytes, data: bytes, read: Callable[[bytes], Any], found: Any) -> None:
    """Hold a payload that was read against itself, written anew."""
    if data is not raw:
        assert read(json.dumps(json.loads(raw), sort_keys=True, indent=1).encode()) == found


def check_revocations(raw: bytes) -> None:
    """``revocations.json``: what is listed is listed as a digest, or the list counts for nothing."""
    _file(raw, trust.REVOCATIONS_TYPE, "revocation")
    for data in (raw, _payload(raw, trust.REVOCATIONS_TYPE, "revocation")):
        found = only(LOADER, lambda data=data: trust.revocations(data, KEYRING, least=1, remembered=1))
        if found is not None:
            assert found.number >= 1
            assert all(type(one) is str and trust.is_sha256(one) for one in found.revoked)
            _again(raw, data, trust.read_revocations, found)


def check_release(raw: bytes) -> None:
    """``release.json``, with the profile, runtime, identity and proof that a loader reads in it."""
    _file(raw, trust.RELEASE_TYPE, "release")
    for data in (raw, _payload(raw, trust.RELEASE_TYPE, "release")):
        wanted = trust.ChannelFacts(
            MODEL, house.CHANNEL, 2, hashlib.sha256(data).hexdigest(), 0, 1, float("inf"), ""
        )
        facts = only(LOADER, lambda data=data, wanted=wanted: trust.release(data, KEYRING, wanted))
        if facts is None:
            continue
        assert trust.bundle_digest(facts.files) == facts.bundle_digest
        assert all(".." not in one.path.split("/") and not one.path.startswith("/") for one in facts.files)
        only(LOADER, lambda facts=facts: _more(facts))
        _again(raw, data, trust.read_release, facts)


def _more(facts: trust.ReleaseFacts) -> None:
    agreed(facts.document, facts.manifest)
    preprocessing_of(facts.manifest)
    labels_of(facts.manifest)
    for name in (None, "cpu", "other"):
        under = only(LOADER, lambda name=name: held.chosen(facts, name))
        if under is not None:
            only(LOADER, lambda under=under: held.runtime(facts, under))
    for keyring in (KEYRING, Keyring(())):
        said = only(LOADER, lambda keyring=keyring: proof.verify(facts, keyring))
        if said == proof.SIGNED:
            head = note.parse(facts.document["checkpoint"].encode())[0]
            assert head.origin == house.LOG


def check_export(raw: bytes) -> None:
    """``export.json`` beside a ``release.json``."""
    _file(raw, exports.EXPORT_TYPE, "release")
    for data in (raw, _payload(raw, exports.EXPORT_TYPE, "release")):
        only(LOADER, lambda data=data: exports.opened(data, _RELEASE, KEYRING))


_RELEASED: Final = attest.RELEASE_STATEMENT_TYPE
_RELEASE: Final = house.seal(trust.RELEASE_TYPE, canonical(house.release()), signer("release"))


def check_rotations(raw: bytes) -> None:
    """``rotations.json``: no key is followed that the one before it did not sign for."""
    keys = _keys()
    ours = {key.key_id for key in keys}
    for remembered in ({}, {keys[0].key_id: keys[1].key_id}):
        found = only(LOADER, lambda remembered=remembered: rotated.todays_keys(raw, KEYRING, remembered))
        if found is not None:
            assert {key.key_id for key in found[0].keys} <= ours
    always = only(LOADER, lambda: rotated.over_time(raw, KEYRING))
    if always is not None:
        assert {key.key_id for key in always.keys} <= ours
    only(LOADER, lambda: rotated.ledger_keys(raw, KEYRING))
    # One rotation, as a payload that both of its keys have signed.
    old, new = signer("release"), signer("release", "next")
    sealed = house.unremembered(succession.ROTATION_TYPE, raw, old, new)
    one = only(LOADER, lambda: succession.opened(json.loads(sealed)))
    if one is not None:
        assert one.payload() == raw
        whole = canonical({"schema": 1, "rotations": [json.loads(sealed)]})
        only(LOADER, lambda: rotated.todays_keys(whole, KEYRING, {}))
        only(LOADER, lambda: rotated.over_time(whole, KEYRING))


def _keys() -> list[Any]:
    made = [signer("release"), signer("release", "next"), signer("release", "last"), signer("ledger", "next")]
    return [*(one.public_key() for one in made), *KEYRING.keys]


def rotation(
    role: str, number: int, old: str, new: str, compromised: int | None = None
) -> tuple[bytes, dict[str, Any]]:
    """Return the payload of a rotation, and its envelope."""
    before, after = signer(role, old), signer(role, new)
    said = succession.Rotation(
        LOG, role, number, before.public_key(), after.public_key(), house.AT, "yearly", compromised
    )
    return said.payload(), succession.seal(said, before, after)


def check_keyring(raw: bytes) -> None:
    """``keyring.json``."""
    found = only(ConfigError, lambda: Keyring.parse(raw, "keyring.json"))
    if found is not None:
        assert Keyring.parse(found.to_json()) == found
        assert all(hashlib.sha256(key.raw).hexdigest() == key.key_id for key in found.keys)


def check_checkpoint(raw: bytes) -> None:
    """A signed note of a tree head: none counts but those that were signed."""
    head = only(LOADER, lambda: note.verify(raw, KEYRING))
    if head is not None:
        assert (head.origin, head.size, head.root) in _HEADS
    found = only(LOADER, lambda: note.parse(raw))
    if found is not None:
        parsed, text, signatures = found
        assert raw.startswith(text)
        if " " not in parsed.origin:  # no name of a signer holds a space (C2SP signed-note); the text may
            again = note.sign(parsed, signer("ledger"))
            assert note.verify(again, KEYRING, parsed.origin) == parsed
        assert all(name and len(marked) >= 5 for name, marked in signatures)


_HEADS: Final = {(LOG, 3, b"\1" * 32), (LOG, 0, merkle.EMPTY_ROOT), ("another", 9, b"\2" * 32)}


def check_envelope(raw: bytes) -> None:
    """A DSSE envelope of a statement, both ways of the audit; the quick one says what the slow one says."""
    value = only(LedgerError, lambda: parse(raw))
    if value is None:
        return
    payload = only(LOADER, lambda: attest.unverified(value))
    slow, fast = (
        _told(lambda ring=ring, read=read: attest.verify_statement(value, ring, read=read))
        for ring, read in ((KEYRING, parse), (quick.keyring(KEYRING), quick.parse))
    )
    assert slow == fast, (slow, fast)
    if isinstance(slow, dict):
        genuine(attest.PAYLOAD_TYPE, payload[0])
    kept = only(LOADER, lambda: attest.kept(value, KEYRING, "ledger"))
    if kept is not None and kept["signatures"]:
        genuine(kept["payloadType"], payload[0])
    signed = json.loads(house.unremembered(attest.PAYLOAD_TYPE, raw, signer("ledger")))
    said = only(LOADER, lambda: attest.verify_statement(signed, KEYRING))
    if said is not None:
        assert canonical(said) == raw
        body = {"verdict": "accepted", "findings": [], "bundle_digest": "1" * 64, "model": MODEL}
        assert all(isinstance(one, str) for one in attest.statement_differences(said, "s", body, LOG, 1))


def _told(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except LoaderError as error:
        return type(error).__name__


def check_verify(raw: bytes) -> None:
    """What ``acceptd verify`` is given: the file as it is, and a payload behind any of the signatures it knows."""
    shown = only(LOADER, lambda: _shown(raw, KEYRING))
    if shown is not None:
        envelope = json.loads(raw)
        genuine(envelope["payloadType"], attest.unverified(envelope)[0])
    kinds = [(attest.PAYLOAD_TYPE, "ledger"), (attest.PAYLOAD_TYPE, "release"), (trust.CHANNEL_TYPE, "release")]
    for kind, role in kinds:
        only(LOADER, lambda kind=kind, role=role: _verified(house.unremembered(kind, raw, signer(role))))


def _verified(data: bytes) -> None:
    print_verified(Console(file=io.StringIO(), width=100), _shown(data, KEYRING))


def check_canonical(raw: bytes) -> None:
    """Canonical JSON: both readers say the same of any bytes, and what is read is written as it was."""
    slow, fast = _ledger(lambda: parse(raw)), _ledger(lambda: quick.parse(raw))
    assert (slow is _NONE) == (fast is _NONE)
    if slow is _NONE:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return
        made = _ledger(lambda: canonical(plain(value)))
        assert made is _NONE or canonical(parse(made)) == made
        return
    assert slow == fast
    assert canonical(slow) == quick.written(fast) == raw


_NONE: Final = object()


def _ledger(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except LedgerError as error:
        assert str(error)
        return _NONE


def statement() -> dict[str, Any]:
    """Return a verdict's statement."""
    return attest.verdict_statement(
        submission="s", verdict="accepted", bundle_id=MODEL, bundle_digest="1" * 64,
        files=[("model.onnx", "2" * 64)], findings=[], predicate={"manifest_digest": "3" * 64},
    )  # fmt: skip


def seeds() -> dict[str, dict[str, bytes]]:
    """Return the seeds of all targets of this file: by target, by name."""
    made: dict[str, dict[str, bytes]] = {}
    documents = {
        "channel": (trust.CHANNEL_TYPE, "release", [house.channel(), house.channel(3, "5" * 64, 9)]),
        "revocations": (
            trust.REVOCATIONS_TYPE,
            "revocation",
            [house.revocations(), house.revocations(4, "8" * 64)],
        ),
        "release": (trust.RELEASE_TYPE, "release", [house.release(), house.release(proof=False)]),
        "export": (exports.EXPORT_TYPE, "release", [_export()]),
    }
    for name, (kind, role, payloads) in documents.items():
        made[name] = {}
        for number, one in enumerate(payloads):
            data = canonical(one)
            made[name][f"payload-{number}"] = data
            made[name][f"file-{number}"] = house.seal(kind, data, signer(role))
    chain = [rotation("release", 1, "", "next"), rotation("release", 2, "next", "last"),
             rotation("ledger", 1, "", "next", 4)]  # fmt: skip
    made["rotations"] = {f"payload-{number}": payload for number, (payload, _) in enumerate(chain)}
    for number in (1, 2, 3):
        rows = [one for _, one in chain[:number]]
        made["rotations"][f"file-{number}"] = canonical({"schema": 1, "rotations": rows})
    zero = {
        "role": "ledger",
        "key_id": hashlib.sha256(bytes(32)).hexdigest(),
        "public": base64.b64encode(bytes(32)),
    }
    weak = json.dumps({"schema": 1, "keys": [{**zero, "public": zero["public"].decode()}]})  # type: ignore[union-attr]
    made["keyring"] = {"whole": KEYRING.to_json(), "weak": weak.encode(), "empty": b'{"schema":1,"keys":[]}'}
    whole = house.checkpoint()
    made["checkpoint"] = {
        "whole": whole,
        "empty": house.checkpoint(0, merkle.EMPTY_ROOT),
        "other": house.checkpoint(9, b"\2" * 32, "another"),
        "witnessed": whole + "\u2014 witness AAAAAAAAAA==\n".encode(),
        "extended": whole.replace(b"\n\n", b"\nmore words\n\n"),
    }
    data = canonical(statement())
    made["envelope"] = {
        "file": house.seal(attest.PAYLOAD_TYPE, data, signer("ledger")),
        "two": house.seal(attest.PAYLOAD_TYPE, data, signer("release"), signer("ledger")),
        "payload": data,
    }
    made["verify"] = {
        "verdict": made["envelope"]["file"],
        "payload": data,
        "release": made["release"]["file-0"],
        "channel": made["channel"]["file-0"],
        "told": canonical(attest.statement([(MODEL, "1" * 64)], {"entry": {"number": 1, "log": LOG}}, _RELEASED)),
    }
    made["canonical"] = {
        "numbers": b'{"a":[0,-1,9007199254740991,1.5,1e-7,0.000001,1e+21,333333333.3333333]}',
        "text": '{"\u00e9":"\u20ac\\u000f","\U0001f600":null,"\ufb33":true}'.encode(),
        "deep": b"[" * 60 + b"]" * 60,
        "release": canonical(house.release()),
        "empty": b"{}",
    }
    return made


def _export() -> dict[str, Any]:
    rows = [
        {"path": path, "source": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for path, data in sorted(house.FILES.items())
    ]
    return {
        "schema": 1, "kind": "plain", "place": "mosaic/small/production/000002", "model_id": MODEL,
        "channel": house.CHANNEL, "number": 2, "model": "", "bundle_digest": house.release()["bundle_digest"],
        "release_digest": hashlib.sha256(_RELEASE).hexdigest(), "files": rows, "config": None,
        "least_revocations": 1, "exported_at": house.AT,
    }  # fmt: skip


seeds()  # so that what they sign is known to be genuine wherever a saved input is replayed
