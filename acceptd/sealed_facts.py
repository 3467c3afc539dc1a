"""What was sealed, or why not: the trusted side's own evidence."""

from __future__ import annotations

from typing import Literal

from acceptd.values import Evidence


class BundleFile(Evidence):
    """One sealed file. ``native`` is what its first bytes make of it for an operating system's loader.

    ``holes`` are its bytes that nobody had written when it was dropped. Neither is in the digest.
    """

    path: str
    sha256: str
    size: int
    native: Literal["", "elf", "pe", "mach-o"] = ""
    holes: int = 0


class Sealed(Evidence):
    """A sealed bundle: the inventory in canonical order, and its digest."""

    digest: str
    files: list[BundleFile]
    total_bytes: int
    origin: Literal["directory", "zip", "tar", "tar.gz"] = "directory"


class SealFailure(Evidence):
    """Why a drop could not be sealed."""

    code: str
    where: str
    message: str
