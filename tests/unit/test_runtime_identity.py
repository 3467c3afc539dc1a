"""The runtime identity: everything that decides how a model computes changes it, and nothing else does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from acceptd.cell.runtime import providers_used
from acceptd.policy.profile import CustomOperators, Profile, ReducedBuild
from acceptd.runtime.facts import Library, RuntimeFacts
from acceptd.runtime.identity import RuntimeRecord, identity, record_of

pytestmark = pytest.mark.unit

A, B, C = "a" * 64, "b" * 64, "c" * 64
LIBRARIES = (
    Library("/usr/lib/libc.so.6", A, 100),
    Library("/opt/x/onnxruntime/capi/libonnxruntime.so.1.32.0", B, 200),
    Library("/opt/x/libx.so", C, 10),
)
FACTS = RuntimeFacts(
    python="3.11.7",
    implementation="CPython",
    machine="x86_64",
    onnxruntime="1.32.0",
    build="git-commit-id=1",
    numpy="2.4.6",
    available_providers=("AzureExecutionProvider", "CPUExecutionProvider"),
    libraries=LIBRARIES,
    custom_operators=LIBRARIES[2:],
    distribution="onnxruntime",
)
PROFILE = Profile(
    provider_options={"CPUExecutionProvider": {"a": "1"}},
    session_entries={"mlas.use_lut_gemm": "1"},
    custom_operators=[CustomOperators(path="/opt/x/libx.so", sha256=C, abi=20, source="git at 1", domain="x.ops")],
    reduced_build=ReducedBuild(config="/etc/ops.config", sha256=A),
)
CLASS = "x86-64-v4+avx512_vnni"


def of(facts: RuntimeFacts = FACTS, profile: Profile = PROFILE, cpu_class: str = CLASS) -> str:
    return identity(record_of(facts, profile, cpu_class))


def test_it_is_one_digest_and_repeats() -> None:
    assert of() == of()
    assert len(of()) == 64
    assert int(of(), 16)


@pytest.mark.parametrize("seed", range(5))
def test_neither_order_nor_place_of_libraries_counts(seed: int) -> None:
    libraries = list(FACTS.libraries)
    random.Random(seed).shuffle(libraries)
    moved = tuple(Library("/elsewhere/" + one.path.rpartition("/")[2], one.sha256, one.size) for one in libraries)
    assert of(FACTS._replace(libraries=tuple(libraries))) == of()
    assert of(FACTS._replace(libraries=moved)) == of()
    record = record_of(FACTS, PROFILE, CLASS)
    assert identity(record.model_copy(update={"libraries": record.libraries[::-1]})) == of()


def test_neither_the_name_of_a_profile_nor_the_path_of_its_interpreter_counts() -> None:
    assert of(profile=PROFILE.model_copy(update={"name": "other", "interpreter": "/opt/y/bin/python"})) == of()
    assert of(profile=PROFILE.model_copy(update={"libraries": {"libc.so.6": A}})) == of()


def other(value: Any) -> Any:
    """Return a value of the same form that differs a little."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value}x" if value else "x"
    if isinstance(value, dict):
        key = next(iter(value))
        return {**value, key: other(value[key])}
    return [other(value[0]), *value[1:]]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def changed(document: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return other(document)
    copy = document.copy()
    copy[path[0]] = changed(copy[path[0]], path[1:])
    return copy


DOCUMENT = record_of(FACTS, PROFILE, CLASS).model_dump(mode="json")


@pytest.mark.parametrize("path", leaves(DOCUMENT), ids=lambda path: ".".join(map(str, path)))
def test_any_single_member_changes_it(path: tuple[Any, ...]) -> None:
    if path == ("schema_",):
        return  # the form of the record: no other is valid
    assert identity(RuntimeRecord.model_validate(plausible(changed(DOCUMENT, path)))) != of()


def plausible(document: dict[str, Any]) -> dict[str, Any]:
    """Return it with digests that are digests again."""
    for one in [*document["libraries"], *document["custom_operators"]]:
        one["sha256"] = one["sha256"].replace("x", "")[: 63 if "x" in one["sha256"] else 64].rjust(64, "0")
    document["schema"] = document.pop("schema_")
    document["reduced_build"] = document["reduced_build"][-64:]
    return document


@pytest.mark.parametrize("key", ["libraries", "custom_operators", "available_providers", "providers"])
def test_one_more_and_one_less_changes_it(key: str) -> None:
    record = record_of(FACTS, PROFILE, CLASS)
    values = getattr(record, key)
    more = other(DOCUMENT[key])[:1] if key in {"available_providers", "providers"} else None
    assert identity(record.model_copy(update={key: values[1:]})) != of()
    if more:
        assert identity(record.model_copy(update={key: [*values, *more]})) != of()


def test_the_same_bytes_under_two_names_are_two_libraries() -> None:
    again = (*FACTS.libraries, Library("/opt/libc-copy.so.6", A, 100))
    assert of(FACTS._replace(libraries=again)) != of()


def test_a_custom_operator_library_that_was_not_mapped_has_no_digest() -> None:
    record = record_of(FACTS._replace(custom_operators=()), PROFILE, CLASS)
    assert [one.sha256 for one in record.custom_operators] == [""]
    assert identity(record) != of()


def test_doctor_tells_what_is_used_from_what_the_build_merely_has() -> None:
    build = ["AzureExecutionProvider", "CPUExecutionProvider", "CUDAExecutionProvider"]
    assert providers_used(Profile(), build) == (
        "uses CPUExecutionProvider (in the build, not used: AzureExecutionProvider, CUDAExecutionProvider)"
    )
    assert providers_used(Profile(), ["CPUExecutionProvider"]) == "uses CPUExecutionProvider"
    both = Profile(providers=["CUDAExecutionProvider"], allow_cpu_fallback=True)
    assert providers_used(both, build).startswith("uses CUDAExecutionProvider, CPUExecutionProvider (")
