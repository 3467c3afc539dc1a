"""Has the cell look at model files and golden sets beside them; what comes back is the jobs' word, and hostile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from acceptd.bundling.listing import Listing, speakable
from acceptd.bundling.loaded import loaded, open_in
from acceptd.bundling.stage import laid
from acceptd.cell.blobs import closing_blob, lent
from acceptd.cell.limits import job_limits
from acceptd.errors import UsageError
from acceptd.evidence import Facts, JobRecord, Schema, Structure, ValueRef, VectorSet
from acceptd.intake.paths import shown
from acceptd.judge.golden_sets import SetFiles, find
from acceptd.local import Bench
from acceptd.report.escape import line
from acceptd.values import TensorRef

MAX_MODELS: Final = 32
MAX_SETS: Final = 64
"""So many golden sets are looked into for the sizes of their values."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """One model file as the jobs describe it. ``facts`` are there; ``structure`` where the job came so far."""

    file: str
    facts: Facts
    structure: Structure | None = None
    external: tuple[str, ...] = ()
    """External data that the model names, by the paths that it would have in the bundle."""
    missing: tuple[str, ...] = ()
    """Of it, what does not lie there."""
    loaded: Schema | None = None
    """What onnxruntime says of the interface, where the file leaves a rank or an element type open."""

    def whole(self) -> None:
        """Raise UsageError where external data that the model names does not lie there."""
        if self.missing:
            raise UsageError(
                f"{shown(self.file)}: external data is not there: {shown(self.missing[0])}",
                remedy="put it beside the model, under the name that the model gives it",
            )


@dataclass(frozen=True, slots=True)
class Goldens:
    """The golden sets that lie beside a model, by the layouts of convention, and the shapes of their values."""

    patterns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    smoke: tuple[str, ...] = ()
    """Sets with inputs alone."""
    shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    """By the name of an input or output; by ``#n`` for the input without a name at place n."""
    unread: tuple[str, ...] = ()
    """Sets that no job could decode."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What the cell found of one directory."""

    models: tuple[Seen, ...]
    goldens: Goldens = Goldens()


def look(place: Bench, listing: Listing, models: Sequence[str]) -> Looked:
    """Inspect ``models``, paths of ``listing``; decode the golden sets beside a single one.

    Raises UsageError for a model that cannot be read, with what the job said. External data is not copied: only
    its names count.
    """
    if len(models) > MAX_MODELS:
        raise UsageError(
            f"{len(models)} models; a bundle holds at most {MAX_MODELS}", remedy="name those that go together"
        )
    speakable(models, place.rules.policy.limits)
    with laid(place, listing.root, models, listing.followed) as stage:
        seen = tuple(_inspected(place, stage, listing, path) for path in models)
    return Looked(seen, _goldens(place, listing, models) if len(models) == 1 else Goldens())


def _inspected(place: Bench, stage: str, listing: Listing, path: str) -> Seen:
    limits = place.rules.policy.limits
    spec = {
        "model": path,
        "files": {path: listing.files[path]},
        "present": [path],
        "forbidden": [],
        "endings": True,
        "limits": {
            key: getattr(limits, key)
            for key in ("nodes", "initializers", "scopes", "wire_depth", "metadata_bytes", "model_bytes")
        },
    }
    record = _run(place, "inspect", stage, [path], spec, {})
    if record.facts is None:
        code = record.refused.code if record.refused is not None else ""
        raise UsageError(
            f"{shown(path)} cannot be inspected: {ending_of(record)}",
            remedy=f"is it an ONNX file? `acceptd policy explain {code}` says more"
            if code
            else "is it an ONNX file?",
        )
    # What names the model itself is refused when it is judged; here it is no second file.
    named = sorted({_beside(path, one.location) for one in record.facts.external} - {path})
    missing = tuple(one for one in named if not listing.has(one))
    inside = [] if missing or len(named) > limits.external_files else named
    asked = open_in(record.facts) and not missing
    schema = loaded(place, listing, path, inside) if asked else None
    return Seen(path, record.facts, record.structure, tuple(named), missing, schema)


def _beside(path: str, location: str) -> str:
    directory = path.rpartition("/")[0]
    inner = "/".join(part for part in location.split("/") if part not in {"", "."})
    return f"{directory}/{inner}" if directory else inner


def _goldens(place: Bench, listing: Listing, models: Sequence[str]) -> Goldens:
    found = find(list(listing.files), None, models)
    sets = [one for one in found.sets if all(path in listing.files for path in one.paths)]
    if not sets:
        return Goldens()
    some = sets[:MAX_SETS]
    paths = sorted({path for one in some for path in one.paths})
    with (
        laid(place, listing.root, paths) as stage,
        closing_blob(place.tools.temporary) as inputs,
        closing_blob(place.tools.temporary) as expected,
        lent({"inputs": inputs.writer(), "expected": expected.writer()}) as blobs,
    ):
        record = _run(place, "vectors", stage, paths, {"sets": [one.spec() for one in some], "types": {}}, blobs)
    decoded = record.vectors.sets if record.vectors is not None else []
    known = {one.name for one in decoded}
    return Goldens(
        patterns=_patterns(sets),
        names=tuple(one.name for one in sets),
        smoke=tuple(one.name for one in sets if one.smoke),
        shapes=_shapes(decoded),
        unread=tuple(one.name for one in some if one.name not in known),
    )


def _patterns(sets: Sequence[SetFiles]) -> tuple[str, ...]:
    """Return patterns for the manifest: one for all directories of convention, else one for each set."""
    patterns: dict[str, None] = {}
    for one in sets:
        name = one.name if one.files else one.inputs or one.outputs
        patterns["test_data_set_*" if one.files and name.startswith("test_data_set_") else name] = None
    return tuple(patterns)[:256]


def _shapes(sets: Sequence[VectorSet]) -> dict[str, tuple[Shape, ...]]:
    shapes: dict[str, dict[Shape, None]] = {}
    for one in sets:
        for number, named in enumerate(one.inputs):
            _note(shapes, named.name or f"#{number}", named.value)
        for named in one.expected:
            if named.name:
                _note(shapes, named.name, named.value)
    return {name: tuple(found) for name, found in shapes.items()}


def _note(shapes: dict[str, dict[Shape, None]], name: str, value: ValueRef) -> None:
    if isinstance(value, TensorRef):
        shapes.setdefault(name, {})[tuple(value.shape)] = None


def _run(
    place: Bench, kind: str, stage: str, paths: Sequence[str], spec: dict[str, object], blobs: Mapping[str, int]
) -> JobRecord:
    return place.tools.cell.run(
        kind,
        files={path: f"{stage}/{path}" for path in paths},
        spec=spec,
        limits=job_limits(kind, place.rules.policy.limits),
        required_walls=place.rules.policy.required_walls,
        blobs=blobs,
    )


def ending_of(record: JobRecord) -> str:
    """Return in one safe line why a job has no result."""
    if record.refused is not None:
        return line(f"{record.refused.code} at {record.refused.where}: {record.refused.message}", 300)
    return line(f"the job ended by {record.ending} {record.cause} {record.message}".rstrip(), 300)
