"""``acceptd bundle vectors``: golden sets from inputs and an oracle, with an origin that says what they prove."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.bundling import fits
from acceptd.bundling.golden_dirs import sets_written
from acceptd.bundling.inputs import CAST, decoded, drawn
from acceptd.bundling.listing import Listing
from acceptd.bundling.lock import contents, read_text, written_back
from acceptd.bundling.look import look
from acceptd.bundling.oracles import PATIENCE, Task, ask
from acceptd.bundling.origins import REFERENCE, RUNTIME, Origin, of_caller
from acceptd.bundling.readback import read_manifest
from acceptd.bundling.vectors_text import table, with_table
from acceptd.cell.blobs import Blob, closing_blob
from acceptd.contracts.toml import quoted
from acceptd.errors import UsageError
from acceptd.evidence import VectorSet
from acceptd.intake.paths import shown
from acceptd.local import Bench
from acceptd.policy.manifest import Manifest, ModelSpec, VectorsSpec

MAX_SETS: Final = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for: inputs (files or a number of random draws), and who computes what is expected.

    ``expected`` are files of the caller's own values, one for each of ``inputs``; ``origin`` says where these
    come from. ``oracle`` is empty then.
    """

    inputs: tuple[Path, ...] = ()
    random: int = 0
    seed: str = "acceptd"
    oracle: str = REFERENCE
    expected: tuple[Path, ...] = ()
    origin: str = ""
    model: str = ""
    patience: float = PATIENCE
    """Seconds of processor time that the evaluator gets at least."""

    def checked(self) -> Wanted:
        """Return itself. Raises UsageError where it cannot be meant."""
        if bool(self.inputs) == bool(self.random):
            raise UsageError(
                "give --from FILE.npz or --random N", remedy="one of the two says what the inputs are"
            )
        if max(len(self.inputs), self.random) > MAX_SETS:
            raise UsageError(f"more than {MAX_SETS} sets at once", remedy="make them in several steps")
        if self.expected:
            if len(self.expected) != len(self.inputs):
                raise UsageError(
                    f"{len(self.expected)} files of expected values for {len(self.inputs)} of inputs",
                    remedy="give one --oracle FILE.npz for each --from FILE.npz, in the same order",
                )
            if not self.origin:
                raise UsageError(
                    "nobody says where these expected values come from",
                    remedy='give --origin "torch 2.13 float32 on CPU"; values of onnxruntime are no parity',
                )
        elif self.oracle not in {REFERENCE, RUNTIME}:
            raise UsageError(
                f"{shown(self.oracle)} is no oracle", remedy="give --oracle reference, onnxruntime or a FILE.npz"
            )
        elif self.origin:
            raise UsageError(
                "--origin is for expected values of your own", remedy="leave it out: the oracle is the origin"
            )
        return self


@dataclass(frozen=True, slots=True)
class Made:
    """What became of it: the sets, what they prove, and where nobody had declared a range."""

    sets: tuple[str, ...]
    origin: Origin
    unranged: tuple[str, ...]
    locked: bool
    """The bundle has a lock, which is out of date now."""


def make(place: Bench, root: Path, wanted: Wanted) -> Made:
    """Make the sets in the bundle at ``root`` and name them in its ``bundle.toml``; all of it or nothing.

    Raises UsageError, with the expected names and types, for inputs or results that do not fit.
    """
    wanted.checked()
    listing = contents(root, place.rules.policy.limits)
    before = read_text(root)
    manifest = read_manifest(place, before)
    model = _chosen(manifest, wanted.model)
    if model.file not in listing.files:
        raise UsageError(f"{shown(model.file)} is not there", remedy="bundle.toml names it; put it there")
    if wanted.random and (why := fits.not_drawable(model, manifest)):
        raise UsageError(why, remedy="declare it in bundle.toml (range, shape, [dims]), or give --from FILE.npz")
    [seen] = look(place, Listing(root, {model.file: listing.files[model.file]}), [model.file]).models
    with ExitStack() as stack:
        inputs, expected = (stack.enter_context(closing_blob(place.tools.temporary)) for _ in range(2))
        task = Task(listing, manifest, model, seen, (), inputs)
        sets, origin = _filled(place, task, wanted, expected)
        names = _names(listing, manifest, model, origin, len(sets))
        text = _text(before.decode("utf-8"), manifest, model, names, origin, wanted)
        meant = _with(manifest, model, VectorsSpec(sets=list(names), origin=origin.text))
        with sets_written(place, root, model.name, names, sets, inputs, expected):
            written_back(place, root, before, text, meant)
    unranged = tuple(fits.unranged(model)) if wanted.random else ()
    return Made(names, origin, unranged, manifest.files is not None)


def _chosen(manifest: Manifest, name: str) -> ModelSpec:
    found = [model for model in manifest.models if model.name == name or (not name and len(manifest.models) == 1)]
    if not found:
        known = ", ".join(model.name for model in manifest.models)
        wrong = f"there is no model {shown(name)}" if name else "the bundle has several models"
        raise UsageError(wrong, remedy=f"give --model, one of: {known}")
    return found[0]


def _filled(place: Bench, task: Task, wanted: Wanted, expected: Blob) -> tuple[list[VectorSet], Origin]:
    """Return the sets with inputs and expected values, checked against the manifest."""
    if wanted.expected:
        sets = decoded(place, task, wanted.inputs, wanted.expected, expected)
        return _fitting(task, sets, wanted, "the expected values"), of_caller(wanted.origin)
    if wanted.random:
        plain = drawn(place, task, wanted.random, wanted.seed)
    else:
        plain = decoded(place, task, wanted.inputs, (), expected)
    fitting = _fitting(task, plain, wanted, "")
    asked = Task(task.listing, task.manifest, task.model, task.seen, fitting, task.inputs)
    values, origin = ask(place, asked, wanted.oracle, expected, wanted.patience)
    filled = [one.model_copy(update={"expected": found}) for one, found in zip(fitting, values, strict=True)]
    return _fitting(task, filled, wanted, "the oracle's values"), origin


def _fitting(task: Task, sets: Sequence[VectorSet], wanted: Wanted, about: str) -> list[VectorSet]:
    """Return the sets in declared order; raise UsageError with what was expected where one does not fit."""
    found = []
    for number, one in enumerate(sets):
        bound: dict[str, int] = {}
        given = fits.in_order(one.inputs, task.model.inputs)
        results = fits.in_order(one.expected, task.model.outputs)
        source = shown(wanted.inputs[number].name) if wanted.inputs else one.name
        if why := fits.fault(given, task.model.inputs, task.manifest, "input", bound):
            raise UsageError(f"{source}: {why}", remedy=_remedy(why))
        if about and (why := fits.fault(results, task.model.outputs, task.manifest, "output", bound)):
            where = shown(wanted.expected[number].name) if wanted.expected else f"{source}, {about}"
            raise UsageError(f"{where}: {why}", remedy=_remedy(why) if wanted.expected else _DECLARE)
        found.append(one.model_copy(update={"inputs": given, "expected": results}))
    return found


def _remedy(why: str) -> str:
    return "give it that shape, or widen [dims] in bundle.toml" if "axis " in why or "rank " in why else CAST


_DECLARE: Final = "is the output declared as it is? mend bundle.toml, or take another oracle"


def _names(listing: Listing, manifest: Manifest, model: ModelSpec, origin: Origin, count: int) -> tuple[str, ...]:
    """Return names of directories that nobody has: ``goldens_reference_0`` and on."""
    own = "" if len(manifest.models) == 1 else f"{model.name}_"
    taken = {path.partition("/")[0] for path in listing.files}
    names: list[str] = []
    number = 0
    while len(names) < count:
        name = f"goldens_{own}{origin.word}_{number}"
        names += [] if name in taken or os.path.lexists(listing.root / name) else [name]
        number += 1
    return tuple(names)


def _text(
    before: str, manifest: Manifest, model: ModelSpec, names: Sequence[str], origin: Origin, wanted: Wanted
) -> str:
    told = textwrap.wrap(f"Made by `acceptd bundle vectors`; {origin.proves}.", 100)
    if wanted.random:
        told.append(f"Inputs: {wanted.random} random draws of the seed {quoted(wanted.seed)}.")
    made = table(names, origin.text, told)
    return with_table(before, made, manifest.models.index(model))


def _with(manifest: Manifest, model: ModelSpec, spec: VectorsSpec) -> Manifest:
    models = [
        one.model_copy(update={"vectors": [*one.vectors, spec]}) if one is model else one
        for one in manifest.models
    ]
    return manifest.model_copy(update={"models": models})
