"""The class of a processor, by flags as Linux prints them."""

from __future__ import annotations

import platform

import pytest

from acceptd.runtime import cpu

pytestmark = pytest.mark.unit

V1 = "fpu cx8 cmov mmx fxsr sse sse2 syscall"
V2 = f"{V1} cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = f"{V2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [
        ("x86_64", "", "x86-64"),
        ("x86_64", V1, "x86-64-v1"),
        ("x86_64", V2, "x86-64-v2"),
        ("x86_64", V3, "x86-64-v3"),
        ("x86_64", V4, "x86-64-v4"),
        ("AMD64", V3, "x86-64-v3"),
        ("x86_64", V4.replace(" movbe", ""), "x86-64-v2"),  # a level needs those below it
        ("x86_64", f"{V3} avx_vnni", "x86-64-v3+avx_vnni"),
        ("x86_64", f"{V4} amx_bf16 amx_int8 avx512_vnni", "x86-64-v4+avx512_vnni+amx_int8+amx_bf16"),
        ("x86_64", f"{V1} i8mm", "x86-64-v1"),
        ("aarch64", "fp asimd", "aarch64"),
        ("aarch64", "fp asimd bf16 i8mm asimddp sve", "aarch64+asimddp+i8mm+bf16+sve"),
        ("arm64", "asimddp avx512_vnni", "aarch64+asimddp"),
        ("riscv64", "asimddp", "riscv64"),
        ("", "", "unknown"),
    ],
)  # fmt: skip
def test_the_class_follows_the_flags(machine: str, flags: str, expected: str) -> None:
    assert cpu.feature_class(machine, flags.split()) == expected
    assert cpu.feature_class(machine, frozenset(flags.split())) == expected


def test_cores_of_one_host_may_differ() -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd asimddp sve\n\nprocessor\t: 1\nFeatures\t: fp asimd asimddp\n"
    assert cpu.flags_of(text) == {"fp", "asimd", "asimddp"}
    assert cpu.flags_of("vmx flags\t: ept\nflags\t: sse\nmodel name\t: flags: x\n") == {"sse"}
    assert cpu.flags_of("") == frozenset()


def test_this_host_has_a_class() -> None:
    found = cpu.host()
    assert found == cpu.host()
    if platform.machine() == "x86_64":
        assert found.startswith("x86-64-v")
