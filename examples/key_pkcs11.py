"""The command of a key in a PKCS#11 token (an HSM, a smart card, SoftHSM): an example. Needs PyKCS11.

    python examples/key_pkcs11.py MODULE.so TOKEN PIN_FILE public ROLE > ROLE.pub
    python examples/key_pkcs11.py MODULE.so TOKEN PIN_FILE sign ROLE KEY_ID < bytes > signature

The token holds an Ed25519 key pair (CKK_EC_EDWARDS) whose label is the role. In ``acceptd.toml``:

    [keys.release]
    command = ["/opt/hsm/bin/python", "/opt/acceptd/examples/key_pkcs11.py", "/usr/lib/softhsm/libsofthsm2.so",
               "acceptd", "/etc/acceptd/pin"]

``pkcs11-tool --sign --mechanism EDDSA`` of OpenSC 0.23 signs a thousand bytes at most; a release is larger.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path
from typing import Any

import PyKCS11 as P


def main(module: str, token: str, pin_file: str, verb: str, role: str, key_id: str = "") -> None:
    """Print the public key of a role, or a signature by it."""
    library = P.PyKCS11Lib()
    library.load(module)
    (slot,) = [one for one in library.getSlotList(True) if library.getTokenInfo(one).label.strip() == token]
    session = library.openSession(slot)
    session.login(Path(pin_file).read_text().strip())
    public = _raw(session, role)
    if verb == "public":
        sys.stdout.write(base64.b64encode(public).decode() + "\n")
    elif verb == "sign" and hashlib.sha256(public).hexdigest() == key_id:
        (private,) = session.findObjects([(P.CKA_CLASS, P.CKO_PRIVATE_KEY), (P.CKA_LABEL, role)])
        made = session.sign(private, sys.stdin.buffer.read(), P.Mechanism(P.CKM_EDDSA, None))
        sys.stdout.buffer.write(bytes(made))
    else:
        raise SystemExit(f"the token's key {role} is not {key_id}")
    session.logout()


def _raw(session: Any, role: str) -> bytes:
    """Return the 32 public bytes; CKA_EC_POINT is an OCTET STRING around them."""
    (found,) = session.findObjects([(P.CKA_CLASS, P.CKO_PUBLIC_KEY), (P.CKA_LABEL, role)])
    point = bytes(session.getAttributeValue(found, [P.CKA_EC_POINT])[0])
    return point.removeprefix(b"\x04\x20") if len(point) == 34 else point


if __name__ == "__main__":
    main(*sys.argv[1:])
