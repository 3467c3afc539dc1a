"""Optimised artifacts of the loader: what onnxruntime made of a source model here, under an identity of its own.

The source model is what is promoted. An optimised form of it holds for one optimiser, one configuration and one
class of processor, so it has a record of its own: source digests, optimiser, configuration, hardware class,
runtime identity, and the SHA-256 of the result. A file without its record, a record of another identity, or bytes
with another digest are never loaded: the artifact is made anew from the verified source.

Who may write into the cache may choose what runs. So it must be a directory of this process's user that nobody
else can enter, and with a key each record is authenticated too (HMAC-SHA256, RFC 2104), for storage that others
can reach. The bytes that were hashed are the bytes that onnxruntime is given, from memory. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from acceptd.errors import ArtifactRefusedError
from acceptd.loader_options import CPU, Options

MAX_RESULT_BYTES: Final = 1 << 30
MAX_RECORD_BYTES: Final = 1 << 20
LEAST_KEY_BYTES: Final = 16
_CHUNK: Final = 1 << 20
_EXTERNAL: Final = b"location"
"""Key of external data in a model file (onnx.proto, TensorProto). Read from memory, such data would be looked for
beside the working directory; an artifact that may have any is not kept."""


@dataclass(frozen=True, slots=True)
class OptimisedCache:
    """Where optimised artifacts are kept, and the key that authenticates their records (16 bytes or more)."""

    directory: Path
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """What one session is: ``identity`` is of the artifact, ``status`` says where it came from.

    ``cached``: loaded from the cache. ``built``: made anew and kept. ``none``: the source itself runs, ``reason``
    says why. ``refused`` says what was wrong with what lay in the cache, empty where nothing was.
    """

    status: str
    identity: Mapping[str, Any]
    sha256: str = ""
    reason: str = ""
    refused: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the identity with the result's digest: the artifact's own identity."""
        return _digest({"identity": dict(self.identity), "result": self.sha256})


def uncached(options: Options, selected: str) -> str:
    """Return why no artifact is kept under these options, empty where one is."""
    if selected != CPU:
        return f"an artifact of {selected} depends on its device and driver, which no identity here holds"
    return "the accepted options optimise nothing" if options.level == "ORT_DISABLE_ALL" else ""


class _UnfitError(Exception):
    """Why what lies in the cache is not loaded."""


class Shelf:
    """The cache as one session uses it. Raises ArtifactRefusedError where others can write or enter it."""

    def __init__(self, cache: OptimisedCache) -> None:
        if cache.key is not None and len(cache.key) < LEAST_KEY_BYTES:
            raise ArtifactRefusedError(f"a key for optimised artifacts has {LEAST_KEY_BYTES} bytes or more")
        self._cache = cache
        self._path = Path(os.path.abspath(cache.directory))
        try:
            self._path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ArtifactRefusedError(f"{self._path}: {error.strerror}") from error
        self._private()

    def _private(self) -> None:
        try:
            found = os.lstat(self._path)
        except OSError as error:
            raise ArtifactRefusedError(f"{self._path}: {error.strerror}") from error
        if not stat.S_ISDIR(found.st_mode):
            raise ArtifactRefusedError(f"{self._path} is no directory")
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise ArtifactRefusedError(
                f"{self._path} belongs to uid {found.st_uid} with mode {found.st_mode & 0o777:04o}: "
                "it must be of this process's user alone, mode 0700"
            )

    def session(
        self, identity: Mapping[str, Any], cached: Callable[[bytes], Any], built: Callable[[str], Any]
    ) -> tuple[Any, Artifact]:
        """Return a session with its artifact: ``cached`` makes one of kept bytes, ``built`` one of the source.

        ``built`` is given the path where onnxruntime is to write what it makes of the source. What either raises
        comes out, but a kept artifact that onnxruntime cannot load is made anew.
        """
        name, refused = _digest(identity), ""
        try:
            data = self._load(name, identity)
            if data is not None:
                artifact = Artifact("cached", identity, hashlib.sha256(data).hexdigest())
                try:
                    return cached(data), artifact
                except Exception as error:  # onnxruntime's own exceptions share no public base
                    raise _UnfitError(f"onnxruntime cannot load it: {str(error)[:200]}") from error
        except _UnfitError as error:
            refused = str(error)
        temporary = self._path / f".tmp-{secrets.token_hex(8)}"
        try:
            made = built(str(temporary))
            return made, replace(self._keep(name, identity, temporary), refused=refused)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _load(self, name: str, identity: Mapping[str, Any]) -> bytes | None:
        """Return the bytes of a kept artifact, None where there is none. Raises _UnfitError: it is not right."""
        record_data = self._read(f"{name}.json", MAX_RECORD_BYTES)
        data = self._read(f"{name}.onnx", MAX_RESULT_BYTES)
        if record_data is None and data is None:
            return None
        if record_data is None or data is None:
            raise _UnfitError("an artifact without its record, or a record without its artifact")
        try:
            record = json.loads(record_data)
            said, mac = record["identity"], str(record.get("mac", ""))
            sha256 = str(record["result"]["sha256"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _UnfitError("its record has another form") from error
        if not (mac + sha256).isascii():  # compare_digest takes no other text
            raise _UnfitError("its record has another form")
        if self._cache.key is not None and not hmac.compare_digest(mac, self._mac(said, sha256)):
            raise _UnfitError("its record was not made with this key")
        if said != json.loads(json.dumps(identity)):
            differing = sorted(
                key for key in identity if not isinstance(said, dict) or said.get(key) != identity[key]
            )
            raise _UnfitError(f"it is of another identity: {', '.join(differing) or 'more than it should say'}")
        if not hmac.compare_digest(sha256, hashlib.sha256(data).hexdigest()):
            raise _UnfitError("its bytes are not those of its record")
        return data

    def _read(self, name: str, most: int) -> bytes | None:
        try:
            descriptor = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _UnfitError(f"{name}: {error.strerror}") from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
                raise _UnfitError(f"{name} is no file of this process's user alone")
            if found.st_size > most:
                raise _UnfitError(f"{name} has {found.st_size} bytes; {most} are allowed")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most + 1)
        except OSError as error:
            raise _UnfitError(f"{name}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _keep(self, name: str, identity: Mapping[str, Any], temporary: Path) -> Artifact:
        """Keep what onnxruntime wrote, its record last; what cannot be kept costs time, never a session."""
        try:
            with temporary.open("rb") as file:
                data = file.read(MAX_RESULT_BYTES + 1)
        except OSError as error:
            return Artifact("none", identity, reason=f"onnxruntime wrote no artifact: {error.strerror}")
        if len(data) > MAX_RESULT_BYTES:
            return Artifact("none", identity, reason=f"the artifact has more than {MAX_RESULT_BYTES} bytes")
        if _EXTERNAL in data:
            return Artifact("none", identity, reason="the artifact may have external data")
        sha256 = hashlib.sha256(data).hexdigest()
        record: dict[str, Any] = {"identity": dict(identity), "result": {"sha256": sha256, "size": len(data)}}
        if self._cache.key is not None:
            record["mac"] = self._mac(record["identity"], sha256)
        try:
            # A reader between the two renames finds a record of other bytes, and refuses them.
            self._put(f"{name}.onnx", data)
            self._put(f"{name}.json", json.dumps(record, sort_keys=True).encode())
        except OSError as error:
            return Artifact("none", identity, reason=f"the artifact could not be kept: {error.strerror}")
        return Artifact("built", identity, sha256)

    def _put(self, name: str, data: bytes) -> None:
        temporary = self._path / f".tmp-{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.rename(temporary, self._path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _mac(self, identity: object, sha256: str) -> str:
        assert self._cache.key is not None
        text = json.dumps({"identity": identity, "result": sha256}, sort_keys=True).encode()
        return hmac.digest(self._cache.key, text, "sha256").hex()


def _digest(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
