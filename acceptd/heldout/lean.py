"""What is kept of a run that saw held-out inputs: what is judged, in a size that the model has no say in. Pure.

It goes on record when the stage's fixed time is over. A job that was taken over could make its frames large for
one input and small for another, and how much later its verdict comes would tell the team what no field says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from acceptd.evidence import Case, JobRecord, Refused, VectorSet
from acceptd.policy.manifest import ModelSpec
from acceptd.values import Problem

TEXT: Final = 400
"""Characters of a message, as a finding shows them."""
_SET_BYTES: Final = 8 << 10
_OUTPUT_BYTES: Final = 1 << 10


def lean(record: JobRecord, model: ModelSpec, sets: Sequence[VectorSet]) -> JobRecord:
    """Return what judge, comparer and report need of a held-out run.

    ``sets`` are those of its model. One that says of its outputs more than any honest run of them has broken the
    protocol: that is the one bit of a failure.
    """
    schema, done, refused = record.schema_, record.done, record.refused
    kept = record.model_copy(
        update={
            **_cut(record, "cause", "message", "stage"),
            "stderr_tail": "",
            "walls": None,
            "refused": refused and refused.model_copy(update=_cut(refused, "where", "message", "stage")),
            "schema_": schema
            and schema.model_copy(update={"inputs": [], "outputs": [], "providers": [], "runtime": {}}),
            "done": done and done.model_copy(update={"phases_ms": {}}),
            "placement": None,
            "steps": [],
            "kernel": None,
            "timing": None,
            "profiled": None,
            "probed": [],
            "notes": [],
            # One more than were ordered: the one that was not is seen.
            "cases": [_case(case) for case in record.cases[: len(sets) + 1]],
        }
    )
    expected = sum(len(one.value.model_dump_json()) for golden in sets for one in golden.expected)
    names = sum(_OUTPUT_BYTES + len(output.name) for output in model.outputs)
    room = 2 * expected + len(sets) * (_SET_BYTES + names)
    if sum(len(case.model_dump_json()) for case in kept.cases) <= room:
        return kept
    message = "it told more of its outputs than they have"
    return kept.model_copy(update={"ending": "violation", "cause": "", "message": message, "cases": []})


def _cut(one: JobRecord | Refused, *names: str) -> dict[str, str]:
    return {name: getattr(one, name)[:TEXT] for name in names}


def _case(case: Case) -> Case:
    problems = [
        Problem(code=one.code, where=one.where[:TEXT], message=one.message[:TEXT]) for one in case.problems[:4]
    ]
    return case.model_copy(update={"set": case.set[:TEXT], "error": case.error[:TEXT], "problems": problems})
