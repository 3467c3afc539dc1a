"""Which advisories speak of a runtime, by what the trusted side measured of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from acceptd.advisories.document import Advisory, AdvisoryList
from acceptd.advisory_facts import AdvisoryHit
from acceptd.runtime.identity import RuntimeRecord, identity


def hits(said: AdvisoryList, records: Sequence[RuntimeRecord]) -> list[AdvisoryHit]:
    """Return one hit for each advisory and runtime that belong together."""
    return [
        AdvisoryHit(id=one.id, summary=one.summary, url=one.url, runtime=identity(record), because=because)
        for record in records
        for one in said.advisories
        for because in _because(one, record)
    ][:4096]


def _because(advisory: Advisory, record: RuntimeRecord) -> Iterator[str]:
    """Yield, at most once, what of the runtime the advisory names."""
    listed = set(advisory.libraries)
    for library in record.libraries:
        if library.sha256 in listed:
            yield f"{library.name} has the SHA-256 {library.sha256}"
            return
    if advisory.versions is None:
        return
    package = _plain(record.distribution.partition(" ")[0])
    # Where nobody can say which package it is (a build of one's own), every list of packages may mean it.
    if advisory.packages and package and package not in map(_plain, advisory.packages):
        return
    name = package or "onnxruntime"
    try:
        # A local build (1.18.0+cu12) and a release candidate are of the versions that they are built from.
        version = Version(Version(record.onnxruntime).public)
    except InvalidVersion:
        words = f"{name} calls its version {record.onnxruntime!r:.60}"
        yield f"{words}, which cannot be compared with {advisory.versions}"
        return
    if SpecifierSet(advisory.versions).contains(version, prereleases=True):
        yield f"{name} {record.onnxruntime} is in {advisory.versions}"


def _plain(name: str) -> str:
    """Return a distribution's name as PEP 503 has it."""
    return name.lower().replace("_", "-").replace(".", "-")
