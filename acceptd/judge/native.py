"""Native libraries in a bundle: by name, and by what sealing saw of each file's first bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from acceptd.evidence import Sealed
from acceptd.judge.finding import Finding
from acceptd.judge.words import make

_LIBRARY: Final = re.compile(r".*\.(so(\.[0-9][0-9A-Za-z_.-]*)?|dll|dylib|pyd)", re.IGNORECASE | re.DOTALL)
_WORDS: Final = {"elf": "an ELF file", "pe": "a Windows program or library (PE)", "mach-o": "a Mach-O file"}


def native_libraries(sealed: Sealed) -> Iterator[Finding]:
    """Yield each sealed file that is one, whatever the bundle says it is for."""
    for file in sealed.files:
        named = _LIBRARY.fullmatch(file.path.rpartition("/")[2]) is not None
        if file.native:
            also = "" if named else ", whatever its name says"
            message = f"is {_WORDS[file.native]}{also}"
        elif named:
            message = "has the name of a native library"
        else:
            continue
        yield make("seal/native-library", "seal", file.path, message, {"size": file.size, "sha256": file.sha256})
