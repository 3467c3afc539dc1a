"""External data files: every byte belongs to exactly one tensor of a model, or something else lies there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from acceptd.evidence import Assets, Facts, Sealed
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import SIGNATURE_FILE, Inventory
from acceptd.judge.structure import resolve
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy

MAX_GAP: Final = 64 << 10
"""Writers align a tensor's beginning to a page, at most to the 64 KiB that mapping a file needs on Windows."""

Ranges = dict[str, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Owed:
    """What the ``assets`` job has to look at: whole files that no model reads, and gaps between tensors.

    ``gaps``: path to (start, stop) of bytes that no tensor covers and that may be padding, in order.
    """

    files: tuple[str, ...]
    gaps: Mapping[str, tuple[tuple[int, int], ...]]

    def __bool__(self) -> bool:
        return bool(self.files or self.gaps)


def owed(manifest: Manifest, facts: Mapping[str, Facts], sealed: Sealed, inventory: Inventory) -> Owed | None:
    """Return what is to be looked at beside the models; None where the facts do not say what they read."""
    ranges = _all_ranges(manifest, facts, sealed)
    if ranges is None:
        return None
    gaps = {path: tuple(gap for gap in found if _padding(gap)) for path, found in _gaps(ranges, sealed).items()}
    # A model signature is looked through for payloads like every file that no model reads.
    about = set(inventory.manifest) - {SIGNATURE_FILE}
    known = {*inventory.models, *about, *inventory.vector_files(), *ranges}
    files = tuple(file.path for file in sealed.files if file.path not in known)
    return Owed(files, {path: found for path, found in sorted(gaps.items()) if found})


def external_data(
    manifest: Manifest, facts: Mapping[str, Facts], sealed: Sealed, policy: Policy, assets: Assets | None
) -> Iterator[Finding]:
    """Yield what is wrong with the external data files as a whole.

    ``facts`` maps model names; where one is missing, or lists only some of its records, what is covered
    is not known, and other findings decide.
    """
    for model in manifest.inspected:
        one = facts.get(model.name)
        if one is not None:
            ranges = _ranges(model.file, one, sealed)
            yield from _caps(model.file, ranges, sealed, policy)
            yield from _shared(model.file, one, sealed)
    everything = _all_ranges(manifest, facts, sealed)
    if everything is None:
        return
    gaps = _gaps(everything, sealed)
    for path, found in gaps.items():
        for start, stop in found:
            if not _padding((start, stop)):
                yield _uncovered(path, start, stop, f"{_bytes(stop - start)} to no tensor")
    for gap in assets.gaps if assets is not None else ():
        first = f"byte {gap.at} is the first that is not zero, begins {gap.head}"
        message = f"{_bytes(gap.stop - gap.start)} to no tensor, no padding: {first}"
        yield _uncovered(gap.path, gap.start, gap.stop, message)
    holes = {file.path: file.holes for file in sealed.files}
    for path in sorted(everything):
        spare = sum(stop - start for start, stop in gaps.get(path, ())) + MAX_GAP
        if holes[path] > spare:
            message = f"{holes[path]} bytes were never written"
            yield make("external-data/sparse-file", "inspect", path, message, {"holes": holes[path]})


def _ranges(model_file: str, facts: Facts, sealed: Sealed) -> Ranges:
    sizes = {file.path: file.size for file in sealed.files}
    ranges: Ranges = {}
    for record in facts.external:
        path = resolve(model_file, record.location)
        if path is not None and path in sizes:
            start = record.offset or 0
            stop = sizes[path] if record.length is None else start + record.length
            ranges.setdefault(path, []).append((start, stop))
    return ranges


def _all_ranges(manifest: Manifest, facts: Mapping[str, Facts], sealed: Sealed) -> Ranges | None:
    ranges: Ranges = {}
    for model in manifest.inspected:
        one = facts.get(model.name)
        if one is None or one.external_count > len(one.external):
            return None
        for path, found in _ranges(model.file, one, sealed).items():
            ranges.setdefault(path, []).extend(found)
    return ranges


def _gaps(ranges: Ranges, sealed: Sealed) -> Ranges:
    sizes = {file.path: file.size for file in sealed.files}
    gaps: Ranges = {}
    for path, covered in sorted(ranges.items()):
        reached = 0
        for start, stop in sorted(covered):
            if min(start, sizes[path]) > reached:  # a range may lie beyond the file: another finding says so
                gaps.setdefault(path, []).append((reached, min(start, sizes[path])))
            reached = max(reached, stop)
        if sizes[path] > reached:
            gaps.setdefault(path, []).append((reached, sizes[path]))
    return gaps


def _padding(gap: tuple[int, int]) -> bool:
    """Whether a gap may be alignment, by its size; whether it is, its bytes must say."""
    return 0 < gap[1] - gap[0] < MAX_GAP


def _caps(model_file: str, ranges: Ranges, sealed: Sealed, policy: Policy) -> Iterator[Finding]:
    limits = policy.limits
    total = sum(file.size for file in sealed.files if file.path in ranges)
    if len(ranges) > limits.external_files:
        message = f"{len(ranges)} files; the policy allows {limits.external_files}"
        yield make("external-data/too-many-files", "inspect", model_file, message, {"files": len(ranges)})
    if total > limits.external_bytes:
        message = f"{total} bytes; the policy allows {limits.external_bytes}"
        yield make("external-data/too-many-bytes", "inspect", model_file, message, {"bytes": total})


def _shared(model_file: str, facts: Facts, sealed: Sealed) -> Iterator[Finding]:
    """Yield the ranges of a file that several tensors of one model claim. Two models may share weights."""
    sizes = {file.path: file.size for file in sealed.files}
    claims: dict[str, list[tuple[int, int, str]]] = {}
    for record in facts.external:
        path = resolve(model_file, record.location)
        if path is not None and path in sizes and record.length:
            start = record.offset or 0
            claims.setdefault(path, []).append((start, start + record.length, record.where or record.tensor))
    for path, found in sorted(claims.items()):
        found.sort()
        counts: dict[tuple[int, int], list[str]] = {}
        for start, stop, where in found:
            counts.setdefault((start, stop), []).append(where)
        for (start, stop), places in counts.items():
            if len(places) > 1:
                message = f"{len(places)} tensors have bytes {start} to {stop} of {path!r}"
                yield _claim("external-data/aliased", model_file, places, message, path)
        yield from _overlaps(model_file, path, sorted(counts), counts)


def _overlaps(
    model_file: str,
    path: str,
    ranges: Sequence[tuple[int, int]],
    places: Mapping[tuple[int, int], list[str]],
) -> Iterator[Finding]:
    widest = ranges[0]
    for one in ranges[1:]:
        if one[0] < widest[1]:
            message = f"bytes {one[0]} to {one[1]} of {path!r} overlap those of {places[widest][0]}"
            yield _claim("external-data/overlap", model_file, places[one], message, path)
        widest = max(widest, one, key=lambda span: span[1])


def _claim(code: str, model_file: str, places: list[str], message: str, path: str) -> Finding:
    where = f"{model_file}: {places[0]}"
    return make(code, "inspect", where, message, {"file": path, "tensors": len(places), "places": places[:8]})


def _bytes(count: int) -> str:
    return "1 byte belongs" if count == 1 else f"{count} bytes belong"


def _uncovered(path: str, start: int, stop: int, message: str) -> Finding:
    where = f"{path}: bytes {start} to {stop}"
    return make(
        "external-data/uncovered-bytes", "inspect", where, message, {"start": start, "bytes": stop - start}
    )
