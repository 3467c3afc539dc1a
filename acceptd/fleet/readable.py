"""Whether a row of submissions can be worked at all: intakes write there, and a login may be stolen. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from acceptd.errors import LedgerError
from acceptd.fleet.task import FleetTask, intake_queue
from acceptd.record.entry import moment_of, valid_submission
from acceptd.record.queue import Submission as Row

MOST_NAME = 4096
_MOST_UID = 2**32


def unreadable(row: Row) -> str:
    """Return why nobody can work a submission, in words; empty where it can be worked.

    Its id is a directory's name, its team and node are parts of tasks, and each stands in a signed verdict.
    """
    try:
        valid_submission(row.id)
        moment_of(row.received_at)
        moment_of(row.updated_at)
        FleetTask(
            kind="finish",
            queue=intake_queue(row.node or ""),
            submission=row.id,
            team=row.team,
            model=row.model or "",
        )
    except ValidationError as error:
        return f"its {error.errors(include_url=False, include_input=False)[0]['loc'][0]} has another form"
    except (LedgerError, ValueError) as error:
        return f"{error}"[:200]
    data: object = row.data
    if not isinstance(data, dict):
        return "its data are no object"
    if len(row.name) > MOST_NAME or len(row.path) > MOST_NAME or not 0 <= (row.uid or 0) < _MOST_UID:
        return "its name, path or uid has another form"
    return ""
