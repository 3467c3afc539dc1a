"""What production imports: the promoted bytes of a model, or a typed error.

    release = open_release("/var/lib/acceptd", "mosaic/evidence-disposition", keys="/etc/acceptd/keyring.json")
    outputs = release.session().run({"features": [[0.9, 0.8, 0.75, 0.1]]})

It needs neither the daemon nor its database, only the files below ``root`` and a keyring; cryptography and
rfc8785 beside the standard library, and onnxruntime and numpy only once :meth:`OpenRelease.session` is called.

What it proves: at the time of the call, every byte below :attr:`OpenRelease.path` was the one that was
promoted. What it does not: that nobody with write access changes a file afterwards. onnxruntime maps
external data, so a later in-place write reaches a live session (measured).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acceptd.errors import DigestMismatchError, ReleaseNotFoundError
from acceptd.record.keys import Keyring
from acceptd.release import memory, objects, proof, trust

if TYPE_CHECKING:
    from acceptd.loader_session import Session

KeySource = str | os.PathLike[str] | Keyring | Mapping[str, Any]
"""The trust anchor: the path of a keyring file, a keyring, or the keyring file's content as a mapping."""


@dataclass(frozen=True, slots=True)
class OpenRelease:
    """A release whose signatures, expiry, numbers, revocation state and files were all verified."""

    root: Path
    model_id: str
    channel: str
    number: int
    release_digest: str
    """SHA-256 of the bytes of ``release.json``."""
    bundle_digest: str
    path: Path
    """The directory with the verified files."""
    files: tuple[trust.File, ...]
    manifest: Mapping[str, Any]
    options: Mapping[str, Any]
    """The accepted session options."""
    expires_at: str
    """When the channel statement expires, RFC 3339; open the release again before that."""
    revocations: int
    """Number of the revocation list that was consulted; 0: none was ever made."""
    proof: str
    """``unsigned``: its ledger entry is proved below the root that the release itself names; or ``absent``."""
    stamps: Mapping[str, objects.Stamp] = field(repr=False)

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
        if path not in self.stamps:
            raise ReleaseNotFoundError(f"{path[:200]!r} is no file of {self.model_id} number {self.number}")
        return self.path / path

    def recheck(self) -> None:
        """Raise DigestMismatchError where a file was replaced or written since it was hashed (by its stamp)."""
        root = objects.open_root(self.root)
        try:
            for path, stamp in self.stamps.items():
                if objects.stamp_of(root, self.bundle_digest, path) != stamp:
                    raise DigestMismatchError(f"{path} was changed after it was verified")
        finally:
            os.close(root)

    def session(self, model: str | None = None) -> Session:
        """Return an onnxruntime session on the verified file, with the accepted options and no others.

        Raises ProviderUnavailableError, RuntimeRefusedError, DigestMismatchError (changed since it was hashed).
        """
        from acceptd.loader_session import Session

        return Session(self, model)


def open_release(
    root: str | os.PathLike[str],
    model_id: str,
    channel: str = "production",
    *,
    keys: KeySource,
    digest: str | None = None,
    state_file: str | os.PathLike[str] | None = None,
    now: Callable[[], float] = time.time,
) -> OpenRelease:
    """Open the current release of ``model_id`` on ``channel`` below ``root`` (a state directory or a copy of it).

    ``keys`` is the path of a keyring file, a keyring, or such a file's content. ``digest`` demands one bundle
    digest (64 lowercase hex) and refuses every other, also a validly signed newer one. ``state_file``
    remembers the highest number, sequence and revocation list across processes; its directory must be
    writable. ``now`` gives seconds since the epoch.

    Raises a :class:`~acceptd.errors.LoaderError`: ReleaseNotFoundError, MalformedError, SignatureError,
    ExpiredError, RollbackError, RevokedError or DigestMismatchError; ConfigError for a keyring that is refused
    (malformed, a link, or writable by somebody else).
    """
    team, model = trust.names(model_id, channel, digest)
    keyring = _keyring(keys)
    base = Path(os.path.abspath(root))  # the memory's key: no link is resolved
    remembering = None if state_file is None else Path(state_file)
    place = f"{model_id}:{channel}"
    known = memory.recall(base, place, remembering)
    root_fd = objects.open_root(base)
    try:
        folder = f"releases/{team}/{model}/{channel}"
        # channel.json before the list: a revocation writes the list first, so what is read second is no older.
        facts = trust.channel(
            objects.read_small(root_fd, f"{folder}/channel.json", trust.MAX_CHANNEL_BYTES),
            keyring, model_id=model_id, name=channel, now=now(), remembered=known,
        )  # fmt: skip
        listed = trust.revocations(
            objects.read_if_there(root_fd, "revocations.json", trust.MAX_REVOCATIONS_BYTES),
            keyring, least=facts.least_revocations, remembered=known.revocations,
        )  # fmt: skip
        name = f"{folder}/{trust.number_name(facts.number)}/release.json"
        released = trust.release(objects.read_small(root_fd, name, trust.MAX_RELEASE_BYTES), keyring, facts)
        seen = trust.Remembered(facts.number, facts.release_digest, facts.sequence, listed.number)
        # Remembered as soon as it is verified, also where a later check refuses: what was seen was seen.
        memory.remember(base, place, seen, remembering)
        trust.not_revoked(released, listed)
        trust.demanded(released, digest)
        proved = proof.verify(released)
        stamps = objects.verify_object(root_fd, released.bundle_digest, released.files)
    finally:
        os.close(root_fd)
    return OpenRelease(
        root=base,
        model_id=model_id,
        channel=channel,
        number=facts.number,
        release_digest=facts.release_digest,
        bundle_digest=released.bundle_digest,
        path=base / objects.object_path(released.bundle_digest),
        files=released.files,
        manifest=released.manifest,
        options=released.options,
        expires_at=facts.expires_at,
        revocations=listed.number,
        proof=proved,
        stamps=stamps,
    )


def _keyring(keys: KeySource) -> Keyring:
    if isinstance(keys, Keyring):
        return keys
    if isinstance(keys, Mapping):
        return Keyring.parse(json.dumps(dict(keys)).encode(), "keys")
    return Keyring.load(Path(keys))
