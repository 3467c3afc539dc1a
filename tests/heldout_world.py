"""Held-out evidence of the classifier, as after a flawless evaluation; each test changes one thing."""

from __future__ import annotations

from typing import Any

from acceptd.evidence import (
    Case,
    HeldOut,
    JobRecord,
    Named,
    OutputStats,
    Statistics,
    Submission,
    Vectors,
    VectorSet,
)
from acceptd.policy.contract import Contract
from tests import judge_world as world

NAMES = {"heldout-0": "zebra_0", "heldout-1": "zebra_1"}
SHA = "7" * 64


def contract(**changes: Any) -> Contract:
    """The contract that agrees with the bundle and holds two sets out."""

    def change(document: dict[str, Any]) -> None:
        document["models"][0]["heldout"] = [{"sets": ["zebra_*"], "sha256": SHA}]
        document |= changes

    return world.a_contract(change)


def decoded() -> JobRecord:
    sets = [
        VectorSet(
            name=name,
            model="main",
            inputs=[Named(name="features", value=world.ref(16 * index, 4))],
            expected=[Named(name="probabilities", value=world.ref(12 * index))],
        )
        for index, name in enumerate(NAMES)
    ]
    return world.record("vectors", vectors=Vectors(sets=sets))


def cases(**changes: Any) -> list[Case]:
    usual = {"repeat": 0, "outputs": [Named(name="probabilities", value=world.ref())], "wall_ms": 1.0}
    return [Case.model_validate(usual | {"set": name} | changes) for name in NAMES]


def a_run(**changes: Any) -> JobRecord:
    return world.run(**({"variant": "heldout", "cases": cases()} | changes))


def row(name: str = "heldout-0", **changes: Any) -> OutputStats:
    return world.stats(name, against="heldout", **changes)


def held(*jobs: JobRecord, rows: list[OutputStats] | None = None, **changes: Any) -> HeldOut:
    usual = rows if rows is not None else [row(name) for name in NAMES]
    fields: dict[str, Any] = {
        "status": "run",
        "number": 3,
        "nonce": "ab" * 16,
        "names": NAMES,
        "jobs": list(jobs) or [decoded(), a_run()],
        "statistics": Statistics(outputs=usual),
    }
    return HeldOut.model_validate(fields | changes)


def submission(heldout: HeldOut | None, **changes: Any) -> Submission:
    return world.submission(**changes).model_copy(update={"heldout": heldout})
