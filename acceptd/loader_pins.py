"""The loader's look at its own process: is the onnxruntime that is mapped here the one that was accepted?

Everything is read from ``/proc/self/maps``, from the files that are really mapped, whatever brought them in:
LD_LIBRARY_PATH, LD_PRELOAD, PYTHONPATH or the working directory, and by the names under which the linker asked for
them: a link may lead to a file of any name. Digests are kept for as long as a file does not
change, so a process hashes each library once. Standard library only.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from acceptd.errors import RuntimeMismatchError
from acceptd.loader_options import Options
from acceptd.loader_package import folder
from acceptd.runtime.facts import Library
from acceptd.runtime.libraries import digests
from acceptd.runtime.pins import LIBRARY, Difference, basename, foreign, of_runtime, stem

_MODULE: Final = "onnxruntime_pybind11_state"
"""The extension module that is onnxruntime in every wheel."""
_GONE: Final = "(removed or replaced since it was mapped)"
_LINE: Final = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ ..x. [0-9a-f]+ [0-9a-f:]+ ([0-9]+) +(/[^\n]*)$", re.MULTILINE)
Mappings = frozenset[tuple[str, int]]
_KEPT: Final = 64
_right: dict[Any, tuple[Mappings, Mapping[str, tuple[int, ...] | None]]] = {}
"""Pins and runtime to the mappings and files that were found to be right."""


def check(options: Options, version: str, package: str) -> None:
    """Raise RuntimeMismatchError unless this process runs what the release pins; without pins, nothing.

    ``version`` and ``package``, its directory, are those of the onnxruntime that is imported here. What was found
    right is looked at again only where mappings or files are others than then.
    """
    if not options.libraries:
        _raise(foreign({}, (), package, options.version, version))
        return
    mappings = _mappings()
    key = (frozenset(options.libraries.items()), options.version, version, package, _preloaded())
    known = _right.get(key)
    if known is not None and known[0] == mappings and known[1] == _stamps(known[1]):
        return
    stems = {stem(name) for name in options.libraries}
    lent = _preloaded()
    asked = _asked(stems)

    def wanted(path: str) -> bool:
        name = basename(path)
        return stem(name) in stems or name in lent or path in asked or of_runtime(path, package)

    stamps = _stamps(path for path, _ in mappings if wanted(path))
    found = _hashed(mappings, wanted)
    found += [Library(asked[one.path], one.sha256, one.size) for one in found if one.path in asked]
    pinned = {*options.libraries.values(), *(one.sha256 for one in options.operators)}
    extra = [
        Difference(LIBRARY, basename(one.path), "not-pinned", "", one.sha256)
        for one in found
        if basename(one.path) in lent and one.sha256 not in pinned
    ]
    if not any(_MODULE in basename(one.path) for one in found):
        extra.append(Difference(LIBRARY, _MODULE, "not-mapped", "", ""))
    pins = options.libraries | {one.name: one.sha256 for one in options.operators}
    _raise((*foreign(pins, found, package, options.version, version), *extra))
    if len(_right) >= _KEPT:
        _right.clear()
    _right[key] = (mappings, stamps)


def unlike(accepted: Iterable[tuple[str, str]], runtime: Any) -> tuple[Difference, ...]:
    """Return how the mapped libraries differ from those (name, SHA-256) of the runtime that was accepted.

    As with pins: a library of a name that was there has a digest that was there, and onnxruntime's are the whole
    list; what else this process maps is its own affair.
    """
    package = folder(runtime.__file__)
    known: dict[str, str] = {}
    for name, sha256 in accepted:
        free = name
        while free in known:  # two of one name: both digests count
            free += ".so"
        known[free] = sha256
    stems = {stem(name) for name in known}
    found = mapped_here(lambda path: stem(basename(path)) in stems or of_runtime(path, package))
    return foreign(known, found, package, "", "")


def _raise(found: Sequence[Difference]) -> None:
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise RuntimeMismatchError(
            f"this process does not run the runtime that was accepted: {found[0].sentence()}{more}"
        )


def own_libraries(runtime: Any) -> dict[str, str]:
    """Return the digests of onnxruntime's own mapped libraries by file name."""
    package = folder(runtime.__file__)
    return {basename(one.path): one.sha256 for one in mapped_here(lambda path: of_runtime(path, package))}


def mapped_here(wanted: Callable[[str], bool]) -> list[Library]:
    """Return the executable file mappings of this process that are ``wanted`` by path, each hashed.

    One whose file was removed or replaced since has no digest but words that equal none.
    """
    return _hashed(_mappings(), wanted)


def _hashed(mappings: Mappings, wanted: Callable[[str], bool]) -> list[Library]:
    found = []
    for path, inode in sorted(mappings):
        if not wanted(path):
            continue
        try:
            if os.stat(path).st_ino != inode:
                raise OSError(116, _GONE)
            found += digests([path])
        except OSError:
            found.append(Library(path, _GONE, 0))
    return found


def _mappings() -> Mappings:
    """Return (path, inode) of each executable file mapping (proc_pid_maps(5)); other lines have no path."""
    try:
        with open("/proc/self/maps", "rb") as file:
            text = file.read()
    except OSError as error:
        raise RuntimeMismatchError("/proc/self/maps cannot be read: the pins cannot be checked here") from error
    return frozenset(
        (os.fsdecode(path.replace(b"\\012", b"\n")), int(inode)) for inode, path in _LINE.findall(text)
    )


class _Loaded(ctypes.Structure):
    """The beginning of ``struct dl_phdr_info``."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


_EACH: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)


def _asked(stems: Collection[str]) -> dict[str, str]:
    """Return the real paths of libraries that were asked for by another, pinned name, and that name's path.

    ``/proc/self/maps`` has the file that a link leads to; dl_iterate_phdr(3) has the name that was opened.
    """
    names: list[str] = []

    def each(loaded: Any, _size: int, _data: Any) -> int:
        names.append(os.fsdecode(loaded.contents.name or b""))
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_EACH(each), None)
    wanted = [name for name in names if "/" in name and stem(basename(name)) in stems]
    real = {os.path.realpath(name): name for name in wanted}
    return {path: name for path, name in real.items() if stem(basename(path)) != stem(basename(name))}


def _stamps(paths: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """Return what changes when a file does, by path; None: it is not there."""
    found: dict[str, tuple[int, ...] | None] = {}
    for path in paths:
        try:
            one = os.stat(path)
        except OSError:
            found[path] = None
        else:
            found[path] = (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
    return found


@functools.cache
def _preloaded() -> frozenset[str]:
    """Return the file names that LD_PRELOAD and LD_AUDIT named when this process was started (ld.so(8))."""
    try:
        with open("/proc/self/environ", "rb") as file:
            raw = file.read().split(b"\0")
    except OSError:
        raw = [os.fsencode(f"{key}={value}") for key, value in os.environ.items()]
    names = set()
    for item in raw:
        key, _, value = os.fsdecode(item).partition("=")
        if key in {"LD_PRELOAD", "LD_AUDIT"}:
            for path in value.replace(":", " ").split():
                names |= {basename(path), basename(os.path.realpath(path))}
    return frozenset(names - {""})


def operator_paths(options: Options, given: Sequence[str | os.PathLike[str]]) -> dict[str, str]:
    """Return where the accepted custom-operator libraries lie: file name in the release to real path.

    ``given`` are the caller's paths; a release never says where to load code from. Raises
    RuntimeMismatchError: one that was accepted is missing among them, one of them was not accepted, or its
    bytes are not the accepted ones.
    """
    accepted = {one.sha256: one for one in options.operators}
    found: dict[str, str] = {}
    for item in given:
        path = os.path.realpath(item)
        try:
            (library,) = digests([path])
        except OSError as error:
            raise RuntimeMismatchError(f"custom operators {path}: {error.strerror}") from error
        known = accepted.get(library.sha256)
        if known is None:
            wanted = ", ".join(f"{one.name} {one.sha256}" for one in options.operators) or "none"
            raise RuntimeMismatchError(
                f"custom operators {path} has the SHA-256 {library.sha256}; accepted: {wanted}"
            )
        found[known.name] = path
    missing = [one.name for one in options.operators if one.name not in found]
    if missing:
        raise RuntimeMismatchError(
            f"the release needs the custom operators {', '.join(missing)}: give their paths as custom_operators="
        )
    return found


def check_operators(options: Options, paths: Mapping[str, str]) -> None:
    """Raise RuntimeMismatchError unless the libraries that were loaded have the accepted digests."""
    if not paths:
        return
    real = set(paths.values())
    loaded = {one.path: one.sha256 for one in mapped_here(lambda path: path.removesuffix(" (deleted)") in real)}
    wanted = {one.name: one.sha256 for one in options.operators}
    for name, path in sorted(paths.items()):
        if loaded.get(path) != wanted[name]:
            raise RuntimeMismatchError(f"custom operators {path} changed while they were loaded")
