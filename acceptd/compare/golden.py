"""What the comparer measures of goldens beside parity: inputs in their ranges, answers on labelled rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acceptd.compare.pairing import EXPECTED, INPUTS
from acceptd.compare.parts import cases_of, outputs_of
from acceptd.compare.task import Bounded, CompareTask, Kind, Labelled, Slice
from acceptd.evidence import Case, JobRecord, Vectors, VectorSet
from acceptd.judge.golden_sets import SetFiles, labelled_output
from acceptd.judge.jobs import Jobs
from acceptd.judge.parity import fed
from acceptd.policy.manifest import Manifest, ModelSpec


def with_goldens(
    task: CompareTask,
    manifest: Manifest,
    vectors: Vectors | None,
    jobs: Sequence[JobRecord],
    sets: Sequence[SetFiles],
) -> CompareTask:
    """Return ``task`` with the golden inputs of declared ranges, and the labelled outputs of the first run.

    ``sets`` is the trusted side's own list: which set is labelled, and about which output, is in the manifest.
    """
    if vectors is None or not manifest.declared:
        return task
    inputs: list[Bounded] = []
    labelled: list[Labelled] = []
    ordered = {(one.model, one.name): one for one in sets}
    found = Jobs(tuple(jobs))
    for model in manifest.models:
        run = found.last("run", model)
        cases = cases_of(run, 0) if run is not None else {}
        for golden in vectors.sets:
            files = ordered.get((golden.model, golden.name))
            if golden.model == model.name and files is not None:
                inputs += _bounded(golden, model)
                labelled += _labelled(golden, files, model, cases.get(golden.name))
    return task.model_copy(update={"inputs": inputs, "labelled": labelled})


def _bounded(golden: VectorSet, model: ModelSpec) -> Iterator[Bounded]:
    for spec, value in fed(golden, model):
        if spec.range is not None:
            low, high = spec.range
            part = Slice(file=INPUTS, value=value)
            yield Bounded(set=golden.name, model=model.name, input=spec.name, value=part, low=low, high=high)


def _labelled(golden: VectorSet, files: SetFiles, model: ModelSpec, case: Case | None) -> Iterator[Labelled]:
    output = labelled_output(files, model)
    if golden.labels is None or output is None:
        return
    given = outputs_of(model, case) if case is not None else {}
    kind: Kind = output.kind if output.kind in {"logits", "probabilities"} else "values"
    yield Labelled(
        set=golden.name,
        model=model.name,
        output=output.name,
        kind=kind,
        got=given.get(output.name),
        labels=Slice(file=EXPECTED, value=golden.labels),
        slices=Slice(file=EXPECTED, value=golden.slices) if golden.slices is not None else None,
    )
