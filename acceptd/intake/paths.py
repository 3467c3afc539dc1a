"""Which names and paths may stand in a bundle, and how many: decisions without I/O.

The same rules hold for directories and for archive members. They keep a bundle one and the same
thing on every file system: one spelling (UTF-8, NFC), one case, no name that a platform reserves.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from acceptd.errors import SealError
from acceptd.policy.limits import LimitsTable

MARKER: Final = ".ready"
"""The readiness marker: beside a drop as ``<name>.ready``; inside one, at its top, it is not sealed."""

_RESERVED: Final = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE | re.DOTALL
)
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What is printable and has no shape: Default_Ignorable_Code_Point (UAX #44), and the empty braille cell."""
_MARKS: Final = frozenset({"Mn", "Me"})
_MARKS_MAX: Final = 4
_DEPTH_MAX: Final = 64  # each level keeps two descriptors open while it is sealed
_NAME_MAX: Final = 255  # bytes of one component: NAME_MAX of every common Linux file system


def shown(text: str | bytes, limit: int = 400) -> str:
    r"""Return hostile text in a printable form: what is invalid or invisible becomes ``\xNN``, ``\uNNNN``.

    So do letters without a shape of their own, and marks beyond those that a script stacks: each further one
    stands higher, and a few hundred of them paint over the lines above, a verdict among them.
    """
    if type(text) is str and len(text) <= limit and text.isascii() and text.isprintable():
        return text  # the same as below, without a look at each character
    raw = text if isinstance(text, bytes) else _encoded(text[: limit + 1])
    decoded = raw[: 4 * limit].decode("utf-8", "backslashreplace")
    result = "".join(_seen(decoded[: limit + 1]))
    return result if len(result) <= limit else f"{result[:limit]}…"


def _seen(text: str) -> Iterator[str]:
    """Yield each character, or its escape where it would not be seen for what it is."""
    marks = 0
    for char in text:
        marks = marks + 1 if char >= "\u0300" and unicodedata.category(char) in _MARKS else 0
        yield char if char.isprintable() and marks <= _MARKS_MAX and not _BLANK.fullmatch(char) else _escape(char)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # undecodable bytes of a file name, PEP 383
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 128 else char.encode("ascii", "backslashreplace").decode()


def check_component(raw: bytes, where: str) -> str:
    """Return one path component as text; raise SealError when it may not stand in a bundle."""
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SealError("seal/name-encoding", where, "the name is not valid UTF-8") from None
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise SealError("seal/path-escape", where, "the path is empty, absolute or has '.' or '..' parts")
    if len(raw) > _NAME_MAX:
        raise SealError("seal/name-too-long", where, f"a name of {len(raw)} bytes; {_NAME_MAX} are possible")
    if "\\" in name:
        raise SealError("seal/name-backslash", where, "the name holds a backslash")
    for char in name:
        if unicodedata.category(char) in _INVISIBLE:
            raise SealError(
                "seal/name-control", where, f"the name holds the invisible character U+{ord(char):04X}"
            )
    if not unicodedata.is_normalized("NFC", name):
        raise SealError("seal/name-not-normalised", where, "the name is not in Unicode normal form C")
    if _RESERVED.fullmatch(name) or name[0] == " " or name[-1] in " .":
        raise SealError(
            "seal/name-reserved", where, "the name is reserved on some platforms, or ends in a space or dot"
        )
    return name


def folded(name: str) -> str:
    """Return the key under which two names are the same on a file system that ignores case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


class Inventory:
    """Counts what is admitted into one bundle and refuses what may not stand beside it.

    Every method raises SealError with the code, the place and the limit that was passed.
    """

    def __init__(self, limits: LimitsTable) -> None:
        self._limits = limits
        self._spelling: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self.files = 0
        self.total_bytes = 0

    def entry_budget(self) -> int:
        """Return how many directory entries one seal may look at: empty directories count here too."""
        return 2 * self._limits.files + 256

    def path(self, raw: bytes) -> str:
        """Return a whole relative path of an archive member as text."""
        where = shown(raw)
        if len(raw) > self._limits.path_bytes:
            raise SealError(
                "seal/name-too-long", where, f"a path of {len(raw)} bytes; {self._limits.path_bytes} allowed"
            )
        return "/".join(check_component(part, where) for part in raw.split(b"/"))

    def directory(self, path: str) -> None:
        """Admit a directory; one that is known already is no error."""
        self._depth(path, directory=True)
        self._claim(path, "directory")

    def file(self, path: str, size: int) -> None:
        """Admit a file of ``size`` bytes."""
        limits = self._limits
        self._depth(path, directory=False)
        parent = path.rpartition("/")[0]
        if parent and self._kinds.get(parent) != "directory":
            parts = parent.split("/")
            for end in range(1, len(parts) + 1):
                self.directory("/".join(parts[:end]))
        if self._kinds.get(path) == "file":
            raise SealError("archive/duplicate-entry", shown(path), "the path stands in the archive twice")
        self._claim(path, "file")
        self.files += 1
        self.total_bytes += size
        if self.files > limits.files:
            raise SealError("seal/too-many-files", shown(path), f"more than {limits.files} files")
        if size > limits.file_bytes:
            raise SealError("seal/file-too-large", shown(path), f"{size} bytes; {limits.file_bytes} are allowed")
        if self.total_bytes > limits.bundle_bytes:
            message = f"more than {limits.bundle_bytes} bytes in all"
            raise SealError("seal/bundle-too-large", shown(path), message)

    def _depth(self, path: str, *, directory: bool) -> None:
        limits = self._limits
        size, levels = len(path.encode()), path.count("/") + 1
        if size > limits.path_bytes:
            message = f"a path of {size} bytes; {limits.path_bytes} are allowed"
            raise SealError("seal/name-too-long", shown(path), message)
        # A directory at the last level could only hold what is too deep.
        allowed = min(limits.path_depth, _DEPTH_MAX)
        if levels + directory > allowed:
            message = f"nested more than {allowed} deep"
            raise SealError("seal/too-deep", shown(path), message)

    def _claim(self, path: str, kind: str) -> None:
        spelling = self._spelling.setdefault(folded(path), path)
        if spelling != path:
            raise SealError("seal/name-collision", shown(path), f"differs only by case from {shown(spelling)}")
        if self._kinds.setdefault(path, kind) != kind:
            raise SealError("seal/name-collision", shown(path), "the path is both a file and a directory")
