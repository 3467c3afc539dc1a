"""Pinned libraries and version against what was found. Pure, standard library only: the loader uses it too.

A pin means two things (``docs/decisions``). In the cell (:func:`differences`) the pins are the whole list: every
mapped library stands in it, with its digest. In a production process (:func:`foreign`), which maps libraries
of its own, every library of a pinned name has a pinned digest, and those of onnxruntime's package are the
whole list. There a name counts without its version (``libstdc++.so.6`` is ``libstdc++.so.6.0.30``): who plants a
library for LD_LIBRARY_PATH names it as it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from acceptd.runtime.facts import Library

LIBRARY: Final = "runtime/library-mismatch"
VERSION: Final = "runtime/version-mismatch"
OPERATORS: Final = "runtime/custom-operator-mismatch"
_RELEASE: Final = re.compile(r"-[0-9]+(\.[0-9]+)+$")
Kind = Literal["other-digest", "not-pinned", "not-mapped", "other-version"]


class Difference(NamedTuple):
    """One thing that is not as it was pinned. ``name`` is a library's file name, or ``onnxruntime``."""

    code: str
    name: str
    kind: Kind
    pinned: str
    found: str

    def sentence(self) -> str:
        """Return it in words, one line."""
        if self.kind == "other-digest":
            return f"{self.name} has the SHA-256 {self.found}, pinned is {self.pinned}"
        if self.kind == "not-pinned":
            return f"{self.name} ({self.found}) is mapped and not pinned"
        if self.kind == "not-mapped":
            return f"{self.name} is pinned ({self.pinned}) and not mapped"
        return f"onnxruntime {self.found}, pinned is {self.pinned}"


def basename(path: str) -> str:
    """Return a library's file name; the mark of a file that was removed since belongs to no name."""
    return path.removesuffix(" (deleted)").rpartition("/")[2]


def stem(name: str) -> str:
    """Return a library's name without its version: ``libm.so.6`` is ``libm-2.31.so``, as older glibc calls it."""
    return _RELEASE.sub("", name.partition(".so")[0])


def differences(
    pinned: Mapping[str, str], found: Sequence[Library], version_pin: str, version_found: str
) -> tuple[Difference, ...]:
    """Return how a warm parent differs from its profile, sorted; nothing where nothing is pinned.

    ``pinned`` maps file names to SHA-256, ``found`` is every library that is mapped. An empty ``pinned`` or
    ``version_pin`` pins nothing.
    """
    result = set(_versions(version_pin, version_found))
    if pinned:
        for one in found:
            name = basename(one.path)
            if name not in pinned:
                result.add(_stranger(one))
            elif pinned[name] != one.sha256:
                result.add(Difference(LIBRARY, name, "other-digest", pinned[name], one.sha256))
        names = {basename(one.path) for one in found}
        result |= {
            Difference(LIBRARY, name, "not-mapped", sha256, "")
            for name, sha256 in pinned.items()
            if name not in names
        }
    return tuple(sorted(result))


def foreign(
    pinned: Mapping[str, str],
    found: Sequence[Library],
    package: str,
    version_pin: str,
    version_found: str,
) -> tuple[Difference, ...]:
    """Return how a production process differs from a release, sorted; ``package`` is onnxruntime's directory.

    What is pinned and not mapped is no difference: a library may be loaded later, and is then looked at.
    """
    result = set(_versions(version_pin, version_found))
    stems: dict[str, list[str]] = {}
    for name, sha256 in sorted(pinned.items()):
        stems.setdefault(stem(name), []).append(sha256)
    for one in found if pinned else ():
        name = basename(one.path)
        known = stems.get(stem(name), [])
        if one.sha256 in known:
            continue
        if known:
            result.add(Difference(LIBRARY, name, "other-digest", pinned.get(name, known[0]), one.sha256))
        elif of_runtime(one.path, package):
            result.add(_stranger(one))
    return tuple(sorted(result))


def of_runtime(path: str, package: str) -> bool:
    """Say whether a library is onnxruntime's: below its package, beside it (``.libs`` of a wheel), or by name."""
    place = package.rstrip("/")
    return path.startswith((f"{place}/", f"{place}.libs/")) or "onnxruntime" in basename(path)


def _versions(pin: str, found: str) -> Iterable[Difference]:
    return [Difference(VERSION, "onnxruntime", "other-version", pin, found)] if pin and pin != found else []


def _stranger(one: Library) -> Difference:
    return Difference(LIBRARY, basename(one.path), "not-pinned", "", one.sha256)
