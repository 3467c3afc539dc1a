"""A named runtime (``policies/profiles/*.toml``): where and how a model is run.

What the file says is what is *asked for*; what really ran is the runtime record
(:mod:`acceptd.runtime.identity`). Every key has its comment in ``policies/profiles/cpu.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.manifest import Table
from acceptd.policy.names import Name, Sha256
from acceptd.policy.performance import Operators
from sandbox import entries

_PROVIDER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+){1,3}((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9.]+)?")
_LIBRARY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@=,~-]{0,254}", re.ASCII)
_DOMAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
BUILT_IN_DOMAINS: Final = frozenset(
    {"ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft"}
)
MAX_LIBRARIES: Final = 512


def _absolute(value: str) -> str:
    parts = value.split("/")
    if not value.startswith("/") or "\0" in value or any(part in {"", ".", ".."} for part in parts[1:]):
        raise ValueError(f"{value[:200]!r} is no absolute path without '.', '..' and doubled slashes")
    return value


def _provider(value: str) -> str:
    if not _PROVIDER.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is no execution provider, for example CPUExecutionProvider")
    return value


def is_library_name(value: str) -> bool:
    """Say whether a library of this file name can be pinned."""
    return _LIBRARY.fullmatch(value) is not None


def _library(value: str) -> str:
    if not is_library_name(value):
        raise ValueError(f"{value[:80]!r} is no file name of a library (its basename, no path)")
    return value


def _domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is no operator domain")
    if value in BUILT_IN_DOMAINS:
        raise ValueError(f"{value!r} is onnxruntime's own domain; custom operators need one of their own")
    return value


AbsolutePath = Annotated[str, Field(max_length=1024), AfterValidator(_absolute)]
Provider = Annotated[str, Field(max_length=64), AfterValidator(_provider)]
LibraryName = Annotated[str, Field(max_length=255), AfterValidator(_library)]
Short = Annotated[str, Field(min_length=1, max_length=256)]
OptionText = Annotated[str, Field(max_length=4096)]


class CustomOperators(Table):
    """One library of custom operators that the operator of acceptd vouches for. Never one from a bundle."""

    path: AbsolutePath
    """Absolute path of the library."""
    sha256: Sha256
    """Of the file."""
    abi: Annotated[int, Field(ge=1, le=1000)]
    """``ORT_API_VERSION`` that it was built with; an onnxruntime 1.N serves every version up to N."""
    source: Short
    """Where its source is, with the revision."""
    domain: Annotated[str, Field(max_length=128), AfterValidator(_domain)]
    """Operator domain that it registers."""


class ReducedBuild(Table):
    """The required-operators file that a reduced onnxruntime was built with."""

    config: AbsolutePath
    """Absolute path of the file."""
    sha256: Sha256
    """Of the file."""


class Profile(Table):
    """A whole profile file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Name = "cpu"
    interpreter: Annotated[str, Field(max_length=1024)] = ""
    """Absolute path of the Python that holds this profile's onnxruntime; empty: acceptd's own."""
    onnxruntime: Annotated[str, Field(max_length=64)] = ""
    """Exact version; empty: whichever the interpreter has."""
    providers: Annotated[list[Provider], Field(min_length=1, max_length=16)] = ["CPUExecutionProvider"]
    provider_options: Annotated[
        dict[Provider, Annotated[dict[Short, OptionText], Field(max_length=64)]], Field(max_length=16)
    ] = {}
    """By provider, by onnxruntime's own names of the options; both are text."""
    allow_cpu_fallback: bool = False
    cpu_operators: Operators | None = None
    """What may run on the CPU although another provider is asked for first; None: as the policy says."""
    intra_op_threads: Annotated[int, Field(ge=1, le=256)] = 1
    inter_op_threads: Annotated[int, Field(ge=1, le=256)] = 1
    optimisation: Literal["disable", "basic", "extended", "all"] = "all"
    session_entries: Annotated[dict[str, str], Field(max_length=64)] = {}
    libraries: Annotated[dict[LibraryName, Sha256], Field(max_length=MAX_LIBRARIES)] = {}
    """Library basename to SHA-256. Empty: nothing is pinned. See ``docs/decisions`` on what a pin means."""
    custom_operators: Annotated[list[CustomOperators], Field(max_length=16)] = []
    reduced_build: ReducedBuild | None = None

    @model_validator(mode="after")
    def _sound(self) -> Profile:
        if self.interpreter:
            _located("interpreter", self.interpreter)
        if self.onnxruntime and not _VERSION.fullmatch(self.onnxruntime):
            raise ValueError(f"onnxruntime: {self.onnxruntime!r} is no exact version, for example 1.24.1")
        if twice := _repeated(self.providers):
            raise ValueError(f"providers: {twice} stands twice")
        for provider in self.provider_options:
            if provider not in self.providers:
                raise ValueError(f"provider_options.{provider}: providers does not list it")
        self._check_entries()
        self._check_operators()
        return self

    def _check_entries(self) -> None:
        for key, value in self.session_entries.items():
            if key in entries.FIXED:
                raise ValueError(f"session_entries.{key}: is always {entries.FIXED[key]!r} and cannot be set")
            if key not in entries.ALLOWED:
                raise ValueError(f"session_entries.{key[:128]}: may not be set by a profile")
            if len(value.encode("utf-8", "surrogatepass")) > entries.MAX_VALUE or not value.isprintable():
                raise ValueError(f"session_entries.{key}: at most {entries.MAX_VALUE} bytes of printable text")

    def _check_operators(self) -> None:
        paths = [one.path for one in self.custom_operators]
        for what, values in (
            ("path", paths),
            ("file name", [path.rpartition("/")[2] for path in paths]),
        ):
            if twice := _repeated(values):
                raise ValueError(f"custom_operators: the {what} {twice} stands twice")
        parts = self.onnxruntime.split(".")
        for index, one in enumerate(self.custom_operators):
            if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal() and one.abi > int(parts[1]):
                raise ValueError(
                    f"custom_operators[{index}].abi: {one.abi} is newer than onnxruntime {self.onnxruntime}, "
                    f"which serves up to {parts[1]}"
                )


def _located(place: str, value: str) -> None:
    try:
        _absolute(value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _repeated(values: Iterable[str]) -> str:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return ""
