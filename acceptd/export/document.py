"""``export.json``: what one exported directory holds, signed by the release key. Written here, read in ``verify``.

It names the directory's own place below the export, so that a directory that was moved to another model's place
does not verify there; and the file that stands beside it and says which number is served (Triton's
``config.pbtxt``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from acceptd.errors import MalformedError
from acceptd.export.settings import Kind
from acceptd.policy.manifest import BundlePath
from acceptd.policy.names import ModelId, Name, Sha256
from acceptd.policy.table import Table
from acceptd.policy.troubles import Trouble, first
from acceptd.record.keys import Keyring
from acceptd.release import trust
from acceptd.release.model import Count, Number, Stamp

EXPORT_TYPE: Final = "application/vnd.acceptd.export+json"
MAX_BYTES: Final = 32 << 20
PROOFS: Final = ".acceptd"
"""The directory in an exported number's own one that holds ``export.json`` and ``release.json``."""
EXPORT_FILE: Final = "export.json"
RELEASE_FILE: Final = "release.json"
CONFIG_FILE: Final = "config.pbtxt"
CURRENT: Final = "current"
REVOCATIONS_FILE: Final = "revocations.json"
ROTATIONS_FILE: Final = "rotations.json"
STAGING: Final = ".staging"
LOCK: Final = ".lock"


class Copied(Table):
    """One exported file: where it lies below its number, and which file of the bundle it is."""

    path: BundlePath
    source: BundlePath
    sha256: Sha256
    size: Count


class Beside(Table):
    """``config.pbtxt``, which stands one directory above."""

    sha256: Sha256
    size: Count


class ExportDocument(Table):
    """The payload of ``export.json``."""

    schema_: Annotated[Literal[1], Field(alias="schema", serialization_alias="schema")] = 1
    kind: Kind
    place: Annotated[str, Field(min_length=1, max_length=512)]
    """The number's directory below the export's own: ``mosaic/small/production/000042``."""
    model_id: ModelId
    channel: Name
    number: Number
    model: Annotated[str, Field(max_length=64)] = ""
    """The ONNX model's name in its bundle, where an export holds one alone."""
    bundle_digest: Sha256
    release_digest: Sha256
    """SHA-256 of ``release.json``, which lies beside this file."""
    files: Annotated[list[Copied], Field(min_length=1, max_length=100_000)]
    config: Beside | None = None
    least_revocations: Count
    """Number of the revocation list when it was exported: an older list beside it is no list."""
    exported_at: Stamp


@dataclass(frozen=True, slots=True)
class Signed:
    """An ``export.json`` whose signature held, with the ``release.json`` that it is made from."""

    said: ExportDocument
    release: trust.ReleaseFacts


def opened(export: bytes, release: bytes, keyring: Keyring) -> Signed:
    """Return what both files say; raise SignatureError, MalformedError or DigestMismatchError."""
    trust.small(export, MAX_BYTES, EXPORT_FILE)
    payload = trust.open_envelope(export, EXPORT_TYPE, keyring, "release", EXPORT_FILE)
    document = trust.parse_json(payload, EXPORT_FILE)
    found: Any = first(document, ExportDocument) if isinstance(document, dict) else None
    if found is None or isinstance(found, Trouble):
        words = f": {found.key}: {found.message}" if found is not None else ""
        raise MalformedError(f"{EXPORT_FILE} is not of the documented form{words}")
    said: ExportDocument = found
    wanted = trust.ChannelFacts(said.model_id, said.channel, said.number, said.release_digest, 0, 1, 0.0, "")
    return Signed(said, trust.release(release, keyring, wanted))
