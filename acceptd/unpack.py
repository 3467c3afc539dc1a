"""From an archive file to a sealed bundle: sealed raw, streamed out of a job, sealed again as files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from acceptd.cell.limits import job_limits
from acceptd.cell.protocol import Frame
from acceptd.errors import SealError
from acceptd.evidence import Entry, JobRecord, Sealed
from acceptd.intake.stream import StreamSealer
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.work.workers import Hold

ARCHIVE = "archive"
JOB_GROUPS = ("archive/", "seal/")
"""What an ``unpack`` job may blame the archive for; it is hostile, and must not speak for the host."""


def unpack_archive(
    source: Path,
    kind: Literal["zip", "tar", "tar.gz"],
    home: Path,
    submission: str,
    rules: Rules,
    tools: Tools,
    hold: Hold,
) -> tuple[JobRecord | None, Sealed | None]:
    """Seal the archive at ``source``, unpack it in the cell, and seal its members below ``home/bundle``.

    Returns the unpack job's record and the sealed bundle, or None for the latter when the job did not
    end well (its record says how). Raises SealError for what the trusted side itself refuses, and
    GivenUpError when the work is cancelled meanwhile.
    """
    limits = rules.policy.limits
    raw = tools.sealer.copy_archive(source, home / ARCHIVE, limits, kind, cancelled=hold.kill_due)
    members = 0

    with StreamSealer(home / "bundle", limits, raw.size) as sealer:

        def take(frame: Frame) -> None:
            nonlocal members
            if isinstance(frame.body, Entry):
                members += 1
                sealer.entry(frame.body.path, frame.body.size)
            else:
                sealer.data(frame.data)

        spec = {
            "archive": raw.path.name,
            "format": kind,
            "limits": {
                "files": limits.files,
                "bundle_bytes": limits.bundle_bytes,
                "file_bytes": limits.file_bytes,
                "ratio": limits.archive_ratio,
            },
        }
        record = tools.cells.at(hold.slot).run(
            "unpack",
            files={raw.path.name: f"{submission}/{ARCHIVE}/{raw.path.name}"},
            spec=spec,
            limits=job_limits("unpack", limits),
            required_walls=rules.policy.required_walls,
            on_frame=take,
            cancelled=hold.kill_due,
        )
        hold.check()
        if record.ending != "done":
            if record.refused is not None and record.refused.code.startswith(JOB_GROUPS):
                raise SealError(record.refused.code, record.refused.where, record.refused.message)
            return record, None  # its ending is judged, and a code that is not a job's to name with it
        return record, sealer.finish(kind)
