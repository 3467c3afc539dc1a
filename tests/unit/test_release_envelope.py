"""A signed file that is none is refused with its name and the reason, before anything of it is believed."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import MalformedError, SignatureError
from acceptd.record import attest
from acceptd.record.keys import Keyring, Signer
from acceptd.release.envelope import open_envelope, read_envelope

pytestmark = pytest.mark.unit
RELEASE, STRANGER = (Signer.of("release", Ed25519PrivateKey.generate()) for _ in range(2))
KEYRING = Keyring.of([RELEASE.public_key()])
NOT_STRICT, NO_ENVELOPE = "channel.json is not strict JSON: ", "channel.json is no DSSE envelope"
LACKS = "channel.json: an envelope has payload, payloadType and signatures"


def sealed(signer: Signer = RELEASE, kind: str = "t") -> bytes:
    return json.dumps(attest.sign(kind, b"x", signer)).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1, "a": 1}', NOT_STRICT + "a key stands twice"),
        (b'{"a": NaN}', NOT_STRICT + "NaN is no JSON"),
        (b'{"a": -Infinity}', NOT_STRICT + "-Infinity is no JSON"),
        (b"", NOT_STRICT),
        (b"[" * 20_000, NO_ENVELOPE),
        (b"[]", NO_ENVELOPE),
        (b"{}", NO_ENVELOPE),
        (sealed()[:-1] + b', "more": 1}', NO_ENVELOPE),
        (b'{"payload": 1, "payloadType": "t", "signatures": []}', LACKS),
    ],
)
def test_what_is_no_signed_file_is_malformed_by_its_name(data: bytes, words: str) -> None:
    with pytest.raises(MalformedError) as told:
        open_envelope(data, "t", KEYRING, "release", "channel.json")
    assert str(told.value).startswith(words)
    with pytest.raises(MalformedError) as again:
        read_envelope(data, "t", KEYRING, "release", "channel.json", bytes)
    assert str(again.value) == str(told.value)


@pytest.mark.parametrize("data", [sealed(STRANGER), sealed(kind="u")], ids=["a stranger's", "of another kind"])
def test_what_nobody_of_the_role_signed_is_told_by_its_name(data: bytes) -> None:
    for _ in range(2):  # nothing of it is remembered
        with pytest.raises(SignatureError, match=r"^revocations\.json: "):
            read_envelope(data, "t", KEYRING, "release", "revocations.json", bytes)


def test_the_same_bytes_under_other_keys_or_for_another_role_are_verified_anew() -> None:
    data = sealed()
    assert read_envelope(data, "t", KEYRING, "release", "channel.json", bytes) == b"x"
    others = Keyring.of([STRANGER.public_key()])
    for keyring, role, kind in ((others, "release", "t"), (KEYRING, "revocation", "t"), (KEYRING, "release", "u")):
        with pytest.raises(SignatureError):
            read_envelope(data, kind, keyring, role, "channel.json", bytes)
