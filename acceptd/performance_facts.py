"""What runs say and the trusted side measures about speed: frozen models with caps.

Durations that a job measured are the job's word: a model that has taken its process over can say anything in them.
They may reject or hold, and they inform; ``docs/performance-evidence.md`` says what is proved.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.values import Count, Evidence, Text

MAX_SAMPLES = 1000
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class ColdPhase(Evidence):
    """One part of starting a model, in ms; None where it cannot be told apart, and ``reason`` says why."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    ms: Milliseconds | None = None
    reason: Text = ""


class Kernel(Evidence):
    """``run``: the calibration kernel, timed before any submitted byte was read."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    wall_ms: Annotated[list[Milliseconds], Field(max_length=MAX_SAMPLES)]


class Timing(Evidence):
    """``run``: warm inferences of one golden set, one after another in the session that ran the goldens.

    ``wall_ms`` holds each; it is empty where the first warm inference alone took longer than the budget.
    ``warmups`` inferences of this set came before. ``shapes`` are those of its tensors, by input.
    """

    set: Text = ""
    batch: Count | None = None
    shapes: Annotated[dict[Text, Annotated[list[Count], Field(max_length=64)]], Field(max_length=4096)] = {}
    warmups: Count = 0
    wall_ms: Annotated[list[Milliseconds], Field(max_length=MAX_SAMPLES)] = []
    cpu_ms: Milliseconds = 0.0
    """Processor time of all samples together."""
    note: Text = ""
    """Why nothing was timed; empty where something was."""
    cold: Annotated[list[ColdPhase], Field(max_length=32)] = []


class HostLoad(Evidence):
    """The machine around one job, by the trusted side: before its order and after its end.

    ``pressure`` is the share of that time in which some task waited for a processor (the kernel's PSI), ``steal``
    the share of processor time that the hypervisor kept; None where the kernel does not say, or the time was too
    short to say. ``load1`` is the load average over a minute, the larger of the two.
    """

    cores: Count
    load1: float = 0.0
    pressure: Share | None = None
    steal: Share | None = None
    governor: Text = ""
    processor: Text = ""
