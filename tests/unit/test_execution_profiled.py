"""Which submissions are profiled beside the release, in which order, and which are not. No job is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acceptd.evidence import JobRecord
from acceptd.execution import Execution
from acceptd.measuring import profiling_order
from acceptd.placement_facts import PlacedNode, Placement
from acceptd.policy.load import with_overrides
from acceptd.policy.policy import Policy

pytestmark = pytest.mark.unit
ONE = Placement(nodes=[PlacedNode(provider="CPUExecutionProvider", domain="", op_type="Conv", count=3)])


def record(variant: str = "", ending: str = "done") -> JobRecord:
    return JobRecord.model_validate({"kind": "run", "variant": variant, "ending": ending, "placement": ONE})


@dataclass
class Released:
    """A release's run that only notes what it was asked."""

    asked: list[tuple[str, dict[str, Any]]]
    quantised: bool = True
    mapped_bytes: int = 0
    outputs: object = None
    beside: Any = field(init=False)

    def __post_init__(self) -> None:
        self.beside = SimpleNamespace(quantised=self.quantised)

    def __call__(self, spec: dict[str, Any], variant: str) -> list[JobRecord]:
        self.asked.append((variant, spec))
        return [record(variant)]


def profiled(
    done: Sequence[JobRecord], *overrides: str, external: bool = False, sets: int = 1, **changes: Any
) -> list[tuple[str, dict[str, Any]]]:
    asked: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def alone() -> Iterator[bool]:
        yield True

    def own(_orders: object, spec: dict[str, Any], _profiling: object) -> JobRecord:
        asked.append(("profiled", spec))
        return record("profiled")

    stub = SimpleNamespace(
        rules=SimpleNamespace(policy=with_overrides(Policy(), overrides)),
        hold=SimpleNamespace(alone=alone),
        _profiled=own,
    )
    records = Execution._profiled_beside(
        cast("Execution", stub),
        cast("Any", Released(asked, **changes)),
        done,
        {"sets": [{}] * sets},
        lambda _: cast("Any", SimpleNamespace(outputs=None)),
        external=external,
    )
    assert [one.variant for one in records] == [variant for variant, _ in asked]
    return asked


BOTH = (record(), record("prior"))


def test_the_release_and_the_quantised_model_are_profiled_in_turn_with_named_nodes() -> None:
    asked = profiled(BOTH)
    assert [variant for variant, _ in asked] == ["profiled-prior", "profiled"]
    for _, spec in asked:
        assert spec["profiled"] == {"runs": 20, "seconds": 5.0, "named": True}
        assert (spec["probes"], spec["repeats"]) == (False, 1)


def test_nobody_is_profiled_where_there_is_nothing_to_compare_or_the_policy_says_no() -> None:
    assert profiled(BOTH, quantised=False) == []
    assert profiled(BOTH, "regression.quantized.profiled=false") == []
    assert profiled(BOTH, "placement.profiled_runs=0") == []
    assert profiled(BOTH, sets=0) == []
    assert profiled([record(), record("prior", "crash")]) == []
    assert profiled([record("", "limit"), record("prior")]) == []


def test_external_data_on_either_side_cannot_be_read_by_a_profiled_run() -> None:
    assert profiled(BOTH, external=True) == []
    assert profiled(BOTH, mapped_bytes=1 << 20) == []


def test_without_a_release_to_compare_one_provider_needs_no_profile() -> None:
    assert profiling_order(Policy(), record()) == {}
    tight = with_overrides(Policy(), ["limits.run_cpu_seconds=4"])
    assert profiling_order(tight, record(), beside=True)["profiled"]["seconds"] == 1.0
