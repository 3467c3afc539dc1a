"""Has the cell read a ``bundle.toml``: nothing on the trusted side parses one, not even one that it wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from acceptd.bundling.look import ending_of
from acceptd.bundling.stage import laid
from acceptd.cell.limits import job_limits
from acceptd.errors import UsageError
from acceptd.local import Bench
from acceptd.policy import manifest as manifests
from acceptd.policy.manifest import Manifest

MANIFEST_FILE: Final = "bundle.toml"


def read_manifest(place: Bench, text: bytes) -> Manifest:
    """Return the manifest that ``text`` says. Raises UsageError with the place where it says none."""
    limits = place.rules.policy.limits
    with tempfile.TemporaryDirectory(dir=place.tools.temporary) as name:
        home = Path(name)
        (home / MANIFEST_FILE).write_bytes(text)
        with laid(place, home, [MANIFEST_FILE]) as stage:
            record = place.tools.cell.run(
                "manifest",
                files={MANIFEST_FILE: f"{stage}/{MANIFEST_FILE}"},
                spec={"path": MANIFEST_FILE},
                limits=job_limits("manifest", limits),
                required_walls=place.rules.policy.required_walls,
            )
    if record.manifest is None:
        raise UsageError(
            f"bundle.toml cannot be read: {ending_of(record)}", remedy="mend it; docs/bundle.md has the keys"
        )
    found = manifests.validated(record.manifest)
    if not isinstance(found, Manifest):
        raise UsageError(
            f"bundle.toml {found.key}: {found.message}", remedy="mend it; docs/bundle.md has the keys"
        )
    return found
