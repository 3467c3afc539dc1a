"""A public key under which anybody can sign is nobody's key: not a reviewer's, not one of the instance's."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError

from acceptd.errors import ConfigError
from acceptd.policy.check import examine
from acceptd.policy.reviewers import Reviewer
from acceptd.record.keys import Keyring, key_id
from acceptd.record.keystore import read_public
from acceptd.weak_keys import _SMALL_ORDER, refuse_weak
from tests.world import ROOT

pytestmark = pytest.mark.unit

WEAK = sorted(_SMALL_ORDER)


def forged(public: bytes) -> bool:
    """Whether one of a few signatures that no secret went into verifies for one of a few messages."""
    key = Ed25519PublicKey.from_public_bytes(public)
    for number in range(64):
        for point in WEAK:
            try:
                key.verify(point + bytes(32), b"approve %d" % number)
            except InvalidSignature:
                continue
            return True
    return False


def test_an_approval_forged_under_the_key_of_the_example(tmp_path: Path) -> None:
    """``reviewers.toml.example``, copied as it says and its person left in: nobody needs a secret to be ada."""
    assert forged(bytes(32))
    path = tmp_path / "reviewers.toml"
    path.write_text((ROOT / "policies" / "reviewers.toml.example").read_text("utf-8"), "utf-8")
    _, [trouble] = examine(path)
    assert "small order" in trouble.message
    assert "acceptd review keygen" in trouble.message


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize("low", WEAK, ids=lambda raw: raw.hex()[:8])
def test_no_key_of_small_order_is_taken(low: bytes, sign: int, tmp_path: Path) -> None:
    raw = low[:-1] + bytes([low[-1] | sign])
    public = base64.b64encode(raw).decode()
    with pytest.raises(ValidationError, match="small order"):
        Reviewer(name="ada", team="security", key=public)
    ring = {"schema": 1, "keys": [{"role": "release", "key_id": key_id(raw), "public": public}]}
    with pytest.raises(ConfigError, match="small order"):
        Keyring.parse(json.dumps(ring).encode(), "keyring.json")
    (tmp_path / "release.pub").write_text(public)
    with pytest.raises(ConfigError, match="small order"):
        read_public(tmp_path / "release.pub", "release")


def test_a_good_key_is_taken() -> None:
    raw = base64.b64decode("J8JxO/IhhP2P3zAZiIu0oiK4bbnnOtrIQplbAB1RbFc=")
    assert refuse_weak(raw) == raw
    assert not forged(raw)
