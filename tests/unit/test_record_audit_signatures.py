"""libsodium in the audit takes no Ed25519 signature that OpenSSL refuses, and its no is not the last word."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from nacl.bindings import crypto_sign_open
from nacl.exceptions import CryptoError

from acceptd.errors import SignatureError
from acceptd.record.auditing import quick
from acceptd.record.keys import Keyring, PublicKey, Signer

pytestmark = pytest.mark.unit

MESSAGE = b"msg"
# Of MESSAGE: public key, signature. Made with the formulas of RFC 8032; a point of order 8 is the torsion.
VECTORS = {
    "honest": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "3e54c441927f9f0ee5e13e34f0b0404c5043651a8f4b7ef087a1c42262a85d0a"
            "90ccc9ccea89d4d58488d61c2ccf73560a2ad7880ab407b2e1068081d5572403"
        ),
    ),
    "S+L": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "3e54c441927f9f0ee5e13e34f0b0404c5043651a8f4b7ef087a1c42262a85d0a"
            "7da0bf2905ede62d5b25cebf0ac9526b0a2ad7880ab407b2e1068081d5572413"
        ),
    ),
    "R with torsion 1, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "5b61c2e3b93e6c06450f327ea72cdfeb8cde6aa020d2dd827ab3f86e708c8393"
            "df72c826754c3a984d98b813580064502533ffaf50f5d2cacb1bf10cf8e0d60b"
        ),
    ),
    "R with torsion 2, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "1a0eb647990e5b1297c67b2214fff5bc2f122b83570790112e5218ed371febbf"
            "c179bc573411b145f18a247d962618241e497be7eae070768c3687e8e03eae06"
        ),
    ),
    "R with torsion 3, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "607055ca3d4aa8af26961afb12b1e60a75fac88f9c260ff25806631dbb269159"
            "5bae01183998e364034162e6e593ae083059c3403c88683a66c4edb696c9ee0c"
        ),
    ),
    "R with torsion 4, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "afab3bbe6d8060f11a1ec1cb0f4fbfb3afbc9ae570b4810f785e3bdd9d57a2f5"
            "cd57d2216adfb9ab797cbefde72169a3e09403fd34a57a24b7d5d1e632235f04"
        ),
    ),
    "R with torsion 5, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "929e3d1c46c193f9baf0cd8158d320147321955fdf2d227d854c07918f737c6c"
            "9c93c9584f63baeda611553525a0ee904aa722dedb3a8dba2949c7c69618780d"
        ),
    ),
    "R with torsion 6, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "d3f149b866f1a4ed683984ddeb000a43d0edd47ca8f86feed1ade712c8e01440"
            "ed3ec8f87b66262684ec87719ff434d1af24540d43a98e499fae01c79dc8050b"
        ),
    ),
    "R with torsion 7, A clean": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "8d8faa35c2b55750d969e504ed4e19f58a05377063d9f00da7f99ce244d96ea6"
            "f3c0cb7f5e639ba22f49b5eb64d4ff05d5a00507324fcc06a4deb33aa938dd0d"
        ),
    ),
    "A torsion, h%8==0": (
        "99555efe5dbf5b50b6fb4d8c38ee05c4ea8a97011c08e11366e8c8c00e8ce5d5",
        (
            "5f0227b8b13a0554799da5e9f088ccaf4fea1438cf9fb1524a7380cd36123bb7"
            "b7e36cd328fa2e9722e584d0ed96a5336cf24d83d9c6a301ebeb6712929a1108"
        ),
    ),
    "A torsion, h%8!=0": (
        "99555efe5dbf5b50b6fb4d8c38ee05c4ea8a97011c08e11366e8c8c00e8ce5d5",
        (
            "47b4cfd88e0c227a08b10e3a669d509f0858bc8f8415588f3bd1328bc21522ec"
            "41ea69690953c321e01f4c47295fc06395a3dc329846286fb859636f44287f05"
        ),
    ),
    "A=identity, R=SB": (
        "0100000000000000000000000000000000000000000000000000000000000000",
        (
            "edc876d6831fd2105d0b4389ca2e283166469289146e2ce06faefe98b22548df"
            "0500000000000000000000000000000000000000000000000000000000000000"
        ),
    ),
    "R identity, S=ha": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "0100000000000000000000000000000000000000000000000000000000000000"
            "f77218d4d4705926a8c027cf7ccf4ef34cdedd44a4d35ac3228b4d087175f30d"
        ),
    ),
    "A noncanonical identity": (
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        (
            "edc876d6831fd2105d0b4389ca2e283166469289146e2ce06faefe98b22548df"
            "0500000000000000000000000000000000000000000000000000000000000000"
        ),
    ),
    "S with its high bits set": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "3e54c441927f9f0ee5e13e34f0b0404c5043651a8f4b7ef087a1c42262a85d0a"
            "90ccc9ccea89d4d58488d61c2ccf73560a2ad7880ab407b2e1068081d55724e3"
        ),
    ),
    "R not canonical": (
        "88aa55e6afeed8960a3191de78600347db8acd0a3795412f275f049b86260488",
        (
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
            "90ccc9ccea89d4d58488d61c2ccf73560a2ad7880ab407b2e1068081d5572403"
        ),
    ),
    "A of order 8": (
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        (
            "edc876d6831fd2105d0b4389ca2e283166469289146e2ce06faefe98b22548df"
            "0500000000000000000000000000000000000000000000000000000000000000"
        ),
    ),
    "all zero": (
        "0000000000000000000000000000000000000000000000000000000000000000",
        (
            "0000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000000000000000000000000000000000000000000000000000"
        ),
    ),
    "A is no point": (
        "0200000000000000000000000000000000000000000000000000000000000000",
        (
            "3e54c441927f9f0ee5e13e34f0b0404c5043651a8f4b7ef087a1c42262a85d0a"
            "90ccc9ccea89d4d58488d61c2ccf73560a2ad7880ab407b2e1068081d5572403"
        ),
    ),
}
TAKEN_BY_BOTH = {"honest", "A torsion, h%8==0"}


def openssl(raw: bytes, signature: bytes, data: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def sodium(raw: bytes, signature: bytes, data: bytes) -> bool:
    try:
        crypto_sign_open(signature + data, raw)
    except CryptoError:
        return False
    return True


def taken(ring: Keyring, signature: bytes, data: bytes = MESSAGE) -> bool:
    try:
        ring.verify("ledger", ring.keys[0].key_id, data, signature)
    except SignatureError:
        return False
    return True


@pytest.mark.parametrize("name", VECTORS)
def test_the_audit_takes_the_signatures_that_openssl_takes(name: str) -> None:
    raw, signature = (bytes.fromhex(one) for one in VECTORS[name])
    ring = Keyring((PublicKey("ledger", "id", raw),))
    due = openssl(raw, signature, MESSAGE)
    assert taken(ring, signature) == taken(quick.keyring(ring), signature) == due
    assert due or not sodium(raw, signature, MESSAGE)
    assert sodium(raw, signature, MESSAGE) == (name in TAKEN_BY_BOTH)


def test_the_two_differ_where_a_key_or_r_is_of_small_order() -> None:
    """Else these vectors would not show that OpenSSL has the last word."""
    differing = {
        name
        for name, one in VECTORS.items()
        if openssl(*map(bytes.fromhex, one), MESSAGE) != sodium(*map(bytes.fromhex, one), MESSAGE)
    }
    assert {"A=identity, R=SB", "R identity, S=ha"} <= differing


def test_every_bit_of_a_signature_counts_and_its_length() -> None:
    signer = Signer.of("ledger", Ed25519PrivateKey.generate())
    ring = quick.keyring(Keyring((signer.public_key(),)))
    signature = signer.sign(MESSAGE)
    assert taken(ring, signature)
    for bit in range(512):
        changed = bytearray(signature)
        changed[bit // 8] ^= 1 << bit % 8
        assert not taken(ring, bytes(changed))
    for other in (b"", signature[:63], signature + b"\0", signature + MESSAGE):
        assert not taken(ring, other)
    assert not taken(ring, signature[:63], signature[63:] + MESSAGE)
    assert not taken(ring, signature, b"msh")


def test_a_key_of_another_role_signs_nothing_here() -> None:
    signer = Signer.of("release", Ed25519PrivateKey.generate())
    ring = quick.keyring(Keyring((signer.public_key(),)))
    with pytest.raises(SignatureError, match="the release key, and that is no ledger key"):
        ring.verify("ledger", signer.key_id, MESSAGE, signer.sign(MESSAGE))
    with pytest.raises(SignatureError, match="no ledger key of the keyring"):
        ring.verify("ledger", "0" * 64, MESSAGE, signer.sign(MESSAGE))
