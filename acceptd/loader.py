"""What production imports: the promoted bytes of a model, or a typed error.

    release = open_release("/var/lib/acceptd", "mosaic/evidence-disposition", keys="/etc/acceptd/keyring.json")
    outputs = release.session().run({"features": [[0.9, 0.8, 0.75, 0.1]]})

A key that has been rotated since the keyring was handed out is followed by ``rotations.json`` below the root, on
the word of the old key alone; one that was given up as compromised is followed nowhere: replace the keyring.

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from acceptd.errors import SignatureError
from acceptd.loader_optimised import OptimisedCache
from acceptd.record.keys import Keyring
from acceptd.release import held, memory, objects, proof, rotated, trust
from acceptd.release.opened import Verified

if TYPE_CHECKING:
    from acceptd.loader_session import Session

_Found = TypeVar("_Found")
_TRIES = 8
"""Looks at rotations.json: one that is another each time must not hold a loader for ever."""
KeySource = str | os.PathLike[str] | Keyring | Mapping[str, Any]
"""The trust anchor: the path of a keyring file, a keyring, or the keyring file's content as a mapping."""


class OpenRelease(Verified):
    """A verified release that can be run: what :func:`open_release` returns."""

    __slots__ = ()

    def session(
        self,
        model: str | None = None,
        *,
        custom_operators: Sequence[str | os.PathLike[str]] = (),
        optimised_cache: OptimisedCache | str | os.PathLike[str] | None = None,
    ) -> Session:
        """Return an onnxruntime session on the verified file, with the accepted options and no others.

        ``custom_operators`` are the paths of the custom-operator libraries that the model was accepted with;
        a release gives their digests, never a path. ``optimised_cache`` is a directory of this process's user
        alone: what onnxruntime's optimiser makes of the model is kept there under its own identity, and loaded the
        next time where that is the very same (:attr:`Session.artifact`). Raises ArtifactRefusedError (that
        directory cannot be trusted), ProviderUnavailableError, RuntimeRefusedError,
        RuntimeMismatchError (not the pinned runtime), DigestMismatchError (changed since it was hashed).
        """
        from acceptd.loader_session import Session

        cache = optimised_cache
        if cache is not None and not isinstance(cache, OptimisedCache):
            cache = OptimisedCache(Path(cache))
        return Session(self, model, custom_operators, cache)


def open_release(
    root: str | os.PathLike[str],
    model_id: str,
    channel: str = "production",
    *,
    keys: KeySource,
    digest: str | None = None,
    profile: str | None = None,
    state_file: str | os.PathLike[str] | None = None,
    now: Callable[[], float] = time.time,
) -> OpenRelease:
    """Open the current release of ``model_id`` on ``channel`` below ``root`` (a state directory or a copy of it).

    ``keys`` is the path of a keyring file, a keyring, or such a file's content. ``digest`` demands one bundle
    digest (64 lowercase hex) and refuses every other, also a validly signed newer one. ``profile`` names the
    runtime that this process is: its options and pins are the ones that count, and a release that was not accepted
    under it is refused. It may be left out where the release holds for one alone. ``state_file``
    remembers the highest number, sequence and revocation list across processes; its directory must be
    writable. ``now`` gives seconds since the epoch.

    Raises a :class:`~acceptd.errors.LoaderError`: ReleaseNotFoundError, MalformedError, SignatureError,
    ExpiredError, RollbackError, RevokedError, ProfileRefusedError or DigestMismatchError; ConfigError for a
    keyring that is refused (malformed, a link, or writable by somebody else).
    """
    team, model = trust.names(model_id, channel, digest)
    anchors = _keyring(keys)
    base = Path(os.path.abspath(root))  # the memory's key: no link is resolved
    remembering = None if state_file is None else Path(state_file)
    place = f"{model_id}:{channel}"
    known = memory.recall(base, place, remembering)
    folder = f"releases/{team}/{model}/{channel}"

    def look(
        root_fd: int, keyring: Keyring
    ) -> tuple[trust.ChannelFacts, trust.RevocationFacts, trust.ReleaseFacts]:
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
        return facts, listed, trust.release(
            objects.read_small(root_fd, name, trust.MAX_RELEASE_BYTES), keyring, facts
        )  # fmt: skip

    root_fd = objects.open_root(base)
    try:
        facts, listed, released = _by_todays_keys(root_fd, base, anchors, remembering, look)
        seen = trust.Remembered(facts.number, facts.release_digest, facts.sequence, listed.number)
        # Remembered as soon as it is verified, also where a later check refuses: what was seen was seen.
        memory.remember(base, place, seen, remembering)
        trust.not_revoked(released, listed)
        trust.demanded(released, digest)
        under = held.chosen(released, profile)
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
        options=under.options,
        profile=under.profile,
        profiles=under.names,
        expires_at=facts.expires_at,
        revocations=listed.number,
        proof=proved,
        stamps=stamps,
    )


def _by_todays_keys(
    root_fd: int, base: Path, anchors: Keyring, remembering: Path | None, look: Callable[[int, Keyring], _Found]
) -> _Found:
    """Return what ``look`` finds by the keys that count now; once more where a rotation came between."""
    remembered = memory.recall_keys(base, remembering)
    told = objects.read_if_there(root_fd, rotated.FILE, rotated.MAX_BYTES)
    tries = _TRIES
    while True:
        keyring, followed = rotated.todays_keys(told, anchors, remembered)
        memory.remember_keys(base, followed, remembering)
        try:
            return look(root_fd, keyring)
        except SignatureError:
            before, told = told, objects.read_if_there(root_fd, rotated.FILE, rotated.MAX_BYTES)
            tries -= 1
            if told == before or not tries:
                raise


def _keyring(keys: KeySource) -> Keyring:
    if isinstance(keys, Keyring):
        return keys
    if isinstance(keys, Mapping):
        return Keyring.parse(json.dumps(dict(keys)).encode(), "keys")
    return Keyring.load(Path(keys))
