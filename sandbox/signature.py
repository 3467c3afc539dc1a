"""Job ``signature``: an OpenSSF model signature taken apart, the only place where a submitter's is parsed.

What it tells cannot make a signature good: the trusted side writes the signed text itself, in the layout that is
told here, and verifies over that. What does not fit is one problem, told in words.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from pathlib import Path
from typing import Any, Final

from sandbox.messages import MAX_TEXT, MODEL_DIR, Channel, text_of

MAX_BYTES: Final = 32 << 20
MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"
MAX_SCALAR: Final = 66
MAX_IGNORED: Final = 256
"""Paths that the signer left out, and 1,024 characters for each of them on the average."""
_KEYS: Final = {
    "statement": ("_type", "subject", "predicateType", "predicate"),
    "subject": ("name", "digest"),
    "predicate": ("serialization", "resources"),
    "serialization": ("method", "hash_type", "allow_symlinks", "ignore_paths"),
    "resource": ("name", "algorithm", "digest"),
}
_STYLES: Final = {"indented": (2, (",", ": ")), "spaced": (None, (", ", ": ")), "compact": (None, (",", ":"))}


class UnfitError(Exception):
    """The file is no signature of the kind that is verified; the text says why."""


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:  # noqa: ARG001
    """Send one ``signature`` frame."""
    started = time.perf_counter()
    spec = order["spec"]
    path = Path(spec.get("root", MODEL_DIR)) / str(spec["path"])
    channel.send("signature", told(path))
    return {"signature": (time.perf_counter() - started) * 1000}


def preload() -> None:
    """Take one apart, so that nothing is imported later."""
    parse(b"{}")
    base64.b64decode(b"AAAA")


def told(path: Path) -> dict[str, Any]:
    """Return the frame's body for a file."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return {"problem": f"more than {MAX_BYTES} bytes"}
    return parse(data)


def parse(data: bytes) -> dict[str, Any]:
    """Return layout and numbers of a signature, or ``problem`` alone. No I/O."""
    try:
        bundle = _object(json.loads(data.decode("utf-8")), "the file")
        if not str(bundle.get("mediaType")).startswith(MEDIA_TYPE):
            raise UnfitError("no Sigstore bundle")
        material = _object(bundle.get("verificationMaterial"), "verificationMaterial")
        if "publicKey" not in material:
            raise UnfitError(
                "made with a certificate or without a key; signatures by a key are verified, and no others"
            )
        envelope = _object(bundle.get("dsseEnvelope"), "dsseEnvelope")
        if envelope.get("payloadType") != PAYLOAD_TYPE:
            raise UnfitError(f"its payload is not of type {PAYLOAD_TYPE}")
        signatures = envelope.get("signatures")
        if not isinstance(signatures, list) or len(signatures) != 1:
            raise UnfitError("one signature is needed")
        r, s = _numbers(_base64(_object(signatures[0], "the signature").get("sig")))
        return {"layout": _layout(_base64(envelope.get("payload"))), "r": r, "s": s}
    except UnfitError as error:
        return {"problem": text_of(str(error))[:400]}
    except (ValueError, RecursionError, TypeError, KeyError, IndexError) as error:
        return {"problem": text_of(f"not of the documented form: {type(error).__name__}")[:400]}


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnfitError(f"{what} is no object")
    return value


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(str(value).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise UnfitError("a field that is not base64") from error


def _numbers(der: bytes) -> tuple[str, str]:
    """Return r and s in hex of an ECDSA-Sig-Value (RFC 3279, 2.2.3): SEQUENCE of two INTEGERs."""
    if len(der) < 2 or der[0] != 0x30:
        raise UnfitError("no ECDSA signature")
    head = 3 if der[1] == 0x81 else 2
    numbers, place = [], head
    for _ in range(2):
        if place + 2 > len(der) or der[place] != 2 or der[place + 1] > MAX_SCALAR + 1:
            raise UnfitError("no ECDSA signature")
        length = der[place + 1]
        numbers.append(int.from_bytes(der[place + 2 : place + 2 + length], "big"))
        if numbers[-1].bit_length() > MAX_SCALAR * 8:
            raise UnfitError("no ECDSA signature")
        place += 2 + length
    if place != len(der):
        raise UnfitError("no ECDSA signature")
    return f"{numbers[0]:x}", f"{numbers[1]:x}"


def _layout(payload: bytes) -> dict[str, Any]:
    statement = _object(json.loads(payload.decode("utf-8")), "the statement")
    if statement.get("predicateType") != PREDICATE_TYPE:
        raise UnfitError(f"its predicate is not of type {PREDICATE_TYPE}")
    (subject,) = statement["subject"]
    predicate = _object(statement["predicate"], "the predicate")
    serialization = _object(predicate["serialization"], "serialization")
    if (serialization.get("method"), serialization.get("hash_type")) != ("files", "sha256"):
        raise UnfitError("its files are not hashed whole with SHA-256 (method files, hash_type sha256)")
    resources = predicate["resources"]
    if not isinstance(resources, list) or not resources:
        raise UnfitError("it names no file")
    names = [resource["name"] for resource in resources]
    if not all(isinstance(name, str) for name in names):
        raise UnfitError("a file whose name is no text")
    ignored = _ignored(serialization.get("ignore_paths", []))
    style, ascii_ = _style(payload, statement)
    return {
        "name": _name(subject["name"]),
        "statement": _keys("statement", statement),
        "subject": _keys("subject", subject),
        "predicate": _keys("predicate", predicate),
        "serialization": _keys("serialization", serialization),
        "resource": _keys("resource", resources[0]),
        "allow_symlinks": bool(serialization.get("allow_symlinks")),
        "ignore_paths": ignored,
        "style": style,
        "ascii": ascii_,
        "sorted_by": "parts" if names == sorted(names, key=lambda name: name.split("/")) else "path",
    }


def _keys(what: str, value: Any) -> list[str]:
    """Return the keys of one part in their order; nothing may stand beside those of the format."""
    more = set(_object(value, f"the {what}")) - set(_KEYS[what])
    if more:
        raise UnfitError(f"its {what} has a key that is not verified: {min(more)!r:.80}")
    return list(value)


def _name(text: Any) -> str:
    if not isinstance(text, str) or len(text) > MAX_TEXT or text_of(text) != text:
        raise UnfitError("a name that is too long, or no text")
    return text


def _ignored(paths: Any) -> list[str]:
    if not isinstance(paths, list) or len(paths) > MAX_IGNORED:
        raise UnfitError(f"more than {MAX_IGNORED} ignored paths, or no list of them")
    if sum(len(_name(path)) for path in paths) > MAX_IGNORED << 10:
        raise UnfitError("ignored paths that are too long")
    return list(paths)


def _style(payload: bytes, statement: dict[str, Any]) -> tuple[str, bool]:
    for style, (indent, separators) in _STYLES.items():
        for ascii_ in (True, False):
            text = json.dumps(statement, indent=indent, separators=separators, ensure_ascii=ascii_)
            if text.encode("utf-8", "surrogatepass") == payload:
                return style, ascii_
    raise UnfitError("its statement is written in a form that cannot be written again")
