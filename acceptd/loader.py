"""What production imports: the promoted bytes of a model, or a typed error.

    release = open_release("/var/lib/acceptd", "mosaic/evidence-disposition", keys="/etc/acceptd/keyring.json")
    outputs = release.session().run({"features": [[0.9, 0.8, 0.75, 0.1]]})

A key that has been rotated since the keyring was handed out is followed by ``rotations.json`` below the root, on
the word of the old key alone; one that was given up as compromised is followed nowhere: replace the keyring.

It needs neither the daemon nor its database, only the files below ``root`` and a keyring; cryptography and
rfc8785 beside the standard library, and onnxruntime and numpy only once :meth:`OpenRelease.session` is called.

What ``mode="mapped"``, the default, proves: at the time of the call, every byte below :attr:`OpenRelease.path` was
the one that was promoted, and no file was replaced or written until a session stood. What it does not: that nobody
with write access changes a file afterwards. onnxruntime maps external data, so a later in-place write reaches a
live session (measured). ``mode="memory"`` proves that too, at the price of the model's size in memory while it
loads: the bytes that were hashed are the bytes that a session is made of. ``docs/loader.md`` has both at length.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from acceptd.errors import UsageError
from acceptd.loader_opening import MODES, Mode, Opening
from acceptd.loader_runtime import Told
from acceptd.record.keyring import Keyring
from acceptd.release import trust
from acceptd.release.opened import Verified

if TYPE_CHECKING:
    from acceptd.loader_optimised import OptimisedCache
    from acceptd.loader_session import Session
    from acceptd.loader_watch import Watch

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
        runtime: Told | None = None,
    ) -> Session:
        """Return an onnxruntime session on the verified bytes, with the accepted options and no others.

        ``custom_operators`` are the paths of the custom-operator libraries that the model was accepted with;
        a release gives their digests, never a path. ``optimised_cache`` is a directory of this process's user
        alone: what onnxruntime's optimiser makes of the model is kept there under its own identity, and loaded the
        next time where that is the very same (:attr:`Session.artifact`).

        ``runtime`` says what becomes of a process that is not what the release was accepted on (onnxruntime's
        version, native libraries, the processor's feature class): ``refuse`` raises RuntimeMismatchError, also
        where the release does not say what that was; ``warn`` issues RuntimeDifferenceWarning and names every
        difference in :attr:`Session.runtime_differences`; ``ignore`` does not look. None, the default:
        ``refuse`` where the profile pins a version or libraries; else ``warn``, of version and class alone, for
        hashing the libraries costs more than a small model. Pins are held in every case.

        Raises ArtifactRefusedError (that directory cannot be trusted), ProviderUnavailableError,
        RuntimeRefusedError, RuntimeMismatchError, DigestMismatchError (``mapped``: changed since it was hashed).
        """
        from acceptd.loader_session import Session

        cache: OptimisedCache | None = None
        if optimised_cache is not None:
            from pathlib import Path

            from acceptd.loader_optimised import OptimisedCache

            given = optimised_cache
            cache = given if isinstance(given, OptimisedCache) else OptimisedCache(Path(given))
        if runtime is not None and runtime not in get_args(Told):
            raise UsageError(f"runtime={runtime!r:.40}", remedy=f"say one of {', '.join(get_args(Told))}")
        return Session(self, model, custom_operators, cache, runtime)


def open_release(
    root: str | os.PathLike[str],
    model_id: str,
    channel: str = "production",
    *,
    keys: KeySource,
    digest: str | None = None,
    profile: str | None = None,
    state_file: str | os.PathLike[str] | None = None,
    mode: Mode = "mapped",
    demand_checkpoint: bool = False,
    now: Callable[[], float] = time.time,
) -> OpenRelease:
    """Open the current release of ``model_id`` on ``channel`` below ``root`` (a state directory or a copy of it).

    ``keys`` is the path of a keyring file, a keyring, or such a file's content. ``digest`` demands one bundle
    digest (64 lowercase hex) and refuses every other, also a validly signed newer one. ``profile`` names the
    runtime that this process is: its options and pins are the ones that count, and a release that was not accepted
    under it is refused. It may be left out where the release holds for one alone. ``state_file``
    remembers the highest number, sequence and revocation list across processes; its directory must be
    writable. ``mode`` is ``mapped`` or ``memory`` (above). ``demand_checkpoint`` refuses a release whose entry
    in the ledger is not proved below a checkpoint that a ledger key of the keyring signed; without it
    :attr:`OpenRelease.proof` says what there is. ``now`` gives seconds since the epoch.

    Raises a :class:`~acceptd.errors.LoaderError`: ReleaseNotFoundError, StorageError, MalformedError,
    SignatureError, ExpiredError, RollbackError, RevokedError, ProfileRefusedError or DigestMismatchError;
    ConfigError for a keyring that is refused (malformed, a link, or writable by somebody else), UsageError for a
    mode that there is not.
    """
    asked = _opening(
        root, model_id, channel, keys, digest, profile, state_file, mode, now, demand_checkpoint=demand_checkpoint
    )
    return OpenRelease(**asked.opened())


def watch(
    root: str | os.PathLike[str],
    model_id: str,
    channel: str = "production",
    *,
    keys: KeySource,
    digest: str | None = None,
    profile: str | None = None,
    state_file: str | os.PathLike[str] | None = None,
    mode: Mode = "mapped",
    demand_checkpoint: bool = False,
    poll_seconds: float = 5.0,
    now: Callable[[], float] = time.time,
) -> Watch[OpenRelease]:
    """Open the current release and follow the channel: an iterator over it and over each release after it.

        with watch("/var/lib/acceptd", "mosaic/evidence-disposition", keys=KEYRING) as releases:
            for release in releases:
                serve(release.session())

    Arguments and errors are those of :func:`open_release`; ``poll_seconds`` is the longest time between two looks
    where no event of the file system comes (a network file system has none). See :class:`Watch`.
    """
    from acceptd.loader_watch import Watch

    asked = _opening(
        root, model_id, channel, keys, digest, profile, state_file, mode, now, demand_checkpoint=demand_checkpoint
    )
    return Watch(asked, lambda members: OpenRelease(**members), poll_seconds)


def _opening(
    root: str | os.PathLike[str],
    model_id: str,
    channel: str,
    keys: KeySource,
    digest: str | None,
    profile: str | None,
    state_file: str | os.PathLike[str] | None,
    mode: Mode,
    now: Callable[[], float],
    *,
    demand_checkpoint: bool,
) -> Opening:
    trust.names(model_id, channel, digest)
    if mode not in MODES:
        raise UsageError(f"mode={mode!r:.40}", remedy=f"say one of {', '.join(MODES)}")
    # Absolute, as the root: a watch goes on after chdir(2), and must not begin a second memory elsewhere.
    remembering = None
    if state_file is not None:
        # Half as dear to import as the signatures are: only who needs it pays for it.
        from pathlib import Path

        remembering = Path(os.path.abspath(state_file))
    base = os.fspath(os.path.abspath(root))
    return Opening(
        base, model_id, channel, _keyring(keys), digest, profile, remembering, now, mode, demand_checkpoint
    )


def _keyring(keys: KeySource) -> Keyring:
    if isinstance(keys, Keyring):
        return keys
    if isinstance(keys, Mapping):
        return Keyring.parse(json.dumps(dict(keys)).encode(), "keys")
    return Keyring.load(keys)
