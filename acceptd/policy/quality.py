"""What a contract asks of a model's answers on labelled goldens, ``[[models.quality]]``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from acceptd.policy.table import Short, Table

Share = Annotated[float, Field(ge=0, le=1)]


class QualityFloor(Table):
    """Bounds for one output over all labelled rows, or those of one ``slice``; ``label``: of one true class.

    Only false negatives are asked of a single class. At least one bound has to be there.
    """

    output: Annotated[str, Field(min_length=1, max_length=1024)]
    slice: Short | None = None
    label: Short | None = None
    min_rows: Annotated[int, Field(ge=1, le=2**53 - 1)] = 1
    min_accuracy: Share | None = None
    max_calibration_error: Share | None = None
    max_brier: Annotated[float, Field(ge=0, le=2)] | None = None
    max_false_negatives: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    max_false_negative_rate: Share | None = None

    @model_validator(mode="after")
    def _asks(self) -> QualityFloor:
        whole = (self.min_accuracy, self.max_calibration_error, self.max_brier)
        single = (self.max_false_negatives, self.max_false_negative_rate)
        if all(bound is None for bound in (*whole, *single)):
            raise ValueError("it bounds nothing: give min_accuracy, max_calibration_error, max_brier, …")
        if self.label is None and any(bound is not None for bound in single):
            raise ValueError("false negatives are of one class: give label")
        if self.label is not None and any(bound is not None for bound in whole):
            raise ValueError("with label only max_false_negatives and max_false_negative_rate have a meaning")
        return self
