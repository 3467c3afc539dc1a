"""Which outputs of probes and of the second process must agree with each other, whatever is right. Pure.

The cases and their names are those of ``sandbox/metamorphic.py`` and ``sandbox/probing.py``. Everything stands in
blobs that the jobs wrote; rows are cut out of a tensor by its reference alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from acceptd.compare.parts import cases_of, outputs_of
from acceptd.compare.promise import TOKENS, Promise
from acceptd.compare.task import Against, How, Pair, Slice
from acceptd.evidence import JobRecord, SequenceRef, TensorRef, ValueRef, VectorSet
from acceptd.judge.agreement import WHOLE
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

DRAWS: Final = "probe:draws-0"
_FLOOR: Final = {"float64": 1e-12, "float16": 2.0**-8, "bfloat16": 2.0**-6}
_FLOOR_USUAL: Final = 1e-5
"""Relative difference that two paths through one computation may show (other kernels, another order of
sums), by element type, where the output's own tolerance is smaller."""

Table = dict[str, Slice]


@dataclass(frozen=True, slots=True)
class Relations:
    """All relations of one model. ``run`` is the main run, ``plain`` the second process; None: there was none."""

    manifest: Manifest
    model: ModelSpec
    contract: Contract | None
    policy: Policy
    goldens: Sequence[VectorSet]
    run: JobRecord
    plain: JobRecord | None

    def pairs(self) -> Iterator[Pair]:
        """Yield what the comparer must hold against each other."""
        yield from self._within()
        if self.plain is not None:
            yield from self._between(self.plain)

    def _within(self) -> Iterator[Pair]:
        """Of the main run: the same probe twice, and one input changed alone."""
        first, second = cases_of(self.run, 0), cases_of(self.run, 1)
        own = {one.name for one in self.goldens}
        for name in (name for name in second if name in first and name.startswith("probe:") and name not in own):
            for output, value in outputs_of(self.model, first[name]).items():
                other = outputs_of(self.model, second[name]).get(output)
                yield self._exact(name, output, "repeat", value, other)
        if DRAWS in first:
            base = outputs_of(self.model, first[DRAWS])
            for name in (name for name in first if name.startswith("probe:only-")):
                for output, value in outputs_of(self.model, first[name]).items():
                    if output in base:
                        yield self._exact(name, output, "input", base[output], value)

    def _between(self, plain: JobRecord) -> Iterator[Pair]:
        main = {name: outputs_of(self.model, case) for name, case in cases_of(self.run, 0).items()}
        told = {name: outputs_of(self.model, case, "unoptimised") for name, case in cases_of(plain, 0).items()}
        if DRAWS in main and DRAWS in told:
            yield from self._whole(DRAWS, "unoptimised", main[DRAWS], told[DRAWS])
        golden = self.goldens[0].name if self.goldens else ""
        base: Table = {}
        for name, origin in (("meta:draws", DRAWS), ("meta:golden", golden)):
            if name in told:
                base = told[name]
                yield from self._whole(name, "fresh", main.get(origin, {}), base)
        base = base or told.get("meta:base", {})  # in sessions of another kind than the main run's
        yield from self._whole("meta:threads", "threads", base, told.get("meta:threads", {}))
        for first, second in (
            ("meta:min", "meta:min-again"),
            ("meta:max-fresh", "meta:max"),
            ("meta:odd-fresh", "meta:odd"),
        ):
            yield from self._whole(second, "batch", told.get(first, {}), told.get(second, {}))
        alone, apart = told.get("meta:single", {}), told.get("meta:calls", {})
        for calls in (2, 4):
            name = f"meta:concurrent-{calls}"
            single = {output: _first(value, calls) for output, value in (alone or apart).items()}
            yield from self._whole(name, "concurrent", single, told.get(name, {}))
        if not self.model.rows_interact:
            # a slow model may have no time for its batch again: the main run has answered the same draws
            base = base or main.get(DRAWS, {})
            yield from self._rows(base, alone, told.get("meta:order", {}))
            for name in ("meta:min", "meta:odd", "meta:max"):
                yield from self._sizes(name, base, told.get(name, {}))

    def _rows(self, base: Table, alone: Table, moved: Table) -> Iterator[Pair]:
        """Rows in one batch against the same rows alone, and against the batch moved on by one row.

        All outputs at once: scores and classes are cut as their boxes are.
        """
        cut: Table = {}
        first: Table = {}
        second: Table = {}
        for output, value in base.items():
            batch, other = value.value, moved.get(output)
            if not isinstance(batch, TensorRef):
                continue
            single = alone.get(output)
            if single is not None and isinstance(single.value, SequenceRef):
                parts = _cut(batch, [_rows_of(one) for one in single.value.items])
                if parts is not None:
                    cut[output] = Slice(file=value.file, value=parts)
            if other is not None and isinstance(other.value, TensorRef):
                rows = batch.shape[0] if batch.shape else 0
                left, right = _cut(batch, [rows - 1, 1]), _cut(other.value, [1, rows - 1])
                if left is not None and right is not None:
                    turned = SequenceRef(kind="sequence", items=right.items[::-1])
                    first[output] = Slice(file=value.file, value=left)
                    second[output] = Slice(file=other.file, value=turned)
        yield from self._whole("meta:single", "row", cut, alone)
        yield from self._whole("meta:order", "order", first, second)

    def _sizes(self, name: str, base: Table, other: Table) -> Iterator[Pair]:
        """The first rows of batches of two sizes, which are fed the same."""
        first: Table = {}
        second: Table = {}
        for output, value in base.items():
            given = other.get(output)
            if given is None or not isinstance(given.value, TensorRef) or not isinstance(value.value, TensorRef):
                continue
            rows = min(_rows_of(value.value), _rows_of(given.value))
            left, right = _cut(value.value, [rows]), _cut(given.value, [rows])
            if left is not None and right is not None:
                first[output] = Slice(file=value.file, value=left)
                second[output] = Slice(file=given.file, value=right)
        yield from self._whole(name, "row", first, second)

    def _whole(self, name: str, against: Against, expected: Table, got: Table) -> Iterator[Pair]:
        """Pair the outputs that both sides have, under kind and tolerance of each."""
        both = {output: value for output, value in expected.items() if output in got}
        for pair in Promise(self.manifest, self.contract, self.policy).pairs(self.model, name, against, both, got):
            yield _relaxed(pair)

    def _exact(self, name: str, output: str, against: Against, value: Slice, other: Slice | None) -> Pair:
        return Pair(
            set=name,
            model=self.model.name,
            output=output,
            against=against,
            expected=value,
            got=other,
            rtol=0.0,
            atol=0.0,
            kind="values",
        )


def _relaxed(pair: Pair) -> Pair:
    """Return a pair under what two paths through one computation may show, if that is more."""
    dtype = _dtype(pair.expected)
    rtol = max(pair.rtol, _floor(dtype))
    if pair.kind not in WHOLE:  # no figure of those kinds would change what is found
        return pair.model_copy(update={"rtol": rtol, "kind": "values", "how": How()})
    if pair.kind == "sequence" and dtype in TOKENS:
        return pair.model_copy(update={"rtol": 0.0, "atol": 0.0})
    scores = pair.how.scores
    if scores is None:
        return pair.model_copy(update={"rtol": rtol})
    loose = scores.model_copy(update={"rtol": max(scores.rtol, _floor(_dtype(scores.expected)))})
    return pair.model_copy(update={"rtol": rtol, "how": pair.how.model_copy(update={"scores": loose})})


def _floor(dtype: str) -> float:
    return _FLOOR.get(dtype, _FLOOR_USUAL)


def _rows_of(value: ValueRef) -> int:
    return value.shape[0] if isinstance(value, TensorRef) and value.shape else 0


def _dtype(part: Slice) -> str:
    value = part.value
    while isinstance(value, SequenceRef) and value.items:
        value = value.items[0]
    return value.dtype if isinstance(value, TensorRef) else ""


def _first(part: Slice, count: int) -> Slice:
    """Return the first items of a sequence, over and over again where it has fewer."""
    value = part.value
    if not isinstance(value, SequenceRef) or not value.items:
        return part
    items = [value.items[index % len(value.items)] for index in range(count)]
    return Slice(file=part.file, value=SequenceRef(kind="sequence", items=items))


def _cut(ref: TensorRef, sizes: Sequence[int]) -> SequenceRef | None:
    """Return the rows of a tensor in parts of ``sizes``, from its first one on; None where it has not so many."""
    rows = ref.shape[0] if ref.shape else 0
    if not rows or ref.dtype == "string" or ref.nbytes % rows:
        return None
    if not sizes or min(sizes) < 1 or sum(sizes) > rows:
        return None
    width, at = ref.nbytes // rows, ref.offset
    items: list[ValueRef] = []
    for size in sizes:
        shape = [size, *ref.shape[1:]]
        items.append(TensorRef(kind="tensor", dtype=ref.dtype, shape=shape, offset=at, nbytes=size * width))
        at += size * width
    return SequenceRef(kind="sequence", items=items)
