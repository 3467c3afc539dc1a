"""The CPU feature class: what of a processor changes the numbers that a runtime computes.

onnxruntime picks its kernels by instruction set: int8 products saturate in other places with VNNI than
without, bfloat16 ones round elsewhere with AMX. Two hosts of one class compute with the same kernels.
Standard library only: the loader uses it too.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Collection
from typing import Final

_LEVELS: Final = (
    (1, ("cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse", "sse2")),
    (2, ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")),
    (3, ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")),
    (4, ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
)
"""Levels of the x86-64 psABI (System V ABI, AMD64 supplement, section 3.1.1, table 3.1), each with those below;
in the words of Linux: ``pni`` is SSE3, ``abm`` LZCNT, ``lahf_lm`` LAHF-SAHF, ``cx16`` CMPXCHG16B.
"""
_X86: Final = (
    "avx_vnni", "avx_vnni_int8", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "amx_fp16",
)  # fmt: skip
_ARM: Final = ("asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2", "sme", "sme2")
_READ: Final = 8 << 20


def feature_class(machine: str, flags: Collection[str]) -> str:
    """Return the class of a processor, for example ``x86-64-v4+avx512_vnni`` or ``aarch64+asimddp+i8mm``.

    ``machine`` is ``platform.machine()``, ``flags`` the words of ``flags`` (x86-64) or ``Features`` (arm64) in
    /proc/cpuinfo. Other machines are their own name and nothing else.
    """
    if machine in {"x86_64", "AMD64"}:
        level = 0
        for number, needed in _LEVELS:
            if not all(flag in flags for flag in needed):
                break
            level = number
        return "+".join([f"x86-64-v{level}" if level else "x86-64", *(flag for flag in _X86 if flag in flags)])
    if machine in {"aarch64", "arm64"}:
        return "+".join(["aarch64", *(flag for flag in _ARM if flag in flags)])
    return machine or "unknown"


def flags_of(cpuinfo: str) -> frozenset[str]:
    """Return the flags that every processor of a /proc/cpuinfo text has; cores of one host may differ."""
    common: frozenset[str] | None = None
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() in {"flags", "Features"}:
            found = frozenset(value.split())
            common = found if common is None else common & found
    return common or frozenset()


@functools.cache
def host() -> str:
    """Return the class of this host; without /proc/cpuinfo that of a processor with no flag at all."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(_READ)
    except OSError:
        text = ""
    return feature_class(platform.machine(), flags_of(text))
