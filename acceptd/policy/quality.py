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
    """The labelled output."""
    slice: Short | None = None
    """Its rows alone; left out: all rows."""
    label: Short | None = None
    """One true class: its name among the output's labels, or its number."""
    min_rows: Annotated[int, Field(ge=1, le=2**53 - 1)] = 1
    """Rows that there must be; with ``label``, rows of that class."""
    min_accuracy: Share | None = None
    """Share of rows whose top class is the label."""
    max_calibration_error: Share | None = None
    """Expected calibration error over 15 bins of equal width."""
    max_brier: Annotated[float, Field(ge=0, le=2)] | None = None
    """Brier score of several classes, from 0 to 2."""
    max_false_negatives: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    """Rows of the class ``label`` that get another answer."""
    max_false_negative_rate: Share | None = None
    """Their share."""

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
