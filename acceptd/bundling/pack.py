"""``acceptd bundle pack``: one archive of a bundle, the same bytes for the same files.

Members stand in the order of the bundle digest, regular files alone, with mode 0644, no owner and no time. Beyond
that the bytes are those of this interpreter's zlib: another build may pack the same files into other bytes. The
bundle digest stays.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from acceptd.bundling.listing import Listing
from acceptd.bundling.lock import hashed
from acceptd.bundling.write import written
from acceptd.errors import UsageError
from acceptd.intake.paths import shown
from acceptd.intake.target import bundle_digest
from acceptd.policy.limits import LimitsTable

SUFFIXES: Final = (".tar.gz", ".tar", ".zip")
MODE: Final = 0o644
LEVEL: Final = 6
FREE_BYTES: Final = 16 << 20
"""The limit on the ratio counts from here on, as the reader's does (sandbox/unpack_common.py)."""
_FIRST_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can say."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What became of it: bundle digest, files, their bytes, bytes of the archive."""

    digest: str
    files: int
    unpacked: int
    packed: int


class _Archive(Protocol):
    def begin(self, path: str, size: int) -> None: ...
    def add(self, data: memoryview) -> None: ...
    def end(self) -> None: ...


def pack(listing: Listing, target: Path, limits: LimitsTable, *, force: bool = False) -> Packed:
    """Write ``target`` from the files of ``listing``; its name says the form. What is hashed is what is packed.

    Raises UsageError: another form, a target inside the bundle, a file that changed meanwhile, an archive that
    every acceptd would refuse as a bomb.
    """
    suffix = next((one for one in SUFFIXES if target.name.endswith(one)), "")
    if not suffix:
        raise UsageError(
            f"{shown(str(target))} ends in none of {', '.join(SUFFIXES)}", remedy="name it so with -o"
        )
    if target.parent.resolve().is_relative_to(listing.root.resolve()):
        raise UsageError("the archive would lie inside the bundle", remedy="name another directory with -o")
    with written(target, force=force) as file:
        with ExitStack() as stack:
            archive = _opened(suffix, file, stack)
            files = []
            for path in sorted(listing.files, key=str.encode):
                archive.begin(path, listing.files[path])
                alone = Listing(listing.root, {path: listing.files[path]})
                [one] = hashed(alone, each=archive.add)
                if one.size != listing.files[path]:
                    raise UsageError(f"{shown(path)} changed while it was packed", remedy="pack again")
                archive.end()
                files.append(one)
        file.flush()
        size, total = file.tell(), sum(one.size for one in files)
        if suffix != ".tar" and total > FREE_BYTES and total > limits.archive_ratio * size:
            raise UsageError(
                f"packed to less than 1/{limits.archive_ratio} of their size, it looks like a bomb and is refused",
                remedy="name a .tar with -o, or submit the directory",
            )
    return Packed(bundle_digest(files), len(files), total, size)


def _opened(suffix: str, file: IO[bytes], stack: ExitStack) -> _Archive:
    if suffix == ".zip":
        return _Zip(stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL)))
    if suffix == ".tar.gz":
        # No name and no time in the header (RFC 1952).
        packer = stack.enter_context(gzip.GzipFile("", "wb", LEVEL, file, mtime=0))
        return _Tar(packer, stack)
    return _Tar(file, stack)


class _Tar:
    """POSIX tar with pax headers for long names (POSIX.1-2017, pax, ustar interchange format)."""

    def __init__(self, file: Any, stack: ExitStack) -> None:
        self._file = file
        self._size = 0
        stack.callback(self._finish)
        self._written = 0

    def begin(self, path: str, size: int) -> None:
        info = tarfile.TarInfo(path)
        info.size, info.mode = size, MODE
        head = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
        self._file.write(head)
        self._size, self._written = size, self._written + len(head)

    def add(self, data: memoryview) -> None:
        self._file.write(data)
        self._written += len(data)

    def end(self) -> None:
        rest = -self._size % tarfile.BLOCKSIZE
        self._file.write(bytes(rest))
        self._written += rest

    def _finish(self) -> None:
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.write(bytes(-(self._written + 2 * tarfile.BLOCKSIZE) % tarfile.RECORDSIZE))


class _Zip:
    """A zip of deflated members (PKWARE APPNOTE 6.3.10), written by the standard library."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._member: IO[bytes] = io.BytesIO()

    def begin(self, path: str, size: int) -> None:
        info = zipfile.ZipInfo(path, _FIRST_DATE)
        info.compress_type, info.create_system, info.file_size = zipfile.ZIP_DEFLATED, 3, size
        info.external_attr = (0o100000 | MODE) << 16
        self._member = self._archive.open(info, "w", force_zip64=size >= zipfile.ZIP64_LIMIT // 2)

    def add(self, data: memoryview) -> None:
        self._member.write(data)

    def end(self) -> None:
        self._member.close()
