"""The runtime record, and the runtime identity: what a model was accepted on, as it really was.

The record joins what a warm parent was before it read a submitted byte (:class:`RuntimeFacts`), what the
profile asks of it, and the processor's class. No path and no name of a profile stands in it: two hosts with
the same bytes, options and class of processor have one identity (``docs/decisions``).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

import rfc8785
from pydantic import Field

from acceptd.policy.names import Sha256
from acceptd.policy.profile import Profile
from acceptd.runtime.facts import Library, RuntimeFacts
from acceptd.values import Evidence, Text
from sandbox import entries

MAX_LIBRARIES: Final = 4096


class NamedLibrary(Evidence):
    """One mapped native library: file name and digest."""

    name: Text
    sha256: Sha256


class OperatorRecord(Evidence):
    """One library of custom operators: digest as mapped, the rest as the profile says."""

    name: Text
    sha256: Annotated[str, Field(max_length=64)]
    """Empty where it was not mapped."""
    abi: int
    source: Text
    domain: Text


class RuntimeRecord(Evidence):
    """A runtime as it really was. Every member counts for the identity."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    python: Text
    implementation: Text
    machine: Text
    cpu_class: Text
    onnxruntime: Text
    build: Text
    distribution: Text
    numpy: Text
    available_providers: Annotated[list[Text], Field(max_length=64)]
    libraries: Annotated[list[NamedLibrary], Field(max_length=MAX_LIBRARIES)]
    providers: Annotated[list[Text], Field(max_length=16)]
    provider_options: dict[str, dict[str, str]]
    allow_cpu_fallback: bool
    intra_op_threads: int
    inter_op_threads: int
    optimisation: Text
    session_entries: dict[str, str]
    custom_operators: list[OperatorRecord]
    reduced_build: Annotated[str, Field(max_length=64)]
    """Digest of the required-operators file; empty for a whole build."""


def named(libraries: Iterable[Library]) -> list[NamedLibrary]:
    """Return libraries by file name, in the order of name and digest: paths differ between hosts."""
    found = {(PurePosixPath(one.path).name, one.sha256) for one in libraries}
    return [NamedLibrary(name=name, sha256=sha256) for name, sha256 in sorted(found)]


def record_of(facts: RuntimeFacts, profile: Profile, cpu_class: str) -> RuntimeRecord:
    """Return the record of one warm parent as one profile uses it; the same object for the same arguments."""
    return _record(facts, profile.model_dump_json(by_alias=True), cpu_class)


@functools.lru_cache(maxsize=64)
def _record(facts: RuntimeFacts, profile_json: str, cpu_class: str) -> RuntimeRecord:
    profile = Profile.model_validate_json(profile_json)
    mapped = {PurePosixPath(one.path).name: one.sha256 for one in facts.custom_operators}
    return RuntimeRecord(
        python=facts.python,
        implementation=facts.implementation,
        machine=facts.machine,
        cpu_class=cpu_class,
        onnxruntime=facts.onnxruntime,
        build=facts.build,
        distribution=facts.distribution,
        numpy=facts.numpy,
        available_providers=list(facts.available_providers),
        libraries=named(facts.libraries),
        providers=list(profile.providers),
        provider_options={key: dict(options) for key, options in profile.provider_options.items()},
        allow_cpu_fallback=profile.allow_cpu_fallback,
        intra_op_threads=profile.intra_op_threads,
        inter_op_threads=profile.inter_op_threads,
        optimisation=profile.optimisation,
        session_entries=profile.session_entries | entries.FIXED,
        custom_operators=[
            OperatorRecord(
                name=(name := PurePosixPath(one.path).name),
                sha256=mapped.get(name, ""),
                abi=one.abi,
                source=one.source,
                domain=one.domain,
            )
            for one in profile.custom_operators
        ],
        reduced_build=profile.reduced_build.sha256 if profile.reduced_build is not None else "",
    )


def identity(record: RuntimeRecord) -> str:
    """Return the SHA-256 (lowercase hex) of the record's RFC 8785 form; libraries have no order."""
    return _identity(record.model_dump_json(by_alias=True))


@functools.lru_cache(maxsize=256)
def _identity(record_json: str) -> str:
    document = json.loads(record_json)
    document["libraries"].sort(key=lambda one: (one["name"], one["sha256"]))
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()
