"""A manifest to begin with: what inspection found and what is guessed of it, told apart. Pure.

Nothing here is agreed on: a person reads it, changes it, fills in what only people know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from acceptd.bundling.batch import NAME, together
from acceptd.bundling.guess import Bounds, bounds_of, kind_of
from acceptd.bundling.look import Goldens, Looked, Seen, Shape
from acceptd.bundling.vectors_text import WANTED
from acceptd.errors import UsageError
from acceptd.evidence import Schema, ValueInfo
from acceptd.judge.infer import dimensions, expressible, sanitise, types_of, unique
from acceptd.policy.golden import UNDECLARED
from acceptd.policy.manifest import DTYPES, Manifest
from acceptd.policy.troubles import Trouble, first

TEAM: Final = "my-team"
VERSION: Final = "0.1.0"
MAX_DIM: Final = 2**31
Comments = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What whoever asks knows already. Empty: it is guessed, and the file says so."""

    id: str = ""
    version: str = ""
    origin: str = ""
    """Of the golden sets that lie there."""
    whole: tuple[int, int] | None = None
    """Range of inputs of whole numbers that nobody has declared one for, as a guess."""
    sizes: tuple[int, int] | None = None
    """Fixed sizes, as a guess: of a first axis, and of every other one of an input that has no number."""
    loose: bool = False
    """Whether what no input has is left open in outputs, whatever name the file has for it."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A manifest, and by place what to say above a key (``models[0].outputs[1].kind``), in our own words alone."""

    manifest: Manifest
    comments: Comments = field(default_factory=dict)
    fill_in: tuple[str, ...] = ()
    """What only people know, one line each."""
    left_out: tuple[str, ...] = ()
    """What the manifest's grammar cannot express; may quote a model's names, so to be escaped where shown."""


def propose(looked: Looked, wishes: Wishes = Wishes(), *, name: str = "") -> Proposal:
    """Return a manifest for all models of ``looked``. ``name``: of the file or directory, for the id.

    Raises UsageError where a wish is no id or version, or the models make no manifest.
    """
    if not looked.models:
        raise UsageError("there is no .onnx file to propose a manifest for", remedy="name the model file")
    made = _Maker(looked, wishes, name)
    found = first(made.document(), Manifest)
    if isinstance(found, Trouble):
        raise UsageError(f"these models make no manifest: {found.key}: {found.message}", remedy=_REMEDY)
    return Proposal(found, made.comments, tuple(dict.fromkeys(made.fill_in)), tuple(made.left_out))


_REMEDY: Final = "give --id team/name and --version VERSION; docs/bundle.md has the grammar"


class _Maker:
    """Builds the document and what is said of it, top to bottom."""

    def __init__(self, looked: Looked, wishes: Wishes, name: str) -> None:
        self._looked, self._wishes, self._name = looked, wishes, name
        self.comments: Comments = {}
        self.fill_in: list[str] = []
        self.left_out: list[str] = []
        self._dims: dict[str, dict[str, int]] = {}
        self._merged = False
        """Whether sizes without a name of their own were taken for the batch."""
        self._open: set[str] = set()
        """Names whose rank or element type the runtime alone told."""

    def document(self) -> dict[str, Any]:
        bundle = self._bundle()
        names = _names([seen.file for seen in self._looked.models])
        models = [
            self._model(number, name, seen)
            for number, (name, seen) in enumerate(zip(names, self._looked.models, strict=True))
        ]
        document = {"schema": 1, "bundle": bundle, "dims": self._dims, "models": models}
        if exporter := self._exporter():
            self.comments["export"] = ["As the file itself says; docs/bundle.md has what else can be told."]
            document["export"] = {"exporter": exporter}
        return document

    def _exporter(self) -> dict[str, str] | None:
        """Return what wrote the first file that says so with a version."""
        for seen in self._looked.models:
            said = seen.structure.producer if seen.structure is not None else []
            if len(said) == 2 and all(said):
                return {"name": said[0], "version": said[1]}
        return None

    def _bundle(self) -> dict[str, str]:
        wanted = self._wishes
        guessed = f"{TEAM}/{sanitise(self._name or PurePosixPath(self._looked.models[0].file).stem, 'model')}"
        self.comments["bundle.id"] = ["<team>/<name>: the team is the inbox that it will be dropped into."]
        self.comments["bundle.version"] = ["For people; raise it with every change."]
        if not wanted.id:
            self.comments["bundle.id"] += ["FILL IN: a guess from the name of the file."]
            self.fill_in.append("bundle.id: your team, and the name of the model")
        self.comments["bundle.license"] = [
            'license = "Apache-2.0"',
            'purpose = "what the model is for, in one sentence"',
        ]
        return {"id": wanted.id or guessed, "version": wanted.version or VERSION}

    def _model(self, number: int, name: str, seen: Seen) -> dict[str, Any]:
        place = f"models[{number}]"
        goldens = self._looked.goldens
        facts = seen.facts
        inputs, outputs, self._merged = together(
            list(self._ports("input", seen)), list(self._ports("output", seen)), goldens.shapes
        )
        sizes = _sizes(inputs, outputs, goldens)
        made: dict[str, Any] = {"name": name, "file": seen.file}
        if 1 <= facts.ir_version <= 1000:
            made["ir_version"] = facts.ir_version
        used = {domain: version for domain, version in facts.opsets.items() if domain not in facts.unused_domains}
        if used and len(used) <= 64 and all(1 <= version <= 10_000 for version in used.values()):
            made["opsets"] = used
            self.comments[f"{place}.ir_version"] = ["As the file has them; another export may have others."]
        shapes = [dimensions(value) for value in (*inputs, *outputs)]
        fed = {dim for value in inputs for dim in dimensions(value) or () if isinstance(dim, str) and dim != "?"}
        lonely = _lonely(shapes, fed)
        if self._wishes.loose:
            lonely |= {dim for shape in shapes for dim in shape or () if isinstance(dim, str)} - fed
        made["inputs"] = [
            self._input(f"{place}.inputs[{index}]", value, sizes) for index, value in enumerate(inputs)
        ]
        made["outputs"] = [
            self._output(f"{place}.outputs[{index}]", value, seen, sizes, lonely, fed)
            for index, value in enumerate(outputs)
        ]
        if (quantised := _quantization(seen)) is not None:
            made["quantization"] = quantised
            self.comments[f"{place}.quantization"] = [
                "As the operators show it; say what made it, and from which samples."
            ]
            self.comments[f"{place}.quantization.tool"] = ['tool = "onnxruntime 1.32 quantize_static"']
        made["vectors"] = self._vectors(place, goldens)
        if seen.missing:
            self.comments[place] = [
                f"MISSING: external data of this model is not there ({len(seen.missing)} files)."
            ]
        return made

    def _ports(self, what: str, seen: Seen) -> Iterator[ValueInfo]:
        names: set[str] = set()
        for value in seen.facts.inputs if what == "input" else seen.facts.outputs:
            if what == "input" and value.overridable:
                continue
            whole = _completed(value, seen.loaded)
            if whole != value:
                self._open.add(value.name)
            if problem := expressible(whole, names):
                self.left_out.append(f"{seen.file}: {what} {value.name[:80]!r}: {problem}")
                continue
            names.add(value.name)
            yield whole

    def _input(self, place: str, value: ValueInfo, sizes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        made = _fields(value)
        made["shape"] = self._shape(place, value, sizes, fed=True, lonely=frozenset())
        if value.dtype.startswith(("float", "bfloat", "int", "uint")):
            self.comments[f"{place}.range"] = [
                "FILL IN: least and greatest value of an element; only declared ranges are probed.",
                "range = [0.0, 1.0]" if "float" in value.dtype else "range = [0, 100]",
            ]
            if self._wishes.whole is not None and "float" not in value.dtype:
                made["range"] = list(self._wishes.whole)
                self.comments[f"{place}.range"] = ["A guess that every index allows; only this range is probed."]
            if not any(one.startswith("range") for one in self.fill_in):
                self.fill_in.append("range of each input: without one, nothing but the golden sets is tried")
        return made

    def _output(
        self,
        place: str,
        value: ValueInfo,
        seen: Seen,
        sizes: Mapping[str, Sequence[int]],
        lonely: frozenset[str],
        fed: set[str],
    ) -> dict[str, Any]:
        made = _fields(value)
        made["shape"] = self._shape(place, value, sizes, fed=False, lonely=lonely, inputs=fed)
        endings = {one.output: one for one in (seen.structure.endings if seen.structure else ())}
        kind = kind_of(value, endings.get(value.name), seen.facts.opsets.get("ai.onnx"))
        made["kind"] = kind.kind
        said = [f"{kind.reason[:1].upper()}{kind.reason[1:]}."]
        if not kind.sure:
            said.append(
                "One of: values, logits, probabilities, embedding, boxes, sequence, audio (docs/parity.md)."
            )
        self.comments[f"{place}.kind"] = said
        classes = made["shape"][-1] if made["shape"] else None
        if kind.kind in {"logits", "probabilities"} and isinstance(classes, int) and classes > 1:
            self.comments[f"{place}.labels"] = [
                f"FILL IN: the names of the {classes} classes, in the order of the last axis.",
                'labels = ["first", "second"]',
            ]
            self.fill_in.append("labels of the classes, in order")
        return made

    def _shape(
        self,
        place: str,
        value: ValueInfo,
        sizes: Mapping[str, Sequence[int]],
        *,
        fed: bool,
        lonely: frozenset[str],
        inputs: set[str] | None = None,
    ) -> list[int | str] | None:
        shape = dimensions(value)
        if shape is None:
            if value.kind == "tensor":
                self.comments[f"{place}.shape"] = ["The file does not say its rank."]
            return None
        if value.name in self._open:
            self.comments[f"{place}.shape"] = ["As onnxruntime loads it; the file itself leaves it open."]
        for axis, dim in enumerate(shape):
            if dim == "?" and fed and self._wishes.sizes is not None:
                dim = shape[axis] = f"axis_{axis}"  # noqa: PLW2901 - a name, so that it is bounded
            if not isinstance(dim, str) or dim == "?":
                continue
            if dim in lonely:
                shape[axis] = "?"
                self.comments[f"{place}.shape"] = [
                    '"?": the model decides it; name it in [dims] to have it bounded.'
                ]
            elif dim not in self._dims:
                known = [size for size in sizes.get(dim, ()) if size <= MAX_DIM]
                bounds = bounds_of(dim, axis, known, fed=fed or dim in (inputs or ()))
                if self._wishes.sizes is not None and fed:
                    size = self._wishes.sizes[axis > 0]
                    bounds = Bounds(size, size, "a size at which it runs; it did not at others that were tried")
                self._dims[dim] = {"min": bounds.low, "max": bounds.high}
                said = [f"A guess: {bounds.reason}."]
                if self._merged and dim == NAME:
                    said.append("The file has no name for it: first axes of inputs are taken for the batch.")
                self.comments[f"dims[{len(self._dims) - 1}]"] = said
                self.fill_in += [] if any(one.startswith("dims") for one in self.fill_in) else [_DIMS]
        if "?" in shape and fed:
            self.comments[f"{place}.shape"] = [
                '"?": of no known size and not probed; a name bounded in [dims] is.'
            ]
        return shape

    def _vectors(self, place: str, goldens: Goldens) -> list[dict[str, Any]]:
        if not goldens.patterns:
            self.comments[f"{place}.vectors"] = [WANTED]
            return []
        count, smoke = len(goldens.names), len(goldens.smoke)
        said = [f"{count} golden set{'s' * (count != 1)} lie{'s' * (count == 1)} beside the model."]
        if smoke:
            said.append(f"{smoke} of them have no expected output: they are run and compared with nothing.")
        if goldens.unread:
            said.append(f"{len(goldens.unread)} of them could not be read; `acceptd check` says why.")
        self.comments[f"{place}.vectors"] = said
        if not self._wishes.origin:
            self.comments[f"{place}.vectors[0].origin"] = [
                'FILL IN: where the expected values come from, as "torch 2.13 float32 on CPU". Values that',
                "onnxruntime made itself show regression, not parity.",
            ]
            self.fill_in.append("origin of the golden sets")
        return [{"sets": list(goldens.patterns), "origin": self._wishes.origin or UNDECLARED}]


_DIMS: Final = "dims: the bounds that production needs; probes run the model at both ends"


def _names(files: Sequence[str]) -> list[str]:
    if len(files) == 1:
        return ["main"]
    taken: set[str] = set()
    names = []
    for file in files:
        stem = PurePosixPath(file).with_suffix("").as_posix() if "/" in file else PurePosixPath(file).stem
        name = unique(sanitise(stem, "model"), taken)
        taken.add(name)
        names.append(name)
    return names


def _completed(value: ValueInfo, schema: Schema | None) -> ValueInfo:
    """Return an input or output with what the runtime adds to a rank or element type that the file leaves open."""
    told = {one.name: one for one in (*schema.inputs, *schema.outputs)} if schema is not None else {}
    other = told.get(value.name)
    if other is None or value.kind != "tensor" or other.kind != "tensor":
        return value
    shape = other.shape if value.shape is None else value.shape
    dtype = other.dtype if value.dtype == "undefined" else value.dtype
    return value.model_copy(update={"shape": shape, "dtype": dtype})


def _quantization(seen: Seen) -> dict[str, Any] | None:
    found = seen.facts.quantisation
    if found is None or found.method == "none":
        return None
    known = {
        "method": found.method,
        "format": found.format,
        "weight_types": [one for one in found.weight_types if one in DTYPES],
        "activation_types": [one for one in found.activation_types if one in DTYPES],
        "per_channel": found.per_channel,
    }
    return {name: item for name, item in known.items() if item not in (None, [])}


def _fields(value: ValueInfo) -> dict[str, Any]:
    dtype, key = types_of(value)
    return {"name": value.name, "type": value.kind, "dtype": dtype, "key_dtype": key}


def _sizes(inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], goldens: Goldens) -> dict[str, list[int]]:
    """Return by the name of a dimension the sizes that golden sets have there."""
    sizes: dict[str, list[int]] = {}
    keys = [(value, (value.name, f"#{number}")) for number, value in enumerate(inputs)]
    for value, names in (*keys, *((value, (value.name,)) for value in outputs)):
        shape = dimensions(value) or []
        for name in names:
            for seen in goldens.shapes.get(name, ()):
                _match(sizes, shape, seen)
    return sizes


def _match(sizes: dict[str, list[int]], shape: Sequence[int | str], seen: Shape) -> None:
    if len(shape) == len(seen):
        for dim, size in zip(shape, seen, strict=True):
            if isinstance(dim, str) and dim != "?":
                sizes.setdefault(dim, []).append(size)


def _lonely(shapes: Sequence[Sequence[int | str] | None], fed: set[str]) -> frozenset[str]:
    """Return the names that no input has and that stand in one place alone: they bind nothing."""
    every = [dim for shape in shapes for dim in shape or () if isinstance(dim, str)]
    return frozenset(dim for dim in every if dim not in fed and every.count(dim) == 1)
