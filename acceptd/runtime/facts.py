"""What one warm parent really is, as plain data. Standard library only: the loader uses it too."""

from __future__ import annotations

from typing import NamedTuple


class Library(NamedTuple):
    """One file: ``path`` on the host, SHA-256 in lowercase hex, ``size`` in bytes."""

    path: str
    sha256: str
    size: int


class RuntimeFacts(NamedTuple):
    """One warm parent, told by itself before any submitted byte; files are hashed on the trusted side.

    ``libraries`` are all executable file mappings when warm, sorted by path: the interpreter, native
    libraries, extension modules. ``custom_operators`` are those of them that the profile lists.
    ``distribution`` is the installed package that provides the module ``onnxruntime``, empty where none
    says so (a build that was not installed by a package manager of Python).
    """

    python: str
    implementation: str
    machine: str
    onnxruntime: str
    build: str
    numpy: str
    available_providers: tuple[str, ...]
    libraries: tuple[Library, ...]
    custom_operators: tuple[Library, ...] = ()
    distribution: str = ""
