"""A release that a loader has verified: its facts, its files, and the check that they are still the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from acceptd.errors import DigestMismatchError, ReleaseNotFoundError
from acceptd.release import objects, trust
from acceptd.release.content import Content, Keep

if TYPE_CHECKING:
    from pathlib import Path

_UNSHOWN = frozenset({"stamps", "contents"})


class Verified(NamedTuple):
    """A release whose signatures, expiry, numbers, revocation state and files were all verified."""

    base: str
    """The root, as an absolute path."""
    model_id: str
    channel: str
    number: int
    release_digest: str
    """SHA-256 of the bytes of ``release.json``."""
    bundle_digest: str
    files: tuple[trust.File, ...]
    manifest: Mapping[str, Any]
    options: Mapping[str, Any]
    """The session options that were accepted under ``profile``."""
    profile: str
    profiles: tuple[str, ...]
    """Every profile that the release holds for."""
    runtime: Mapping[str, Any] | None
    """Record of the runtime that the bundle was accepted on under ``profile``; None where the release has none."""
    preprocessing: Mapping[str, str] | None
    """``version`` and ``sha256`` of the preprocessing that the model was made for; None: it declares none."""
    labels: Mapping[str, str] | None
    """``schema_version`` and ``sha256`` of the labels and their order; None: it declares none."""
    expires_at: str
    """When the channel statement expires, RFC 3339; open the release again before that."""
    revocations: int
    """Number of the revocation list that was consulted; 0: none was ever made."""
    proof: str
    """``signed``: its ledger entry is proved below a checkpoint that a ledger key of the keyring signed;
    ``unsigned``: below a root that the release itself names; or ``absent``."""
    mode: str
    """``memory``: what was hashed is what a session loads; ``mapped``: a session loads the files by path."""
    stamps: Mapping[str, objects.Stamp]
    contents: Mapping[str, Content]
    """In ``memory`` mode the bytes of every file but golden sets, as they were hashed; else empty."""

    @property
    def root(self) -> Path:
        """The root that was given, as an absolute path."""
        return _path(self.base)

    @property
    def path(self) -> Path:
        """The directory with the verified files."""
        return _path(os.path.join(self.base, objects.object_path(self.bundle_digest)))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self._asdict().items() if name not in _UNSHOWN)
        return f"{type(self).__name__}({', '.join(shown)})"

    def model(self, name: str | None = None) -> Mapping[str, Any]:
        """Return the manifest's table of one model; the name may be left out where there is only one."""
        models = self.manifest.get("models")
        tables = [m for m in models if isinstance(m, dict)] if isinstance(models, list) else []
        found = [m for m in tables if name is None or m.get("name") == name]
        if len(found) != 1:
            names = ", ".join(str(m.get("name")) for m in tables)
            raise ReleaseNotFoundError(f"{self.model_id} has the models {names}: name one of them")
        return found[0]

    def file(self, path: str) -> Path:
        """Return the full path of one verified file; raise ReleaseNotFoundError for any other."""
        return _path(self.place(path))

    def place(self, path: str) -> str:
        """Return what :meth:`file` returns, as text."""
        if path not in self.stamps or path.endswith("/"):
            raise ReleaseNotFoundError(f"{path[:200]!r} is no file of {self.model_id} number {self.number}")
        return os.path.join(self.base, objects.object_path(self.bundle_digest, path))

    def read(self, path: str) -> bytes:
        """Return the verified bytes of one file: a tokenizer, labels.

        In ``memory`` mode those that were hashed; in ``mapped`` mode the file is read and hashed again. Raises
        ReleaseNotFoundError for any other file, DigestMismatchError or StorageError as opening does.
        """
        self.place(path)
        if path in self.contents:
            return bytes(self.contents[path])
        wanted = next(one for one in self.files if one.path == path)
        keep = Keep(lambda _: True)
        root = objects.open_root(self.base)
        try:
            objects.verify_files(root, self.bundle_digest, (wanted,), keep)
        finally:
            os.close(root)
        return bytes(keep.found[path])

    def recheck(self) -> None:
        """Raise DigestMismatchError where a file or directory was replaced, written or moved since (its stamp)."""
        root = objects.open_root(self.base)
        try:
            for path, stamp in self.stamps.items():
                if objects.stamp_of(root, self.bundle_digest, path) != stamp:
                    raise DigestMismatchError(f"{path} was changed after it was verified")
        finally:
            os.close(root)


def _path(text: str) -> Path:
    from pathlib import Path  # as dear to import as cryptography's signatures; a session needs none

    return Path(text)
