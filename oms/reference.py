"""What the reference implementation does: run by its own interpreter (.venvs/oms), never imported by acceptd.

``python reference.py sign KEY BUNDLE SIGNATURE`` or ``verify PUBLIC BUNDLE SIGNATURE``; ends 1 where it refuses.
"""

from __future__ import annotations

import sys

import model_signing  # type: ignore[import-not-found,unused-ignore] # of its own environment


def main() -> int:
    """Do one thing."""
    what, key, bundle, signature = sys.argv[1:]
    if what == "sign":
        config = model_signing.signing.Config().use_elliptic_key_signer(private_key=key)
        config.set_hashing_config(model_signing.hashing.Config().set_ignored_paths(paths=[signature]))
        config.sign(bundle, signature)
        return 0
    verifier = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=key)
    try:
        verifier.verify(bundle, signature)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
