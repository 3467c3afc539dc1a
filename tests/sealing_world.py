"""Drops that the seal must refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acceptd.errors import SealError
from acceptd.intake.seal import seal_directory
from acceptd.policy.policy import LimitsTable

LIMITS = LimitsTable(
    files=20, bundle_bytes=200_000, file_bytes=150_000, path_bytes=100, path_depth=4, archive_ratio=10
)


def refused(drop: Path, limits: LimitsTable = LIMITS) -> SealError:
    """Seal and return the refusal, after looking that neither copy nor descriptor stays."""
    sealed = drop.parents[1] / "sealed"
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SealError) as caught:
        seal_directory(drop, sealed / "target", limits)
    assert os.listdir(sealed) == []
    assert len(os.listdir("/proc/self/fd")) == before
    assert caught.value.where.isprintable()
    assert caught.value.message.isprintable()
    return caught.value
