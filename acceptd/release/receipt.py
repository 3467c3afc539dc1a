"""Receipts: what was run on what, by digests alone; never a value.

A receipt is one line of JSON with three members beside ``schema``: ``bound`` (what the digest covers), ``beside``
(durations, provider, validation, time-out, error class: told, not bound) and ``digest``, the SHA-256 of the RFC
8785 form of ``bound``. It holds no float at all: durations are whole microseconds, a threshold is decimal text.
The digest finds a damaged line; it is no signature, and whoever writes the file can write another.

Production imports this: the standard library and what the loader has loaded already. The JSON Schema is
:mod:`acceptd.release.receipt_schema`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final

from acceptd.errors import DigestMismatchError, InvalidInputError, MalformedError
from acceptd.record.canonical import digest as canonical_digest
from acceptd.release.grammar import NAME, SHA256, STAMP
from acceptd.release.identity import preprocessing_of
from acceptd.release.opened import Verified
from acceptd.release.trust import MAX_NUMBER, parse_json

SCHEMA: Final = 1
MAX_LINE_BYTES: Final = 64 << 10
"""Without the newline. What :func:`make_receipt` makes is always shorter."""
MAX_TENSORS: Final = 64
MAX_NAME_BYTES: Final = 2048
"""More tensors than these, or longer names together, are bound by one digest over all (:func:`folded`)."""
FOLDED: Final = "*"
MAX_MICROSECONDS: Final = 2**53 - 1

REQUEST_ID: Final = re.compile(r"[ -~]{1,128}", re.ASCII)
MODEL_ID: Final = re.compile(rf"{NAME.pattern}/{NAME.pattern}", re.ASCII)
PROVIDER: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}", re.ASCII)
ERROR_CLASS: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{0,63})?", re.ASCII)
DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,20})?(e[+-][0-9]{2,3})?", re.ASCII)
VALIDATIONS: Final = ("passed", "failed", "none")
"""Outputs keep the accepted interface, break it, or there were none to look at."""
TIMEOUTS: Final = ("none", "met", "exceeded")
"""No deadline was set, it was met, or exceeded."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Where the time of one request went, in whole microseconds; None where it was not measured."""

    queue: int | None = None
    preprocess: int | None = None
    run: int | None = None
    postprocess: int | None = None

    @property
    def total(self) -> int:
        """What was measured, together."""
        return sum(getattr(self, one.name) or 0 for one in fields(self))


@dataclass(frozen=True, slots=True)
class Beside:
    """What is told of one run, and not bound: another run of the same may say otherwise."""

    durations: Durations = Durations()
    requested_provider: str = ""
    provider: str = ""
    """The execution provider that ran."""
    validation: str = "passed"
    """One of :data:`VALIDATIONS`."""
    timeout: str = "none"
    """One of :data:`TIMEOUTS`."""
    error: str = ""
    """The error's class; never its message, which may quote an input. Empty: there was none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one row of one output with labels. ``index`` None: no label reached the threshold."""

    row: int
    output: str
    index: int | None
    label: str | None
    threshold: str | None = None
    """Shortest decimal text of the threshold that was used (:func:`decimal`)."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One inference. ``inputs`` and ``outputs`` map names to tensor digests; all but ``beside`` is bound."""

    request_id: str
    at: str
    """UTC, RFC 3339, to the second."""
    model_id: str
    model: str
    channel: str
    number: int
    release_digest: str
    bundle_digest: str
    profile: str
    runtime_identity: str
    preprocessing: str | None
    """SHA-256 of the release's preprocessing, as the manifest declares it; None where it declares none."""
    raw_input: str | None
    """SHA-256 of the bytes before preprocessing; None where the caller did not say."""
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    """Empty where the run gave none, or they were refused."""
    decision: Decision | None = None
    beside: Beside = field(default=Beside(), compare=False)

    @property
    def bound(self) -> dict[str, Any]:
        """What the digest covers, as plain JSON data."""
        found = {name: getattr(self, name) for name in _BOUND}
        found["decision"] = None if self.decision is None else _plain(self.decision)
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of the RFC 8785 form of :attr:`bound`."""
        return canonical_digest(self.bound)

    @property
    def line(self) -> bytes:
        """The receipt as one line of ASCII JSON, without the newline."""
        document = {
            "schema": SCHEMA,
            "bound": self.bound,
            "beside": _plain(self.beside) | {"durations": _plain(self.beside.durations)},
            "digest": self.digest,
        }
        return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def _plain(one: Decision | Beside | Durations) -> dict[str, Any]:
    """Return the members as they are: ``dataclasses.asdict`` copies each deeply, which costs as much as the
    digest.
    """
    return {name: getattr(one, name) for name in one.__slots__}


def make_receipt(
    release: Verified,
    *,
    model: str,
    runtime_identity: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    request_id: str | None = None,
    raw_input: str | None = None,
    decision: Decision | None = None,
    beside: Beside = Beside(),
) -> Receipt:
    """Return a receipt of one run; without a ``request_id`` a random one of 128 bits is made.

    ``raw_input`` is the SHA-256 of the caller's bytes. Raises InvalidInputError for a request id that is not 1 to
    128 printable ASCII characters, or a raw input that is no digest: neither is echoed.
    """
    if request_id is not None and not (isinstance(request_id, str) and REQUEST_ID.fullmatch(request_id)):
        raise InvalidInputError("a request id is 1 to 128 printable ASCII characters")
    if raw_input is not None and not (isinstance(raw_input, str) and SHA256.fullmatch(raw_input)):
        raise InvalidInputError("raw_input is a SHA-256 digest, 64 lowercase hexadecimal digits")
    return Receipt(
        request_id=secrets.token_hex(16) if request_id is None else request_id,
        at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        model_id=release.model_id,
        model=model,
        channel=release.channel,
        number=release.number,
        release_digest=release.release_digest,
        bundle_digest=release.bundle_digest,
        profile=release.profile,
        runtime_identity=runtime_identity,
        preprocessing=preprocessing_digest(release.manifest),
        raw_input=raw_input,
        inputs=folded(inputs),
        outputs=folded(outputs),
        decision=decision,
        beside=beside,
    )


def preprocessing_digest(manifest: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the preprocessing that a release's manifest declares; None where it declares none."""
    found = (preprocessing_of(manifest) or {}).get("sha256", "")
    return found if SHA256.fullmatch(found) else None


def folded(digests: Mapping[str, str]) -> dict[str, str]:
    """Return the digests by name; of very many tensors one digest over all, under the name ``*``."""
    if len(digests) <= MAX_TENSORS and sum(len(name.encode()) for name in digests) <= MAX_NAME_BYTES:
        return dict(digests)
    return {FOLDED: canonical_digest(dict(digests))}


def decimal(number: float) -> str:
    """Return the shortest decimal text that reads back as ``number``; raise InvalidInputError where not finite."""
    value = float(number)
    if not math.isfinite(value):
        raise InvalidInputError("a threshold is a finite number")
    return repr(value)


def tensor_digest(dtype: str, shape: Sequence[int], data: bytes | Sequence[bytes]) -> str:
    """Return SHA-256 over dtype, shape and the little-endian C-order bytes; text elements are length-prefixed."""
    digest = hashlib.sha256(f"{dtype} {list(shape)}\n".encode())
    if isinstance(data, bytes):
        digest.update(data)
    else:
        for item in data:
            digest.update(len(item).to_bytes(8, "little") + item)
    return digest.hexdigest()


# -- reading what somebody else wrote


def parse(line: bytes) -> Receipt:
    """Return the receipt of one line (with or without its newline). The line is not trusted.

    Raises MalformedError for more than :data:`MAX_LINE_BYTES`, for anything that is not strict JSON (a key twice,
    NaN, lone surrogates, nesting) or not exactly of the documented form, DigestMismatchError where the digest is
    not that of the bound part. That it is true nobody proves: a line is its writer's word.
    """
    data = line[:-1] if line[-1:] == b"\n" else line
    if len(data) > MAX_LINE_BYTES:
        raise MalformedError(f"a receipt has more than {MAX_LINE_BYTES} bytes")
    document = _members(parse_json(data, "a receipt"), _LINE, "")
    bound, beside = dict(document["bound"]), dict(document["beside"])
    if bound["decision"] is not None:
        _decided(bound["decision"])
    if canonical_digest(bound) != document["digest"]:
        raise DigestMismatchError("a receipt's digest is not that of what it binds")
    if bound["decision"] is not None:
        bound["decision"] = Decision(**bound["decision"])
    beside["durations"] = Durations(**beside["durations"])
    return Receipt(**bound, beside=Beside(**beside))


def verify(line: bytes, release: Verified) -> Receipt:
    """Return the receipt of one line, where it binds ``release``, a model of it and its preprocessing.

    Raises as :func:`parse`, and DigestMismatchError where it speaks of another release.
    """
    receipt = parse(line)
    for name in ("model_id", "channel", "number", "release_digest", "bundle_digest", "profile"):
        if getattr(receipt, name) != getattr(release, name):
            raise DigestMismatchError(f"a receipt binds another {name} than the release has")
    release.model(receipt.model)
    if receipt.preprocessing != preprocessing_digest(release.manifest):
        raise DigestMismatchError("a receipt binds another preprocessing than the release has")
    return receipt


def _bad(place: str) -> MalformedError:
    return MalformedError(f"a receipt: {place or 'the whole'} is missing or of another form")


def _members(value: object, forms: Mapping[str, Callable[[object], bool]], place: str) -> Any:
    """Return ``value`` where it is an object with exactly the members of ``forms``, each of its form."""
    if not isinstance(value, dict) or value.keys() != forms.keys():
        raise _bad(place)
    for name, fits in forms.items():
        where = f"{place}.{name}" if place else name
        if isinstance(fits, _Table):
            _members(value[name], fits.forms, where)
        elif not fits(value[name]):
            raise _bad(where)
    return value


class _Table:
    """A member that is an object of its own."""

    def __init__(self, forms: Mapping[str, Callable[[object], bool]]) -> None:
        self.forms = forms

    def __call__(self, value: object) -> bool:
        return isinstance(value, dict)


def _text(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _perhaps(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


def _whole(most: int, least: int = 0) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _short(most: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and 1 <= len(value) <= most


def _digests(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= MAX_TENSORS
        and sum(len(name.encode()) for name in value) <= MAX_NAME_BYTES
        and all(isinstance(one, str) and SHA256.fullmatch(one) for one in value.values())
    )


def _stamp(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(STAMP.fullmatch(value) and datetime.fromisoformat(value))
    except ValueError:
        return False


def _decimal(value: object) -> bool:
    return isinstance(value, str) and DECIMAL.fullmatch(value) is not None and repr(float(value)) == value


def _decided(value: Mapping[str, Any]) -> None:
    one = _members(value, _DECISION, "bound.decision")
    if (one["index"] is None) != (one["label"] is None):
        raise _bad("bound.decision.label")


_INDEX: Final = _whole(2**31)
_DECISION: Final[Mapping[str, Callable[[object], bool]]] = {
    "row": _INDEX,
    "output": _short(1024),
    "index": _perhaps(_INDEX),
    "label": _perhaps(_short(256)),
    "threshold": _perhaps(_decimal),
}
_BOUND: Final[Mapping[str, Callable[[object], bool]]] = {
    "request_id": _text(REQUEST_ID),
    "at": _stamp,
    "model_id": _text(MODEL_ID),
    "model": _text(NAME),
    "channel": _text(NAME),
    "number": _whole(MAX_NUMBER, 1),
    "release_digest": _text(SHA256),
    "bundle_digest": _text(SHA256),
    "profile": _text(NAME),
    "runtime_identity": _text(SHA256),
    "preprocessing": _perhaps(_text(SHA256)),
    "raw_input": _perhaps(_text(SHA256)),
    "inputs": _digests,
    "outputs": _digests,
    "decision": _perhaps(lambda value: isinstance(value, dict)),
}
_MICROSECONDS: Final = _perhaps(_whole(MAX_MICROSECONDS))
_BESIDE: Final[Mapping[str, Callable[[object], bool]]] = {
    "durations": _Table({one.name: _MICROSECONDS for one in fields(Durations)}),
    "requested_provider": _text(PROVIDER),
    "provider": _text(PROVIDER),
    "validation": lambda value: value in VALIDATIONS,
    "timeout": lambda value: value in TIMEOUTS,
    "error": _text(ERROR_CLASS),
}
_LINE: Final[Mapping[str, Callable[[object], bool]]] = {
    "schema": lambda value: type(value) is int and value == SCHEMA,
    "bound": _Table(_BOUND),
    "beside": _Table(_BESIDE),
    "digest": _text(SHA256),
}
