"""The required-operators file of a reduced onnxruntime build: which kernels that build still has.

The form is onnxruntime's own (``docs/Reduced_Operator_Kernel_build.md`` and the parser of its build,
``tools/python/util/reduced_build_config_parser.py``), one line for each domain and opset::

    # comment
    !globally_allowed_types;float,int64_t
    !no_ops_specified_means_all_ops_are_required
    ai.onnx;12,13;Add,Cast{"inputs": {"0": ["float"]}, "outputs": {"0": ["int64_t"]}},Concat

Types for all operators and types for single ones exclude each other, as they do in the build.
The file is the operator's: it is read on the trusted side, bounded, and its errors name the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from acceptd.errors import ConfigError

MAX_LINE: Final = 1 << 16
MAX_KERNELS: Final = 50_000
MAX_OPSET: Final = 10_000
DTYPES: Final[Mapping[str, str]] = {
    "float": "float32",
    "double": "float64",
    "MLFloat16": "float16",
    "BFloat16": "bfloat16",
    "bool": "bool",
    "std::string": "string",
    "string": "string",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"Float8{kind}": f"float8{kind.lower()}" for kind in ("E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ")},
    "Int4x2": "int4",
    "UInt4x2": "uint4",
}
"""C++ type names of the file to ONNX's own in lower case."""

_GLOBAL: Final = "!globally_allowed_types;"
_ALL: Final = "!no_ops_specified_means_all_ops_are_required"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}", re.ASCII)
_REMEDY: Final = "correct the line; onnxruntime's docs/Reduced_Operator_Kernel_build.md has the form"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operator under one opset. ``inputs`` and ``outputs`` map a position to the dtypes that are left.

    A position that is not named is not limited. Types that the build keeps under ``custom`` are not kept here.
    """

    opset: int
    inputs: Mapping[int, frozenset[str]] = field(default_factory=dict)
    outputs: Mapping[int, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a reduced build offers: kernels by (domain, operator); the default domain is ``ai.onnx``."""

    kernels: Mapping[tuple[str, str], tuple[Kernel, ...]]
    types: frozenset[str] | None = None
    """dtypes that all operators are limited to; None: no such limit."""
    everything: bool = False
    """The file names no operator and says that this means all of them."""


def parse_reduced(content: bytes, origin: str) -> Reduced:
    """Return what the file offers. ``origin`` is its path, for errors.

    Raises ConfigError with the number of the first line that does not fit.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{origin}:{number}: not UTF-8", remedy="save it as UTF-8") from error
    kernels: dict[tuple[str, str], list[Kernel]] = {}
    types: frozenset[str] | None = None
    everything = typed = False
    total = 0
    for number, whole in enumerate(text.split("\n"), start=1):
        place = f"{origin}:{number}"
        if len(whole) > MAX_LINE:
            raise ConfigError(
                f"{place}: a line of {len(whole)} characters; {MAX_LINE} are allowed", remedy=_REMEDY
            )
        line = whole.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith(_GLOBAL):
            if types is not None:
                raise ConfigError(f"{place}: types for all operators stand twice", remedy="keep one line")
            types = _global_types(place, line[len(_GLOBAL) :])
        elif line == _ALL:
            everything = True
        elif line.startswith("!"):
            raise ConfigError(f"{place}: unknown directive {line[:60]!r}", remedy=_REMEDY)
        else:
            domain, opsets, rest = _fields(place, line)
            for name, limits in _operators(place, rest):
                typed = typed or limits is not None
                inputs, outputs = limits or ({}, {})
                total += len(opsets)
                if total > MAX_KERNELS:
                    raise ConfigError(f"{place}: more than {MAX_KERNELS} kernels", remedy="is this the file?")
                kernels.setdefault((domain, name), []).extend(Kernel(opset, inputs, outputs) for opset in opsets)
    if types is not None and typed:
        message = "types for all operators and types for single ones exclude each other"
        raise ConfigError(f"{origin}: {message}", remedy=f"remove {_GLOBAL!r} or the braces")
    return Reduced({key: tuple(found) for key, found in kernels.items()}, types, everything and not kernels)


def _global_types(place: str, text: str) -> frozenset[str]:
    found = set()
    for name in (part.strip() for part in text.partition(";")[0].split(",")):
        if name not in DTYPES:
            raise ConfigError(f"{place}: unknown type {name[:60]!r}", remedy=f"one of {', '.join(DTYPES)}")
        found.add(DTYPES[name])
    return frozenset(found)


def _fields(place: str, line: str) -> tuple[str, list[int], str]:
    parts = [part.strip() for part in line.split(";")]
    if len(parts) != 3:
        raise ConfigError(f"{place}: {len(parts)} fields; domain;opset;operators are three", remedy=_REMEDY)
    domain, opsets, rest = parts
    if domain and not _NAME.fullmatch(domain):
        raise ConfigError(f"{place}: {domain[:60]!r} is no domain", remedy=_REMEDY)
    numbers = [part.strip() for part in opsets.split(",")]
    for number in numbers:
        if not (number.isascii() and number.isdecimal() and len(number) < 6 and 1 <= int(number) <= MAX_OPSET):
            raise ConfigError(f"{place}: {number[:60]!r} is no opset", remedy=_REMEDY)
    return domain or "ai.onnx", [int(number) for number in numbers], rest


Limits = tuple[Mapping[int, frozenset[str]], Mapping[int, frozenset[str]]]


def _operators(place: str, text: str) -> Iterator[tuple[str, Limits | None]]:
    """Yield each operator of a line with the types that stand in braces behind it."""
    decoder = json.JSONDecoder(object_pairs_hook=_distinct)
    at = 0
    while at < len(text):
        comma, brace = text.find(",", at), text.find("{", at)
        comma = len(text) if comma < 0 else comma
        typed = 0 <= brace < comma
        end = brace if typed else comma
        name = text[at:end].strip()
        if not name and not typed:
            at = end + 1  # the build's own parser overlooks a doubled or trailing comma too
            continue
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{place}: {name[:60]!r} is no operator", remedy=_REMEDY)
        if not typed:
            yield name, None
        else:
            try:
                document, end = decoder.raw_decode(text, brace)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{place}: types of {name}: {str(error)[:120]}", remedy=_REMEDY) from error
            yield name, _limits(f"{place}: types of {name}", document)
            rest = text[end:].lstrip()
            if rest and not rest.startswith(","):
                raise ConfigError(f"{place}: {rest[:20]!r} after the types of {name}", remedy=_REMEDY)
            end = len(text) - len(rest)
        at = end + 1


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _limits(place: str, document: Any) -> Limits:
    if not isinstance(document, dict) or (strange := set(document) - {"inputs", "outputs", "custom"}):
        shown = ", ".join(sorted(strange)) if isinstance(document, dict) else "no object"
        raise ConfigError(f"{place}: {shown[:60]}; inputs, outputs and custom are known", remedy=_REMEDY)
    return _positions(place, document.get("inputs", {})), _positions(place, document.get("outputs", {}))


def _positions(place: str, table: Any) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for position, names in table.items() if isinstance(table, dict) else [("", None)]:
        ok = position.isascii() and position.isdecimal() and len(position) < 5
        if not ok or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{place}: a position maps to a list of type names", remedy=_REMEDY)
        # A type that ONNX has no tensor of (a map) stays as it is written: no dtype equals it.
        found[int(position)] = frozenset(DTYPES.get(name, name) for name in names)
    return found
