"""What one more profile than the first found out about a submission, as evidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.kept_facts import KeptFile
from acceptd.runtime.identity import RuntimeRecord, identity
from acceptd.statistics_facts import Statistics
from acceptd.values import Evidence


class UnderProfile(Evidence):
    """Comparisons and runtimes of the runs under one profile; the runs themselves bear its name."""

    profile: str
    statistics: Statistics | None = None
    runtimes: list[RuntimeRecord] = []
    runtime_problem: str = ""
    kept: Annotated[dict[str, KeptFile], Field(max_length=1024)] = {}
    """Where the bytes that the comparison read are kept, by the task's keys; empty: they are not."""

    @property
    def runtime_identity(self) -> str | None:
        """The identity of the runtime, where all runs had one and it was measured."""
        measured = len(self.runtimes) == 1 and not self.runtime_problem
        return identity(self.runtimes[0]) if measured else None
