"""What an export is made of: which files of a bundle go where, for both kinds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acceptd.errors import ExportError
from acceptd.export.document import PROOFS
from acceptd.export.settings import Kind
from acceptd.policy.manifest import Manifest
from acceptd.policy.troubles import Trouble, first
from acceptd.release.trust import File, ReleaseFacts, number_name


@dataclass(frozen=True, slots=True)
class Unit:
    """One directory to be exported: ``home`` holds its numbers, ``version`` is this one's name.

    ``files`` are (path below the number's directory, file of the bundle). ``config`` is the text that stands in
    the home and says which number is served; None: the link ``current`` does.
    """

    home: str
    version: str
    files: tuple[tuple[str, File], ...]
    model: str = ""
    config: bytes | None = None

    @property
    def place(self) -> str:
        """The number's directory below the export's own."""
        return f"{self.home}/{self.version}"


def units(kind: Kind, release: ReleaseFacts) -> list[Unit]:
    """Return what is exported of a release; raise ExportError with the reason where its form cannot hold it."""
    if kind == "plain":
        found = [_plain(release)]
    else:
        from acceptd.export import triton

        found = triton.units(release, manifest_of(release.manifest))
    for unit in found:
        for path, _ in unit.files:
            if path == PROOFS or path.startswith(f"{PROOFS}/"):
                raise ExportError(
                    f"{release.model_id}: the bundle has a file {path[:200]!r}, where an export keeps its proofs",
                    remedy=f"a bundle that is exported has no {PROOFS}",
                )
    return found


def homes(kind: Kind, model_id: str, channel: str) -> str:
    """Return the home, or for Triton the beginning of the homes, of one model on one channel."""
    return f"{model_id}/{channel}" if kind == "plain" else f"repository/{model_id.replace('/', '.')}."


def manifest_of(document: Mapping[str, Any]) -> Manifest:
    """Return the manifest in a release; raise ExportError where this version cannot read it."""
    found = first(dict(document), Manifest)
    if isinstance(found, Trouble):
        raise ExportError(f"the manifest in release.json: {found.key}: {found.message}")
    return found


def _plain(release: ReleaseFacts) -> Unit:
    home = homes("plain", release.model_id, release.channel)
    return Unit(home, number_name(release.number), tuple((file.path, file) for file in release.files))
