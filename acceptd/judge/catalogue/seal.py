"""Codes of the drop and its archive."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import PACK

TABLE: Final[Table] = {
    "seal/bundle-too-large": Code(
        "reject",
        "team",
        "The files together are larger than limits.bundle_bytes.",
        "Shrink the bundle, or ask the operator for a higher limit.",
    ),
    "seal/changed-while-read": Code(
        "reject",
        "team",
        "The drop changed while it was being sealed.",
        "Write the bundle elsewhere, move it into the inbox in one rename, and leave it alone until the verdict.",
    ),
    "seal/deadline": Code(
        "reject",
        "team",
        "Reading the drop took longer than limits.seal_seconds.",
        "Copy the bundle to a local disk before submitting it; nothing in it may hang a read.",
    ),
    "seal/drop-name": Code(
        "reject",
        "team",
        "The name of the drop itself cannot be used: not UTF-8, not NFC, or with control characters or a "
        "backslash.",
        "Rename the drop: letters, digits, dots, - and _ always work.",
    ),
    "seal/empty": Code(
        "reject",
        "team",
        "The bundle holds no file.",
        "Submit a directory with a model and a bundle.toml.",
    ),
    "seal/file-too-large": Code(
        "reject",
        "team",
        "One file is larger than limits.file_bytes.",
        "Split or shrink the file, or ask the operator for a higher limit.",
    ),
    "seal/hard-link": Code(
        "reject",
        "team",
        "A file of the bundle has more than one name on disk, so it can be changed from elsewhere.",
        "Copy the bundle to new files (cp -r --no-preserve=links) and submit the copy.",
    ),
    "seal/name-backslash": Code(
        "reject",
        "team",
        "A file name holds a backslash, which is a separator elsewhere.",
        "Rename the file; use directories instead of backslashes.",
    ),
    "seal/name-collision": Code(
        "reject",
        "team",
        "Two names in one directory differ only by case, or one path is both a file and a directory.",
        "Rename one of them: names may not differ by case alone.",
    ),
    "seal/name-control": Code(
        "reject",
        "team",
        "A file name holds control, bidirectional or invisible characters.",
        "Rename the file without control, bidirectional or invisible characters; `ls -b` shows them.",
    ),
    "seal/name-encoding": Code(
        "reject",
        "team",
        "A file name is not valid UTF-8.",
        "Rename the file; names are UTF-8.",
    ),
    "seal/name-not-normalised": Code(
        "reject",
        "team",
        "A file name is not in Unicode normal form C.",
        "Rename the file in NFC (macOS tools often write NFD).",
    ),
    "seal/name-reserved": Code(
        "reject",
        "team",
        "A file name is reserved on some platforms (CON, NUL, COM1, ...), or begins with a space, or ends in "
        "a space or a dot.",
        "Rename the file: no CON, PRN, AUX, NUL, COM1, LPT1 and the like, no space or dot at the end.",
    ),
    "seal/name-too-long": Code(
        "reject",
        "team",
        "A path is longer than limits.path_bytes.",
        "Shorten the directory and file names.",
    ),
    "seal/not-a-bundle": Code(
        "reject",
        "team",
        "The drop is neither a directory nor a .zip, .tar or .tar.gz file.",
        "Drop the bundle's directory, or one archive of it that ends in .zip, .tar or .tar.gz.",
    ),
    "seal/native-library": Code(
        "reject",
        "team",
        "A file of the bundle is a native library or program, by its name (.so, .dll, .dylib, .pyd) or by its "
        "first bytes (ELF, PE, Mach-O). Nothing in a bundle is ever loaded as code.",
        "Take it out. Custom operators come from the operator's profile, after a review of their source.",
    ),
    "seal/not-a-file": Code(
        "reject",
        "team",
        "Something in the bundle is not a regular file or directory: a FIFO, a socket or a device.",
        "Put only regular files and directories into the bundle.",
    ),
    "seal/other-filesystem": Code(
        "reject",
        "team",
        "A part of the bundle is a mount of another file system.",
        "Copy everything into one directory on one file system.",
    ),
    "seal/path-escape": Code(
        "reject",
        "team",
        "A path is absolute, empty, or leaves the bundle by . or .. parts.",
        "Use relative paths inside the bundle, without `.` and `..`.",
    ),
    "seal/sparse-file": Code(
        "reject",
        "team",
        "A large file consists almost wholly of holes.",
        "Write the file out in full (cp --sparse=never).",
    ),
    "seal/symlink": Code(
        "reject",
        "team",
        "Something in the bundle is a symbolic link.",
        "Copy the bundle with its links followed (cp -rL) and submit the copy.",
    ),
    "seal/too-deep": Code(
        "reject",
        "team",
        "Directories are nested deeper than limits.path_depth.",
        "Flatten the bundle: fewer directories inside each other.",
    ),
    "seal/too-many-files": Code(
        "reject",
        "team",
        "The bundle holds more files than limits.files, or its directories more entries than may be scanned.",
        "Remove what does not belong to the release and empty directories, or ask the operator for a higher "
        "limit.",
    ),
    "seal/unreadable": Code(
        "reject",
        "team",
        "A file or directory cannot be read by the daemon.",
        "Make it readable for acceptd (chmod -R a+rX) and submit it again.",
    ),
    "seal/vanished": Code(
        "reject",
        "team",
        "The drop, or a part of it, was removed before it was sealed.",
        "Submit it again and leave it in place until the verdict.",
    ),
    "archive/bomb": Code(
        "reject",
        "team",
        "The archive unpacks to far more bytes than it holds.",
        "Pack real data; the policy key `limits.archive_ratio` is the limit.",
    ),
    "archive/duplicate-entry": Code(
        "reject",
        "team",
        "The archive holds one path twice.",
        f"Build the archive afresh: {PACK}.",
    ),
    "archive/empty": Code(
        "reject",
        "team",
        "The archive holds no regular file.",
        f"Pack the bundle's files: {PACK}.",
    ),
    "archive/encrypted": Code(
        "reject",
        "team",
        "A member of the archive is encrypted.",
        "Pack without a password.",
    ),
    "archive/link": Code(
        "reject",
        "team",
        "An archive member is a symbolic or hard link.",
        "Replace links by the files they point to (`tar --dereference --hard-dereference`).",
    ),
    "archive/malformed": Code(
        "reject",
        "team",
        "The file is no archive of the kind that its name says, or its structure cannot be read.",
        f"Pack it again as .zip, .tar or .tar.gz: {PACK}.",
    ),
    "archive/method": Code(
        "reject",
        "team",
        "A member uses a compression method other than stored or deflate.",
        f"Pack with the default method (deflate or store): {PACK}.",
    ),
    "archive/path-escape": Code(
        "reject",
        "team",
        "An archive member has an absolute path, a `..` part, a backslash, a NUL or another name that is no "
        "path inside the bundle.",
        "Pack the bundle again with relative names, for example `tar -C bundle -czf bundle.tar.gz .`.",
    ),
    "archive/ratio": Code(
        "reject",
        "team",
        "The archive grows beyond limits.archive_ratio times its own size.",
        "Submit the bundle as a directory.",
    ),
    "archive/size-lies": Code(
        "reject",
        "team",
        "An archive member has another size than it says.",
        f"Build the archive afresh: {PACK}.",
    ),
    "archive/size-mismatch": Code(
        "reject",
        "team",
        "A member's bytes, checksum or headers disagree with what the archive states about it.",
        f"Pack the archive again: it is damaged or forged; {PACK}.",
    ),
    "archive/special": Code(
        "reject",
        "team",
        "An archive member is a device, a FIFO, a sparse file or of another kind that is no regular file or "
        "directory.",
        "Pack regular files only.",
    ),
    "archive/too-large": Code(
        "reject",
        "team",
        "The unpacked files, or one of them, pass the policy's limit of bytes.",
        "Make the bundle smaller, or ask the acceptor for another limit.",
    ),
    "archive/too-many-entries": Code(
        "reject",
        "team",
        "The archive holds more members than the policy allows.",
        "Pack only what the release needs.",
    ),
    "archive/trailing-data": Code(
        "reject",
        "team",
        "Bytes stand before, between or after the archive's members that belong to none.",
        f"Pack the archive again without anything around it: {PACK}.",
    ),
    "archive/truncated": Code(
        "reject",
        "team",
        "The archive ends before it is complete.",
        "Upload it again and compare its checksum with the original.",
    ),
}
