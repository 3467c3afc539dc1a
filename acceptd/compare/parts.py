"""What pairing needs of a run: its cases by set, their outputs by name, the key of its blob. Pure."""

from __future__ import annotations

from acceptd.compare.task import Slice
from acceptd.evidence import Case, JobRecord
from acceptd.policy.manifest import ModelSpec


def outputs_key(model: str, variant: str = "") -> str:
    """Return the key of the outputs blob of one ``run`` job."""
    return f"outputs:{model}:{variant}" if variant else f"outputs:{model}"


def cases_of(record: JobRecord, repeat: int) -> dict[str, Case]:
    """Return the first case of each set that did not raise."""
    result: dict[str, Case] = {}
    for case in record.cases:
        if case.repeat == repeat and not case.error:
            result.setdefault(case.set, case)
    return result


def outputs_of(model: ModelSpec, case: Case, variant: str = "") -> dict[str, Slice]:
    """Return the outputs of a case by name; by position where the run names none."""
    names = [named.name for named in case.outputs]
    if not all(names) or len(set(names)) != len(names):
        names = [output.name for output in model.outputs]
    key = outputs_key(model.name, variant)
    pairs = zip(names, case.outputs, strict=False)
    return {name: Slice(file=key, value=named.value) for name, named in pairs}
