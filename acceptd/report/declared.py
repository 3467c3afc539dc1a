"""What a bundle tells of itself beside its interface, marked as the submitter's word: for statement and report."""

from __future__ import annotations

from typing import Any

from acceptd.policy.manifest import Manifest


def declared(manifest: Manifest | None) -> dict[str, Any] | None:
    """Return purpose, licence, prohibited uses and export record as JSON data; None where nobody declared them.

    ``by`` says whose word it is. Nothing in it was measured or verified by acceptd.
    """
    if manifest is None or not manifest.declared:
        return None
    bundle = manifest.bundle
    return {
        "by": "submitter",
        "license": bundle.license,
        "purpose": bundle.purpose,
        "prohibited_uses": list(bundle.prohibited_uses),
        "export": manifest.export.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
    }
