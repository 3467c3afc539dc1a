"""The policy's table of observe mode: what is judged and put on record, and never promoted. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, ValidationError

from acceptd.policy.names import ModelId, Name
from acceptd.policy.table import Table


class ObserveTable(Table):
    """Whose submissions are only observed (``docs/adoption.md``)."""

    everything: bool = False
    """The whole instance."""
    teams: Annotated[list[Name], Field(max_length=1024)] = []
    models: Annotated[list[ModelId], Field(max_length=4096)] = []

    def covers(self, team: str, model_id: str | None) -> bool:
        """Say whether a submission of ``team`` is only observed; ``model_id`` is None where no manifest was read.

        A model is covered for its own team alone: what another team says in a manifest takes nothing out.
        """
        if self.everything or team in self.teams:
            return True
        return model_id in self.models and model_id is not None and model_id.partition("/")[0] == team

    def words(self) -> Iterator[str]:
        """Yield what is observed, for people; nothing where nothing is."""
        if self.everything:
            yield "everything"
            return
        if self.teams:
            yield f"team{'s' if len(self.teams) > 1 else ''} {', '.join(self.teams)}"
        if self.models:
            yield f"model{'s' if len(self.models) > 1 else ''} {', '.join(self.models)}"


def observe_table(value: object) -> ObserveTable | None:
    """Return the table of its JSON form; None for anything else."""
    try:
        return ObserveTable.model_validate(value)
    except ValidationError:
        return None
