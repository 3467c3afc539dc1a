"""One thing to judge: where it lies and who dropped it, and how its parts are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["directory", "zip", "tar", "tar.gz"]
BUNDLE = "bundle"
MANIFEST_FILE = "bundle.toml"
ANY_TEAM = "*"
"""The team of a local check, where a manifest may name any. No name can be this one, so no inbox is nobody's."""
LOCAL = "local"
"""What such a check calls its team until the manifest names one."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One thing to judge: where it lies, and who dropped it."""

    id: str
    team: str
    name: str
    source: Path
    kind: Kind
