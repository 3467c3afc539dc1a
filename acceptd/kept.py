"""The bytes that comparisons read, kept by content in ``outputs/`` of the state directory.

With them a changed tolerance can be held against what a model gave, without running it again. The evidence of a
submission names each file by its SHA-256, and the ledger entry binds the evidence; a file is believed only after
it was hashed. The directory is 0700: outputs on held-out vectors may be among them.

Nothing here is made durable: after a power cut a file may be missing or torn, and a replay says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from acceptd.errors import LedgerError
from acceptd.evidence import KeptFile

_CHUNK: Final = 1 << 20


class KeptOutputs:
    """One directory of files by content. Safe from threads and beside other processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, files: Mapping[str, int], most: int) -> dict[str, KeptFile]:
        """Keep what lies behind the descriptors, all of it or, beyond ``most`` bytes together, nothing.

        The descriptors stay open where they are; nobody may write to the files meanwhile. Storage that fails
        (a full disk) keeps nothing: what is missing costs a replay, never a verdict.
        """
        if sum(os.fstat(descriptor).st_size for descriptor in files.values()) > most:
            return {}
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            return {key: self._put(descriptor) for key, descriptor in files.items()}
        except OSError:
            return {}

    def _put(self, descriptor: int) -> KeptFile:
        digest, offset = hashlib.sha256(), 0
        temporary = self._directory / f".tmp-{secrets.token_hex(8)}"
        out = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while part := os.pread(descriptor, _CHUNK, offset):
                digest.update(part)
                offset += len(part)
                while part:
                    part = part[os.write(out, part) :]
            os.rename(temporary, self._directory / digest.hexdigest())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(out)
        return KeptFile(sha256=digest.hexdigest(), size=offset)

    def open(self, file: KeptFile) -> int | None:
        """Return a read-only descriptor of a kept file, hashed first; None where it is not kept any more.

        Raises LedgerError: it has not the digest that the evidence names.
        """
        try:
            found = os.open(self._directory / file.sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"kept outputs {file.sha256} cannot be read: {error.strerror}") from error
        try:
            digest, offset = hashlib.sha256(), 0
            while part := os.pread(found, _CHUNK, offset):
                digest.update(part)
                offset += len(part)
            if digest.hexdigest() != file.sha256:
                raise LedgerError(f"kept outputs {file.sha256} are not what their digest says")
        except BaseException:
            os.close(found)
            raise
        return found

    def forget(self, file: KeptFile) -> None:
        """Remove a kept file; none there is no error."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._directory / file.sha256)
